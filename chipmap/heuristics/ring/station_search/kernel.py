"""The compiled part of the station search (numba): the states of the next level that follow one state by one block.

A state's row is its ideal (w words), then its pattern (:mod:`chipmap.heuristics.ring.programs.patterns`) with the
groups in order of their first operation, so that equal states are equal words.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from chipmap.heuristics.ring.programs.kernel import ONE, ZERO, copy_words, has
from chipmap.heuristics.ring.programs.patterns import (
    MAX_GROUPS,
    Rows,
    extend,
    find,
    find_readers,
)
from chipmap.heuristics.ring.station_search.forced_kernel import PRODUCERS, READERS, dead, force, together
from chipmap.kernels import njit

#: What stopped :func:`expand`: nothing; some block was left out; there was no room for another state.
COMPLETE, CUT_SHORT, NO_ROOM = 0, 1, 2


class Charged(NamedTuple):
    """The storages that links are charged for, [s]: the ``producer``, the ``readers`` [s, w] and the ``ticks``."""

    producer: Any
    readers: Any
    ticks: Any


class Demands(NamedTuple):
    """What blocks must keep to: work <= ``limit``, work of the ideal after it >= ``least``, at most ``nodes`` ideals.

    A block holds all operations of ``must`` [w]. ``ticks`` [n] are those of the graph, but more than the limit for
    operations whose station window hasn't begun. ``rank`` [n] is the order in which operations are tried.
    """

    limit: int
    least: int
    nodes: int
    ticks: Any
    must: Any
    rank: Any


class Level(NamedTuple):
    """A level in the making: its ``rows``, and per state its ``parent`` in the level before and its work ``done``."""

    rows: Rows
    parent: Any
    done: Any


class _Stack(NamedTuple):
    """The depth-first search by depth: the operations ``waiting`` [depths, n] (``count`` of them, tried up to
    ``position``), which was ``chosen``, and the block's ``work`` so far.

    The block must grow to ``block`` [depths, w] in the end, with ``total`` ticks of work; ``below`` are all that come
    after it, and ``sending`` the groups that send to it, as bits.
    """

    waiting: Any
    count: Any
    position: Any
    chosen: Any
    work: Any
    total: Any
    sending: Any
    block: Any
    below: Any


@njit(part=True)
def _canonical(raw: Any, width: int, out: Any) -> None:
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


@njit(part=True)
def _cut(ideal: Any, producer: Any, readers: Any, ticks: Any) -> int:
    """Ticks of the storages made inside the ideal and read outside it."""
    cut = 0
    for s in range(len(producer)):
        if has(ideal, producer[s]):
            for w in range(len(ideal)):
                if readers[s, w] & ~ideal[w] != 0:
                    cut += ticks[s]
                    break
    return cut


@njit(part=True)
def _closed(v: int, block_end: Any, readers: Any) -> bool:
    rest = ZERO
    for w in range(len(block_end)):
        rest |= readers[v, w] & ~block_end[w]
    return bool(rest == 0)


@njit(part=True)
def _still_open(pattern: Any, inside: Any, block_end: Any, readers: Any, out: Any) -> None:
    """Into ``out``: the operations of the groups and of the block that have readers outside ``block_end``."""
    width = len(inside)
    for w in range(width):
        word = block_end[w] & ~inside[w]
        for g in range(int(np.int64(pattern[0]))):
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


@njit(part=True)
def _groups(inside: Any, pattern: Any, readers: Any) -> Any:
    """The groups' readers [64, w], and what :func:`force` needs to know of them: ``signals`` and ``sent``."""
    n, width = readers.shape
    group_readers = np.empty((MAX_GROUPS, width), dtype=np.uint64)
    find_readers(pattern, readers, group_readers)
    groups = int(np.int64(pattern[0]))
    reach = pattern[1 + groups * width : 1 + groups * width + groups]
    sent = np.empty((groups, width + 1), dtype=np.uint64)
    signals = np.zeros((n, 2), dtype=np.uint64)
    for g in range(groups):
        conflict = reach[g]
        for h in range(groups):
            if (reach[h] >> np.uint64(g)) & ONE:
                conflict |= ONE << np.uint64(h)
        for v in range(n):
            if has(group_readers[g], v):
                signals[v, 0] |= ONE << np.uint64(g)
                signals[v, 1] |= conflict
        for w in range(width):
            sent[g, w] = group_readers[g, w] & ~inside[w]
        sent[g, width] = reach[g]
    return group_readers, signals, sent


