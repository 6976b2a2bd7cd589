"""The compiled part of the program for stages of kernels: all partitions as arcs, and stages within a threshold."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from chipmap.heuristics.dataflow.labels import NO_LIMIT, Graph, Labels, Rules, extend, finish, together
from chipmap.instances.dataflow.costs import IntArray

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
    """Partitions by the node that they start at, ``first`` [nodes + 1]: the node where each ends, its picoseconds."""

    first: IntArray
    target: IntArray
    cost: IntArray


class Stages(NamedTuple):
    """Least picoseconds of the stage under way, by node, stage and number of its partitions (0: none yet; -1: not
    reached) [nodes, PP + 1, most + 1], and where that comes from: the node, and the number of partitions there (-1: a
    stage of one partition whose weights stay in SRAM)."""

    value: IntArray
    origin: IntArray
    before: IntArray


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def explore(
    g: Graph, rules: Rules, nodes: Nodes, pool: Labels, start: int, limit: int, target: IntArray, cost: IntArray
) -> int:
    """Write all partitions of at most ``limit`` picoseconds that may follow node ``start``; their number, or
    ``GROW`` or ``WIDE``.

    Depth first: a set of kernels is reached once, by adding them in ascending order.
    """
    root, count, most = nodes.ideal[start], 0, g.first.shape[0] + 1
    node, lower, higher = np.zeros(most, np.int64), np.zeros(most, np.int64), np.zeros(most, np.int64)
    last, step = np.full(most, -1, np.int64), np.zeros(most, np.int64)
    least = np.full(nodes.number.shape[1], NO_LIMIT, np.int64)
    node[0], higher[0], step[0] = root, 1, g.grow[root]
    pool.compute[0] = pool.memory[0] = pool.network[0] = pool.held[0] = 0
    pool.signature[0], pool.parent[0] = nodes.signature[start], -1
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
        labels, options = (lower[depth], higher[depth], higher[depth]), (g.first[v], g.first[v + 1])
        limits = (limit + 1, limit + 1, limit + 1)
        end = extend(g, rules, pool, labels, v, options, g.sets[j], g.sets[root], limits)
        if end < 0:
            return WIDE
        if end == higher[depth]:
            continue
        if together(g, root, j):
            for i in range(higher[depth], end):
                time = finish(g, rules, pool, i, j, g.sets[root], limit + 1)
                if 0 <= time <= limit:
                    t = number_of(nodes, j, pool.signature[i])
                    if t < 0:
                        return t
                    least[t] = min(least[t], time)
            for t in range(nodes.used[j]):
                if least[t] < NO_LIMIT:
                    if count >= len(target):
                        return GROW
                    target[count], cost[count], least[t] = nodes.number[j, t], least[t], NO_LIMIT
                    count += 1
        lower[depth + 1], higher[depth + 1] = higher[depth], end
        depth += 1
        node[depth], last[depth], step[depth] = j, v, g.grow[j]
    return count


@njit(cache=True, nogil=True)
def fill(
    order: IntArray, links: IntArray, plain: Arcs, alone: Arcs, counted: bool, exactly: bool, below: int, table: Stages
) -> bool:
    """Whether stages of at most ``below`` picoseconds, and as long transfers, take all kernels; fills the table.

    ``order`` are the nodes with those of smaller ideals first, ``links`` the picoseconds to send on what is open at
    each; ``plain`` the partitions, ``alone`` those whose weights stay in SRAM. Partitions per stage are ``counted`` up
    to the table's most, else the last number stands for any.
    """
    pipeline, most = table.value.shape[1] - 1, table.value.shape[2] - 1
    full = order[-1]
    table.value[:] = -1
    table.value[order[0], 0, 0] = 0
    for x in order:
        for s in range(pipeline):
            for k in range(most if exactly else 1, most + 1):
                if table.value[x, s, k] >= 0:
                    close(links, table, x, x, s, k, below, full)
            if table.value[x, s, 0] == 0 and (not exactly or most == 1):
                for a in range(alone.first[x], alone.first[x + 1]):
                    if alone.cost[a] <= below:
                        close(links, table, x, alone.target[a], s, -1, below, full)
            for k in range(most + (not counted)):
                before = table.value[x, s, k]
                if before < 0:
                    continue
                for a in range(plain.first[x], plain.first[x + 1]):
                    time, y, now = before + plain.cost[a], plain.target[a], min(k + 1, most)
                    if time <= below and (table.value[y, s, now] < 0 or time < table.value[y, s, now]):
                        table.value[y, s, now] = time
                        table.origin[y, s, now], table.before[y, s, now] = x, k
    for s in range(pipeline + 1):  # noqa: SIM110 - numba knows no generators
        if table.value[full, s, 0] == 0 and (s == pipeline or not exactly):
            return True
    return False


@njit(cache=True, nogil=True)
def close(links: IntArray, table: Stages, x: int, y: int, s: int, k: int, below: int, full: int) -> None:
    """Let the next stage begin at node y, after stage s that came from node x (k partitions there)."""
    pipeline = table.value.shape[1] - 1
    if table.value[y, s + 1, 0] < 0 and links[y] <= below and (s + 1 < pipeline or y == full):
        table.value[y, s + 1, 0], table.origin[y, s + 1, 0], table.before[y, s + 1, 0] = 0, x, k
