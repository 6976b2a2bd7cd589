"""The tables of which T4 is the sum where every kernel is a partition, and the columns of their labels.

A kernel's time is a table over its own options and those of what it reads. Where that table would be too large (a
kernel that reads hundreds of experts), each tensor that it reads has a table of its own instead, with its share of
memory, network and SRAM in columns, and the kernel is settled when it is eliminated: then all of them are added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from chipmap.deadline import look
from chipmap.heuristics.dataflow.program.lattice import TooWideError
from chipmap.heuristics.dataflow.unfused.costs import Single, SingleKernelCosts
from chipmap.heuristics.dataflow.unfused.elimination import Table
from chipmap.heuristics.dataflow.unfused.kernel import Cells, IntArray, Settle

#: Cells of a kernel's own table, and kernels with columns of their own at a time.
OWN_CELLS, OPEN = 4096, 4
#: More picoseconds than fit: an option that takes too much SRAM.
NEVER = 2**62


class Stated(NamedTuple):
    """Tables, the kernels that are settled, and how many columns labels have."""

    tables: list[Table]
    settles: dict[int, Settle]
    columns: int


def scopes(singles: SingleKernelCosts) -> tuple[list[tuple[int, ...]], set[int]]:
    """For each kernel the kernels with a choice that its time depends on, itself and what it reads; and the kernels for
    which these are too many, which are part of their scopes whether they have a choice or not."""
    found, large = [], set[int]()
    for v, one in enumerate(singles.singles):
        near = {v, *(read.maker for read in one.reads)}
        scope = tuple(sorted(w for w in near if singles.sizes[w] > 1))
        if prod(singles.sizes[w] for w in scope) > OWN_CELLS:
            large.add(v)
            scope = tuple(sorted({*scope, v}))
        found.append(scope)
    return found, large


def edges_of(found: Sequence[tuple[int, ...]], large: set[int]) -> list[tuple[int, ...]]:
    """The scopes of all tables, those of ``large`` kernels tensor by tensor."""
    return [one for v, scope in enumerate(found) for one in (_pairs(v, scope) if v in large else [scope]) if one]


def _pairs(v: int, scope: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [tuple(sorted((w, v))) for w in scope if w != v] or [scope]


def stated(singles: SingleKernelCosts, order: Sequence[int], extras: Sequence[IntArray], sums: int) -> Stated:
    """The tables for an elimination in this ``order``.

    ``extras`` [kernel][options, sums] are columns that are added up over all kernels, behind the first one.
    """
    found, large = scopes(singles)
    places = _places(singles, order, large, 1 + sums)
    columns = max([1 + sums, *(place + 3 for place in places.values())])
    tables, settles = list[Table](), dict[int, Settle]()
    for v, scope in enumerate(found):
        look()
        if v in large:
            own, settle = _by_tensor(singles, v, columns, places[v])
            tables += own
            settles[v] = settle
        else:
            tables.append(_table(singles, v, scope, columns))
        if sums and extras[v].any():
            rows = np.zeros((len(extras[v]), columns), np.int64)
            rows[:, 1 : 1 + sums] = extras[v]
            tables.append(one_each((v,) if singles.sizes[v] > 1 or v in large else (), rows))
    return Stated(tables, settles, columns)


def one_each(scope: tuple[int, ...], rows: IntArray) -> Table:
    """A table of one label per cell, but for those whose first column says never."""
    fits = rows[:, 0] < NEVER
    first = np.concatenate([[0], np.cumsum(fits)]).astype(np.int64)
    return Table(scope, Cells(first, np.ascontiguousarray(rows[fits])))


def times(singles: SingleKernelCosts, v: int, scope: tuple[int, ...]) -> IntArray:
    """Picoseconds of kernel v per micro-batch over its ``scope``, :data:`NEVER` where it doesn't fit."""
    one = singles.singles[v]
    compute, memory, network, held = (along(a, (v,), scope) for a in one[:4])
    for read in one.reads:
        makers = (read.maker,)
        memory, held = memory + along(read.dram, makers, scope), held + along(read.held, makers, scope)
        network = network + along(read.converts, (read.maker, v), scope)
    longest = np.maximum(np.maximum(compute, memory), network) if singles.overlap else compute + memory + network
    whole = np.where(held > singles.sram, NEVER, one.runs * (singles.launch + longest))
    return np.broadcast_to(whole, [singles.sizes[w] for w in scope])