@njit(part=True)
def _stack(n: int, width: int) -> _Stack:
    return _Stack(
        np.empty((n + 1, n), dtype=np.int32),
        np.zeros(n + 1, dtype=np.int64),
        np.zeros(n + 1, dtype=np.int64),
        np.empty(n + 1, dtype=np.int64),
        np.zeros(n + 1, dtype=np.int64),
        np.zeros(n + 1, dtype=np.int64),
        np.zeros(n + 1, dtype=np.uint64),
        np.zeros((n + 1, width), dtype=np.uint64),
        np.zeros((n + 1, width), dtype=np.uint64),
    )


@njit(part=True)
def _insert(waiting: Any, count: int, v: int, rank: Any) -> None:
    """Enter v into the ``count`` waiting operations, in order of rank."""
    place = count
    while place > 0 and rank[waiting[place - 1]] > rank[v]:
        waiting[place] = waiting[place - 1]
        place -= 1
    waiting[place] = v


@njit(part=True)
def _ready(inside: Any, producers: Any, rank: Any, waiting: Any, missing: Any) -> int:
    """Into ``missing`` [n]: how many producers outside the ideal an operation has; those with none are ``waiting``."""
    count = 0
    for v in range(len(missing)):
        if not has(inside, v):
            for w in range(len(inside)):
                word = producers[v, w] & ~inside[w]
                while word != 0:
                    word &= word - ONE
                    missing[v] += 1
            if missing[v] == 0:
                _insert(waiting, count, v, rank)
                count += 1
    return count


@njit(part=True)
def _take(v: int, depth: int, waiting: Any, position: Any, count: Any, readers: Any, rank: Any, missing: Any) -> None:
    """Put v into the block: those after it in the order, and those that it makes ready, wait at the next depth."""
    deeper, left = depth + 1, count[depth] - position[depth] - 1
    for p in range(left):
        waiting[deeper, p] = waiting[depth, position[depth] + 1 + p]
    for w in range(readers.shape[1]):
        word = readers[v, w]
        x = w * 64
        while word != 0:
            if word & ONE:
                missing[x] -= 1
                if missing[x] == 0:
                    _insert(waiting[deeper], left, x, rank)
                    left += 1
            word >>= ONE
            x += 1
    count[deeper], position[deeper] = left, 0


@njit(part=True)
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


@njit(part=True)
def _follow(
    block_end: Any,
    inside: Any,
    pattern: Any,
    group_readers: Any,
    limit: int,
    ticks: Any,
    relations: Any,
    room: Any,
    new: Any,
) -> int:
    """The state with the ideal ``block_end``: its row into ``new[1]``, and the row's length.

    0 where C3 excludes it or all that follows; TOO_MANY_GROUPS. ``room`` [n + 2, w]; the pattern is made in ``new[0]``.
    """
    width = len(inside)
    raw, row = new[0], new[1]
    still_open = room[len(ticks) + 1]
    _still_open(pattern, inside, block_end, relations[READERS], still_open)
    length = extend(pattern, group_readers, inside, block_end, still_open, raw)
    if length <= 0:
        return length
    if dead(raw, block_end, relations) or not together(raw, block_end, limit, ticks, relations, room):
        return 0
    copy_words(block_end, row)
    _canonical(raw, width, row[width:])
    return width + length


@njit(part=True)
def _enter(row: Any, length: int, parent: int, done: int, level: Level) -> bool:
    """Enter a state into the level, unless it is there; False: there is no room."""
    states = level.rows.sizes[0]
    s = find(row, length, level.rows)
    if s == states:
        level.parent[s], level.done[s] = parent, done
    return bool(s >= 0)


