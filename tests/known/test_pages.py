"""The registry is never behind our own pages: none has a better value or a better bound of a shipped instance."""

from __future__ import annotations

from fractions import Fraction

import msgspec
import pytest

from benchmarks.known_pages import all_figures, all_tables, behind, entries, entry, figures_of, key_of, reported
from benchmarks.known_readings import NOT_READ, PAIRS, READ, SENTENCES
from benchmarks.known_tables import ROOT, Table, amount, first, mentions, tables

#: Values and bounds that pages state and the registry only reports, without a solution or a proof: never more of them.
MOST_BEHIND = 0


def test_the_registry_is_not_behind_the_pages() -> None:
    """Where nobody has the solution or the proof of a page's figure any more, the entry says so by name."""
    for name, of in entries().items():
        for kind, said in (("value", of.reported), ("bound", of.reported_bound)):
            assert reported(name, kind) == said, (
                f"{name}: a page says {reported(name, kind)}, the registry {said}. Submit the solution "
                "(benchmarks.best_known); or python -m benchmarks.known_pages, and the page"
            )


def test_fewer_and_fewer_entries_are_behind() -> None:
    late = [name for name, of in entries().items() for one in (of.reported, of.reported_bound) if one is not None]
    assert len(late) <= MOST_BEHIND, late


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
    assert not unknown, "enter it in benchmarks/known_readings.py: " + "; ".join(unknown)


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
