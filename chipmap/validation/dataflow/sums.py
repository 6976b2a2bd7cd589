"""Sums over chips in which split products end, one for all products that a kernel adds up.

From ``docs/families/dataflow.md``, "Sharding", and ``dataflow-exchanges.md``, "Sums that are shared", alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from chipmap.instances.dataflow.instance import DataflowInstance, Degrees
from chipmap.instances.dataflow.workload import Kernel, Scheme
from chipmap.validation.dataflow import facts, grouped, joint
from chipmap.validation.dataflow.layouts import left
from chipmap.validation.dataflow.present import Mapped

#: Schemes whose chips have a part of every sum.
SUMMED: tuple[Scheme, ...] = ("K", "K_RS", "K_N")


def summed(kernel: Kernel, scheme: Scheme, instance: DataflowInstance, degrees: Degrees) -> int:
    """Picoseconds of the collective in which a scheme ends."""
    size, time, links = facts.batched_output(kernel, instance), Fraction(0), joint.group(instance, degrees)
    if scheme == "K":
        factor = 2 if instance.mode == "physical" else instance.task.all_reduce_factor
        time += joint.all_reduce(size, links, factor)
    if scheme in ("K_RS", "K_N"):
        size *= facts.padding(kernel, scheme, instance, degrees)
        time += joint.reduce_scatter(size, links)
    return facts.up(time)


def added(mapping: Mapped) -> list[tuple[int, tuple[int, ...]]]:
    """The copies of kernels that add up products of two makers or more, and the makers as they list them."""
    if mapping.instance.mode == "dfmodel":
        return []
    at = {(copy.layer, mapping.kernel(i).name): i for i, copy in enumerate(mapping.copies)}
    named = ((i, copy.layer, mapping.kernel(i).adds) for i, copy in enumerate(mapping.copies))
    return [(i, tuple(at[layer, name] for name in names)) for i, layer, names in named if len(names) > 1]


def together(mapping: Mapped) -> Iterator[tuple[int, list[int], int]]:
    """T3: (the maker that runs last, those of one kind, picoseconds of the collective) for each kind of collective that
    makers of a group ask for."""
    for _, makers in mapping.added:
        last = max(makers, key=mapping.running.__getitem__)
        for scheme in SUMMED:
            if some := [u for u in makers if mapping.copies[u].scheme == scheme]:
                yield last, some, summed(mapping.kernel(makers[-1]), scheme, mapping.instance, mapping.degrees)


def alike(mapping: Mapped) -> set[tuple[int, int]]:
    """The edges to an adding kernel whose tensors lie as one that it names before."""
    found = set[tuple[int, int]]()
    for adder, makers in mapping.added:
        seen = set[tuple[str, Fraction, int]]()
        for u in makers:
            end, scene = mapping.end(u), (mapping.instance, mapping.degrees)
            layout = left(*end, *scene), facts.output_share(*end, *scene), grouped.left(*end, mapping.degrees)
            if layout in seen:
                found.add((u, adder))
            seen.add(layout)
    return found
