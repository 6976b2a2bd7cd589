"""A bound and a mapping where the schemes of too many kernels hang together for the exact program.

Mini-buckets (Dechter and Rish, *Journal of the ACM* 50, 2003): where the tables with a kernel would make too large a
sum, they are added up in groups, and the kernel takes the best scheme in each group by itself. The sum of least values
is then at most the least sum. A kernel that reads many others takes at least its compute, or its memory, or its
network: the one whose least is greatest stands in for the longest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import NamedTuple

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.dataflow.unfused.costs import SingleKernelCosts
from chipmap.heuristics.dataflow.unfused.dense import Sum
from chipmap.heuristics.dataflow.unfused.descent import NEVER, Flat, IntArray, sweep, totals
from chipmap.heuristics.dataflow.unfused.tables import along, own_tables, scopes
from chipmap.kernels import plainly

#: Sweeps of the descent at most.
SWEEPS = 20
#: Columns of a kernel's options.
_COLUMNS = ("compute", "memory", "network", "held")


class Relaxed(NamedTuple):
    """A lower bound on T4 (None: nothing fits), and options of all kernels that may be good."""

    bound: int | None
    chosen: list[int]


def relaxed(singles: SingleKernelCosts, order: Sequence[int], cells: int, deadline: Deadline) -> Relaxed:
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


@contextmanager
def by_plain_code() -> Iterator[None]:
    """Within it descents run as plain Python for their first second: of most graphs they take less than importing
    numba."""
    with plainly():
        yield


def descend(singles: SingleKernelCosts, chosen: Sequence[int], deadline: Deadline) -> tuple[int, list[int]] | None:
    """(T4, options) after better options of single kernels are taken as long as there are any, or T4 as it was if that
    is less; None where a kernel doesn't fit then.

    They are better as if each kernel paid for all that it exchanges. T4 is exact.
    """
    flat, at = _flat(singles), np.array(chosen, dtype=np.int64)
    taken = np.zeros((len(at), 3), np.int64)
    rules = np.array([singles.sram, singles.overlap, singles.launch], dtype=np.int64)
    totals(flat, at, taken)
    for _ in range(SWEEPS):
        deadline.check()
        if not sweep(flat, at, taken, rules):
            break
    ends = list[tuple[int, list[int]]]()
    for found in dict.fromkeys((tuple(at.tolist()), tuple(chosen))):
        each = singles.ticks(found, singles.problem.places)
        if each is not None:
            ends.append((sum(each), list(found)))
    return min(ends, default=None)


def _flat(singles: SingleKernelCosts) -> Flat:
    """The kernels as compiled code reads them. What a reader takes of a tensor depends on its maker's option alone."""
    all_of = singles.singles
    reads = [(read, v) for v, one in enumerate(all_of) for read in one.reads]
    first = _ends(singles.sizes[: singles.kernels])
    dram, buffer = np.zeros(first[-1], np.int64), np.zeros(first[-1], np.int64)
    for read, _ in reads:
        rows = slice(first[read.maker], first[read.maker + 1])
        dram[rows], buffer[rows] = read.dram, read.held
    maker = np.array([read.maker for read, _ in reads], np.int64)
    changes: dict[int, int] = {}  # of arrays that several tensors share
    parts, change, end = list[IntArray](), list[int](), 0
    for read, _ in reads:
        if id(read.converts) not in changes:
            changes[id(read.converts)] = end
            parts.append(read.converts.reshape(-1))
            end += read.converts.size
        change.append(changes[id(read.converts)])
    column = {name: np.concatenate([getattr(one, name) for one in all_of]) for name in _COLUMNS}
    return Flat(
        **{name: values.astype(np.int64) for name, values in column.items()},
        first=first,
        dram=dram,
        buffer=buffer,
        maker=maker,
        reader=np.array([v for _, v in reads], np.int64),
        change=np.array(change, np.int64),
        converts=np.concatenate([*parts, np.zeros(0, np.int64)]),
        enter=_ends([len(one.reads) for one in all_of]),
        leave=_ends(np.bincount(maker, minlength=len(all_of))),
        out=np.argsort(maker, kind="stable").astype(np.int64),
        runs=np.array([one.runs for one in all_of], np.int64),
    )


def _ends(sizes: Sequence[int] | IntArray) -> IntArray:
    """Where each of parts of these sizes begins, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _tables(singles: SingleKernelCosts) -> list[Sum]:
    capped: dict[int, tuple[IntArray, IntArray]] = {}  # of tables that several kernels share
    tables = list[Sum]()
    for scope, values in own_tables(singles):
        if id(values) not in capped:
            capped[id(values)] = values, np.minimum(values, NEVER)
        tables.append(Sum(scope, capped[id(values)][1]))
    _, large = scopes(singles)
    for v in sorted(large):
        tables += _linear(singles, v)
    return tables


def _linear(singles: SingleKernelCosts, v: int) -> list[Sum]:
    """Tables of pairs whose sum is at most the time of kernel v: the one resource that takes longest at least, for
    each of its options."""
    one, sizes = singles.singles[v], singles.sizes
    own = tuple(w for w in (v,) if sizes[w] > 1)
    alone = one.compute + one.memory + one.network
    if singles.overlap:
        memory, network = (
            base + sum(_least(values, part.scope, v) for part, values in zip(one.parts, some, strict=True))
            for base, some in (
                (one.memory, [part.memory for part in one.parts]),
                (one.network, [part.network for part in one.parts]),
            )
        )
        most = np.argmax([one.compute, memory, network], axis=0)
        alone = np.choose(most, [one.compute, one.memory, one.network])
    tables = [Sum(own, one.runs * along(singles.launch + alone, (v,), own))]
    for part in one.parts:
        scope = tuple(sorted(w for w in {*part.scope, v} if sizes[w] > 1))
        taken = part.memory + part.network
        if singles.overlap:
            where = [-1 if w == v else 1 for w in part.scope]
            which = most.reshape(where)
            taken = np.where(which == 1, part.memory, np.where(which == 2, part.network, 0))
        tables.append(Sum(scope, one.runs * along(taken, part.scope, scope)))
    return tables


def _least(values: IntArray, scope: Sequence[int], v: int) -> IntArray:
    """The least of an array over a ``scope`` for each option of v."""
    found: IntArray = values.min(axis=tuple(k for k, w in enumerate(scope) if w != v))
    return found


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
    if len(tables) == 1:
        return tables[0]
    scope = tuple(sorted({w for table in tables for w in table.scope}))
    total = np.zeros([sizes[w] for w in scope], np.int64)
    for table in tables:
        shape = [sizes[w] if w in table.scope else 1 for w in scope]
        total = np.minimum(total + table.values.reshape(shape), NEVER)
    return Sum(scope, total)
