"""The compiled part of the exact program under C3 (numba). A state's row is its ideal's number, then its pattern."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from chipmap.heuristics.ring.programs.kernel import INFINITE, ONE
from chipmap.heuristics.ring.programs.patterns import FULL, MAX_GROUPS, Rows, extend, find, find_readers
from chipmap.kernels import njit


class States(NamedTuple):
    """The states found so far, as ``rows``; ``head`` [ideals] and ``following`` [states] chain those of an ideal.

    ``value`` [states, blocks + 1] is the least maximum of block costs by the number of blocks, ``parent`` the state
    before.
    """

    rows: Rows
    head: Any
    following: Any
    value: Any
    parent: Any


class Ideals(NamedTuple):
    """Per ideal [m]: its bit set ``words`` and its open operations ``still_open`` [m, w], and the fewest blocks from it
    to the set of all operations, ``after``. ``readers`` [n, w] are those of the operations.
    """

    words: Any
    still_open: Any
    after: Any
    readers: Any


@njit(cache=True)
def fewest_after(start: int, count: Any, target: Any, after: Any) -> None:
    """Fewest blocks from each ideal start, start + 1, … to V over its pairs; later ideals are known (backwards)."""
    p = len(target)
    for i in range(len(count) - 1, -1, -1):
        least = after[start + i]
        for q in range(p - count[i], p):
            least = min(least, after[target[q]] + 1)
        after[start + i] = least
        p -= count[i]


@njit(cache=True)
def relax(i: int, target: Any, cost: Any, chips: Any, ideals: Ideals, states: States) -> int:
    """Extend all states of ideal i by all its pairs. Returns the extensions tried, FULL or TOO_MANY_GROUPS.

    A pair has a ``target`` ideal, a ``cost`` and a set of ``chips`` allowed. Running it again after FULL, with more
    room, changes nothing that was done.
    """
    words, still_open, after, readers = ideals
    rows, head, following, value, parent = states
    at, pool, sizes = rows.at, rows.pool, rows.sizes
    width = words.shape[1]
    blocks = value.shape[1] - 1
    group_readers = np.empty((MAX_GROUPS, width), dtype=np.uint64)
    row = np.empty(3 + (MAX_GROUPS + 1) * (width + 1), dtype=np.uint64)
    new = row[1:]
    tried = 0
    s = head[i]
    while s >= 0:
        pattern = pool[at[s] + 1 : at[s + 1]]
        find_readers(pattern, readers, group_readers)
        # first: the fewest blocks of a chain to this state
        first = 0
        while first < blocks and value[s, first] >= INFINITE:
            first += 1
        for p in range(len(target)):
            j = target[p]
            last = blocks - after[j]  # chains of fewer blocks than that can still end in time
            if first + 1 > last:
                continue
            tried += 1
            length = extend(pattern, group_readers, words[i], words[j], still_open[j], new)
            if length == 0:
                continue
            if length < 0:
                return length
            before = sizes[0]
            row[0] = j
            t = find(row, length + 1, rows)
            if t < 0:
                return FULL
            if sizes[0] > before:
                following[t], head[j] = head[j], t
            for k in range(first, last):
                v = max(value[s, k], cost[p])
                if v < value[t, k + 1] and (chips[p] >> np.uint64(k & 63)) & ONE != 0:
                    value[t, k + 1] = v
                    parent[t, k + 1] = s
        s = following[s]
    return tried
