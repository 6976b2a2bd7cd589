"""The tables of which T4 is the sum where every kernel is a partition, and the columns of their labels.

A kernel's time is a table over its own options and those of what it reads, or of whatever else it depends on. Where
that table would be too large (a kernel that reads hundreds of experts), each tensor that it reads has a table of its
own instead, with its share of memory, network and SRAM in columns, and the kernel is settled when it is eliminated:
then all of them are added up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.deadline import look
from chipmap.heuristics.dataflow.program.lattice import TooWideError
from chipmap.heuristics.dataflow.unfused.costs import Single, SingleKernelCosts
from chipmap.heuristics.dataflow.unfused.elimination import Table
from chipmap.heuristics.dataflow.unfused.kernel import Cells, IntArray, Settle

#: Cells of a kernel's own table, and kernels with columns of their own at a time.
OWN_CELLS, OPEN = 1 << 14, 4
#: More picoseconds than fit: an option that takes too much SRAM.
NEVER = 2**62


class Stated(NamedTuple):
    """Tables, the kernels that are settled, and how many columns labels have."""

    tables: list[Table]
    settles: dict[int, Settle]
    columns: int


def scopes(singles: SingleKernelCosts) -> tuple[list[tuple[int, ...]], set[int]]:
    """For each kernel the variables with a choice that its time depends on, itself among them; and the kernels for
    which these are too many, which are part of their scopes whether they have a choice or not."""
    found, large = [], set[int]()
    for v, one in enumerate(singles.singles):
        near = {v}.union(*(part.scope for part in one.parts))
        scope = tuple(sorted(w for w in near if singles.sizes[w] > 1))
        if prod(singles.sizes[w] for w in scope) > OWN_CELLS:
            large.add(v)
            scope = tuple(sorted({*scope, v}))
        found.append(scope)
    return found, large


def edges_of(singles: SingleKernelCosts, found: Sequence[tuple[int, ...]], large: set[int]) -> list[tuple[int, ...]]:
    """The scopes of all tables, those of ``large`` kernels part by part."""
    several = [_by_part(singles, v) if v in large else [scope] for v, scope in enumerate(found)]
    rules = [_with_choice(singles, rule.scope) for rule in singles.rules]
    return [scope for some in (*several, rules) for scope in some if scope]


def _by_part(singles: SingleKernelCosts, v: int) -> list[tuple[int, ...]]:
    return [(v,), *(_with_choice(singles, part.scope, v) for part in singles.singles[v].parts)]


def _with_choice(singles: SingleKernelCosts, scope: Sequence[int], v: int = -1) -> tuple[int, ...]:
    """The variables of a scope, ascending, without those that have one value; with v."""
    more = (v,) if v >= 0 else ()
    return tuple(sorted({*more, *(w for w in scope if singles.sizes[w] > 1)}))


def stated(
    singles: SingleKernelCosts, order: Sequence[int], extras: Sequence[Table], sums: int, weight: int = 1
) -> Stated:
    """The tables for an elimination in this ``order``, with T4 times ``weight`` in the first column.

    ``extras`` are tables of the first ``sums`` columns, which are added up over all kernels.
    """
    found, large = scopes(singles)
    places = _places(singles, order, large, sums)
    columns = max([sums, *(place + 3 for place in places.values())])
    tables, settles = list[Table](), dict[int, Settle]()
    for v, scope in enumerate(found):
        look()
        if v in large:
            own, settle = _by_tensor(singles, v, columns, places[v], weight)
            tables += own
            settles[v] = settle
        else:
            tables.append(_table(singles, v, scope, columns, weight))
    for rule in singles.rules:
        scope, allowed = over(singles, rule.scope, rule.allowed)
        first = np.concatenate([[0], np.cumsum(allowed.reshape(-1))]).astype(np.int64)
        tables.append(Table(scope, Cells(first, np.zeros((int(first[-1]), columns), np.int64))))
    for table in extras:
        rows = np.zeros((len(table.cells.rows), columns), np.int64)
        rows[:, :sums] = table.cells.rows
        tables.append(Table(table.scope, Cells(table.cells.first, rows)))
    return Stated(tables, settles, columns)


def own_tables(singles: SingleKernelCosts) -> Iterator[tuple[tuple[int, ...], IntArray]]:
    """The scope and the picoseconds of each kernel that isn't large, and those of rules; :data:`NEVER` for what doesn't
    fit or go together."""
    found, large = scopes(singles)
    for v, scope in enumerate(found):
        look()
        if v not in large:
            yield scope, times(singles, v, scope)
    for rule in singles.rules:
        scope, allowed = over(singles, rule.scope, rule.allowed)
        yield scope, np.where(allowed, 0, NEVER)


def over(singles: SingleKernelCosts, scope: tuple[int, ...], values: NDArray[Any]) -> tuple[tuple[int, ...], Any]:
    """A scope, ascending, without variables of one value, and the ``values`` over it."""
    within = _with_choice(singles, scope)
    return within, along(values, scope, within)


def extra(singles: SingleKernelCosts, scope: tuple[int, ...], values: IntArray) -> Table:
    """A table of columns, the last dimension of ``values``, over the options of a ``scope``."""
    within = _with_choice(singles, scope)
    columns = [along(values[..., k], scope, within).reshape(-1) for k in range(values.shape[-1])]
    return one_each(within, np.stack(columns, axis=1))


def one_each(scope: tuple[int, ...], rows: IntArray) -> Table:
    """A table of one label per cell, but for those whose first column says never."""
    fits = rows[:, 0] < NEVER
    first = np.concatenate([[0], np.cumsum(fits)]).astype(np.int64)
    return Table(scope, Cells(first, np.ascontiguousarray(rows[fits])))


def times(singles: SingleKernelCosts, v: int, scope: tuple[int, ...]) -> IntArray:
    """Picoseconds of kernel v per micro-batch over its ``scope``, :data:`NEVER` where it doesn't fit."""
    one, at = singles.singles[v], {w: k for k, w in enumerate(scope)}
    parts = ((*map(id, part[1:]), *(at.get(w, -1) for w in part.scope)) for part in one.parts)
    key = one.runs, len(scope), at.get(v, -1), *map(id, one[:4]), *parts
    if key not in singles.known:
        singles.known[key] = _times(singles, v, scope)
    return singles.known[key]


