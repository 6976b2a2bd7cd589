"""The compiled part of the program for stages of kernels: all partitions as arcs, and stages within a threshold."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chipmap.heuristics.dataflow.program.kernel import together
from chipmap.heuristics.dataflow.program.label_setting import (
    Graph,
    Labels,
    Rules,
    Step,
    extend,
    finish,
)
from chipmap.instances.dataflow.problem import IntArray
from chipmap.kernels import njit

#: What :func:`explore` says where an array must grow, and where labels ran out.
GROW, WIDE = -1, -2


class Nodes(NamedTuple):
    """Ideals with the schemes of their open kernels: ``number`` [ideals, width] of those ``used`` [ideals] so far, and
    the ``ideal`` and ``signature`` of each number; ``total`` [1] of them."""

    number: IntArray
    used: IntArray
    ideal: IntArray
    signature: IntArray
    total: IntArray


class Arcs(NamedTuple):
    """Partitions by the node that they start at, ``first`` [nodes + 1]: the node where each ends, its picoseconds, and
    what its kernels keep in DRAM beyond the least of each (0 where that isn't told apart)."""

    first: IntArray
    target: IntArray
    cost: IntArray
    extra: IntArray


class Stages(NamedTuple):
    """Labels of the stage under way, by node, stage, number of its partitions (0: none yet) and place.

    All arrays are [nodes, stages + 1, most + 1, places]. ``value`` is the picoseconds of the stage (-1: no label),
    ``begun`` the bytes at rest in the stages before it; ``origin``, ``before`` and ``place`` are an :class:`Origin`.
    Of two labels at the same node, one goes if it has no less time and no more bytes in the stages before.
    """

    value: IntArray
    begun: IntArray
    origin: IntArray
    before: IntArray
    place: IntArray


class Rest(NamedTuple):
    """What rests in DRAM at least up to each node, and what a stage may have of it, in bytes."""

    bytes: IntArray
    room: int


class StageArcs(NamedTuple):
    """What stages are made of: partitions whose weights are ``streamed`` from DRAM, and partitions whose weights are
    ``resident`` in SRAM. ``links`` [nodes] are the picoseconds to send what is open at a node, ``rest`` its DRAM."""

    streamed: Arcs
    resident: Arcs
    links: IntArray
    rest: Rest


@njit(part=True)
def number_of(nodes: Nodes, j: int, signature: int) -> int:
    """The place of a signature among those of ideal j, a new one if need be; -1 or -2 where room ran out."""
    for t in range(nodes.used[j]):
        if nodes.signature[nodes.number[j, t]] == signature:
            return t
    t, new = nodes.used[j], nodes.total[0]
    if t >= nodes.number.shape[1]:
        return WIDE
    if new >= len(nodes.ideal):
        return GROW
    nodes.number[j, t], nodes.ideal[new], nodes.signature[new] = new, j, signature
    nodes.used[j] += 1
    nodes.total[0] += 1
    return t


@njit(part=True)
def listed(found: IntArray, count: int, first: int, node: int, time: int, extra: int) -> int:
    """Write a partition that ends at ``node`` unless one of those from ``first`` on is as good; the new number of them,
    or ``GROW``."""
    for a in range(first, count):
        if found[0, a] == node and found[1, a] <= time and found[2, a] <= extra:
            return count
    for a in range(first, count):
        if found[0, a] == node and found[1, a] >= time and found[2, a] >= extra:
            found[1, a], found[2, a] = time, extra
            return count
    if count >= found.shape[1]:
        return GROW
    found[0, count], found[1, count], found[2, count] = node, time, extra
    return count + 1


@njit(cache=True, nogil=True)
def explore(
    g: Graph, rules: Rules, nodes: Nodes, pool: Labels, start: int, limit: int, found: IntArray, work: IntArray
) -> int:
    """Write all partitions of at most ``limit`` picoseconds that may follow node ``start``; their number, or
    ``GROW`` or ``WIDE``.

    ``found`` [3, room] has the node where each ends, its picoseconds, and its sum of the first column of the graph's
    ``outside`` (0 without one): all Pareto pairs of the two. ``work`` [2] are labels so far, and how many there may be.
    Depth first: a set of kernels is reached once, by adding
    them in ascending order.
    """
    root, count, most = nodes.ideal[start], 0, g.first.shape[0] + 1
    node, lower, higher = np.zeros(most, np.int64), np.zeros(most, np.int64), np.zeros(most, np.int64)
    last, step = np.full(most, -1, np.int64), np.zeros(most, np.int64)
    node[0], higher[0], step[0] = root, 1, g.grow[root]
    pool.compute[0] = pool.memory[0] = pool.network[0] = pool.held[0] = 0
    pool.signature[0], pool.parent[0], pool.outside[0] = nodes.signature[start], -1, 0
    depth = 0
    while depth >= 0:
        if step[depth] >= g.grow[node[depth] + 1] or (depth == 1 and not rules.fused):
            depth -= 1
            continue
        k = step[depth]
        step[depth] += 1
        v, j = g.by[k], g.into[k]
        if v < last[depth]:
            continue
        adding = Step(v, g.first[v], g.first[v + 1], lower[depth], higher[depth])
        limits = (limit + 1, limit + 1, limit + 1)
        end = extend(g, rules, pool, adding, g.sets[j], g.sets[root], limits)
        work[0] += higher[depth] - lower[depth]
        if end < 0 or work[0] > work[1]:  # whoever watches the clock changes work[1] meanwhile
            return WIDE
        if end == higher[depth]:
            continue
        if together(g, root, j):
            before = count
            for i in range(higher[depth], end):
                time = finish(g, rules, pool, i, j, g.sets[root], limit + 1)
                if 0 <= time <= limit:
                    t = number_of(nodes, j, pool.signature[i] & g.fields.lasting)
                    if t < 0:
                        return t
                    extra = pool.outside[i, 0] if g.outside.shape[1] > 0 else 0
                    count = listed(found, count, before, nodes.number[j, t], time, extra)
                    if count < 0:
                        return count
        lower[depth + 1], higher[depth + 1] = higher[depth], end
        depth += 1
        node[depth], last[depth], step[depth] = j, v, g.grow[j]
    return count


class Origin(NamedTuple):
    """Where a label of a stage comes from: the node, the number of partitions there (-1: a stage of one partition whose
    weights stay in SRAM), and the place."""

    node: int
    partitions: int
    place: int


@njit(cache=True, nogil=True)
def fill(
    arcs: StageArcs, order: IntArray, counted: bool, exactly: bool, below: int, table: Stages, work: IntArray
) -> int:
    """Whether stages of at most ``below`` picoseconds, and as long transfers, take all kernels (1 or 0); ``WIDE`` where
    there is no place for a label. Fills the table.

    ``order`` are the nodes with those of smaller ideals first, ``work`` [2] partitions looked at, and how many
    may be. Partitions per stage are ``counted`` up to the table's
    most, else the last number stands for any.
    """
    pipeline, most, places = table.value.shape[1] - 1, table.value.shape[2] - 1, table.value.shape[3]
    streamed, resident, rest, full = arcs.streamed, arcs.resident, arcs.rest, order[-1]
    table.value[:] = -1
    table.value[order[0], 0, 0, 0] = table.begun[order[0], 0, 0, 0] = 0
    for x in order:
        for s in range(pipeline):
            # a stage may end where its last partition does
            for k in range(most if exactly else 1, most + 1):
                for place in range(places):
                    if table.value[x, s, k, place] >= 0:
                        close(arcs, table, (x, s, x == full), Origin(x, k, place), below)
            # a stage that begins here may be one partition whose weights stay in SRAM
            if table.value[x, s, 0, 0] == 0 and (not exactly or most == 1):
                for a in range(resident.first[x], resident.first[x + 1]):
                    y = resident.target[a]
                    if resident.cost[a] <= below and rest.bytes[y] - rest.bytes[x] <= rest.room:
                        close(arcs, table, (y, s, y == full), Origin(x, -1, 0), below)
            # a stage under way may take one more partition
            for k in range(most + (not counted)):
                for place in range(places):
                    before, begun = table.value[x, s, k, place], table.begun[x, s, k, place]
                    if before < 0:
                        continue
                    work[0] += streamed.first[x + 1] - streamed.first[x]
                    if work[0] > work[1]:
                        return WIDE
                    for a in range(streamed.first[x], streamed.first[x + 1]):
                        time, y = before + streamed.cost[a], streamed.target[a]
                        if time > below or rest.bytes[y] - begun > rest.room:
                            continue
                        if not offer(table, (y, s, min(k + 1, most)), time, begun, Origin(x, k, place)):
                            return WIDE
    for s in range(pipeline + 1):
        if table.value[full, s, 0, 0] == 0 and (s == pipeline or not exactly):
            return 1
    return 0


@njit(part=True)
def offer(table: Stages, state: tuple[int, int, int], time: int, begun: int, origin: Origin) -> bool:
    """Keep a label of ``state`` (node, stage, number of its partitions) unless one there is as good.

    False where there is no place for it.
    """
    y, s, now = state
    free = -1
    for p in range(table.value.shape[3]):
        value, other = table.value[y, s, now, p], table.begun[y, s, now, p]
        if 0 <= value <= time and other >= begun:
            return True
        if value < 0 or (value >= time and other <= begun):
            table.value[y, s, now, p] = -1
            free = p if free < 0 else free
    if free < 0:
        return False
    table.value[y, s, now, free], table.begun[y, s, now, free] = time, begun
    table.origin[y, s, now, free] = origin.node
    table.before[y, s, now, free], table.place[y, s, now, free] = origin.partitions, origin.place
    return True


@njit(cache=True, nogil=True)
def close(arcs: StageArcs, table: Stages, state: tuple[int, int, bool], origin: Origin, below: int) -> None:
    """End a stage where ``state`` (node, stage, whether no kernel is left) says, and let the next one begin there."""
    y, s, whole = state
    if table.value[y, s + 1, 0, 0] < 0 and arcs.links[y] <= below and (s + 2 < table.value.shape[1] or whole):
        table.value[y, s + 1, 0, 0], table.begun[y, s + 1, 0, 0] = 0, arcs.rest.bytes[y]
        table.origin[y, s + 1, 0, 0] = origin.node
        table.before[y, s + 1, 0, 0], table.place[y, s + 1, 0, 0] = origin.partitions, origin.place
