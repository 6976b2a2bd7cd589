"""Plans of devices, read: where a file says devices only and starts are asked for, the decoder makes them."""

from __future__ import annotations

from chipmap.heuristics.placement.simulation.rules import decoded
from chipmap.instances.placement import splits
from chipmap.instances.placement.instance import PlacementInstance, PlacementSolution
from chipmap.instances.placement.problem import placement_problem


def read_plan(data: bytes, where: str, instance: PlacementInstance | None) -> PlacementSolution:
    """The placement in JSON (:func:`chipmap.instances.placement.splits.read_split`), with starts."""
    return _with_starts(splits.read_split(data, where, instance), where, instance)


def read_table(data: bytes, where: str, instance: PlacementInstance) -> PlacementSolution:
    """The placement in a table (:func:`chipmap.instances.placement.splits.read_table`), with starts."""
    return _with_starts(splits.read_table(data, where, instance), where, instance)


def _with_starts(plan: PlacementSolution, where: str, instance: PlacementInstance | None) -> PlacementSolution:
    """The plan, with starts where the objective is the step time and it has none.

    A plan that leaves operations out, or names other devices, stays as it is: the checker says so.
    """
    if instance is None or instance.task.objective != "step_time" or plan.start or plan.transfers:
        return plan
    problem = placement_problem(instance)
    whole = set(problem.names) == plan.devices.keys() and set(plan.devices.values()) <= set(problem.device_names)
    return decoded(problem, problem.devices_of(plan), where) if whole else plan