@njit(part=True)
def _with(
    v: int,
    depth: int,
    limit: int,
    pending: Any,
    late: Any,
    relations: Any,
    signals: Any,
    sent: Any,
    total: Any,
    sending: Any,
    block: Any,
    below: Any,
) -> bool:
    """At the next depth of the :class:`_Stack`: all that must be in the block together with v; whether that can be.

    ``pending`` [w] is room.
    """
    deeper = depth + 1
    copy_words(block[depth], block[deeper])
    copy_words(below[depth], below[deeper])
    total[deeper], sending[deeper] = total[depth], sending[depth]
    if has(block[depth], v):
        return True
    pending[:] = 0
    pending[v >> 6] = ONE << np.uint64(v & 63)
    total[deeper], sending[deeper] = force(
        pending, limit, total[depth], sending[depth], block[deeper], below[deeper], late, relations, signals, sent
    )
    return bool(total[deeper] >= 0)


@njit(cache=True)
def expand(
    row: Any, parent: int, done: int, ticks: Any, relations: Any, charged: Charged, demands: Demands, level: Level
) -> int:
    """Enter into ``level`` the states that follow state number ``parent`` (``row``) by one block; what stopped it.

    With the ideal's work ``done`` and the block's, a new ideal must reach the demanded least. Depth first in the order
    of rank. Each ideal is visited once: what a branch passes over stays out of its block. Returns COMPLETE, CUT_SHORT
    (some block was left out) or NO_ROOM.
    """
    _, n, width = relations.shape
    limit, least, nodes, late, must, rank = demands
    readers, linked = relations[READERS], len(charged.ticks) > 0
    # what is known of the state, whatever block follows
    inside, pattern = row[:width].copy(), row[width:]
    group_readers, signals, sent = _groups(inside, pattern, readers)
    room = np.empty((n + 2, width), dtype=np.uint64)
    new = np.empty((2, width + 2 + (MAX_GROUPS + 1) * (width + 1)), dtype=np.uint64)
    waiting, count, position, chosen, work, total, sending, block, below = _stack(n, width)
    # block[0]: the ideal, and all that the block must hold because its station window ends here
    pending = must.copy()
    copy_words(inside, block[0])
    total[0], sending[0] = force(pending, limit, 0, ZERO, block[0], below[0], late, relations, signals, sent)
    if total[0] < 0:
        return COMPLETE
    # block_end: the ideal with the block as far as it has come; waiting: what has all its producers in there
    block_end = inside.copy()
    missing = np.zeros(n, dtype=np.int64)
    count[0] = _ready(inside, relations[PRODUCERS], rank, waiting[0], missing)
    depth, visited, stopped = 0, 0, COMPLETE
    while depth >= 0:
        if position[depth] >= count[depth]:
            # all that waits here has been tried: one step back; what the block must hold is never passed over
            depth -= 1
            if depth >= 0:
                v = chosen[depth]
                _release(v, block_end, readers, missing)
                position[depth] = position[depth] + 1 if not has(block[depth], v) else count[depth]
            continue
        v = waiting[depth, position[depth]]
        deeper = depth + 1
        if not _with(v, depth, limit, pending, late, relations, signals, sent, total, sending, block, below):
            position[depth] += 1
            continue
        visited += 1
        if visited > nodes:
            return CUT_SHORT
        chosen[depth], work[deeper] = v, work[depth] + ticks[v]
        block_end[v >> 6] |= ONE << np.uint64(v & 63)
        _take(v, depth, waiting, position, count, readers, rank, missing)
        depth = deeper
        # a block that holds all that it must, with enough work, ends in a state
        if done + work[depth] >= least and _within(block[depth], block_end):
            if linked and _cut(block_end, charged.producer, charged.readers, charged.ticks) > limit:
                continue
            length = _follow(block_end, inside, pattern, group_readers, limit, ticks, relations, room, new)
            if length > 0 and not _enter(new[1], length, parent, done + work[depth], level):
                return NO_ROOM
            if length < 0:
                stopped = CUT_SHORT
    return stopped


@njit(part=True)
def _within(some: Any, words: Any) -> bool:
    """Whether the bit set ``some`` is part of the other."""
    for w in range(len(words)):  # noqa: SIM110 - any() does not compile
        if some[w] & ~words[w] != 0:
            return False
    return True
