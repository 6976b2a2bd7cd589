"""Format ``csv``: a line per operation with its chip or device, as people have it in a spreadsheet.

Columns are found by their names: ``name`` (or ``operation``), and ``chip``, ``device`` or ``place``. Others say
nothing, so that the ``mapping.csv`` or ``schedule.csv`` of a run is a plan as well. An operation may be left out: the
plan is partial then.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

from chipmap.instances.placement import splits
from chipmap.instances.placement.instance import PlacementInstance
from chipmap.instances.placement.problem import placement_problem
from chipmap.instances.ring.instance import RingInstance, RingSolution
from chipmap.plans import chips, devices
from chipmap.plans.plan import EmitOptions, Plan
from chipmap.records import InputError, Record, csv_text

FILE = "plan.csv"
NAMES, PLACES = ("name", "operation"), ("chip", "device", "place")


def suits(instance: Record, solution: Record | None) -> str | None:
    """Every mapping of operations to chips or devices is a table."""
    return None


def emit(instance: Any, solution: Any, options: EmitOptions) -> dict[str, str | bytes]:
    """A line per operation of the graph."""
    if isinstance(solution, RingSolution):
        names = [one.name for one in instance.graph.operations]
        return {FILE: csv_text((NAMES[0], PLACES[0]), zip(names, solution.chips, strict=True))}
    return {FILE: splits.write_table(instance, solution)}


def recognise(data: bytes, where: str, instance: Record) -> bool:
    """Whether the first line names a column of operations and one of chips or devices."""
    head = _cells(data.partition(b"\n")[0].decode(errors="replace"))
    return any(name in head for name in NAMES) and any(name in head for name in PLACES)


def adopt(instance: Any, data: bytes, where: str) -> Plan:
    """The plan that the table says."""
    if isinstance(instance, PlacementInstance):
        return devices.plan_of(instance, splits.named_in_table(data, where, placement_problem(instance)), where)
    return chips.plan_of(instance, _chips(instance, data, where), where)


def _chips(instance: RingInstance, data: bytes, where: str) -> dict[str, int]:
    """Operation -> chip. Operations that don't compute may be on several chips, which says nothing."""
    roles, found = {one.name: one.role for one in instance.graph.operations}, dict[str, int]()
    for line, name, place in _lines(data, where):
        here = f"{where}: line {line}"
        name = name if name in roles else name.removeprefix("'")  # before what looks a formula
        if not place.strip().isdecimal():
            if name in roles and roles[name] != "compute":
                continue
            raise InputError(f"{place!r} is no chip", here, "Give the chip's number, from 0 on.")
        if found.setdefault(name, int(place)) != int(place):
            raise InputError(f"operation {name!r} is on chip {found[name]} already", here, "Name it once.")
    return found


def _lines(data: bytes, where: str) -> Iterator[tuple[int, str, str]]:
    """(number, name, place) of each line."""
    remedy = f"Give a table with the columns {NAMES[0]} and {PLACES[0]}."
    try:
        text = data.decode()
        rows = csv.reader(io.StringIO(text), delimiter=_delimiter(text.partition("\n")[0]))
        columns = [one.strip() for one in next(rows, [])]
        at = [next(columns.index(name) for name in names if name in columns) for names in (NAMES, PLACES)]
        for row in rows:
            if row and len(row) <= max(at):
                raise InputError(f"has {len(row)} cells", f"{where}: line {rows.line_num}", remedy)
            if row:
                yield rows.line_num, row[at[0]], row[at[1]]
    except StopIteration:
        raise InputError("has no column for operations, or none for chips", where, remedy) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"is no table: {error}", where, remedy) from None


def _cells(line: str) -> list[str]:
    return [one.strip().strip('"') for one in line.split(_delimiter(line))]


def _delimiter(line: str) -> str:
    return max(",;\t", key=line.count)
