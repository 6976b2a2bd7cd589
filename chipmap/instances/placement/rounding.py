"""How many nanoseconds rounding up to 1 ns may add to the objective of a placement."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from chipmap.instances.placement.exact import exact_times, transfer
from chipmap.instances.placement.instance import PlacementInstance
from chipmap.instances.placement.problem import PlacementProblem, network_of, placement_problem
from chipmap.records.decimals import exact, negligible


def rounding(instance: PlacementInstance, objective: int, terms: Mapping[str, int]) -> Fraction:
    """At most so many ns: those of all operations, and of all transfers to each other device, one after the other."""
    problem, devices = placement_problem(instance), len(instance.system.devices)
    if negligible(len(problem.position) + len(problem.storages.tensor) * (devices - 1), objective):
        return Fraction(0)
    placed = problem.position.tolist()
    by_class = [exact_times(instance, one, placed) for one in instance.system.classes]
    work = sum((max(map(_lost, times)) for times in zip(*by_class, strict=True)), Fraction(0))
    sent = sum((max(map(_lost, times)) for times in _exact_transfers(instance, problem)), Fraction(0))
    return work + (devices - 1) * sent


def _lost(time: Fraction) -> Fraction:
    return -time % 1


def _exact_transfers(instance: PlacementInstance, problem: PlacementProblem) -> list[list[Fraction]]:
    """c of each storage over each kind of route in ns, before it is rounded up."""
    kinds, given = network_of(instance)[1], instance.transfer_ns
    return [
        [transfer(size, *kind) for kind in kinds] or [Fraction(0)]
        if not given or (measured := given[t]) is None
        else [exact(measured)]
        for t, size in zip(problem.storages.tensor.tolist(), problem.storages.bytes.tolist(), strict=True)
    ]
