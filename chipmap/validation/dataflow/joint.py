"""What a collective over the chips of several network dimensions takes.

From ``docs/families/dataflow-training.md``, "Sums over several dimensions", and ``dataflow-tensor.md``, alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from chipmap.instances.dataflow.instance import DataflowInstance, Degrees
from chipmap.instances.dataflow.system import Dimension
from chipmap.validation.dataflow import facts, rates
from chipmap.validation.dataflow.once import once


@once
def group(instance: DataflowInstance, degrees: Degrees) -> list[Dimension]:
    """The dimensions of a tensor-parallel group, those with the fastest links first."""
    return sorted(facts.uses(instance, degrees, "tensor"), key=lambda link: link.bytes_per_ns, reverse=True)


def nested_sum(size: Fraction, links: Sequence[Dimension]) -> Fraction:
    """Nanoseconds of a nested sum: scattered over the first dimension, the rest summed over the others, gathered."""
    if len(links) < 2:
        return sum((facts.all_reduce(size, link, 2) for link in links), Fraction(0))
    inner, *outer = links
    return 2 * facts.reduce_scatter(size, inner) + nested_sum(size / inner.size, outer)


def nested_scatter(size: Fraction, links: Sequence[Dimension]) -> Fraction:
    """Nanoseconds of a nested reduce-scatter, and of an all-gather, which is the same the other way."""
    if not links:
        return Fraction(0)
    return facts.reduce_scatter(size, links[0]) + nested_scatter(size / links[0].size, links[1:])


def all_reduce(size: Fraction, links: list[Dimension], factor: int) -> Fraction:
    """Nanoseconds until each chip of a group has all sums, nested or in slices."""
    if len(links) < 2:
        return sum((facts.all_reduce(size, link, factor) for link in links), Fraction(0))
    return min(nested_sum(size, links), 2 * sliced_scatter(size, links))


def reduce_scatter(size: Fraction, links: list[Dimension]) -> Fraction:
    """Nanoseconds until each chip of a group has its part of the sums, or all parts, nested or in slices."""
    return min(nested_scatter(size, links), sliced_scatter(size, links))


def sliced_scatter(size: Fraction, links: list[Dimension]) -> Fraction:
    """Nanoseconds of as many slices as dimensions, each beginning with another one: a dimension carries in each turn
    the slice that has been through those just before it."""
    time, count = Fraction(0), len(links)
    for done in range(count):
        took = list[Fraction]()
        for place, link in enumerate(links):
            before = math.prod(links[place - 1 - back].size for back in range(done))
            took.append(facts.reduce_scatter(size / count / before, link))
        time += max(took)
    return time


def to_each(held: Fraction, links: list[Dimension]) -> Fraction:
    """Nanoseconds until each chip of a group has sent a part of ``held`` bytes to each other one: along one dimension
    after the other, or in slices."""
    times = [along(held, link) for link in links]
    slices = [along(held / len(links), link) for link in links]
    return min(sum(times, Fraction(0)), len(links) * max(slices, default=Fraction(0)))


def along(held: Fraction, dimension: Dimension) -> Fraction:
    """Nanoseconds until each chip has sent an n-th of what it has, ``held`` bytes, to each other one.

    Its links carry that n-th n - 1 times through a switch; in a ring once for each link on the way, both ways round; a
    link for each pair carries it once. Who has nothing sends nothing.
    """
    if held == 0:
        return Fraction(0)
    n = dimension.size
    if dimension.topology == "ring":
        times = sum(min(far, n - far) for far in range(n))
    else:
        times = facts.steps(dimension)
    return held / n * times / rates.link(dimension) + facts.latency(dimension)


def few(links: list[Dimension], chips: int) -> list[Dimension]:
    """So many neighbours of a group: the most of the first dimension that divide their number, the rest of the next."""
    found = list[Dimension]()
    for link in links:
        size = max(one for one in range(1, link.size + 1) if link.size % one == 0 and chips % one == 0)
        chips //= size
        found += [link.replace(size=size)] if size > 1 else []
    return found
