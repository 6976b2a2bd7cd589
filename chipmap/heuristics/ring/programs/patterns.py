"""What C3 needs of the past, as rows of words, and the table in which equal states are one (numba).

The exact program and the station search build a mapping chip by chip. An operation of an ideal is *open* while it has
readers outside. A *pattern* holds the groups of open operations that share a chip, and which groups reach which in the
quotient graph (:mod:`chipmap.heuristics.ring.programs.triangle`). It takes 1 + G · (w + 1) words: the number of groups
G, then per group its bit set (w words), then per group the groups that it reaches (one word, so G <= 64). The row of a
state is what names its ideal, followed by its pattern.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from chipmap.heuristics.ring.programs.kernel import ONE, ZERO
from chipmap.kernels import njit

#: What a function returns where it can't go on: no room for another row; more groups than a word has bits.
FULL, TOO_MANY_GROUPS = -1, -2
MAX_GROUPS = 64


class Rows(NamedTuple):
    """The states found so far: row s is ``pool[at[s]:at[s + 1]]``, ``sizes`` = (rows, words in use).

    ``table`` [slots] has the number of a row at or after the slot of its hash; -1 marks a free slot.
    """

    table: Any
    at: Any
    pool: Any
    sizes: Any


@njit(part=True)
def _hash(words: Any, length: int) -> Any:
    h = np.uint64(1469598103934665603)
    for x in range(length):
        h = (h ^ words[x]) * np.uint64(1099511628211)
        h ^= h >> np.uint64(29)
    return h


@njit(part=True)
def find(row: Any, length: int, rows: Rows) -> int:
    """The number of the state in ``row[:length]``: found (below ``sizes[0]`` before the call), made, or FULL."""
    table, at, pool, sizes = rows
    slot = _hash(row, length) % np.uint64(len(table))
    while table[slot] >= 0:
        s = table[slot]
        if at[s + 1] - at[s] == length:
            same = True
            for x in range(length):
                if pool[at[s] + x] != row[x]:
                    same = False
                    break
            if same:
                return s
        slot = (slot + ONE) % np.uint64(len(table))
    s = sizes[0]
    if s + 2 >= len(at) or sizes[1] + length > len(pool) or 2 * s >= len(table):
        return FULL
    table[slot] = s
    at[s] = sizes[1]
    for x in range(length):
        pool[sizes[1] + x] = row[x]
    sizes[0] += 1
    sizes[1] += length
    at[s + 1] = sizes[1]
    return s


@njit(cache=True)
def _enter(rows: Rows) -> None:
    """Enter all rows into an empty table."""
    table, at, pool, sizes = rows
    for s in range(sizes[0]):
        slot = _hash(pool[at[s] : at[s + 1]], at[s + 1] - at[s]) % np.uint64(len(table))
        while table[slot] >= 0:
            slot = (slot + ONE) % np.uint64(len(table))
        table[slot] = s


def empty(room: int, words: int) -> Rows:
    """Room for so many rows and words."""
    table, at = np.full(4 * room, -1, dtype=np.int64), np.zeros(room + 2, dtype=np.int64)
    return Rows(table, at, np.zeros(words, dtype=np.uint64), np.zeros(2, dtype=np.int64))


def longer(rows: Rows, more_rows: bool = True, more_words: bool = True) -> Rows:
    """The same rows with twice the room for rows, for words, or for both."""
    table, at, pool, sizes = rows
    if more_words:
        pool = np.concatenate((pool, np.zeros_like(pool)))
    if more_rows:
        table, at = np.full(2 * len(table), -1, dtype=np.int64), np.concatenate((at, np.zeros_like(at[2:])))
        _enter(Rows(table, at, pool, sizes))
    return Rows(table, at, pool, sizes)


def keep(rows: Rows, states: Any) -> None:
    """Forget all rows but ``states`` (numbers, ascending); they are renumbered from 0."""
    table, at, pool, sizes = rows
    kept = [pool[at[s] : at[s + 1]] for s in states.tolist()]
    ends = np.cumsum([0, *map(len, kept)])
    pool[: ends[-1]] = np.concatenate(kept)
    at[: len(ends)] = ends
    sizes[:] = len(kept), ends[-1]
    table[:] = -1
    _enter(rows)


@njit(part=True)
def find_readers(pattern: Any, readers: Any, out: Any) -> None:
    """Into ``out`` [G, w]: the readers of each group's operations."""
    width = readers.shape[1]
    for g in range(int(np.int64(pattern[0]))):
        out[g] = 0
        for w in range(width):
            word = pattern[1 + g * width + w]
            u = w * 64
            while word != 0:
                if word & ONE:
                    for x in range(width):
                        out[g, x] |= readers[u, x]
                word >>= ONE
                u += 1


@njit(part=True)
def _senders(groups: int, group_readers: Any, inside: Any, target: Any) -> Any:
    """The groups with a reader in the block target \\ inside, as bits."""
    sending = ZERO
    for g in range(groups):
        for w in range(len(inside)):
            if group_readers[g, w] & target[w] & ~inside[w] != 0:
                sending |= ONE << np.uint64(g)
                break
    return sending


@njit(part=True)
def extend(pattern: Any, group_readers: Any, inside: Any, target: Any, still_open: Any, out: Any) -> int:
    """The pattern after the block target \\ inside, into ``out``: its length, 0 if C3 breaks, or TOO_MANY_GROUPS.

    ``group_readers`` are those of :func:`find_readers`, ``still_open`` the operations of ``target`` that stay open.
    """
    width = len(inside)
    groups = int(np.int64(pattern[0]))
    sending = _senders(groups, group_readers, inside, target)
    # C3 breaks if one of them reaches another
    reach_at = 1 + groups * width
    for g in range(groups):
        if (sending >> np.uint64(g)) & ONE and pattern[reach_at + g] & sending != 0:
            return 0
    # kept: the groups with an operation that stays open; their bit sets go into out
    kept = ZERO
    count = 0
    for g in range(groups):
        alive = False
        for w in range(width):
            word = pattern[1 + g * width + w] & still_open[w]
            out[1 + count * width + w] = word
            alive = alive or word != 0
        if alive:
            kept |= ONE << np.uint64(g)
            count += 1
    # the block itself is the last group, if some of it stays open
    fresh = False
    for w in range(width):
        word = target[w] & ~inside[w] & still_open[w]
        out[1 + count * width + w] = word
        fresh = fresh or word != 0
    total = count + 1 if fresh else count
    if total > MAX_GROUPS:
        return TOO_MANY_GROUPS
    out[0] = total
    # who reaches whom among the kept groups; senders, and those that reach a sender, now reach the block
    position = 1 + total * width
    for g in range(groups):
        if (kept >> np.uint64(g)) & ONE == 0:
            continue
        row = ZERO
        bit = 0
        for h in range(groups):
            if (kept >> np.uint64(h)) & ONE:
                if (pattern[reach_at + g] >> np.uint64(h)) & ONE:
                    row |= ONE << np.uint64(bit)
                bit += 1
        if fresh and ((sending >> np.uint64(g)) & ONE or pattern[reach_at + g] & sending != 0):
            row |= ONE << np.uint64(count)
        out[position] = row
        position += 1
    if fresh:
        out[position] = ZERO
        position += 1
    return position
