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

To look at some ancestors only is a relaxation; the :data:`NEAREST` last ones in topological order are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.placement.bounds.simple import Edges, HeadsAndTails, directions
from chipmap.instances.placement.problem import IntArray, PlacementProblem
from chipmap.kernels import njit
from chipmap.kernels.sorting import argsort

#: Ancestors that are looked at, positions before v among which they are sought, and the reads of each one that count.
NEAREST, REACH, READS = 64, 1_280, 48
#: Rounds of raising times to go and starts before a limit counts as not refuted.
ROUNDS = 4
#: Later than any time: the side is impossible.
NEVER = 2**60
#: Rows of :attr:`NearAncestors.side`.
ON, OFF, ON_TO_GO, OFF_TO_GO = 0, 1, 2, 3
#: Operations per call of compiled code, after which the clock is looked at, without and with probing.
CHUNK, PROBED = 2_000, 32
#: With probing a limit is found to so many ns.
EXACT = 1_000


class NearAncestors(NamedTuple):
    """The nearest ancestors of v in topological order, in rows 0, 1, …, and v itself in the row behind the last one.

    ``number``: the operation of each row; ``row`` [N]: the row of an operation, -1 where it has none; ``head``,
    ``time``, ``tied`` (whether it shares v's group); the rows that row i reads are ``other[at[i]:at[i + 1]]``, with
    ``send``. ``side`` [4, rows]: least starts on and off, then least times to go; ``trial``: the same while a side is
    supposed. ``list``: scratch.
    """

    number: IntArray
    row: IntArray
    head: IntArray
    time: IntArray
    tied: IntArray
    at: IntArray
    other: IntArray
    send: IntArray
    side: IntArray
    trial: IntArray
    list: IntArray


def raised(problem: PlacementProblem, w: HeadsAndTails, probing: bool, deadline: Deadline) -> HeadsAndTails:
    """``w`` with heads and tails at least as large; where the deadline passes, the others stay as they are."""
    rows, found = NEAREST + 1, []
    for (order, place, waits), given in zip(directions(problem), (w.head, w.tail), strict=True):
        near = NearAncestors(
            number=np.zeros(rows, np.int64),
            row=np.full(problem.operations, -1, np.int64),
            head=np.zeros(rows, np.int64),
            time=np.zeros(rows, np.int64),
            tied=np.zeros(rows, np.int64),
            at=np.zeros(rows + 1, np.int64),
            other=np.zeros(rows * READS, np.int64),
            send=np.zeros(rows * READS, np.int64),
            side=np.zeros((4, rows), np.int64),
            trial=np.zeros((4, rows), np.int64),
            list=np.zeros(rows, np.int64),
        )
        head, chunk = given.copy(), PROBED if probing else CHUNK
        for low in range(0, problem.operations, chunk):
            part = order[low : low + chunk]
            if not deadline.keep_going():
                break
            raise_heads(part, order, place, waits, w.time, problem.group, head, near, problem.devices, probing)
        found.append(head)
    return HeadsAndTails(found[0], w.time, found[1])


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
            low, top = low + 1, high
            while low + (EXACT if probed else 0) < top:
                middle = (low + top) // 2
                if _refuted(middle, count, near, devices, probed == 1):
                    low = middle + 1
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
    number, row, count = near.number, near.row, 0
    for i in range(waits.at[v], waits.at[v + 1]):
        row[waits.other[i]] = 0
    for k in range(place[v] - 1, max(-1, place[v] - 1 - REACH), -1):
        u = order[k]
        if row[u] == 0:
            number[count] = u
            count += 1
            if count == NEAREST:
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
    return count


@njit(part=True)
def _refuted(limit: int, count: int, near: NearAncestors, devices: int, probing: bool) -> bool:
    """Whether v can't start by ``limit``."""
    side = near.side
    for i in range(count):
        side[ON, i], side[OFF, i] = near.head[i], NEVER if near.tied[i] or devices == 1 else near.head[i]
        side[ON_TO_GO, i], side[OFF_TO_GO, i] = 0, 0
    side[ON, count], side[OFF, count], side[ON_TO_GO, count], side[OFF_TO_GO, count] = 0, NEVER, 0, NEVER
    if _closed(limit, count, near, devices, side):
        return True
    for i in range(count - 1, -1, -1) if probing else range(0):
        for supposed in (ON, OFF):
            if side[ON, i] >= NEVER or side[OFF, i] >= NEVER:
                break
            for row in range(len(side)):
                for k in range(count + 1):
                    near.trial[row, k] = side[row, k]
            near.trial[1 - supposed, i] = NEVER
            if _closed(limit, count, near, devices, near.trial):
                side[supposed, i] = NEVER
                if _closed(limit, count, near, devices, side):
                    return True
    return False


@njit(part=True)
def _closed(limit: int, count: int, near: NearAncestors, devices: int, side: IntArray) -> bool:
    """Raise starts and times to go until nothing changes; whether an ancestor has no side left, or too many are on."""
    for _ in range(ROUNDS):
        changed = False
        for i in range(count):
            on, off = side[ON, i], side[OFF, i]
            for k in range(near.at[i], near.at[i + 1]):
                w, send = near.other[k], near.send[k]
                on = max(on, min(side[ON, w], side[OFF, w] + send) + near.time[w])
                off = max(off, min(side[OFF, w], side[ON, w] + send) + near.time[w])
            changed |= min(on, NEVER) > side[ON, i] or min(off, NEVER) > side[OFF, i]
            side[ON, i], side[OFF, i] = min(on, NEVER), min(off, NEVER)
        for i in range(count, -1, -1):
            for way in (ON, OFF):
                here = side[way, i]
                if i < count and here < NEVER and here + near.time[i] + side[way + ON_TO_GO, i] > limit:
                    side[way, i], changed = NEVER, True
                if side[way, i] >= NEVER:
                    side[way + ON_TO_GO, i] = NEVER
            if side[ON, i] >= NEVER and side[OFF, i] >= NEVER:
                return True
            for k in range(near.at[i], near.at[i + 1]):
                w, send, time = near.other[k], near.send[k], near.time[i]
                on = min(side[ON_TO_GO, i], side[OFF_TO_GO, i] + send) + time
                off = min(side[OFF_TO_GO, i], side[ON_TO_GO, i] + send) + time
                side[ON_TO_GO, w] = min(NEVER, max(side[ON_TO_GO, w], on))
                side[OFF_TO_GO, w] = min(NEVER, max(side[OFF_TO_GO, w], off))
        if not changed:
            break
    return max(_machines(count, near, side, ON, 1), _machines(count, near, side, OFF, devices - 1)) > limit


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
