"""Collectives of a tensor-parallel group that spans several network dimensions.

The formulas are those of ``docs/families/dataflow-tensor.md``. Over one dimension they are those of
:mod:`chipmap.instances.dataflow.sharding`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import gcd

from chipmap.instances.dataflow.degrees import Degrees
from chipmap.instances.dataflow.instance import DataflowInstance
from chipmap.instances.dataflow.sharding import Collective, among_chips, collective_ns, swap_ns
from chipmap.instances.dataflow.system import Dimension

#: Nanoseconds of a step along one dimension, by its bytes.
Step = Callable[[Fraction, Dimension], Fraction]


def tensor_dimensions(instance: DataflowInstance, degrees: Degrees) -> list[Dimension]:
    """The dimensions of a tensor-parallel group with more than one chip, those with the fastest links first."""
    found = [one for one in degrees.carrying(instance.system, "tensor") if one.size > 1]
    return sorted(found, key=lambda one: -one.bytes_per_ns)


def joint_ns(collective: Collective, size: Fraction, dimensions: Sequence[Dimension], factor: int) -> Fraction:
    """Nanoseconds of a collective of ``size`` bytes over the chips of all these dimensions, the fastest first.

    Nested, each dimension moves what those before have left to a chip, and the last one sums by its own all-reduce. In
    slices, each slice begins along another dimension. The shorter of the two counts.
    """
    if len(dimensions) < 2 or collective == "none":
        return sum((collective_ns(collective, size, one, factor) for one in dimensions), Fraction(0))
    again = 2 if collective == "all_reduce" else 1
    *first, last = dimensions
    nested, rest = Fraction(0), size
    for one in first:
        nested += again * _scattered(rest, one)
        rest /= one.size
    nested += collective_ns(collective, rest, last, factor)
    return min(nested, again * _in_slices(_scattered, size, dimensions, shrinks=True))


def joint_swap_ns(chip_bytes: Fraction, dimensions: Sequence[Dimension]) -> Fraction:
    """Nanoseconds until each chip of a group has sent a part of its bytes to each other one: dimension after dimension,
    or in slices, whichever is shorter."""
    one_by_one = sum((swap_ns(chip_bytes, one) for one in dimensions), Fraction(0))
    return min(one_by_one, _in_slices(swap_ns, chip_bytes, dimensions, shrinks=False)) if dimensions else one_by_one


def neighbours(dimensions: Sequence[Dimension], chips: int) -> list[Dimension]:
    """A group of so many neighbours, a divisor of all chips: as many as fit into the first dimension, and so on."""
    found = []
    for one in dimensions:
        here = gcd(chips, one.size)
        chips //= here
        if here > 1:
            found.append(among_chips(one, here))
    return found


def _scattered(size: Fraction, dimension: Dimension) -> Fraction:
    return collective_ns("reduce_scatter", size, dimension, 1)


def _in_slices(step: Step, size: Fraction, dimensions: Sequence[Dimension], shrinks: bool) -> Fraction:
    """k equal slices over k dimensions: in each of k turns slice i takes a step along dimension i + turn; a turn ends
    with its slowest step."""
    count = len(dimensions)
    slices, total = [size / count] * count, Fraction(0)
    for turn in range(count):
        turned = [dimensions[(i + turn) % count] for i in range(count)]
        total += max(step(part, one) for part, one in zip(slices, turned, strict=True))
        if shrinks:
            slices = [part / one.size for part, one in zip(slices, turned, strict=True)]
    return total
