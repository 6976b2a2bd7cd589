"""The registry is never behind our own pages: none has a better value or a better bound of a shipped instance."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import cache
from pathlib import Path

import msgspec
import pytest

from benchmarks import more_resources
from chipmap.family import FAMILY_NAMES
from chipmap.inputs.reading import read
from chipmap.known.records import Entry
from chipmap.known.registry import entries_of
from tests.known.behind import BEHIND
from tests.known.pages import ROOT, SECONDS, Figure, Table, amount, first, mentions, pages, tables
from tests.known.results import NOT_READ, PAIRS, READ, SENTENCES, Reading


@cache
def entries() -> dict[str, Entry]:
    """The entries of shipped instances by name (``test_shipped.py`` makes each instance anew)."""
    every = (one for family in FAMILY_NAMES for one in entries_of(family).values())
    return {one.origin.instance: one for one in every if one.origin.instance and not one.origin.set}


def entry(name: str) -> Entry:
    """What the registry knows of a shipped instance."""
    return entries()[name]


shipped = cache(read)


def in_unit(cell: str, unit: str, of: Entry) -> tuple[Fraction, Fraction] | None:
    """The least and the greatest amount that a cell may stand for, in the entry's unit; None where it says none."""
    found = amount(cell, unit or of.unit.name)
    if found is None:
        return None
    value, half, own = found
    tick = Fraction(repr(of.unit.per_tick))
    if own == "ticks":
        return value * tick, value * tick
    if own != of.unit.name:
        if own not in SECONDS or of.unit.name not in SECONDS or "per" in cell.split():
            return None
        scale = SECONDS[own] / SECONDS[of.unit.name]
        value, half = value * scale, half * scale
    return value - half, value + half


def figures_of(table: Table, reading: Reading) -> Iterable[Figure]:
    """What the rows of a table say."""
    for row in table.rows:
        name = reading.name(table, row)
        if not name:
            continue
        value: tuple[Fraction, Fraction] | None = None
        for column, kind in reading.columns.items():
            cell = table.cell(row, column)
            for part in cell.split(" / "):
                if kind == "gap":
                    share = amount(part, "%")
                    if share is None or value is None or entry(name).optimal:
                        continue
                    low, high = (value[i] * (1 - (share[0] + sign * share[1]) / 100) for i, sign in ((0, 1), (1, -1)))
                    yield Figure(table.page, name, "bound", low, high, f"{cell} below the value")
                    continue
                found = in_unit(part, reading.unit, entry(name))
                if found is not None:
                    value = found if kind == "value" else value
                    yield Figure(table.page, name, kind, *found, part)


def of_pairs(table: Table) -> Iterable[Figure]:
    """The figures of pairs whose larger instance is a shipped one."""
    every = ((family, pair) for family, pairs in more_resources.PAIRS.items() for pair in pairs)
    named = {more_resources.name(*one): one for one in every}
    for row in table.rows:
        family, pair = named[row[0]]
        made = pair[0]
        if not isinstance(made, str) or not _as_shipped(family, pair):
            continue
        for cell in row[1:3]:
            found = in_unit(cell, "ticks", entry(made))
            if found is not None:
                yield Figure(table.page, made, "value", *found, cell)


def _as_shipped(family: str, pair: more_resources.Pair) -> bool:
    """Whether the larger instance of a pair is the shipped one."""
    made, what, _, high = pair
    assert isinstance(made, str)
    return bool(more_resources.CHANGES[family](shipped(made), what, high) == shipped(made))


def key_of(table: Table) -> tuple[str, str, str] | None:
    """The entry in ``READ`` or ``NOT_READ`` that the table belongs to."""
    for page, heading, title in (*READ, *NOT_READ):
        if page == table.page and heading in ("", table.heading) and (not title or title in table.header):
            return page, heading, title
    return None


@cache
def all_tables() -> tuple[Table, ...]:
    """Every table of every page that names a shipped instance, and those that are read all the same."""
    every = (table for page in pages() for table in tables((ROOT / page).read_text(encoding="utf-8"), page))
    return tuple(one for one in every if mentions(one) or key_of(one) in READ)


@cache
def all_figures() -> tuple[Figure, ...]:
    """What all pages say of shipped instances."""
    found = list[Figure]()
    for table in all_tables():
        key = key_of(table)
        if table.page == PAIRS:
            found += of_pairs(table)
        elif key in READ:
            found += figures_of(table, READ[key])
    for one in SENTENCES:
        for text in one.found((ROOT / one.page).read_text(encoding="utf-8")):
            low_high = in_unit(text, "", entry(one.instance))
            assert low_high is not None and one.kind != "gap"
            found.append(Figure(one.page, one.instance, one.kind, *low_high, text))
    return tuple(found)


def behind(figure: Figure, of: Entry) -> bool:
    """Whether the entry has a worse value, or a worse bound, than anything that the figure may stand for."""
    tick = Fraction(repr(of.unit.per_tick))
    if figure.kind == "value":
        return of.objective is None or of.objective * tick > figure.high
    return of.bound is None or of.bound * tick < figure.low


