"""The compiled part of the station search (numba): blocks of one state, states of one level found by hashing.

The parts of :func:`expand` are inlined: passing that many arrays on costs more than what most of them do.

A state is a row of words: the ideal (w words), then a pattern as in :mod:`chipmap.heuristics.ring.triangle_kernel`
(G, then per group of open operations its bit set, then per group the groups that it reaches), groups in order of
their first operation, so that equal states are equal words.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from chipmap.heuristics.ring.kernel import ONE
from chipmap.heuristics.ring.triangle_kernel import MAX_GROUPS, ZERO, _extend, _senders
from chipmap.heuristics.ring.windowed_arrays import Past
from chipmap.heuristics.ring.windowed_rules_kernel import close, dead, together

#: What :func:`expand` reports in ``flags``: some block was left out; no room for another state.
CUT_SHORT, FULL = 0, 1


@njit(cache=True, inline="always")
def _has(words: Any, v: int) -> bool:
    return (words[v >> 6] >> np.uint64(v & 63)) & ONE != 0


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
        if _has(ideal, storage_producer[s]):
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
def _still_open(inside: Any, pattern: Any, groups: int, block_end: Any, readers: Any, out: Any) -> None:
    """Into ``out``: the operations of the groups and of the block that have readers outside ``block_end``."""
    width = len(block_end)
    for w in range(width):
        word = block_end[w] & ~inside[w]
        for g in range(groups):
            word |= pattern[1 + g * width + w]
        out[w] = 0
        u = w * 64
        bit = ONE
        while word != 0:
            if word & ONE and not _closed(u, block_end, readers):
                out[w] |= bit
            word >>= ONE
            bit <<= ONE
            u += 1


@njit(cache=True, inline="always")
def _past(pool: Any, start: int, flows: Any) -> Any:
    """The state at ``pool[start:]``, with what C3 makes of its groups."""
    n, width = flows.producers.shape
    inside = pool[start : start + width].copy()
    pattern = pool[start + width :]
    groups = int(np.int64(pattern[0]))
    sent = np.empty((groups, width), dtype=np.uint64)
    _senders(pattern, 0, groups, width, flows.readers, sent)
    reach = pattern[1 + groups * width : 1 + groups * (width + 1)].copy()
    sends = np.zeros(n, dtype=np.uint64)
    against = np.zeros(n, dtype=np.uint64)
    for g in range(groups):
        sent[g] &= ~inside
        conflict = reach[g]
        for h in range(groups):
            if (reach[h] >> np.uint64(g)) & ONE:
                conflict |= ONE << np.uint64(h)
        for v in range(n):
            if _has(sent[g], v):
                sends[v] |= ONE << np.uint64(g)
                against[v] |= conflict
    return Past(inside, pattern, groups, sent, reach, sends, against)


@njit(cache=True, inline="always")
def _begin(past: Any, flows: Any, demands: Any, rank: Any, stack: Any) -> bool:
    """Start with an empty block and what must be in it; False where that can't be."""
    inside, width = past.inside, len(past.inside)
    stack.end[:] = inside
    stack.block[0], stack.below[0] = 0, 0
    stack.work[0], stack.count[0], stack.position[0] = 0, 0, 0
    for w in range(width):
        stack.pending[w] = demands.must[w] & ~inside[w]
    stack.total[0], stack.sending[0] = close(
        past,
        flows.ticks,
        flows.producers,
        flows.descendants,
        demands.early,
        demands.limit,
        stack.pending,
        stack.block[0],
        stack.below[0],
        0,
        ZERO,
    )
    for v in range(len(flows.ticks)):
        stack.missing[v] = 0
        if not _has(inside, v):
            for w in range(width):
                word = flows.producers[v, w] & ~inside[w]
                while word != 0:
                    word &= word - ONE
                    stack.missing[v] += 1
            if stack.missing[v] == 0:
                stack.count[0] = _insert(stack.waiting[0], stack.count[0], v, rank)
    return bool(stack.total[0] >= 0)


@njit(cache=True)
def expand(
    level_pool: Any,
    start: int,
    parent: int,
    done: int,
    nodes: int,
    rank: Any,
    flows: Any,
    demands: Any,
    stack: Any,
    store: Any,
) -> int:
    """Enter the states that follow the one at ``level_pool[start:]`` by one block into ``store``; returns the nodes.

    ``done`` is the work in the state's ideal. What a block must keep to: :class:`Demands`, and what ``close`` adds.
    Depth first in order of ``rank``; each ideal once: what a branch passes over stays out. At most ``nodes`` of them,
    else ``flags[CUT_SHORT]``.
    """
    past = _past(level_pool, start, flows)
    if not _begin(past, flows, demands, rank, stack):
        return 0
    depth, visited = 0, 0
    while depth >= 0:
        if stack.position[depth] >= stack.count[depth]:
            depth -= 1
            if depth >= 0:
                _release(stack, depth, flows.readers)
            continue
        v = stack.waiting[depth, stack.position[depth]]
        if not _admit(v, depth, past, flows, demands, stack):
            stack.position[depth] += 1
            continue
        visited += 1
        if visited > nodes:
            store.flags[CUT_SHORT] = 1
            return visited
        _take(v, depth, flows, rank, stack)
        depth += 1
        total = done + stack.work[depth]
        if total < demands.least or not _whole(stack, depth):
            continue
        length = _state(past, flows, demands, stack, store.flags)
        if length == 0:
            continue
        before = store.sizes[0]
        t = find(stack.row, length, store.table, store.at, store.pool, store.sizes)
        if t < 0:
            store.flags[FULL] = 1
            return visited
        if store.sizes[0] > before:
            store.parent[t], store.done[t] = parent, total
    return visited


