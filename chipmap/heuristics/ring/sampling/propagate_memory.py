"""What C4 (grade ``boundary``) leaves of the chip intervals: energetic reasoning over intervals of chips (numba).

Let E(a, b) be the bytes that chips a … b hold for certain: the weights of operations whose interval lies within them,
the shared constants that rest on some of them for the sake of such operations, and twice the bytes that cross the
boundary of one of them whatever comes. E(a, b) > (b - a + 1) · S is a contradiction; an operation that would make it
one if it were on a … b, is not there. Once every operation is placed, E(c, c) is what C4 counts on chip c.
"""

from __future__ import annotations

from typing import Any

from chipmap.heuristics.ring.sampling.propagate_state import Room, Sizes, at_least, at_most
from chipmap.kernels import njit


@njit(part=True)
def memory(sizes: Sizes, room: Room, allowed: Any, box: Any, trail: Any, queue: Any) -> bool:
    """C4 on all intervals of chips."""
    slack, least, lowest = room.slack, room.least, room.lowest
    slack[:] = 0
    for v in range(len(box)):
        slack[box[v, 0], box[v, 1]] += sizes.weights[v]
    if len(sizes.constants.bytes):
        _resting(sizes, slack, room.rests, box)
    _crossing(sizes, slack, room, box)
    _paths(sizes, slack, room, box)
    if not _slack(slack, sizes.sram[0]):
        return False
    if not _raise(sizes.weights, slack, least, lowest, allowed, box, trail, queue):
        return False
    if not _lower(sizes.weights, slack, least, lowest, allowed, box, trail, queue):
        return False
    return not len(sizes.constants.bytes) or _trim(sizes, slack, room.rests, allowed, box, trail, queue)


@njit(part=True)
def _resting(sizes: Sizes, held: Any, rests: Any, box: Any) -> None:
    """Shared constants that rest somewhere for certain, into ``held``; ``rests`` [k, C]: on the chip of a reader.

    Beside those, one more chip of an open reader's interval holds the constant, if no chip counted already lies there.
    The intervals that count are disjoint.
    """
    constants = sizes.constants
    rests[:] = False
    for s in range(len(constants.bytes)):
        size, first, last = constants.bytes[s], constants.reader_at[s], constants.reader_at[s + 1]
        for r in range(first, last):
            lo = box[constants.readers[r], 0]
            if lo == box[constants.readers[r], 1] and not rests[s, lo]:
                rests[s, lo] = True
                held[lo, lo] += size
        end = -1
        for r in range(first, last):
            lo, hi = box[constants.readers[r], 0], box[constants.readers[r], 1]
            if lo > end and not _rests(rests[s], lo, hi):
                held[lo, hi] += size
                end = hi


@njit(part=True)
def _rests(rests: Any, lo: int, hi: int) -> bool:
    """Whether one of the chips lo … hi is counted."""
    for c in range(lo, hi + 1):  # noqa: SIM110 - any() does not compile
        if rests[c]:
            return True
    return False


@njit(part=True)
def _lacks(sizes: Sizes, rests: Any, v: int, c: int) -> int:
    """Bytes that operation v would add to chip c: its weights, and its constants that don't rest there yet."""
    constants, added = sizes.constants, sizes.weights[v]
    for r in range(constants.in_at[v], constants.in_at[v + 1]):
        if not rests[constants.ins[r], c]:
            added += constants.bytes[constants.ins[r]]
    return added


@njit(part=True)
def _trim(sizes: Sizes, slack: Any, rests: Any, allowed: Any, box: Any, trail: Any, queue: Any) -> bool:
    """No open reader of a shared constant on an end of its interval that has no room for it."""
    in_at = sizes.constants.in_at
    for v in range(len(box)):
        if in_at[v] < in_at[v + 1]:
            while box[v, 0] < box[v, 1] and _lacks(sizes, rests, v, box[v, 0]) > slack[box[v, 0], box[v, 0]]:
                if not at_least(allowed, box, trail, queue, v, box[v, 0] + 1):
                    return False
            while box[v, 0] < box[v, 1] and _lacks(sizes, rests, v, box[v, 1]) > slack[box[v, 1], box[v, 1]]:
                if not at_most(allowed, box, trail, queue, v, box[v, 1] - 1):
                    return False
    return True


