"""How many ticks rounding up to 10 ps may add to the objective of a mapping."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from chipmap.instances.ring.instance import RingInstance
from chipmap.instances.ring.problem import TICKS_PER_NS, exact_times, ring_problem
from chipmap.records.decimals import exact, negligible


def rounding(instance: RingInstance, objective: int, terms: Mapping[str, int]) -> Fraction:
    """At most so many ticks: those of all operations and of all storages on a link, as if on one chip."""
    problem, rate = ring_problem(instance), instance.package.link_bytes_per_ns
    if negligible(int(problem.computing.sum()) + len(problem.storages), objective):
        return Fraction(0)
    times = exact_times(instance, problem)
    work = sum((int(problem.ticks[v]) - time for v, time in times.items()), Fraction(0))
    if rate is None:
        return work
    per_byte = TICKS_PER_NS / exact(rate)
    return work + sum((one.ticks - one.bytes * per_byte for one in problem.storages), Fraction(0))