def _times(singles: SingleKernelCosts, v: int, scope: tuple[int, ...]) -> IntArray:
    one = singles.singles[v]
    compute, memory, network, held = (along(a, (v,), scope) for a in one[:4])
    for part in one.parts:
        memory = memory + along(part.memory, part.scope, scope)
        network = network + along(part.network, part.scope, scope)
        held = held + along(part.held, part.scope, scope)
    longest = np.maximum(np.maximum(compute, memory), network) if singles.overlap else compute + memory + network
    whole = np.where(held > singles.sram, NEVER, one.runs * (singles.launch + longest))
    return np.broadcast_to(whole, [singles.sizes[w] for w in scope])


def _table(singles: SingleKernelCosts, v: int, scope: tuple[int, ...], columns: int, weight: int) -> Table:
    ticks = times(singles, v, scope).reshape(-1)
    rows = np.zeros((len(ticks), columns), np.int64)
    rows[:, 0] = np.where(ticks >= NEVER, NEVER, ticks * weight)
    return one_each(scope, rows)


def along(values: NDArray[Any], kernels: tuple[int, ...], scope: tuple[int, ...]) -> NDArray[Any]:
    """``values`` [options of each of ``kernels``] as an array over the scope; kernels without a choice drop out."""
    with_choice = [w for w in kernels if w in scope]
    index = tuple(slice(None) if w in scope else 0 for w in kernels)
    chosen = values[index]
    order = sorted(range(len(with_choice)), key=lambda k: scope.index(with_choice[k]))
    shape = [1] * len(scope)
    for k in order:
        shape[scope.index(with_choice[k])] = chosen.shape[k]
    return np.transpose(chosen, order).reshape(shape) if order else np.asarray(chosen).reshape(shape)


def _by_tensor(singles: SingleKernelCosts, v: int, columns: int, place: int, weight: int) -> tuple[list[Table], Settle]:
    """A large kernel's tables, one for each of its parts and one of its own."""
    one = singles.singles[v]
    own = np.zeros((singles.sizes[v], columns), np.int64)
    own[:, 0] = one.runs * weight * singles.launch
    own[:, place], own[:, place + 1], own[:, place + 2] = one.memory, one.network, one.held
    tables = [one_each((v,), own)]
    for part in one.parts:
        scope = _with_choice(singles, part.scope, v)
        sizes = [singles.sizes[w] for w in scope]
        rows = np.zeros((prod(sizes), columns), np.int64)
        for k, values in enumerate(part[1:]):
            rows[:, place + k] = np.broadcast_to(along(values, part.scope, scope), sizes).reshape(-1)
        tables.append(one_each(scope, rows))
    return _settled(singles, one, tables, place, one.runs * weight)


def _settled(
    singles: SingleKernelCosts, one: Single, tables: list[Table], place: int, runs: int
) -> tuple[list[Table], Settle]:
    """How the kernel is settled; columns that never decide are cleared."""
    if not singles.overlap:  # all is one sum
        for table in tables:
            rows = table.cells.rows
            rows[:, 0] += runs * (rows[:, place] + rows[:, place + 1])
            rows[:, place : place + 2] = 0
    most = sum(int(table.cells.rows[:, place + 2].max()) for table in tables)
    if most <= singles.sram:
        for table in tables:
            table.cells.rows[:, place + 2] = 0
    memory, network = (place, place + 1) if singles.overlap else (-1, -1)
    held = place + 2 if most > singles.sram else -1
    return tables, Settle(runs, memory, network, held, singles.sram, one.compute)


def _places(singles: SingleKernelCosts, order: Sequence[int], large: set[int], first: int) -> dict[int, int]:
    """The first of three columns of each large kernel; kernels that are open at different times share them.

    One is open from the elimination of the first variable of its parts to its own.
    """
    at = {v: i for i, v in enumerate(order)}
    spans = []
    for v in large:
        end = at.get(v, len(order))
        begin = min([end, *(at[w] for part in singles.singles[v].parts for w in part.scope if w in at)])
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