def test_the_registry_is_not_behind_the_pages() -> None:
    late = [figure for figure in all_figures() if behind(figure, entry(figure.instance))]
    fresh = [str(figure) for figure in late if (figure.instance, figure.kind) not in BEHIND]
    assert not fresh, "merge the solution into the registry (benchmarks.best_known): " + "; ".join(fresh)
    gone = set(BEHIND) - {(figure.instance, figure.kind) for figure in late}
    assert not gone, "these are no longer behind, take them out of tests/known/behind.py"
    said = {(figure.instance, figure.kind, figure.said, Path(figure.page).name) for figure in late}
    assert {(*key, *value) for key, value in BEHIND.items()} <= said, "no page says this"


def test_no_page_contradicts_the_registry() -> None:
    """A value below a proved bound, or a bound above a checked value, is of another instance, or wrong."""
    for figure in all_figures():
        of = entry(figure.instance)
        tick = Fraction(repr(of.unit.per_tick))
        if figure.kind == "value" and of.bound is not None:
            assert figure.high >= of.bound * tick * (1 - Fraction(1, 10**6)), str(figure)
        if figure.kind == "bound" and of.objective is not None:
            assert figure.low <= of.objective * tick * (1 + Fraction(1, 10**6)), str(figure)


def test_every_table_that_names_a_shipped_instance_is_read_or_left_out_with_a_reason() -> None:
    unknown = [
        f"{table.page}, {table.heading!r}: {' | '.join(table.header)}"
        for table in all_tables()
        if table.page != PAIRS and key_of(table) is None
    ]
    assert not unknown, "enter it in tests/known/results.py: " + "; ".join(unknown)


def test_what_is_entered_is_there() -> None:
    """No reading of a table or a sentence that has gone, and each reading finds figures."""
    used = dict.fromkeys((*READ, *NOT_READ), 0)
    for table in all_tables():
        key = key_of(table)
        reading = READ.get(key) if key else None
        if key and (reading is None or any(True for _ in figures_of(table, reading))):
            used[key] += 1
    assert not [key for key, times in used.items() if not times]
    for one in SENTENCES:
        assert one.found((ROOT / one.page).read_text(encoding="utf-8")), one


@pytest.mark.parametrize("name", ["wafer/ispd2020-K", "placement/rnnlm-2-pcie", "multimodel/scar-4-whole"])
def test_a_worse_entry_is_found(name: str) -> None:
    """An entry whose value is worse by the rounding of the pages, or has a lower bound, is behind."""
    mine = [figure for figure in all_figures() if figure.instance == name]
    of = entry(name)
    assert of.objective is not None and of.bound is not None
    changed = msgspec.structs.replace(of, objective=round(of.objective * 1.01), bound=round(of.bound * 0.99))
    assert {figure.kind for figure in mine if behind(figure, changed)} == {"value", "bound"}
    lost = msgspec.structs.replace(of, objective=None, found=None, bound=None, proved=None)
    assert all(behind(figure, lost) for figure in mine)


def test_a_better_row_and_a_new_table_are_found() -> None:
    """A page that states a point less than the registry has is ahead of it; a table that nobody entered is told."""
    text = "# The ISPD 2020 suite\n\n| case | score | bound | published | best of five |\n|---|--:|--:|--:|--:|\n"
    page = "benchmarks/results/wafer-suite.md"
    (table,) = tables(text + "| K | 1,349.5 | 1,350.0 | 1,392.0 | 1,392.0 |\n", page)
    key = key_of(table)
    assert key is not None
    late = [figure.said for figure in figures_of(table, READ[key]) if behind(figure, entry("wafer/ispd2020-K"))]
    assert late == ["1,349.5"]
    (other,) = tables(text.replace("ISPD", "ICCAD") + "| K | 1 | 1 | 1 | 1 |\n", page)
    assert key_of(other) is None and mentions(other) == {"wafer/ispd2020-K"}


def test_figures_stand_for_what_rounds_to_them() -> None:
    assert amount("49.1", "ms") == (Fraction("49.1"), Fraction("0.05"), "ms")
    assert amount("2,196,476.0", "points") == (Fraction(2196476), Fraction("0.05"), "points")
    assert amount("2.21184e+06", "points") == (Fraction(2211840), Fraction(5), "points")
    assert amount("1.18042e-05 s", "ms") == (Fraction("0.0000118042"), Fraction("5e-11"), "s")
    assert amount("3.52%", "") == (Fraction("3.52"), Fraction("0.005"), "%")
    assert amount("n/a", "ms") is None
    table = Table("benchmarks/results/wafer-x.md", "", ("case",), ())
    assert first(table, ("K",)) == "wafer/ispd2020-K" and first(table, ("`bert-large`",)) == "wafer/bert-large"
