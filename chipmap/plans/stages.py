"""The stages of a mapping: which operations run in which stage, in the order of a pipeline.

A stage is a chip of a ring or a device of a placement that computes something. Stages stand in an order in which each
reads from itself and earlier ones; on a ring that is the order of the chips. Copies (``name@reader``) and relays are
operations like any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from chipmap.instances.placement.instance import PlacementInstance
from chipmap.instances.ring.problem import ring_problem
from chipmap.networks.graph import Operation, neighbours, topological
from chipmap.records import InputError


@dataclass(frozen=True)
class StageOf:
    """A stage: its ``place`` (chip or device), and its ``operations`` that compute, in the graph's order."""

    place: int | str
    operations: tuple[str, ...]


def stages_of(instance: Any, solution: Any) -> list[StageOf]:
    """The stages; :class:`InputError` where they can't be put in an order."""
    places = _places(instance, solution)
    used = set(places.values())
    if isinstance(instance, PlacementInstance):
        named: list[int | str] = [one.name for one in instance.system.devices if one.name in used]
    else:
        named = sorted(used)
    rank = {place: i for i, place in enumerate(named)}
    pairs = {(rank[a], rank[b]) for a, b in _reads(instance.graph, places) if a != b}
    order = topological(neighbours(len(rank), sorted(pairs)))
    if len(order) < len(rank):
        left = [str(named[i]) for i in range(len(rank)) if i not in order]
        what = f"{', '.join(left[:4])} read from each other, so that they have no order"
        raise InputError(what, instance.name, "Solve it with task.contiguous=true, or on a ring with C1.")
    operations = instance.graph.operations
    made: dict[int, list[str]] = {i: [] for i in order}
    for v, place in places.items():
        made[rank[place]].append(operations[v].name)
    return [StageOf(named[i], tuple(names)) for i, names in made.items()]


def _places(instance: Any, solution: Any) -> dict[int, int | str]:
    """Operation that computes for something needed -> chip or device, in the graph's order."""
    operations: tuple[Operation, ...] = instance.graph.operations
    if isinstance(instance, PlacementInstance):
        devices = solution.devices
        return {v: devices[o.name] for v, o in enumerate(operations) if o.role == "compute" and o.name in devices}
    computing = ring_problem(instance).computing.tolist()
    return {v: solution.chips[v] for v in range(len(operations)) if computing[v]}


def _reads(graph: Any, places: dict[int, int | str]) -> set[tuple[int | str, int | str]]:
    """(place, place of a reader) of all that computing operations read of each other, directly or through views."""
    reads, behind, found = (
        graph.reads(),
        [set[int | str]() for _ in graph.operations],
        set[tuple[int | str, int | str]](),
    )
    for v in graph.topological_order():
        made = set[int | str]().union(*(behind[u] for u in reads[v]))
        if v in places:
            found |= {(place, places[v]) for place in made}
            made = {places[v]}
        if graph.operations[v].role != "constant":
            behind[v] = made
    return found
