"""Format ``csv``: a line per operation with its chip or device, as people have it in a spreadsheet.

Kernels of ``dataflow`` have schemes and partitions (:mod:`chipmap.plans.kernels`), ``multimodel`` has a line per
segment (:mod:`chipmap.plans.segments`). Of the others, columns are found by their names: ``name`` (or ``operation``),
and ``chip``, ``device`` or ``place``. Others say nothing, so that the ``mapping.csv`` or ``schedule.csv`` of a run is a
plan as well. An operation may be left out: the plan is partial then.
"""

from __future__ import annotations

from typing import Any

from chipmap.instances.dataflow.instance import DataflowInstance
from chipmap.instances.multimodel.instance import MultiInstance
from chipmap.instances.placement import splits
from chipmap.instances.placement.instance import PlacementInstance
from chipmap.instances.placement.problem import placement_problem
from chipmap.instances.ring.instance import RingInstance, RingSolution
from chipmap.plans import chips, devices, kernels, rows, segments
from chipmap.plans.plan import EmitOptions, Plan
from chipmap.records import InputError, Record, csv_text

FILE = "plan.csv"
NAMES, PLACES = ("name", "operation"), ("chip", "device", "place")


def suits(instance: Record, solution: Record | None) -> str | None:
    """Every mapping is a table."""
    return None


def emit(instance: Any, solution: Any, options: EmitOptions) -> dict[str, str | bytes]:
    """A line per operation of the graph."""
    if isinstance(instance, DataflowInstance):
        return {FILE: kernels.emit(instance, solution)}
    if isinstance(instance, MultiInstance):
        return {FILE: segments.emit(instance, solution)}
    if isinstance(solution, RingSolution):
        names = [one.name for one in instance.graph.operations]
        return {FILE: csv_text((NAMES[0], PLACES[0]), zip(names, solution.chips, strict=True))}
    return {FILE: splits.write_table(instance, solution)}


def recognise(data: bytes, where: str, instance: Record) -> bool:
    """Whether the first line names a column of operations and one of chips or devices."""
    if isinstance(instance, DataflowInstance):
        return kernels.recognise(data)
    if isinstance(instance, MultiInstance):
        return segments.recognise(data)
    head = rows.heading(data)
    return any(name in head for name in NAMES) and any(name in head for name in PLACES)


def adopt(instance: Any, data: bytes, where: str) -> Plan:
    """The plan that the table says."""
    if isinstance(instance, DataflowInstance):
        return kernels.adopt(instance, data, where)
    if isinstance(instance, MultiInstance):
        return segments.adopt(instance, data, where)
    if isinstance(instance, PlacementInstance):
        return devices.plan_of(instance, splits.named_in_table(data, where, placement_problem(instance)), where)
    return chips.plan_of(instance, _chips(instance, data, where), where)


def _chips(instance: RingInstance, data: bytes, where: str) -> dict[str, int]:
    """Operation -> chip. Operations that don't compute may be on several chips, which says nothing."""
    roles, found = {one.name: one.role for one in instance.graph.operations}, dict[str, int]()
    remedy = f"Give a table with the columns {NAMES[0]} and {PLACES[0]}."
    for here, cells in rows.lines(data, where, {"operations": NAMES, "chips": PLACES}, remedy):
        name, place = rows.named(cells[NAMES[0]], roles), cells[PLACES[0]]
        if not place.isdecimal() and roles.get(name, "compute") != "compute":
            continue
        chip = rows.number(place, "chip", here)
        if found.setdefault(name, chip) != chip:
            raise InputError(f"operation {name!r} is on chip {found[name]} already", here, "Name it once.")
    return found