@njit(cache=True, inline="always")
def _admit(v: int, depth: int, past: Any, flows: Any, demands: Any, stack: Any) -> bool:
    """Whether v may join the block at ``depth``; what it brings with it stands at the next depth then."""
    deeper = depth + 1
    stack.block[deeper], stack.below[deeper] = stack.block[depth], stack.below[depth]
    stack.total[deeper], stack.sending[deeper] = stack.total[depth], stack.sending[depth]
    if not _has(stack.block[depth], v):
        stack.pending[:] = 0
        stack.pending[v >> 6] = ONE << np.uint64(v & 63)
        stack.total[deeper], stack.sending[deeper] = close(
            past,
            flows.ticks,
            flows.producers,
            flows.descendants,
            demands.early,
            demands.limit,
            stack.pending,
            stack.block[deeper],
            stack.below[deeper],
            stack.total[depth],
            stack.sending[depth],
        )
    return bool(stack.total[deeper] >= 0)


@njit(cache=True, inline="always")
def _take(v: int, depth: int, flows: Any, rank: Any, stack: Any) -> None:
    """Put v into the block: the next depth waits for what came after v at this one, and for what v made ready."""
    deeper = depth + 1
    stack.chosen[depth] = v
    stack.end[v >> 6] |= ONE << np.uint64(v & 63)
    stack.work[deeper] = stack.work[depth] + flows.ticks[v]
    left = stack.position[depth] + 1
    for p in range(left, stack.count[depth]):
        stack.waiting[deeper, p - left] = stack.waiting[depth, p]
    stack.count[deeper], stack.position[deeper] = stack.count[depth] - left, 0
    for w in range(len(stack.end)):
        word = flows.readers[v, w]
        x = w * 64
        while word != 0:
            if word & ONE:
                stack.missing[x] -= 1
                if stack.missing[x] == 0:
                    stack.count[deeper] = _insert(stack.waiting[deeper], stack.count[deeper], x, rank)
            word >>= ONE
            x += 1


@njit(cache=True)
def _insert(waiting: Any, count: int, v: int, rank: Any) -> int:
    """Enter v into the ``count`` waiting operations, in order of rank; returns how many there are then."""
    place = count
    while place > 0 and rank[waiting[place - 1]] > rank[v]:
        waiting[place] = waiting[place - 1]
        place -= 1
    waiting[place] = v
    return count + 1


@njit(cache=True, inline="always")
def _release(stack: Any, depth: int, readers: Any) -> None:
    """Take the operation chosen at ``depth`` out again and go on to the next; there is none if it must be in."""
    v = stack.chosen[depth]
    stack.end[v >> 6] &= ~(ONE << np.uint64(v & 63))
    for w in range(len(stack.end)):
        word = readers[v, w]
        x = w * 64
        while word != 0:
            if word & ONE:
                stack.missing[x] += 1
            word >>= ONE
            x += 1
    stack.position[depth] = stack.count[depth] if _has(stack.block[depth], v) else stack.position[depth] + 1


@njit(cache=True, inline="always")
def _whole(stack: Any, depth: int) -> bool:
    """Whether all that must be in the block is."""
    rest = ZERO
    for w in range(len(stack.end)):
        rest |= stack.block[depth, w] & ~stack.end[w]
    return bool(rest == 0)


@njit(cache=True, inline="always")
def _state(past: Any, flows: Any, demands: Any, stack: Any, flags: Any) -> int:
    """The state after the block, into ``stack.row``: its length, or 0 where it leads nowhere.

    More than MAX_GROUPS groups set ``flags[CUT_SHORT]``.
    """
    end, width = stack.end, len(stack.end)
    if (
        len(flows.storage_ticks) > 0
        and _cut(end, flows.storage_producer, flows.storage_readers, flows.storage_ticks) > demands.limit
    ):
        return 0
    _still_open(past.inside, past.pattern, past.groups, end, flows.readers, stack.still_open)
    length = _extend(past.pattern, 0, past.groups, width, past.sent, past.inside, end, stack.still_open, stack.raw)
    if length <= 0:
        flags[CUT_SHORT] |= length < 0
        return 0
    if dead(stack.raw, width, end, flows.readers, flows.descendants):
        return 0
    if not together(
        stack.raw, end, demands.limit, flows.ticks, flows.readers, flows.ancestors, flows.descendants, stack.sets
    ):
        return 0
    stack.row[:width] = end
    canonical(stack.raw, width, stack.row[width:])
    return width + length
