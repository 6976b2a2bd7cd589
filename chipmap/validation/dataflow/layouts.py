"""What it takes until a reader's chips have what they need of a tensor (pages, "Sharding" and "Parallelism")."""

from __future__ import annotations

import math
from fractions import Fraction

from chipmap.instances.dataflow.instance import DataflowInstance, Degrees
from chipmap.instances.dataflow.system import Dimension
from chipmap.instances.dataflow.workload import Kernel, Scheme
from chipmap.validation.dataflow import facts, grids, grouped, joint, rates
from chipmap.validation.dataflow.once import once

#: A kernel with its scheme.
End = tuple[Kernel, Scheme]


@once
def change(maker: End, reader: End, instance: DataflowInstance, degrees: Degrees) -> Fraction:
    """Nanoseconds of a change of layout, or of an all-gather where the layout is right but some chip lacks a piece of
    its part; of dispatch and combine where experts are divided."""
    if "E" in (maker[1], reader[1]):
        return routing(maker, reader, instance, degrees)
    links = joint.group(instance, degrees)
    before, after = left(*maker, instance, degrees), facts.taken(*reader, instance.mode, maker[0])
    if not links or before == "RR":
        return Fraction(0)
    size = facts.batched_output(maker[0], instance) * facts.padding(*maker, instance, degrees)
    if "RR" in (before, after):
        return plain(before, after, size, links)
    held, needed, heads = facts.output_share(*maker, instance, degrees), *wanted(maker[0], reader, instance, degrees)
    lacks = not by_heads(reader, after) and lacks_samples(*maker, instance, degrees)
    if before == after == "HR":
        if (held, grouped.groups(maker[0], degrees)) == (needed, grouped.groups(reader[0], degrees)):
            return Fraction(0)
    elif before == after and not lacks:
        if before == "TR":
            return transposed(maker[0], held, needed, instance, links)
        return missing(maker[0], held, (needed, heads), instance, links)
    gather = joint.reduce_scatter(size, links)
    if instance.mode == "dfmodel":
        return plain(before, after, size, links)
    whole, most = facts.batched_output(maker[0], instance), max(needed, heads)
    if sorted((before, after)) == ["RS", "SR"]:
        equal = all(in_equal_groups(one, degrees.tensor) for one in (held, needed, most))
    else:
        equal = degrees.tensor * held == degrees.tensor * needed == 1
    return joint.to_each(whole * most, links) if equal else max(joint.to_each(whole * max(held, most), links), gather)


