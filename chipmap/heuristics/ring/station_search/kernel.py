"""The compiled part of the station search (numba): blocks of one state, states of one level found by hashing.

A state is a row of words: the ideal (w words), then a pattern as in
:mod:`chipmap.heuristics.ring.programs.triangle_kernel` (G, then per group of open operations its bit set, then per
group the groups that it reaches), groups in order of their first operation, so that equal states are equal words.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from chipmap.heuristics.ring.programs.kernel import ONE, has
from chipmap.heuristics.ring.programs.triangle_kernel import MAX_GROUPS, ZERO, _extend, _senders
from chipmap.heuristics.ring.station_search.rules_kernel import close, dead, together

#: What :func:`expand` reports in ``flags``: some block was left out; no room for another state.
CUT_SHORT, FULL = 0, 1


@njit(cache=True)
def _hash(words: Any, length: int) -> Any:
    h = np.uint64(1469598103934665603)
    for x in range(length):
        h = (h ^ words[x]) * np.uint64(1099511628211)
        h ^= h >> np.uint64(29)
    return h


@njit(cache=True)
def find(row: Any, length: int, table: Any, at: Any, pool: Any, sizes: Any) -> int:
    """The number of the state in ``row``: found (< sizes[0] before), made, or -1 without room."""
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
        return -1
    table[slot] = s
    at[s] = sizes[1]
    for x in range(length):
        pool[sizes[1] + x] = row[x]
    sizes[0] += 1
    sizes[1] += length
    at[s + 1] = sizes[1]
    return s


@njit(cache=True)
def enter(table: Any, at: Any, pool: Any, states: int) -> None:
    """Enter all states into an empty table."""
    for s in range(states):
        slot = _hash(pool[at[s] : at[s + 1]], at[s + 1] - at[s]) % np.uint64(len(table))
        while table[slot] >= 0:
            slot = (slot + ONE) % np.uint64(len(table))
        table[slot] = s


@njit(cache=True)
def canonical(raw: Any, width: int, out: Any) -> None:
    """The pattern ``raw`` with its groups in order of their first operation, into ``out``."""
    groups = int(np.int64(raw[0]))
    order = np.empty(MAX_GROUPS, dtype=np.int64)
    key = np.empty(MAX_GROUPS, dtype=np.int64)
    for g in range(groups):
        first = 0
        for w in range(width):
            word = raw[1 + g * width + w]
            if word != 0:
                first = w * 64
                while word & ONE == 0:
                    word >>= ONE
                    first += 1
                break
        place = g
        while place > 0 and key[place - 1] > first:
            key[place], order[place] = key[place - 1], order[place - 1]
            place -= 1
        key[place], order[place] = first, g
    out[0] = raw[0]
    for place in range(groups):
        g = order[place]
        for w in range(width):
            out[1 + place * width + w] = raw[1 + g * width + w]
        row = ZERO
        for other in range(groups):
            if (raw[1 + groups * width + g] >> np.uint64(order[other])) & ONE:
                row |= ONE << np.uint64(other)
        out[1 + groups * width + place] = row


@njit(cache=True)
def _cut(ideal: Any, storage_producer: Any, storage_readers: Any, storage_ticks: Any) -> int:
    """Ticks of the storages made inside the ideal and read outside it."""
    cut = 0
    for s in range(len(storage_producer)):
        if has(ideal, storage_producer[s]):
            for w in range(len(ideal)):
                if storage_readers[s, w] & ~ideal[w] != 0:
                    cut += storage_ticks[s]
                    break
    return cut


@njit(cache=True)
def _closed(v: int, block_end: Any, readers: Any) -> bool:
    rest = ZERO
    for w in range(len(block_end)):
        rest |= readers[v, w] & ~block_end[w]
    return bool(rest == 0)


@njit(cache=True)
def _still_open(pool: Any, at: int, groups: int, inside: Any, block_end: Any, readers: Any, out: Any) -> None:
    """Into ``out``: the operations of the groups and of the block that have readers outside ``block_end``."""
    width = len(inside)
    for w in range(width):
        word = block_end[w] & ~inside[w]
        for g in range(groups):
            word |= pool[at + 1 + g * width + w]
        out[w] = 0
        u = w * 64
        bit = ONE
        while word != 0:
            if word & ONE and not _closed(u, block_end, readers):
                out[w] |= bit
            word >>= ONE
            bit <<= ONE
            u += 1


@njit(cache=True)
def expand(
    pool: Any,
    start: int,
    parent: int,
    done: int,
    limit: int,
    least: int,
    nodes: int,
    rank: Any,
    early: Any,
    must: Any,
    ticks: Any,
    producers: Any,
    readers: Any,
    ancestors: Any,
    descendants: Any,
    storage_producer: Any,
    storage_readers: Any,
    storage_ticks: Any,
    table: Any,
    at: Any,
    new_pool: Any,
    sizes: Any,
    new_parent: Any,
    new_done: Any,
    flags: Any,
) -> int:
    """Enter the states that follow the one at ``pool[start:]`` by one block into the next level; returns the nodes.

    Blocks have work <= ``limit``; with the ideal's work ``done`` they reach ``least``; their operations are those
    with ``early`` (window begun), all ``must`` among them, and what ``close`` adds. Depth first in order of ``rank``;
    each ideal once: what a branch passes over stays out. At most ``nodes`` of them, else ``flags[CUT_SHORT]``.
    """
    n, width = producers.shape
    inside = pool[start : start + width].copy()
    pattern_at = start + width
    groups = int(np.int64(pool[pattern_at]))
    senders = np.empty((MAX_GROUPS, width), dtype=np.uint64)
    _senders(pool, pattern_at, groups, width, readers, senders)
    sends = np.zeros(n, dtype=np.uint64)
    against = np.zeros(n, dtype=np.uint64)
    reach_at = pattern_at + 1 + groups * width
    for g in range(groups):
        conflict = pool[reach_at + g]
        for h in range(groups):
            if (pool[reach_at + h] >> np.uint64(g)) & ONE:
                conflict |= ONE << np.uint64(h)
        for v in range(n):
            if has(senders[g], v):
                sends[v] |= ONE << np.uint64(g)
                against[v] |= conflict
    missing = np.zeros(n, dtype=np.int64)
    waiting = np.empty((n + 1, n), dtype=np.int32)
    count = np.zeros(n + 1, dtype=np.int64)
    position = np.zeros(n + 1, dtype=np.int64)
    sending = np.zeros(n + 1, dtype=np.uint64)
    work = np.zeros(n + 1, dtype=np.int64)
    total = np.zeros(n + 1, dtype=np.int64)
    block = np.zeros((n + 1, width), dtype=np.uint64)
    below = np.zeros((n + 1, width), dtype=np.uint64)
    pending = must & ~inside
    reach = pool[reach_at : reach_at + groups].copy()
    sent = senders[:groups].copy()
    for g in range(groups):
        sent[g] &= ~inside
    total[0], sending[0] = close(
        pending,
        inside,
        early,
        limit,
        0,
        ZERO,
        block[0],
        below[0],
        ticks,
        producers,
        descendants,
        sends,
        against,
        sent,
        reach,
    )
    if total[0] < 0:
        return 0
    chosen = np.empty(n + 1, dtype=np.int64)
    linked = False
    for s in range(len(storage_ticks)):
        linked = linked or storage_ticks[s] > 0
    for v in range(n):
        if not has(inside, v):
            for w in range(width):
                word = producers[v, w] & ~inside[w]
                while word != 0:
                    word &= word - ONE
                    missing[v] += 1
            if missing[v] == 0:
                _insert(waiting[0], count, 0, v, rank)
    block_end = inside.copy()
    still_open = np.empty(width, dtype=np.uint64)
    sets = np.empty((n + 1, width), dtype=np.uint64)
    raw = np.empty(2 + (MAX_GROUPS + 1) * (width + 1), dtype=np.uint64)
    row = np.empty(2 + width + (MAX_GROUPS + 1) * (width + 1), dtype=np.uint64)
    depth, visited = 0, 0
    while depth >= 0:
        if position[depth] >= count[depth]:
            depth -= 1
            if depth >= 0:
                v = chosen[depth]
                _release(v, block_end, readers, missing)
                position[depth] = position[depth] + 1 if not has(block[depth], v) else count[depth]
            continue
        v = waiting[depth, position[depth]]
        deeper = depth + 1
        block[deeper], below[deeper] = block[depth], below[depth]
        total[deeper], sending[deeper] = total[depth], sending[depth]
        if not has(block[depth], v):
            pending[:] = 0
            pending[v >> 6] = ONE << np.uint64(v & 63)
            total[deeper], sending[deeper] = close(
                pending,
                inside,
                early,
                limit,
                total[depth],
                sending[depth],
                block[deeper],
                below[deeper],
                ticks,
                producers,
                descendants,
                sends,
                against,
                sent,
                reach,
            )
            if total[deeper] < 0:
                position[depth] += 1
                continue
        visited += 1
        if visited > nodes:
            flags[CUT_SHORT] = 1
            return visited
        chosen[depth] = v
        block_end[v >> 6] |= ONE << np.uint64(v & 63)
        work[depth + 1] = work[depth] + ticks[v]
        count[depth + 1], position[depth + 1] = 0, 0
        for p in range(position[depth] + 1, count[depth]):
            waiting[depth + 1, p - position[depth] - 1] = waiting[depth, p]
        count[depth + 1] = count[depth] - position[depth] - 1
        for w in range(width):
            word = readers[v, w]
            x = w * 64
            while word != 0:
                if word & ONE:
                    missing[x] -= 1
                    if missing[x] == 0:
                        _insert(waiting[depth + 1], count, depth + 1, x, rank)
                word >>= ONE
                x += 1
        depth += 1
        if done + work[depth] < least:
            continue
        whole = True
        for w in range(width):
            if block[depth, w] & ~block_end[w] != 0:
                whole = False
                break
        if not whole:
            continue
        if linked and _cut(block_end, storage_producer, storage_readers, storage_ticks) > limit:
            continue
        _still_open(pool, pattern_at, groups, inside, block_end, readers, still_open)
        length = _extend(pool, pattern_at, groups, width, senders, inside, block_end, still_open, raw)
        if length == 0:
            continue
        if length < 0:
            flags[CUT_SHORT] = 1
            continue
        if dead(raw, width, block_end, readers, descendants):
            continue
        if not together(raw, block_end, limit, ticks, readers, ancestors, descendants, sets):
            continue
        row[:width] = block_end
        canonical(raw, width, row[width:])
        before = sizes[0]
        t = find(row, width + length, table, at, new_pool, sizes)
        if t < 0:
            flags[FULL] = 1
            return visited
        if sizes[0] > before:
            new_parent[t], new_done[t] = parent, done + work[depth]
    return visited


@njit(cache=True)
def _insert(waiting: Any, count: Any, depth: int, v: int, rank: Any) -> None:
    """Enter v into the waiting operations, in order of rank."""
    place = count[depth]
    while place > 0 and rank[waiting[place - 1]] > rank[v]:
        waiting[place] = waiting[place - 1]
        place -= 1
    waiting[place] = v
    count[depth] += 1


@njit(cache=True)
def _release(v: int, block_end: Any, readers: Any, missing: Any) -> None:
    """Take v out of the block again."""
    block_end[v >> 6] &= ~(ONE << np.uint64(v & 63))
    for w in range(len(block_end)):
        word = readers[v, w]
        x = w * 64
        while word != 0:
            if word & ONE:
                missing[x] += 1
            word >>= ONE
            x += 1
