"""The compiled part of the exact program under C3: states in flat arrays, found again by hashing (numba).

A pattern is G groups of open operations and the reachability among them
(:mod:`chipmap.heuristics.ring.programs.triangle`), stored as 1 + G · (w + 1) words: G, then per group its bit set (w
words), then per group the groups it reaches (one word, so G <= 64).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from chipmap.heuristics.ring.programs.kernel import INFINITE, ONE

#: What :func:`relax` returns besides success.
FULL = -1
TOO_MANY_GROUPS = -2
MAX_GROUPS = 64
ZERO = np.uint64(0)


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
def _hash(ideal: int, words: Any, length: int) -> Any:
    h = np.uint64(1469598103934665603) ^ np.uint64(ideal)
    for x in range(length):
        h = (h ^ words[x]) * np.uint64(1099511628211)
        h ^= h >> np.uint64(29)
    return h


@njit(cache=True)
def _find(
    ideal: int, words: Any, length: int, table: Any, state_ideal: Any, state_at: Any, pool: Any, sizes: Any
) -> int:
    """The number of the state (made if it is new), or FULL. ``sizes`` = (states, pool words used)."""
    slot = _hash(ideal, words, length) % np.uint64(len(table))
    while table[slot] >= 0:
        s = table[slot]
        if state_ideal[s] == ideal and pool[state_at[s]] == words[0]:
            same = True
            for x in range(length):
                if pool[state_at[s] + x] != words[x]:
                    same = False
                    break
            if same:
                return s
        slot = (slot + ONE) % np.uint64(len(table))
    s = sizes[0]
    if s >= len(state_ideal) or sizes[1] + length > len(pool) or 2 * s >= len(table):
        return FULL
    table[slot] = s
    state_ideal[s], state_at[s] = ideal, sizes[1]
    for x in range(length):
        pool[sizes[1] + x] = words[x]
    sizes[0] += 1
    sizes[1] += length
    return s


@njit(cache=True)
def rehash(table: Any, state_ideal: Any, state_at: Any, pool: Any, states: int, used: int) -> None:
    """Enter all states into an empty table (their patterns lie one after the other in the pool)."""
    for s in range(states):
        end = state_at[s + 1] if s + 1 < states else used
        slot = _hash(state_ideal[s], pool[state_at[s] : end], end - state_at[s]) % np.uint64(len(table))
        while table[slot] >= 0:
            slot = (slot + ONE) % np.uint64(len(table))
        table[slot] = s


@njit(cache=True)
def _senders(pool: Any, at: int, groups: int, width: int, readers: Any, out: Any) -> None:
    """Into ``out`` [G, w]: the readers of each group's operations."""
    for g in range(groups):
        out[g] = 0
        for w in range(width):
            word = pool[at + 1 + g * width + w]
            u = w * 64
            while word != 0:
                if word & ONE:
                    for x in range(width):
                        out[g, x] |= readers[u, x]
                word >>= ONE
                u += 1


@njit(cache=True)
def _extend(
    pool: Any, at: int, groups: int, width: int, senders: Any, inside: Any, target: Any, still_open: Any, out: Any
) -> int:
    """The pattern after the block target \\ inside, into ``out``: its length, 0 if C3 breaks, or TOO_MANY_GROUPS."""
    sending = ZERO
    for g in range(groups):
        for w in range(width):
            if senders[g, w] & target[w] & ~inside[w] != 0:
                sending |= ONE << np.uint64(g)
                break
    reach_at = at + 1 + groups * width
    for g in range(groups):
        if (sending >> np.uint64(g)) & ONE and pool[reach_at + g] & sending != 0:
            return 0
    kept = ZERO
    count = 0
    for g in range(groups):
        alive = False
        for w in range(width):
            word = pool[at + 1 + g * width + w] & still_open[w]
            out[1 + count * width + w] = word
            alive = alive or word != 0
        if alive:
            kept |= ONE << np.uint64(g)
            count += 1
    fresh = False
    for w in range(width):
        word = target[w] & ~inside[w] & still_open[w]
        out[1 + count * width + w] = word
        fresh = fresh or word != 0
    total = count + 1 if fresh else count
    if total > MAX_GROUPS:
        return TOO_MANY_GROUPS
    out[0] = total
    position = 1 + total * width
    for g in range(groups):
        if (kept >> np.uint64(g)) & ONE == 0:
            continue
        row = ZERO
        bit = 0
        for h in range(groups):
            if (kept >> np.uint64(h)) & ONE:
                if (pool[reach_at + g] >> np.uint64(h)) & ONE:
                    row |= ONE << np.uint64(bit)
                bit += 1
        if fresh and ((sending >> np.uint64(g)) & ONE or pool[reach_at + g] & sending != 0):
            row |= ONE << np.uint64(count)
        out[position] = row
        position += 1
    if fresh:
        out[position] = ZERO
        position += 1
    return position


@njit(cache=True)
def relax(
    i: int,
    low: int,
    high: int,
    target: Any,
    cost: Any,
    chips: Any,
    after: Any,
    words: Any,
    open_words: Any,
    readers: Any,
    head: Any,
    following: Any,
    table: Any,
    state_ideal: Any,
    state_at: Any,
    pool: Any,
    sizes: Any,
    value: Any,
    parent: Any,
) -> int:
    """Extend all states of ideal i by all its pairs [low, high). Returns the extensions tried, FULL or TOO_MANY_GROUPS.

    ``head``/``following`` chain the states of an ideal; ``value``/``parent`` [states, blocks + 1]. Running it again
    after FULL (with more room) changes nothing that was done.
    """
    width = words.shape[1]
    blocks = value.shape[1] - 1
    senders = np.empty((MAX_GROUPS, width), dtype=np.uint64)
    pattern = np.empty(2 + (MAX_GROUPS + 1) * (width + 1), dtype=np.uint64)
    tried = 0
    s = head[i]
    while s >= 0:
        at = state_at[s]
        groups = int(pool[at])
        _senders(pool, at, groups, width, readers, senders)
        first = 0
        while first < blocks and value[s, first] >= INFINITE:
            first += 1
        for p in range(low, high):
            j = target[p]
            last = blocks - after[j]  # k + 1 + after[j] <= blocks
            if first + 1 > last:
                continue
            tried += 1
            length = _extend(pool, at, groups, width, senders, words[i], words[j], open_words[j], pattern)
            if length == 0:
                continue
            if length < 0:
                return length
            before = sizes[0]
            t = _find(j, pattern, length, table, state_ideal, state_at, pool, sizes)
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