@njit(part=True)
def _crossing(sizes: Sizes, held: Any, room: Room, box: Any) -> None:
    """Storages that cross a chip's boundary for certain, into ``held[c, c]``; their ``counted`` is set."""
    seen, counted = room.seen, room.counted
    seen[:] = -1
    for s in range(len(sizes.makers)):
        maker, twice = sizes.makers[s], 2 * sizes.bytes[s]
        lo, hi = box[maker, 0], box[maker, 1]
        counted[s] = False
        for r in range(sizes.reader_at[s], sizes.reader_at[s + 1]):
            c = box[sizes.readers[r], 0]
            if c > hi:
                if lo == hi and not counted[s]:
                    held[lo, lo] += twice
                counted[s] = True
                if c == box[sizes.readers[r], 1] and seen[c] != s:
                    seen[c] = s
                    held[c, c] += twice


@njit(part=True)
def _paths(sizes: Sizes, held: Any, room: Room, box: Any) -> None:
    """What leaves chip a and what enters chip b for the sake of a path from an operation on a to one on b > a.

    One storage of the path leaves a and one enters b, of at least the path's fewest bytes. Storages that are counted
    already are on no path here, and each chip counts one path out and one in, so that nothing counts twice.
    """
    source, fewest, out, into = room.source, room.fewest, room.out, room.into
    out[:] = 0
    into[:] = 0
    for v in sizes.order:
        source[v], fewest[v] = -1, 0
        for e in range(sizes.in_at[v], sizes.in_at[v + 1]):
            s = sizes.ins[e]
            if room.counted[s]:
                continue
            u, size = sizes.makers[s], sizes.bytes[s]
            c = box[u, 0]
            if c != box[u, 1]:
                c, size = source[u], min(size, fewest[u])
            if box[v, 0] < box[v, 1]:
                if c > source[v] or (c == source[v] and size > fewest[v]):
                    source[v], fewest[v] = c, size
            elif 0 <= c < box[v, 0]:
                out[c] = max(out[c], size)
                into[box[v, 0]] = max(into[box[v, 0]], size)
    for c in range(len(out)):
        held[c, c] += 2 * (out[c] + into[c])


@njit(part=True)
def _slack(held: Any, sram: int) -> bool:
    """From certain bytes to the bytes (b - a + 1) · S - E(a, b) that are left, in place; False if any are short."""
    chips = len(held)
    for a in range(chips - 1, -1, -1):
        mine = 0
        for b in range(a, chips):
            mine += held[a, b]  # of intervals that begin at a and end by b
            later = sram * (b - a) - held[a + 1, b] if b > a else 0  # E(a + 1, b)
            held[a, b] = sram * (b - a + 1) - mine - later
            if held[a, b] < 0:
                return False
    return True


@njit(part=True)
def _raise(weights: Any, slack: Any, least: Any, lowest: Any, allowed: Any, box: Any, trail: Any, queue: Any) -> bool:
    """f(v) > b for every operation v that chips a … b have no room for, for some a <= its least chip."""
    chips = len(slack)
    lowest[:] = slack[0, chips - 1]
    for b in range(chips):
        worst = slack[0, b]
        for lo in range(b + 1):
            worst = min(worst, slack[lo, b])
            least[lo, b] = worst
            lowest[lo] = min(lowest[lo], worst)
    for v in range(len(box)):
        lo, hi, weight = box[v, 0], box[v, 1], weights[v]
        if lo == hi or weight <= lowest[lo]:
            continue
        for b in range(hi - 1, lo - 1, -1):
            if weight > least[lo, b]:
                if not at_least(allowed, box, trail, queue, v, b + 1):
                    return False
                break
    return True


@njit(part=True)
def _lower(weights: Any, slack: Any, least: Any, lowest: Any, allowed: Any, box: Any, trail: Any, queue: Any) -> bool:
    """f(v) < a for every operation v that chips a … b have no room for, for some b >= its greatest chip."""
    chips = len(slack)
    lowest[:] = slack[0, chips - 1]
    for a in range(chips):
        worst = slack[a, chips - 1]
        for hi in range(chips - 1, a - 1, -1):
            worst = min(worst, slack[a, hi])
            least[a, hi] = worst
            lowest[hi] = min(lowest[hi], worst)
    for v in range(len(box)):
        lo, hi, weight = box[v, 0], box[v, 1], weights[v]
        if lo == hi or weight <= lowest[hi]:
            continue
        for a in range(lo + 1, hi + 1):
            if weight > least[a, hi]:
                if not at_most(allowed, box, trail, queue, v, a - 1):
                    return False
                break
    return True
