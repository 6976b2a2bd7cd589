"""How many nanoseconds rounding up to 1 ns may add to the objective of a placement."""

from __future__ import annotations

from collections import Counter
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
    work = _lost(Counter(zip(*(map(Fraction.as_integer_ratio, times) for times in by_class), strict=True)))
    return work + (devices - 1) * _lost(_exact_transfers(instance, problem))


def _lost(rows: Counter[tuple[tuple[int, int], ...]]) -> Fraction:
    """What rounding up adds to the times of rows (numerator, denominator), of each row to the time where it is most.

    Most rows of a large graph are alike, so each is taken once, times how many there are.
    """
    lost = (count * max(Fraction(-top % below, below) for top, below in row) for row, count in rows.items())
    return sum(lost, Fraction(0))


def _exact_transfers(instance: PlacementInstance, problem: PlacementProblem) -> Counter[tuple[tuple[int, int], ...]]:
    """c of each storage over each kind of route in ns, before it is rounded up; how many storages have the same."""
    kinds, given = network_of(instance)[1], instance.transfer_ns
    tensors, sizes = problem.storages.tensor.tolist(), problem.storages.bytes.tolist()
    asked = Counter((size, given[t] if given else None) for t, size in zip(tensors, sizes, strict=True))
    found = Counter[tuple[tuple[int, int], ...]]()
    for (size, measured), count in asked.items():
        times = [exact(measured)] if measured is not None else [transfer(size, *kind) for kind in kinds]
        found[tuple(time.as_integer_ratio() for time in times or [Fraction(0)])] += count
    return found
