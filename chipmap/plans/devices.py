"""Plans of family ``placement`` read: devices of operations, whole or in part; the decoder makes the starts."""

from __future__ import annotations

from collections.abc import Mapping

from chipmap.heuristics.placement.simulation.rules import decoded
from chipmap.instances.placement import splits
from chipmap.instances.placement.instance import Pin, PlacementInstance, PlacementSolution
from chipmap.instances.placement.problem import placement_problem
from chipmap.plans.plan import Plan
from chipmap.records import InputError, counted


def read_split(data: bytes, where: str, instance: PlacementInstance | None) -> PlacementSolution:
    """The placement in JSON (:func:`chipmap.instances.placement.splits.read_split`), with starts."""
    return with_starts(splits.read_split(data, where, instance), where, instance)


def read_table(data: bytes, where: str, instance: PlacementInstance) -> PlacementSolution:
    """The placement in a table (:func:`chipmap.instances.placement.splits.read_table`), with starts."""
    return with_starts(splits.read_table(data, where, instance), where, instance)


def plan_of(instance: PlacementInstance, named: Mapping[str, str], where: str) -> Plan:
    """The plan that puts the ``named`` operations on devices: a placement where these are all, else pins.

    With objective ``step_time`` the starts are open: the decoder's are there, the best ones are to be found.
    """
    problem = placement_problem(instance)
    whole = len(named) == problem.operations
    solution = with_starts(splits.completed(problem, dict(named), where), where, instance) if whole else None
    if whole and not problem.timed:
        return Plan(solution=solution, places=named)
    known = {pin.operation for pin in instance.pins}
    pins = (*instance.pins, *(Pin(operation=name, device=d) for name, d in named.items() if name not in known))
    pinned = instance.replace(pins=pins)
    if whole:
        return Plan(solution, _valid(pinned), "the devices of all operations and no starts", places=named)
    pinned.check()
    first = next(name for name in problem.names if name not in named)
    covered = f"{len(named):,} of {counted(problem.operations, 'operation')}"
    left = f"operation {first!r} is on no device"
    return Plan(pinned=pinned, covered=covered, left=left, places=named)


def _valid(pinned: PlacementInstance) -> PlacementInstance | None:
    """The instance, if its pins don't contradict the rest; else the checker says what is wrong with the plan."""
    try:
        pinned.check()
    except InputError:
        return None
    return pinned


def with_starts(plan: PlacementSolution, where: str, instance: PlacementInstance | None) -> PlacementSolution:
    """The plan, with starts where the objective is the step time and it has none.

    A plan that leaves operations out, or names other devices, stays as it is: the checker says so.
    """
    if instance is None or instance.task.objective != "step_time" or plan.start or plan.transfers:
        return plan
    problem = placement_problem(instance)
    whole = set(problem.names) == plan.devices.keys() and set(plan.devices.values()) <= set(problem.device_names)
    return decoded(problem, problem.devices_of(plan), where) if whole else plan
