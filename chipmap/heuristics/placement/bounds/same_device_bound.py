"""Heads and tails by sides: each ancestor of an operation v is on v's device or off it. A bound for ``placement``.

Let v start by time s. An ancestor u is *on* v's device or *off* it. For each side there are a least start of u and a
least time *to go* from u's end to v's start. With p(w) and c the least times of an operation w and of a transfer:

- start(u, on) >= min(start(w, on), start(w, off) + c) + p(w) for each w that u reads, and never below e(u);
- start(u, off) >= min(start(w, off), start(w, on) + c) + p(w) likewise (two that are off may share a device);
- time to go: the same along readers, from v, which is on. What shares v's group (C1) is on.

A side with start + p + time to go > s is impossible, which raises the others: this is repeated. s is refuted if some u
has no side left, if those that must be on can't be done one after the other from their starts, with their times to go,
or those that must be off not on D - 1 devices. So e(v) exceeds each s that is refuted. Unlike the head of
:mod:`~chipmap.heuristics.placement.bounds.simple`, this one counts a tensor that leaves v's device and a result that
comes back. **Probing** supposes one side of each undecided ancestor: if that is refuted, the other holds.

To look at some ancestors only is a relaxation; so many last ones in topological order are (:data:`NEAREST` at first).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.placement.bounds.simple import Edges, HeadsAndTails, directions
from chipmap.instances.placement.problem import IntArray, PlacementProblem
from chipmap.kernels import njit
from chipmap.kernels.sorting import argsort

#: Ancestors that are looked at, positions before v for each of them, and the reads of each one that count.
NEAREST, REACH, READS = 64, 20, 48
#: Rounds of raising times to go and starts before a limit counts as not refuted.
ROUNDS = 8
#: Later than any time: the side is impossible.
NEVER = 2**60
#: Rows of :attr:`NearAncestors.side`.
ON, OFF, ON_TO_GO, OFF_TO_GO = 0, 1, 2, 3
#: Operations per call of compiled code, after which the clock is looked at, without and with probing (fewer where more
#: ancestors are looked at: the work grows with their third power).
CHUNK, PROBED = 2_000, 32
#: Shares of the time that is left in which heads and tails are probed.
SHARES = (0.5, 0.9)
#: With probing a limit is found to so many ns.
EXACT = 1_000


class NearAncestors(NamedTuple):
    """The nearest ancestors of v in topological order, in rows 0, 1, …, and v itself in the row behind the last one.

    ``number``: the operation of each row; ``row`` [N]: the row of an operation, -1 where it has none; ``head``,
    ``time``, ``tied`` (whether it shares v's group); the rows that row i reads are ``other[at[i]:at[i + 1]]``, with
    ``send``, and the rows that read it ``out[out_at[i]:out_at[i + 1]]``, with ``out_send``. ``side`` [4, rows]: least
    starts on and off, then least times to go; ``trial``: the same while a side is supposed. ``ahead``, ``back``: rows
    whose readers, or whose producers and own sides, are to be looked at again. ``list``: scratch.
    """

    number: IntArray
    row: IntArray
    head: IntArray
    time: IntArray
    tied: IntArray
    at: IntArray
    other: IntArray
    send: IntArray
    out_at: IntArray
    out: IntArray
    out_send: IntArray
    side: IntArray
    trial: IntArray
    ahead: IntArray
    back: IntArray
    list: IntArray


def raised(
    problem: PlacementProblem, w: HeadsAndTails, probing: bool, deadline: Deadline, nearest: int = NEAREST
) -> HeadsAndTails:
    """``w`` with heads and tails at least as large; where the deadline passes, the others stay as they are.

    Where the time for probing passes before, the others are raised without.
    """
    near, found = _room(nearest + 1, problem.operations), []
    for (order, place, waits), given, part in zip(directions(problem), (w.head, w.tail), SHARES, strict=True):
        head, chunk = given.copy(), max(1, PROBED * NEAREST**3 // nearest**3) if probing else CHUNK
        until, probed = deadline.share(part), probing
        for low in range(0, problem.operations, chunk):
            if not deadline.keep_going():
                break
            some, probed = order[low : low + chunk], probed and until.keep_going()
            raise_heads(some, order, place, waits, w.time, problem.group, head, near, problem.devices, probed)
        found.append(head)
    return HeadsAndTails(found[0], w.time, found[1])


def _room(rows: int, operations: int) -> NearAncestors:
    """Empty tables of so many rows."""

    def flat(size: int) -> IntArray:
        return np.zeros(size, np.int64)

    return NearAncestors(
        number=flat(rows),
        row=np.full(operations, -1, np.int64),
        head=flat(rows),
        time=flat(rows),
        tied=flat(rows),
        at=flat(rows + 1),
        other=flat(rows * READS),
        send=flat(rows * READS),
        out_at=flat(rows + 2),
        out=flat(rows * READS),
        out_send=flat(rows * READS),
        side=np.zeros((4, rows), np.int64),
        trial=np.zeros((4, rows), np.int64),
        ahead=flat(rows),
        back=flat(rows),
        list=flat(rows),
    )


@njit(cache=True, nogil=True)
def raise_heads(
    part: IntArray,
    order: IntArray,
    place: IntArray,
    waits: Edges,
    time: IntArray,
    group: IntArray,
    head: IntArray,
    near: NearAncestors,
    devices: int,
    probing: bool,
) -> None:
    """Raise ``head`` of the operations of ``part``, whose ancestors have theirs."""
    for v in part:
        for i in range(waits.at[v], waits.at[v + 1]):
            head[v] = max(head[v], head[waits.other[i]] + time[waits.other[i]])
        if waits.at[v + 1] - waits.at[v] < 2:  # right behind the only producer, on its device: nothing to refute
            continue
        count = _gather(v, order, place, waits, time, group, head, near)
        low, high = head[v], 0
        for i in argsort(near.head, count, 1):
            high = max(high, near.head[i]) + near.time[i]
        if high <= low:  # all ancestors on one device are done by then: nothing to refute
            continue
        for probed in range(2 if probing else 1):
            if not _refuted(low, count, near, devices, probed == 1):
                continue
            low, top, step = low + 1, high, EXACT
            while low + (EXACT if probed else 0) < top:
                middle = min(low + step, (low + top) // 2)  # most heads rise by little
                if _refuted(middle, count, near, devices, probed == 1):
                    low, step = middle + 1, 4 * step
                else:
                    top = middle
        head[v] = low


@njit(part=True)
def _gather(
    v: int,
    order: IntArray,
    place: IntArray,
    waits: Edges,
    time: IntArray,
    group: IntArray,
    head: IntArray,
    near: NearAncestors,
) -> int:
    """Fill ``near`` for ``v``; the number of ancestors."""
    number, row, count, nearest = near.number, near.row, 0, len(near.number) - 1
    for i in range(waits.at[v], waits.at[v + 1]):
        row[waits.other[i]] = 0
    for k in range(place[v] - 1, max(-1, place[v] - 1 - REACH * nearest), -1):
        u = order[k]
        if row[u] == 0:
            number[count] = u
            count += 1
            if count == nearest:
                break
            for i in range(waits.at[u], waits.at[u + 1]):
                row[waits.other[i]] = 0
    for i in range(count // 2):
        number[i], number[count - 1 - i] = number[count - 1 - i], number[i]
    number[count] = v
    for i in range(count + 1):  # those marked but not reached lose their marks
        for k in range(waits.at[number[i]], waits.at[number[i] + 1]):
            row[waits.other[k]] = -1
    for i in range(count):
        row[number[i]] = i
    size = 0
    for i in range(count + 1):
        u = number[i]
        near.head[i], near.time[i], near.at[i] = head[u], time[u], size
        near.tied[i] = group[u] == group[v]
        for k in range(waits.at[u], waits.at[u + 1]):
            j = row[waits.other[k]]
            if j >= 0 and size - near.at[i] < READS:
                near.other[size], near.send[size] = j, min(NEVER, waits.send[k])
                size += 1
    near.at[count + 1], near.time[count] = size, 0
    for i in range(count):
        row[number[i]] = -1
    _turned(count, size, near)
    return count


@njit(part=True)
def _turned(count: int, size: int, near: NearAncestors) -> None:
    """Fill in the readers of each row."""
    out_at = near.out_at  # while it is filled, the room for row i begins at out_at[i + 1]
    out_at[:] = 0
    for k in range(size):
        out_at[near.other[k] + 2] += 1
    for i in range(count + 1):
        out_at[i + 2] += out_at[i + 1]
    for i in range(count + 1):
        for k in range(near.at[i], near.at[i + 1]):
            j = near.other[k]
            near.out[out_at[j + 1]], near.out_send[out_at[j + 1]] = i, near.send[k]
            out_at[j + 1] += 1


@njit(part=True)
def _refuted(limit: int, count: int, near: NearAncestors, devices: int, probing: bool) -> bool:
    """Whether v can't start by ``limit``."""
    side = near.side
    for i in range(count):
        side[ON, i], side[OFF, i] = near.head[i], NEVER if near.tied[i] or devices == 1 else near.head[i]
        side[ON_TO_GO, i], side[OFF_TO_GO, i] = 0, 0
    side[ON, count], side[OFF, count], side[ON_TO_GO, count], side[OFF_TO_GO, count] = 0, NEVER, 0, NEVER
    near.ahead[:], near.back[:] = 1, 1
    if _closed(limit, count, near, devices, side):
        return True
    for i in range(count - 1, -1, -1) if probing else range(0):
        for supposed in (ON, OFF):
            if side[ON, i] >= NEVER or side[OFF, i] >= NEVER:
                break
            for row in range(len(side)):
                for k in range(count + 1):
                    near.trial[row, k] = side[row, k]
            if _without(1 - supposed, i, limit, count, near, devices, near.trial) and _without(
                supposed, i, limit, count, near, devices, side
            ):
                return True
    return False


@njit(part=True)
def _without(way: int, i: int, limit: int, count: int, near: NearAncestors, devices: int, side: IntArray) -> bool:
    """:func:`_closed` once row i isn't on that side; ``side`` was closed before."""
    near.ahead[:], near.back[:] = 0, 0
    side[way, i], near.ahead[i], near.back[i] = NEVER, 1, 1
    return _closed(limit, count, near, devices, side)


@njit(part=True)
def _closed(limit: int, count: int, near: NearAncestors, devices: int, side: IntArray) -> bool:
    """Raise starts and times to go until nothing changes; whether an ancestor has no side left, or too many are on."""
    ahead, back = near.ahead, near.back
    for _ in range(ROUNDS):
        for i in range(count):
            if ahead[i]:
                ahead[i] = 0
                _push_starts(i, near, side)
        changed = False
        for i in range(count, -1, -1):
            if not back[i]:
                continue
            back[i] = 0
            for way in (ON, OFF):
                here = side[way, i]
                if i < count and here < NEVER and here + near.time[i] + side[way + ON_TO_GO, i] > limit:
                    side[way, i], ahead[i], changed = NEVER, 1, True
                if side[way, i] >= NEVER:
                    side[way + ON_TO_GO, i] = NEVER
            if side[ON, i] >= NEVER and side[OFF, i] >= NEVER:
                return True
            _push_to_go(i, near, side)
        if not changed:
            break
    return _overfull(limit, count, near, side, ON, 1) or _overfull(limit, count, near, side, OFF, devices - 1)


@njit(part=True)
def _push_starts(i: int, near: NearAncestors, side: IntArray) -> None:
    """Raise the starts of what reads row i."""
    on, off, time = side[ON, i], side[OFF, i], near.time[i]
    for k in range(near.out_at[i], near.out_at[i + 1]):
        r, send = near.out[k], near.out_send[k]
        start_on = min(NEVER, min(on, off + send) + time)
        start_off = min(NEVER, min(off, on + send) + time)
        if start_on > side[ON, r] or start_off > side[OFF, r]:
            side[ON, r], side[OFF, r] = max(side[ON, r], start_on), max(side[OFF, r], start_off)
            near.ahead[r], near.back[r] = 1, 1


@njit(part=True)
def _push_to_go(i: int, near: NearAncestors, side: IntArray) -> None:
    """Raise the times to go of what row i reads."""
    on, off, time = side[ON_TO_GO, i], side[OFF_TO_GO, i], near.time[i]
    for k in range(near.at[i], near.at[i + 1]):
        w, send = near.other[k], near.send[k]
        go_on, go_off = min(NEVER, min(on, off + send) + time), min(NEVER, min(off, on + send) + time)
        if go_on > side[ON_TO_GO, w] or go_off > side[OFF_TO_GO, w]:
            side[ON_TO_GO, w] = max(side[ON_TO_GO, w], go_on)
            side[OFF_TO_GO, w] = max(side[OFF_TO_GO, w], go_off)
            near.back[w] = 1


@njit(part=True)
def _overfull(limit: int, count: int, near: NearAncestors, side: IntArray, way: int, devices: int) -> bool:
    """Whether those that can only be on that side can't all run there by ``limit``."""
    start, work, to_go = 0, 0, 0
    for i in range(count):
        if side[1 - way, i] >= NEVER and near.time[i] > 0:
            start, work = max(start, side[way, i]), work + near.time[i]
            to_go = max(to_go, side[way + ON_TO_GO, i])
    if work == 0 or start - (-work // devices) + to_go <= limit:  # no set of them takes longer
        return False
    return _machines(count, near, side, way, devices) > limit


@njit(part=True)
def _machines(count: int, near: NearAncestors, side: IntArray, way: int, devices: int) -> int:
    """max over h, t of h + ⌈Σ p{start >= h, to go >= t} / devices⌉ + t over those that can only be on that side."""
    listed, size, best, to_go = near.list, 0, 0, way + ON_TO_GO
    for i in argsort(side[way], count, -1):  # from the latest start on; ``listed``: in the order of falling time to go
        if side[1 - way, i] < NEVER or near.time[i] == 0:
            continue
        k = size
        while k > 0 and side[to_go, listed[k - 1]] < side[to_go, i]:
            listed[k] = listed[k - 1]
            k -= 1
        listed[k] = i
        size += 1
        work = 0
        for k in range(size):
            work += near.time[listed[k]]
            best = max(best, side[way, i] - (-work // devices) + side[to_go, listed[k]])
    return best
