"""What a tensor takes from the layout in which it is made to that in which a kernel reads it.

The formulas are those of ``docs/families/dataflow.md``, "Sharding" and "Parts", and
``docs/families/dataflow-parallelism.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.instances.dataflow.instance import DataflowInstance, Degrees
from chipmap.instances.dataflow.joint import joint_ns, joint_swap_ns, neighbours, tensor_dimensions
from chipmap.instances.dataflow.options import ticks_of
from chipmap.instances.dataflow.parts import (
    BY_HEADS,
    apart_by_samples,
    divides,
    gatherers,
    has,
    head_groups,
    needed_by_heads,
    padded,
    parts,
    read_share,
)
from chipmap.instances.dataflow.routed import routed, routing_ns
from chipmap.instances.dataflow.sharding import collective_ns, made_layout, taken_layout
from chipmap.instances.dataflow.sizes import output_bytes
from chipmap.instances.dataflow.workload import Kernel, Scheme

#: A kernel with its scheme.
End = tuple[Kernel, Scheme]


class Changes(NamedTuple):
    """Picoseconds of the change of layout of a tensor under each option of its maker and each of its reader, as lists
    and as an array [maker's, reader's]; and whether there ever is one."""

    rows: list[list[int]]
    ticks: NDArray[np.int64]
    any: bool


def changes_between(
    instance: DataflowInstance,
    degrees: Degrees,
    ends: tuple[Kernel, Kernel],
    schemes: tuple[Sequence[Scheme], Sequence[Scheme]],
) -> Changes:
    """The changes of layout of what the first of two kernels makes for the second, under these schemes of both."""
    maker, reader = ends
    rows = [[0] * len(schemes[1]) for _ in schemes[0]]
    if degrees.expert > 1 or degrees.tensor > 1:
        rows = [
            [ticks_of(change_ns(instance, degrees, (maker, s), (reader, t))) for t in schemes[1]] for s in schemes[0]
        ]
    return Changes(rows, np.array(rows, dtype=np.int64), any(map(any, rows)))


def change_ns(instance: DataflowInstance, degrees: Degrees, maker: End, reader: End) -> Fraction:
    """Nanoseconds that a reader pays in T3 for its input: dispatch, combine, an all-gather or an all-to-all.

    By heads (OUTER) a chip needs whole heads of the tensor, which several of the reader's may share. A reader whose
    parts are others than the maker's, though split alike, gathers what it lacks. Heads of each sample that a reader
    needs as rows of all of them take an all-to-all, too. In mode ``dfmodel`` it is the published one, of the whole
    tensor. Else it is a swap of what a chip needs afterwards, where shares between rows and columns are g/n for
    divisors g of n; where other layouts' are 1/n, of the larger part. Other parts take no less than an all-gather.
    """
    exchanged = routing_ns(instance, degrees, maker, reader)
    if exchanged is not None:
        return exchanged
    links = tensor_dimensions(instance, degrees)
    if not links:
        return Fraction(0)
    mode, chips, size = instance.mode, degrees.tensor, output_bytes(maker[0], instance)
    at = routed(instance, degrees)
    made, taken = made_layout(*maker, mode, chips), taken_layout(*reader, mode, maker[0])
    if made == "RR":
        return Fraction(0)
    held = parts(*maker, mode, chips, at).output
    gathered = joint_ns("all_gather", size * padded(held), links, 1)
    if taken == "RR":
        return gathered
    work = read_share(*reader, mode, chips, at)
    by_heads = mode == "physical" and (reader[1] == "OUTER" or (reader[1] in BY_HEADS and taken == "SR"))
    if by_heads and reader[1] in BY_HEADS:
        work = Fraction(1, head_groups(reader[0], chips))
    needed = max(work, needed_by_heads(maker[0], *reader, chips)) if by_heads else work
    samples = mode == "physical" and not by_heads and apart_by_samples(*maker, chips)
    if made == taken == "HR":
        if (held, head_groups(maker[0], chips)) == (work, head_groups(reader[0], chips)):
            return Fraction(0)
    elif made == taken and not samples:
        if has(held, work, chips) and has(held, needed, chips):
            return Fraction(0)
        among = gatherers(held, needed, chips) if has(needed, work, chips) else chips
        if among == chips or (made == "TR" and among != at.last):
            return gathered
        if made == "TR":
            return joint_ns("all_gather", size * needed, links[-1:], 1)
        return joint_ns("all_gather", size * needed, neighbours(links, among), 1)
    if mode == "dfmodel":
        return sum((collective_ns("all_to_all", size, one, 1) for one in links), Fraction(0))
    if {made, taken} == {"SR", "RS"}:
        equal = all(divides(one, chips) for one in (held, work, needed))
    else:
        equal = held == work == Fraction(1, chips)
    swapped = joint_swap_ns(size * (needed if equal else max(held, needed)), links)
    return swapped if equal else max(swapped, gathered)