def _table(singles: SingleKernelCosts, v: int, scope: tuple[int, ...], columns: int) -> Table:
    ticks = times(singles, v, scope).reshape(-1)
    rows = np.zeros((len(ticks), columns), np.int64)
    rows[:, 0] = ticks
    return one_each(scope, rows)


def along(values: IntArray, kernels: tuple[int, ...], scope: tuple[int, ...]) -> IntArray:
    """``values`` [options of each of ``kernels``] as an array over the scope; kernels without a choice drop out."""
    with_choice = [w for w in kernels if w in scope]
    index = tuple(slice(None) if w in scope else 0 for w in kernels)
    chosen = values[index]
    order = sorted(range(len(with_choice)), key=lambda k: scope.index(with_choice[k]))
    shape = [1] * len(scope)
    for k in order:
        shape[scope.index(with_choice[k])] = chosen.shape[k]
    return np.transpose(chosen, order).reshape(shape) if order else np.asarray(chosen).reshape(shape)


def _by_tensor(singles: SingleKernelCosts, v: int, columns: int, place: int) -> tuple[list[Table], Settle]:
    """A large kernel's tables, one for each tensor that it reads and one of its own."""
    one = singles.singles[v]
    own = np.zeros((singles.sizes[v], columns), np.int64)
    own[:, 0] = one.runs * singles.launch
    own[:, place], own[:, place + 1], own[:, place + 2] = one.memory, one.network, one.held
    tables = [one_each((v,), own)]
    for read in one.reads:
        u, scope = read.maker, tuple(sorted(w for w in {read.maker, v} if singles.sizes[w] > 1 or w == v))
        parts = (along(read.dram, (u,), scope), along(read.converts, (u, v), scope), along(read.held, (u,), scope))
        sizes = [singles.sizes[w] for w in scope]
        rows = np.zeros((prod(sizes), columns), np.int64)
        for k, part in enumerate(parts):
            rows[:, place + k] = np.broadcast_to(part, sizes).reshape(-1)
        tables.append(one_each(scope, rows))
    return _settled(singles, one, tables, place)


def _settled(singles: SingleKernelCosts, one: Single, tables: list[Table], place: int) -> tuple[list[Table], Settle]:
    """How the kernel is settled; columns that never decide are cleared."""
    if not singles.overlap:  # all is one sum
        for table in tables:
            rows = table.cells.rows
            rows[:, 0] += one.runs * (rows[:, place] + rows[:, place + 1])
            rows[:, place : place + 2] = 0
    most = sum(int(table.cells.rows[:, place + 2].max()) for table in tables)
    if most <= singles.sram:
        for table in tables:
            table.cells.rows[:, place + 2] = 0
    memory, network = (place, place + 1) if singles.overlap else (-1, -1)
    held = place + 2 if most > singles.sram else -1
    return tables, Settle(one.runs, memory, network, held, singles.sram, one.compute)


def _places(singles: SingleKernelCosts, order: Sequence[int], large: set[int], first: int) -> dict[int, int]:
    """The first of three columns of each large kernel; kernels that are open at different times share them.

    One is open from the elimination of the first kernel that it reads to its own.
    """
    at = {v: i for i, v in enumerate(order)}
    spans = []
    for v in large:
        end = at.get(v, len(order))
        begin = min([end, *(at[read.maker] for read in singles.singles[v].reads if read.maker in at)])
        spans.append((begin, end, v))
    found, free_from = dict[int, int](), list[int]()
    for begin, end, v in sorted(spans):
        slot = next((k for k, until in enumerate(free_from) if until < begin), len(free_from))
        if slot == len(free_from):
            free_from.append(end)
        free_from[slot] = end
        found[v] = first + 3 * slot
    if len(free_from) > OPEN:
        raise TooWideError(f"{len(free_from)} kernels that read many others are open at once")
    return found
