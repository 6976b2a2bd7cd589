"""What it takes until a reader's chips have what they need of a tensor (pages, "Sharding" and "Parallelism")."""

from __future__ import annotations

import math
from fractions import Fraction

from chipmap.instances.dataflow.instance import DataflowInstance, Degrees
from chipmap.instances.dataflow.system import Dimension
from chipmap.instances.dataflow.workload import Kernel, Scheme
from chipmap.validation.dataflow import facts
from chipmap.validation.decimals import written

#: A kernel with its scheme.
End = tuple[Kernel, Scheme]


def change(maker: End, reader: End, instance: DataflowInstance, degrees: Degrees) -> Fraction:
    """Nanoseconds of a change of layout, or of an all-gather where the layout is right but some chip lacks a piece of
    its part; of dispatch and combine where experts are divided."""
    if "E" in (maker[1], reader[1]):
        return routing(maker, reader, instance, degrees)
    links = facts.uses(instance, degrees, "tensor")
    if not links:
        return Fraction(0)
    (dimension,) = links
    n = dimension.size
    before, after = facts.made(maker[1]), facts.taken(reader[0], reader[1], instance.mode, maker[0])
    size = facts.batched_output(maker[0], instance) * facts.padding(*maker, instance, degrees)
    if "RR" in (before, after):
        return plain(before, after, size, dimension)
    held, needed = facts.output_share(*maker, instance, degrees), facts.share(*reader, instance, degrees)
    gather = facts.reduce_scatter(size, dimension)
    if before == after:
        return Fraction(0) if facts.covers(held, needed, n) else gather
    across = plain(before, after, size, dimension)
    if instance.mode == "physical":
        across = to_each(
            facts.batched_output(maker[0], instance) * most_at_once(maker, reader, held, needed, n), dimension
        )
    return across if n * held == n * needed == 1 else max(across, gather)


def most_at_once(maker: End, reader: End, held: Fraction, needed: Fraction, chips: int) -> Fraction:
    """The share that the fullest chip sends or gets where tokens become heads, or rows, or the other way. It has whole
    heads of the tensor, even if several of the reader's share one."""
    heads = maker[0].outer
    if reader[1] == "OUTER" and heads < reader[0].outer:
        return max(held, needed, Fraction(math.ceil(Fraction(heads, chips)), heads))
    return max(held, needed)


def plain(before: str, after: str, size: Fraction, dimension: Dimension) -> Fraction:
    """Nanoseconds to bring a tensor of ``size`` bytes from one layout to another.

    An all-gather takes as long as a reduce-scatter. From one split to another, each chip has a part for every other.
    """
    if before in ("RR", after):
        return Fraction(0)
    if after == "RR":
        return facts.reduce_scatter(size, dimension)
    return facts.exchange("all_to_all", size * dimension.size, dimension)


def routing(maker: End, reader: End, instance: DataflowInstance, degrees: Degrees) -> Fraction:
    """Nanoseconds of dispatch, where the reader's experts are divided, and of combine, where the maker's are.

    Among the replicas that share experts, and within each of them if no chip has all of the tensor before or needs all
    of it afterwards; then it is gathered. Nothing from kernel to kernel with the same experts.
    """
    whole = facts.batched_output(maker[0], instance)
    made, needed = (whole * part for part in _shares(maker, reader, instance, degrees))
    out, back = reader[1] == "E", maker[1] == "E"
    if out and back:
        if maker[0].experts == reader[0].experts:
            return Fraction(0)
        return _both(made, made, instance, degrees) + _both(needed, needed, instance, degrees)
    at_experts = needed if out else made
    if out and facts.made(maker[1]) == "RR":
        return _among(at_experts, instance, degrees)
    if back and facts.taken(*reader, instance.mode, maker[0]) == "RR":
        gathered = [facts.reduce_scatter(made * one.size, one) for one in facts.uses(instance, degrees, "tensor")]
        return _among(at_experts, instance, degrees) + sum(gathered, Fraction(0))
    return _both(at_experts, max(made, needed), instance, degrees)


def _shares(maker: End, reader: End, instance: DataflowInstance, degrees: Degrees) -> tuple[Fraction, Fraction]:
    return facts.output_share(*maker, instance, degrees), facts.share(*reader, instance, degrees)


def _among(held: Fraction, instance: DataflowInstance, degrees: Degrees) -> Fraction:
    return sum((to_each(held, one) for one in facts.uses(instance, degrees, "expert")), Fraction(0))


def _both(held: Fraction, most: Fraction, instance: DataflowInstance, degrees: Degrees) -> Fraction:
    inside = sum((to_each(most, one) for one in facts.uses(instance, degrees, "tensor")), Fraction(0))
    return _among(held, instance, degrees) + inside


def to_each(held: Fraction, dimension: Dimension) -> Fraction:
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
    return held / n * times / written(dimension.bytes_per_ns) + facts.latency(dimension)
