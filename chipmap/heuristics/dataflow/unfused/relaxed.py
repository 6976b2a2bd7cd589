"""A bound and a mapping where the schemes of too many kernels hang together for the exact program.

Mini-buckets (Dechter and Rish, *Journal of the ACM* 50, 2003): where the tables with a kernel would make too large a
sum, they are added up in groups, and the kernel takes the best scheme in each group by itself. The sum of least values
is then at most the least sum. A kernel that reads many others takes at least its compute, or its memory, or its
network: the one whose least is greatest stands in for the longest.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.dataflow.unfused.costs import Singles
from chipmap.heuristics.dataflow.unfused.kernel import IntArray
from chipmap.heuristics.dataflow.unfused.tables import along, scopes, times

#: What an option that doesn't fit costs: a sum of two of these still fits 64 bits.
NEVER = 2**61
#: Sweeps of the descent at most.
SWEEPS = 20


class Sum(NamedTuple):
    """A table of least picoseconds over a scope of kernels, ascending."""

    scope: tuple[int, ...]
    values: IntArray


class Relaxed(NamedTuple):
    """A lower bound on T4 (None: nothing fits), and options of all kernels that may be good."""

    bound: int | None
    chosen: list[int]


def relaxed(singles: Singles, order: Sequence[int], cells: int, deadline: Deadline) -> Relaxed:
    """The bound by mini-buckets of at most ``cells`` cells, kernels eliminated in this ``order``, and the options that
    minimise the tables one by one the other way round."""
    sizes, place = singles.sizes, {v: i for i, v in enumerate(order)}
    buckets: list[list[Sum]] = [[] for _ in order]
    constant = 0

    def put(table: Sum) -> None:
        nonlocal constant
        if table.scope:
            buckets[min(place[v] for v in table.scope)].append(table)
        else:
            constant = min(NEVER, constant + int(table.values))

    for table in _tables(singles):
        put(table)
    for v in order:
        deadline.check()
        for group in _groups(buckets[place[v]], sizes, cells):
            total = _added(group, sizes)
            put(Sum(tuple(w for w in total.scope if w != v), total.values.min(axis=total.scope.index(v))))
    if constant >= NEVER:
        return Relaxed(None, [])
    chosen = [0] * len(sizes)
    for v in reversed(order):
        worth = np.zeros(sizes[v], np.int64)
        for table in buckets[place[v]]:
            worth += table.values[tuple(slice(None) if w == v else chosen[w] for w in table.scope)] // 64
        chosen[v] = int(worth.argmin())
    return Relaxed(constant, chosen)


def descend(singles: Singles, chosen: Sequence[int], deadline: Deadline) -> tuple[int, list[int]] | None:
    """(T4, options) after better options of single kernels are taken as long as there are any; None where a kernel
    doesn't fit then."""
    at, readers = list(chosen), [set[int]() for _ in singles.sizes]
    for v, one in enumerate(singles.singles):
        for read in one.reads:
            readers[read.maker].add(v)

    def around(v: int) -> int:
        costs = [singles.ticks(w, at) for w in (v, *readers[v])]
        return sum(NEVER if cost is None else cost for cost in costs)

    for _ in range(SWEEPS):
        changed = False
        for v, size in enumerate(singles.sizes):
            if size == 1:
                continue
            deadline.check()
            before, best, least = at[v], at[v], around(v)
            for option in range(size):
                at[v] = option
                now = least if option == before else around(v)
                if now < least:
                    best, least = option, now
            at[v] = best
            changed = changed or best != before
        if not changed:
            break
    total = [singles.ticks(v, at) for v in range(len(at))]
    return None if None in total else (sum(cost for cost in total if cost is not None), at)


def _tables(singles: Singles) -> list[Sum]:
    found, large = scopes(singles)
    tables = []
    for v, scope in enumerate(found):
        if v in large:
            tables += _linear(singles, v)
        else:
            tables.append(Sum(scope, np.minimum(times(singles, v, scope), NEVER)))
    return tables


def _linear(singles: Singles, v: int) -> list[Sum]:
    """Tables of pairs whose sum is at most the time of kernel v: the one resource that takes longest at least, for
    each of its options."""
    one, sizes = singles.singles[v], singles.sizes
    memory = [one.memory] + [np.full(sizes[v], read.dram.min()) for read in one.reads]
    network = [one.network] + [read.converts.min(axis=0) for read in one.reads]
    if singles.overlap:
        most = np.argmax([one.compute, np.sum(memory, axis=0), np.sum(network, axis=0)], axis=0)
    own = tuple(w for w in (v,) if sizes[w] > 1)
    if singles.overlap:
        alone = np.choose(most, [one.compute, one.memory, one.network])
    else:
        alone = one.compute + one.memory + one.network
    tables = [Sum(own, one.runs * along(singles.launch + alone, (v,), own))]
    for read in one.reads:
        u = read.maker
        scope = tuple(sorted(w for w in {u, v} if sizes[w] > 1))
        dram = np.broadcast_to(read.dram[:, None], read.converts.shape)
        taken = (
            np.where(most == 1, dram, np.where(most == 2, read.converts, 0))
            if singles.overlap
            else dram + read.converts
        )
        tables.append(Sum(scope, one.runs * along(taken, (u, v), scope)))
    return tables


def _groups(tables: Sequence[Sum], sizes: Sequence[int], cells: int) -> list[list[Sum]]:
    """Tables together as long as their sum has at most so many cells, the largest first."""
    groups: list[tuple[set[int], list[Sum]]] = []
    for table in sorted(tables, key=lambda table: -table.values.size):
        for scope, group in groups:
            if prod(sizes[w] for w in scope.union(table.scope)) <= cells:
                scope.update(table.scope)
                group.append(table)
                break
        else:
            groups.append((set(table.scope), [table]))
    return [group for _, group in groups]


def _added(tables: Sequence[Sum], sizes: Sequence[int]) -> Sum:
    scope = tuple(sorted({w for table in tables for w in table.scope}))
    total = np.zeros([sizes[w] for w in scope], np.int64)
    for table in tables:
        shape = [sizes[w] if w in table.scope else 1 for w in scope]
        total = np.minimum(total + table.values.reshape(shape), NEVER)
    return Sum(scope, total)
