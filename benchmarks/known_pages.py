"""What the pages of results say of shipped instances beside the registry of best-known values.

    python -m benchmarks.known_pages

writes into the registry what a page states and nobody has the solution (or the proof) of any more: ``solve`` says it
beside the best known value, and ``tests/known/test_pages.py`` counts these entries. Where the registry isn't behind any
more, what was reported goes. How tables are read is in ``benchmarks/known_readings.py``.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from fractions import Fraction
from functools import cache
from typing import Any

import msgspec

from benchmarks import more_resources
from benchmarks.best_known import alone, write
from benchmarks.known_readings import NOT_READ, PAIRS, READ, SENTENCES, Reading
from benchmarks.known_tables import ROOT, SECONDS, Figure, Table, amount, mentions, pages, tables
from chipmap.family import FAMILY_NAMES
from chipmap.inputs.reading import read
from chipmap.known.records import Entry, Reported
from chipmap.known.registry import VALUES, entries_of
from chipmap.records import counted


@cache
def entries() -> dict[str, Entry]:
    """The entries of shipped instances by name (``test_shipped.py`` makes each instance anew)."""
    every = (one for family in FAMILY_NAMES for one in entries_of(family).values())
    return {one.origin.instance: one for one in every if one.origin.instance and not one.origin.set}


def entry(name: str) -> Entry:
    """What the registry knows of a shipped instance."""
    return entries()[name]


@cache
def shipped(name: str) -> Any:
    """The shipped instance of that name."""
    return read(name)


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


def reported(name: str, kind: str) -> Reported | None:
    """The best that pages say of an instance and the registry is behind of; None where it isn't behind."""
    of = entry(name)
    late = [one for one in all_figures() if (one.instance, one.kind) == (name, kind) and behind(one, of)]
    if not late:
        return None
    best = min(late, key=lambda one: one.high) if kind == "value" else max(late, key=lambda one: one.low)
    return Reported(ticks=ticks(best, of), page=best.page)


def ticks(figure: Figure, of: Entry) -> int:
    """The ticks that are no better than the figure, by its rounding."""
    tick = Fraction(repr(of.unit.per_tick))
    return math.floor(figure.high / tick) if figure.kind == "value" else math.ceil(figure.low / tick)


def main() -> int:
    """Write what is reported into the registry."""
    with alone(VALUES):
        entries_of.cache_clear()
        entries.cache_clear()
        count = 0
        for family in FAMILY_NAMES:
            found = dict(entries_of(family))
            for name, one in entries().items():
                if one.family == family:
                    both = reported(name, "value"), reported(name, "bound")
                    count += sum(one is not None for one in both)
                    found[one.instance_hash] = msgspec.structs.replace(one, reported=both[0], reported_bound=both[1])
            if found != entries_of(family):
                write(family, found.values())
    print(counted(count, "figure"), "of pages without a solution or a proof", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
