"""Plans of family ``ring`` read: chips of operations, whole or in part."""

from __future__ import annotations

from collections.abc import Mapping

from chipmap.instances.ring.contraction import lift
from chipmap.instances.ring.instance import Pin, RingInstance, RingSolution
from chipmap.instances.ring.problem import ring_problem
from chipmap.plans.plan import Plan
from chipmap.records import InputError, choices, counted


def plan_of(instance: RingInstance, named: Mapping[str, int], where: str) -> Plan:
    """The plan that puts the ``named`` operations on chips: a mapping where these are all that compute, else pins.

    What doesn't compute goes where it breaks no edge, unless every operation is named.
    """
    operations, problem = instance.graph.operations, ring_problem(instance)
    number, last = {one.name: v for v, one in enumerate(operations)}, instance.package.chips - 1
    for name, chip in named.items():
        if name not in number:
            raise InputError(f"no operation is called {name!r}", where, choices(name, list(number), "There are"))
        if not 0 <= chip <= last:
            raise InputError(f"puts {name!r} on chip {chip}", where, f"Chips run from 0 to {last} here.")
    computing = [v for v, computes in enumerate(problem.computing) if computes]
    placed = {v: named[operations[v].name] for v in computing if operations[v].name in named}
    places = {operations[v].name: chip for v, chip in placed.items()}
    if len(named) == len(operations):
        chips = tuple(named[one.name] for one in operations)
        return Plan(solution=RingSolution(instance=instance.name, chips=chips), places=places)
    if len(placed) == len(computing):
        return Plan(solution=lift(instance, placed), places=places)
    pins = (*instance.pins, *(Pin(operation=name, chip=chip) for name, chip in places.items()))
    pinned = instance.replace(pins=pins)
    first = next(operations[v].name for v in computing if v not in placed)
    covered = f"{len(placed):,} of {counted(len(computing), 'computing operation')}"
    left = f"operation {first!r} is on no chip"
    return Plan(pinned=pinned, covered=covered, left=left, places=places)
