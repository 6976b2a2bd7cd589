"""What a partition holds and how long it takes, for CP-SAT, in bytes and picoseconds: C2 and T1 to T4."""

from __future__ import annotations

from typing import Any

from chipmap.formulations.dataflow.cpsat_assignment import Builder, total
from chipmap.formulations.dataflow.cpsat_tensors import Parts, Tensors


def weighted(builder: Builder, field: str, c: int) -> Parts:
    """A column of options, over the copies in partition c."""
    parts: Parts = []
    for i in builder.tables.inside(c):
        amounts = builder.tables.amounts(i, field)
        if len(amounts) == 1:
            parts.append((amounts[0], builder.A[i, c]))
        else:
            parts += [(amount, builder.placed[i, o, c]) for o, amount in enumerate(amounts)]
    return [part for part in parts if part[0]]


def moved(tensors: Tensors, field: str, c: int) -> Parts:
    """An output's column, over all that is written or read at the border of c."""
    tables, parts = tensors.tables, list[tuple[int, Any]]()
    for (_, i, m, at), literals in tensors.moves.items():
        if at == c:
            amount = tables.amount(i, m, field)
            parts += [(sign * amount, literal) for sign, literal in literals if amount]
    return parts


def c2_sram(tensors: Tensors) -> list[Any]:
    """C2: weights, a buffer for each level that a tensor inside waits, and two for what crosses, within a chip's SRAM.

    The left sides in bytes, by partition.
    """
    builder, tables = tensors.builder, tensors.tables
    sums = []
    for c in range(tables.count):
        parts = weighted(builder, "weights", c)
        parts += [(2 * amount, literal) for amount, literal in moved(tensors, "buffer", c)]
        for (e, m, at), inside in tensors.inside.items():
            t = tables.tensors[e]
            if at == c:
                parts.append((t.waits * tables.amount(t.u, m, "buffer"), inside))
        sums.append(total(parts))
        builder.enforce("c2_sram", builder.model.add(sums[-1] <= tables.problem.sram))
    return sums


def t1_compute(builder: Builder, time: list[Any]) -> list[Any]:
    """T1: the sum of its kernels' compute <= the time of a partition."""
    sums = [total(weighted(builder, "compute", c)) for c in range(len(time))]
    for c, compute in enumerate(sums):
        builder.model.add(compute <= time[c])
    return sums


def t4_no_overlap(builder: Builder, time: list[Any], *terms: list[Any]) -> None:
    """T4 without overlap: compute, memory and network together <= the time of a partition."""
    if not builder.tables.overlap:
        for c, one in enumerate(time):
            builder.model.add(sum(term[c] for term in terms) <= one)


def t2_memory(tensors: Tensors, time: list[Any]) -> list[Any]:
    """T2: what crosses its border, its weights and what it fetches, through DRAM <= the time of a partition.

    ``spared``: the weights' time, where one partition is all that a chip runs.
    """
    builder, tables = tensors.builder, tensors.tables
    sums = []
    for c in range(len(time)):
        streams = weighted(builder, "stream", c)
        memory = total(moved(tensors, "dram", c) + streams)
        if c == 0 and tables.spares:
            spared = builder.model.new_int_var(0, tables.spares, f"{builder.prefix}spared")
            builder.model.add(spared <= total(weighted(builder, "spared", c)))
            if tables.count > 1:
                several = builder.model.add(spared == 0)
                if 1 in builder.used:  # else there are always several
                    several.only_enforce_if(builder.used[1])
            memory = memory - spared
        builder.model.add(memory <= time[c])
        sums.append(memory)
    return sums


def t3_network(tensors: Tensors, time: list[Any]) -> list[Any]:
    """T3: collectives of its kernels and layout changes of what they read (equations 5, 6) <= a partition's time."""
    builder = tensors.builder
    sums = []
    for c in range(len(time)):
        parts = weighted(builder, "collective", c)
        for e, g, h, change in builder.tables.changes(c):
            parts += [(change, literal) for literal in tensors.paired(e, g, h, c)]
        sums.append(total(parts))
        builder.model.add(sums[-1] <= time[c])
    return sums


def t4_layer(builder: Builder, time: list[Any], most: int | None) -> Any:
    """T4: partitions run one after the other; the layer's time, at least its compute and at most ``most``."""
    tables = builder.tables
    floor = sum(min(option.compute for option in tables.options(i)) for i in tables.copies)
    top = tables.longest if most is None else most
    layer = builder.model.new_int_var(min(floor, top), max(floor, top), f"{builder.prefix}layer")
    builder.model.add(sum(time) <= layer)
    if top < floor:
        builder.model.add_bool_or([])
    return layer
