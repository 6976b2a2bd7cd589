"""Minimising a sum of tables whose cells hold one number each: bucket elimination as in :mod:`.elimination`, where
nothing but the cost counts. All tables with a variable are added up and minimised in one compiled loop."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.dataflow.unfused.kernel import IntArray, minimum

#: Of a cell that doesn't exist: more than any sum below :data:`MOST`, and few enough that 16 of them fit 64 bits.
NEVER = 2**58
#: Sums stay below this.
MOST = 2**57
#: Cells of the sum of all tables with a variable, at most. It is never laid out as a whole.
CELLS = 1 << 24
#: Tables that are added up at once.
TABLES = 12


class Sum(NamedTuple):
    """A table of costs over a scope of variables, ascending."""

    scope: tuple[int, ...]
    values: IntArray


def least(
    tables: Sequence[Sum], sizes: Sequence[int], order: Sequence[int], deadline: Deadline
) -> tuple[int, dict[int, int]] | None:
    """The least sum of ``tables`` and the values of all variables that give it; None where every sum has a cell that
    doesn't exist. Variables are eliminated in this ``order``."""
    place = {v: i for i, v in enumerate(order)}
    buckets: list[list[Sum]] = [[] for _ in order]
    constant = 0
    best = list[Sum]()

    def put(table: Sum) -> None:
        nonlocal constant
        if table.scope:
            buckets[min(place[v] for v in table.scope)].append(table)
        else:
            constant += int(table.values)

    for table in tables:
        put(table)
    for i, v in enumerate(order):
        deadline.check()
        some = sorted(buckets[i], key=lambda table: table.values.size)
        while len(some) > TABLES:
            some = [_added(some[:TABLES], sizes), *some[TABLES:]]
        scope = tuple(sorted({w for table in some for w in table.scope} - {v}))
        total, which = _minimum(some, (*scope, v), sizes)
        put(Sum(scope, total))
        best.append(Sum(scope, which))
    if constant >= MOST:
        return None
    chosen = dict[int, int]()
    for v, table in zip(reversed(order), reversed(best), strict=True):
        chosen[v] = int(table.values[tuple(chosen[w] for w in table.scope)])
    return constant, chosen


def _minimum(tables: Sequence[Sum], scope: tuple[int, ...], sizes: Sequence[int]) -> tuple[IntArray, IntArray]:
    """The sum of tables at the best value of the last variable of their ``scope``, and that value."""
    digits = np.array([sizes[w] for w in scope], dtype=np.int64)
    strides = np.zeros((len(tables), len(scope)), np.int64)
    for k, table in enumerate(tables):
        step = {w: prod(table.values.shape[j + 1 :]) for j, w in enumerate(table.scope)}
        strides[k] = [step.get(w, 0) for w in scope]
    first = np.cumsum([0, *(table.values.size for table in tables[:-1])], dtype=np.int64)
    flat = np.concatenate([table.values.reshape(-1) for table in tables])
    cells = int(np.prod(digits[:-1]))
    total, which = np.empty(cells, np.int64), np.empty(cells, np.int64)
    minimum(flat, first, strides, digits, NEVER, total, which)
    shape = [sizes[w] for w in scope[:-1]]
    return total.reshape(shape), which.reshape(shape)


def _added(tables: Sequence[Sum], sizes: Sequence[int]) -> Sum:
    scope = tuple(sorted({w for table in tables for w in table.scope}))
    total = np.zeros([sizes[w] for w in scope], np.int64)
    for table in tables:
        total += table.values.reshape([sizes[w] if w in table.scope else 1 for w in scope])
    return Sum(scope, np.minimum(total, NEVER))
