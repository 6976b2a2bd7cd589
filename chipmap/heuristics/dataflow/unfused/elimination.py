"""Minimising a sum of tables, one kernel after the other (bucket elimination; Dechter, *Artificial Intelligence* 113,
1999), where a cell may hold several labels that none of the others beats."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.dataflow.program.lattice import TooWideError
from chipmap.heuristics.dataflow.unfused.kernel import (
    DONE,
    FULL,
    STUCK,
    Cells,
    IntArray,
    Output,
    Settle,
    add,
    minimise,
)

#: Cells of a table, labels of all tables, and comparisons of labels in one call of compiled code (some 0.1 s) and in
#: all.
CELLS, LABELS, CALL, WORK = 1 << 18, 4_000_000, 40_000_000, 3_000_000_000
#: Cells of a table from which on no order is looked for; from which on a second order is tried, of so few kernels.
MOST_CELLS, LARGE, FEW = 1 << 24, 1 << 12, 200
#: No kernel is settled.
NOTHING = Settle(0, -1, -1, -1, 0, np.zeros(1, np.int64))


class Table(NamedTuple):
    """A sum of costs over the kernels of ``scope``, ascending. ``back`` says what each label was made of: labels of
    ``parts``, two tables; or a label of one, and the option of ``kernel``."""

    scope: tuple[int, ...]
    cells: Cells
    parts: tuple[Table, ...] = ()
    back: IntArray | None = None
    kernel: int = -1


class Limits(NamedTuple):
    """``columns`` of labels; labels with more than ``room`` in column ``kept`` (-1: none) go."""

    columns: int
    room: int = 2**62
    kept: int = -1


class Elimination:
    """Kernels with these ``sizes`` (numbers of options), and when it must end."""

    def __init__(self, sizes: Sequence[int], limits: Limits, deadline: Deadline) -> None:
        self.sizes, self.limits, self.deadline = sizes, limits, deadline
        self.labels = self.work = 0

    def run(self, tables: Sequence[Table], order: Sequence[int], settles: Mapping[int, Settle]) -> Table:
        """The labels of the least sums of ``tables``, all kernels eliminated in this ``order``.

        Raises :class:`TooWideError` where tables or labels are too many.
        """
        place = {v: i for i, v in enumerate(order)}
        buckets: list[list[Table]] = [[] for _ in range(len(order) + 1)]

        def put(table: Table) -> None:
            buckets[min((place[v] for v in table.scope), default=len(order))].append(table)

        for table in tables:
            put(table)
        for i, v in enumerate(order):
            if buckets[i]:
                put(self.without(self.sum(buckets[i]), v, settles.get(v, NOTHING)))
        return self.sum(buckets[-1])

    def sum(self, tables: Sequence[Table]) -> Table:
        """The sum of some tables, the smaller ones first."""
        several = sorted(tables, key=lambda table: len(table.cells.rows))
        if not several:
            return Table((), Cells(np.array([0, 1]), np.zeros((1, self.limits.columns), np.int64)))
        total = several[0]
        for table in several[1:]:
            total = self.plus(total, table)
        return total

    def plus(self, a: Table, b: Table) -> Table:
        """The sum of two tables."""
        scope = tuple(sorted({*a.scope, *b.scope}))
        sizes = [self.sizes[v] for v in scope]
        strides = np.array([self._strides(a.scope, scope), self._strides(b.scope, scope)], dtype=np.int64)
        digits = np.array(sizes, dtype=np.int64)

        def fill(out: Output) -> int:
            room, kept = self.limits.room, self.limits.kept
            return int(add(a.cells, b.cells, digits, strides.reshape(2, -1), room, kept, out))

        return Table(scope, *self._filled(prod(sizes), fill, (a, b)))

    def without(self, a: Table, v: int, settle: Settle) -> Table:
        """The table without kernel v, at its best option for each choice of the others."""
        at = a.scope.index(v)
        sizes = [self.sizes[w] for w in a.scope]
        before, after = prod(sizes[:at]), prod(sizes[at + 1 :])

        def fill(out: Output) -> int:
            return int(minimise(a.cells, before, sizes[at], after, settle, out))

        scope = a.scope[:at] + a.scope[at + 1 :]
        return Table(scope, *self._filled(before * after, fill, (a,)), kernel=v)

    def _filled(
        self, cells: int, fill: Callable[[Output], int], parts: tuple[Table, ...]
    ) -> tuple[Cells, tuple[Table, ...], IntArray]:
        self.deadline.check()
        if cells > CELLS:
            raise TooWideError(f"the schemes of kernels that hang together make {cells:,} choices")
        some = cells if self.limits.columns == 1 else 2 * cells + 16
        out = Output(
            np.zeros(cells + 1, np.int64),
            np.zeros((some, self.limits.columns), np.int64),
            np.zeros((some, 2), np.int64),
            np.array([0, 0, 0, CALL], np.int64),
        )
        while (said := fill(out)) != DONE:
            self.work += int(out.state[2])
            out.state[2] = 0
            self.deadline.check()
            if said == FULL:
                rows, back = (np.vstack([a, np.zeros_like(a)]) for a in (out.rows, out.back))
                out = out._replace(rows=rows, back=back)
            if said == STUCK or self.work > WORK or len(out.rows) > LABELS:
                raise TooWideError("too many sums of resources are open at once")
        self.work += int(out.state[2])
        made = int(out.state[1])
        self.labels += made
        if self.labels > LABELS:
            raise TooWideError("too many sums of resources are open at once")
        return Cells(out.first, out.rows[:made]), parts, out.back[:made]

    def _strides(self, scope: tuple[int, ...], wider: tuple[int, ...]) -> list[int]:
        """How far a step of each kernel of the ``wider`` scope moves in a table of ``scope``."""
        step, found = 1, {}
        for v in reversed(scope):
            found[v], step = step, step * self.sizes[v]
        return [found.get(v, 0) for v in wider]


def choices_of(table: Table, label: int) -> dict[int, int]:
    """The options of the kernels that were eliminated on the way to this label."""
    found, todo = dict[int, int](), [(table, label)]
    while todo:
        at, i = todo.pop()
        if at.back is None:
            continue
        first, second = at.back[i].tolist()
        todo.append((at.parts[0], first))
        if at.kernel >= 0:
            found[at.kernel] = second
        else:
            todo.append((at.parts[1], second))
    return found


def elimination_order(sizes: Sequence[int], scopes: Sequence[Sequence[int]]) -> tuple[list[int], int]:
    """An order in which kernels are eliminated, and the most cells of a table. Kernels that are in no scope have no
    place in it.

    It always takes the kernel whose table is smallest then; or, where that makes a large one, the kernel whose
    elimination brings together least, if this is better. Where a table has more than :data:`MOST_CELLS`, what is left
    follows in the order of its tables as they are then. Plans whose tables lie alike have the same order.
    """
    order, widest = _elimination_order(tuple(sizes), tuple(map(tuple, scopes)))
    return list(order), widest


@lru_cache(maxsize=32)
def _elimination_order(sizes: tuple[int, ...], scopes: tuple[tuple[int, ...], ...]) -> tuple[list[int], int]:
    near: dict[int, set[int]] = {v: set() for scope in scopes for v in scope}
    for scope in scopes:
        for v in scope:
            near[v].update(scope)
    for v, others in near.items():
        others.discard(v)
    order, widest = _smallest_first(sizes, {v: set(others) for v, others in near.items()})
    if widest > LARGE and len(near) <= FEW:
        other, wide = _least_fill(sizes, near)
        if wide < widest:
            return other, wide
    return order, widest


def _smallest_first(sizes: Sequence[int], near: dict[int, set[int]]) -> tuple[list[int], int]:
    def cells(v: int) -> int:
        return sizes[v] * prod(sizes[w] for w in near[v])

    order, widest, weight = list[int](), 1, {v: cells(v) for v in near}
    heap = [(weight[v], v) for v in near]
    heapq.heapify(heap)
    while heap:
        cost, v = heapq.heappop(heap)
        if v not in near or cost != weight[v]:
            continue
        widest = max(widest, cost)
        if cost > MOST_CELLS:
            return [*order, *sorted(near, key=lambda w: (weight[w], w))], widest
        order.append(v)
        around = _joined(near, v)
        for w in around:
            weight[w] = cells(w)
            heapq.heappush(heap, (weight[w], w))
    return order, widest


def _least_fill(sizes: Sequence[int], near: dict[int, set[int]]) -> tuple[list[int], int]:
    """As :func:`elimination_order`: the kernel next of whose neighbours least have to be brought together."""

    def fill(v: int) -> int:
        some = list(near[v])
        return sum(sizes[a] * sum(sizes[b] for b in some[:i] if b not in near[a]) for i, a in enumerate(some))

    order, widest, weight = list[int](), 1, {v: fill(v) for v in near}
    while near:
        v = min(near, key=lambda v: (weight[v], v))
        widest = max(widest, sizes[v] * prod(sizes[w] for w in near[v]))
        order.append(v)
        around = _joined(near, v)
        for w in around.union(*(near[w] for w in around)):
            weight[w] = fill(w)
    return order, widest


def _joined(near: dict[int, set[int]], v: int) -> set[int]:
    """Take v out of the graph, with its neighbours joined, and return these."""
    around = near.pop(v)
    for w in around:
        near[w] |= around
        near[w] -= {v, w}
    return around