def transposed(
    maker: Kernel, held: Fraction, needed: Fraction, instance: DataflowInstance, links: list[Dimension]
) -> Fraction:
    """Nanoseconds until chips that have rows transposed have the part of them that a reader needs: nothing, a gather
    along the last dimension, or among all."""
    n, size = math.prod(one.size for one in links), facts.batched_output(maker, instance)
    if facts.covers(held, needed, n):
        return Fraction(0)
    if needed == held * links[-1].size and facts.covers(needed, held, n):
        return joint.reduce_scatter(size * needed, links[-1:])
    return joint.reduce_scatter(size * (held * -(-1 // held)), links)


def in_equal_groups(part: Fraction, chips: int) -> bool:
    """Whether as many chips have one part of this share as another one: there are 1 / part of them, which divide n."""
    return part.numerator == 1 and chips % part.denominator == 0


def by_heads(reader: End, after: str) -> bool:
    """Whether a reader needs whole heads of what it reads in this layout."""
    return reader[1] == "OUTER" or (reader[1] in grouped.GROUPED and after == "SR")


def wanted(maker: Kernel, reader: End, instance: DataflowInstance, degrees: Degrees) -> tuple[Fraction, Fraction]:
    """The parts of a tensor that a chip of the reader needs: by its own sizes, and by whole heads (0: unsaid)."""
    own = facts.share(*reader, instance, degrees)
    if reader[1] in grids.PRODUCTS:
        own = grids.terms(*reader, instance, degrees)
    if instance.mode == "dfmodel" or not by_heads(reader, facts.taken(*reader, instance.mode, maker)):
        return own, own
    if reader[1] == "OUTER":
        return own, least_heads(maker, degrees.tensor)
    groups = grouped.groups(reader[0], degrees)
    return Fraction(1, groups), least_heads(maker, groups)


@once
def added_up(kernel: Kernel, scheme: Scheme, instance: DataflowInstance, degrees: Degrees) -> Fraction:
    """Nanoseconds of what chips add up though they split no inner dimension: statistics of columns of which each has
    some rows; terms that they have of the same head of a gradient."""
    links = joint.group(instance, degrees)
    if scheme in grids.PRODUCTS:
        by_rows, by_terms = grids.dimensions(scheme, instance, degrees)
        padded = facts.batched_output(kernel, instance) * facts.padding(kernel, scheme, instance, degrees)
        return joint.reduce_scatter(padded / math.prod(one.size for one in by_rows), by_terms)
    if scheme in ("M", "M_T"):
        return joint.all_reduce(statistics(kernel, instance), links, 2)
    if scheme in grouped.GROUPED:
        inside, groups = joint.few(links, grouped.among(kernel, degrees)), grouped.groups(kernel, degrees)
        if scheme == "OUTER_M":
            return joint.all_reduce(statistics(kernel, instance) / groups, inside, 2)
        padded = facts.batched_output(kernel, instance) * facts.padding(kernel, scheme, instance, degrees)
        return joint.reduce_scatter(padded / groups, inside)
    shared, size = facts.heads_in_common(kernel, scheme, instance, degrees), facts.batched_output(kernel, instance)
    if shared == 0:
        return joint.all_reduce(size, links, 2)
    if shared == 1:
        return Fraction(0)
    each = size * facts.padding(kernel, scheme, instance, degrees) / kernel.heads
    return joint.reduce_scatter(each, joint.few(links, shared))


def lacks_samples(kernel: Kernel, scheme: Scheme, instance: DataflowInstance, degrees: Degrees) -> bool:
    """Whether chips share out heads of every sample, more than a sample has, so that none has its rows of all samples
    (unless each has the same number of heads of each)."""
    several = kernel.phase == "forward" and 1 <= kernel.heads < kernel.outer
    return instance.mode == "physical" and scheme == "OUTER" and several and kernel.heads % degrees.tensor > 0


def missing(
    maker: Kernel, held: Fraction, needed: tuple[Fraction, Fraction], instance: DataflowInstance, links: list[Dimension]
) -> Fraction:
    """Nanoseconds until chips whose part of rows, or columns, is ``held`` have those parts that the reader needs, by
    its own sizes and by whole heads (0: unsaid): nothing, a gather among the few that need the same, or among all."""
    wanted, n = [one for one in needed if one], math.prod(one.size for one in links)
    if all(facts.covers(held, one, n) for one in wanted):
        return Fraction(0)
    size, most = facts.batched_output(maker, instance), max(wanted)
    if most > held and facts.covers(most, held, n) and all(facts.covers(most, one, n) for one in wanted):
        return joint.reduce_scatter(size * most, joint.few(links, int(most / held)))
    return joint.reduce_scatter(size * (held * -(-1 // held)), links)


def least_heads(maker: Kernel, chips: int) -> Fraction:
    """The least part of a tensor that has all rows of the heads of one of so many chips; 0 where nothing says how many
    heads it has."""
    heads = maker.outer if maker.outer > 1 else 0
    if maker.heads and (maker.phase == "backward" or maker.outer == 1):
        heads = maker.heads
    return Fraction(-(-heads // chips), heads) if heads else Fraction(0)


def statistics(kernel: Kernel, instance: DataflowInstance) -> Fraction:
    """Bytes of a micro-batch's numbers that an element-wise kernel adds up over rows, some for each column."""
    one = rates.of_activations(instance, kernel.outer * kernel.N * instance.workload.word_bytes)
    return one * kernel.statistics * instance.task.samples


def left(kernel: Kernel, scheme: Scheme, instance: DataflowInstance, degrees: Degrees) -> str:
    """The layout in which a kernel leaves its output."""
    whole = facts.heads_in_common(kernel, scheme, instance, degrees) == 0
    return "RR" if whole else facts.made(scheme)


def plain(before: str, after: str, size: Fraction, links: list[Dimension]) -> Fraction:
    """Nanoseconds to bring a tensor of ``size`` bytes from one layout to another.

    An all-gather takes as long as a reduce-scatter. From one split to another, each chip has a part for every other.
    """
    if before in ("RR", after):
        return Fraction(0)
    if after == "RR":
        return joint.reduce_scatter(size, links)
    return sum((facts.exchange("all_to_all", size * one.size, one) for one in links), Fraction(0))


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
    if out:
        inside = Fraction(0)
        if left(*maker, instance, degrees) != "RR":
            inside = _inside(max(made, needed), instance, degrees)
        return _among(at_experts, instance, degrees) + inside
    return _among(at_experts, instance, degrees) + _combined(maker, reader, made, needed, instance, degrees)


def _combined(
    maker: End, reader: End, made: Fraction, needed: Fraction, instance: DataflowInstance, degrees: Degrees
) -> Fraction:
    """Nanoseconds within a group: what experts made is brought to where it is read; or, if that is less, each chip adds
    up the copies of a token that it has, and the sums are exchanged."""
    kernel, links = reader[0], joint.group(instance, degrees)
    whole = facts.taken(*reader, instance.mode, maker[0]) == "RR"
    if whole:
        moved = joint.reduce_scatter(made * degrees.tensor, links)
    else:
        moved = _inside(max(made, needed), instance, degrees)
    if kernel.kind != "elementwise" or maker[0].active * kernel.N != maker[0].N:
        return moved
    if kernel.statistics:  # a number of each copy, which nobody else has
        numbers = statistics(kernel, instance)
        added = joint.reduce_scatter(numbers, links) if whole else moved
    else:
        sums = facts.batched_output(kernel, instance) * facts.padding(*reader, instance, degrees)
        added = joint.all_reduce(sums, links, 2) if whole else joint.reduce_scatter(sums, links)
    return min(moved, added)


def _shares(maker: End, reader: End, instance: DataflowInstance, degrees: Degrees) -> tuple[Fraction, Fraction]:
    return facts.output_share(*maker, instance, degrees), facts.share(*reader, instance, degrees)


def _among(held: Fraction, instance: DataflowInstance, degrees: Degrees) -> Fraction:
    return sum((joint.along(held, one) for one in facts.uses(instance, degrees, "expert")), Fraction(0))


def _inside(most: Fraction, instance: DataflowInstance, degrees: Degrees) -> Fraction:
    return joint.to_each(most, joint.group(instance, degrees))


def _both(held: Fraction, most: Fraction, instance: DataflowInstance, degrees: Degrees) -> Fraction:
    return _among(held, instance, degrees) + _inside(most, instance, degrees)
