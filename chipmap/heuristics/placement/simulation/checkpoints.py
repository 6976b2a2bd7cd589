"""Moments of a simulation that are kept, so that another one that differs later only goes on from there."""

from __future__ import annotations

import numpy as np

from chipmap.heuristics.placement.simulation.heaps import FIRST, LOW, ROOM, SIZE, part
from chipmap.heuristics.placement.simulation.tables import Kept, Short, Tables, Work
from chipmap.instances.placement.problem import IntArray
from chipmap.kernels import njit

#: More operations than there are.
NEVER = 2**62
#: Bits for an operation or storage in an entry of a heap.
BITS = 24

#: (time, different times before it, events to come, last end so far, operations that have started, what has started).
Mark = tuple[int, int, int, int, int, int]


@part
def due(k: Kept, count: int) -> int:
    """When so many of ``count`` operations have started, the next moment is kept."""
    row, rows = k.rows[0], len(k.slot)
    return NEVER if row >= rows else (row + 1) * count // (rows + 1) + 1


@part
def keep(w: Work, mark: Mark) -> None:
    """Keep this moment behind the others."""
    k = w.kept
    row = k.slot[k.rows[0]]
    k.rows[0] += 1
    now, number, events, longest, started, logged = mark
    k.time[row] = now
    k.mark[row, 0], k.mark[row, 1], k.mark[row, 2], k.mark[row, 3] = number, events, longest, started
    k.mark[row, 4] = logged
    for v in range(len(w.left)):
        k.left[row, v] = w.left[v]
    for i in range(events):
        k.when[row, i], k.what[row, i] = w.event_time[i], w.event_code[i]
    total = 0
    for h in range(len(w.heap) - 1):
        low, size = w.heap[h, LOW], w.heap[h, SIZE]
        k.size[row, h] = size
        for i in range(size):
            k.entry[row, total + i] = w.pool[low + i]
        total += size
    for i in range(w.device.shape[1]):
        for j in range(3):
            k.device[row, j, i] = w.device[j, i]
    for i in range(w.channel.shape[1]):
        for j in range(2):
            k.channel[row, j, i] = w.channel[j, i]


@part
def restore(k: Kept, w: Work, number: int) -> Mark:
    """Put the moment ``number`` of ``k`` into ``w``."""
    top, row = 0, k.slot[number]
    events = k.mark[row, 1]
    for v in range(len(w.left)):
        w.left[v] = k.left[row, v]
    for i in range(events):
        w.event_time[i], w.event_code[i] = k.when[row, i], k.what[row, i]
    total, last = 0, len(w.heap) - 1
    for h in range(last):
        size = k.size[row, h]
        w.heap[h, LOW], w.heap[h, SIZE], w.heap[h, ROOM] = top, size, max(FIRST, 2 * size)
        for i in range(size):
            w.pool[top + i] = k.entry[row, total + i]
        total += size
        top += max(FIRST, 2 * size)
    w.heap[last, LOW] = top
    for i in range(w.device.shape[1]):
        for j in range(3):
            w.device[j, i] = k.device[row, j, i]
    for i in range(w.channel.shape[1]):
        for j in range(2):
            w.channel[j, i] = k.channel[row, j, i]
    return k.time[row], k.mark[row, 0], events, k.mark[row, 2], k.mark[row, 3], k.mark[row, 4]


@part
def _silent(t: Tables, device: IntArray, key: IntArray, w: Work, v: int, to: int) -> bool:
    """Whether ``v``, which reads nothing, can go to device ``to`` without a trace.

    So do weights whose readers all are where they are and go with them: they take no time, send nothing, and end at 0
    here and there, as their keys come before that of what keeps the device busy from 0 on. Other operations of that
    time keep their order on each device and each route, and no transfer ends at 0.
    """
    k = w.kept
    if not t.calm or w.start[v] > 0 or key[v] << BITS | v >= k.opener[to]:
        return False
    if t.pace[v, t.column[device[v]]] > 0 or t.pace[v, t.column[to]] > 0:
        return False
    for i in range(t.made_at[v], t.made_at[v + 1]):
        s = t.made[i]
        for j in range(t.reader_at[s], t.reader_at[s + 1]):
            u = t.readers[j]
            if k.mover[u] < k.stamp[0] or device[u] != device[v]:
                return False
    return True


@part
def _same_targets(t: Tables, device: IntArray, k: Kept, s: int, to: int) -> bool:
    """Whether storage ``s``, whose producer stays, is sent to the same devices when what moves is on ``to``."""
    home, one = device[t.producer[s]], np.uint64(1)
    before, after = one << np.uint64(home), one << np.uint64(home)
    for j in range(t.reader_at[s], t.reader_at[s + 1]):
        u = t.readers[j]
        before |= one << np.uint64(device[u])
        after |= one << np.uint64(to if k.mover[u] >= k.stamp[0] else device[u])
    return bool(before == after)


@part
def _arrival(t: Tables, device: IntArray, w: Work, s: int, to: int) -> int:
    """When storage ``s`` is on device ``to``, as in the kept simulation; :data:`NEVER` where that may change.

    Of moved producers only silent ones' outputs are there from the beginning on.
    """
    k, u = w.kept, t.producer[s]
    if k.mover[u] >= k.stamp[0]:
        return -1 if k.mover[u] > k.stamp[0] else NEVER
    if k.net[s] == k.stamp[0]:
        return NEVER
    home = int(device[u])
    if home == to:
        return int(w.start[u] + t.pace[u, t.column[home]])
    devices = len(t.gap)
    return int(w.sent[s * devices + to] + t.send[s, t.kind[home * devices + to]])


@njit(part=True, _nrt=False)
def first_change(
    t: Tables, device: IntArray, key: IntArray, w: Work, moved: IntArray, change: tuple[int, int], keyed: int
) -> int:
    """The last kept moment before which nothing changes if ``moved`` go elsewhere and ``keyed`` gets a new key.

    ``change``: (how many are moved, their new device); ``keyed`` -1: no key changes. ``device``, ``key`` and ``w`` are
    those of the kept simulation. The first change is the earliest of these; -1 says that it is at the beginning:

    - a producer that stays ends, and sends its output to other devices than before;
    - a moved operation has all its inputs, where it was or where it goes (before, it is only waited for);
    - what reads nothing goes elsewhere, unless it is silent; the operation of the new key is ready.
    """
    k, (size, to), first = w.kept, change, NEVER
    k.stamp[0] += 2
    mark = k.stamp[0]
    if keyed >= 0:
        if t.reads[keyed] == 0:
            return -1
        first = w.ready[keyed]
    for i in range(size):
        k.mover[moved[i]] = mark
    for i in range(size):
        if t.reads[moved[i]] == 0:
            if not _silent(t, device, key, w, moved[i], to):
                return -1
            k.mover[moved[i]] = mark + 1
    for i in range(size):
        v = moved[i]
        if t.reads[v] == 0:
            continue
        last = -1
        for j in range(t.read_at[v], t.read_at[v + 1]):
            s = t.read[j]
            u = t.producer[s]
            if k.net[s] < mark and k.mover[u] < mark:
                k.net[s] = mark + 1 if _same_targets(t, device, k, s, to) else mark
                if k.net[s] == mark:
                    first = min(first, w.start[u] + t.pace[u, t.column[device[u]]])
            last = max(last, _arrival(t, device, w, s, to))
        first = min(first, w.ready[v], last)
    row = k.rows[0] - 1
    while row >= 0 and k.time[k.slot[row]] > first:
        row -= 1
    return row


@part
def move(
    t: Tables,
    base: Work,
    rest: tuple[Short, IntArray],
    device: IntArray,
    moved: IntArray,
    size: int,
    now: int,
) -> None:
    """Put ``moved[:size]``, none of which but silent ones has started, where ``device`` says, at time ``now``.

    ``rest``: ``left`` and ``device`` of a :class:`Work` or of a kept moment. Those of their inputs are there that are
    on the new device by then, as ``base`` has it.
    """
    left, work = rest
    for i in range(size):
        v = moved[i]
        home, to, count = left[v] & 63, device[v], 0
        for j in range(t.read_at[v], t.read_at[v + 1]):
            count += _arrival(t, device, base, t.read[j], to) >= now
        left[v] = count << 6 | to
        work[2, home] -= t.pace[v, t.column[home]]
        work[2, to] += t.pace[v, t.column[to]]


@part
def hand_on(t: Tables, base: Work, w: Work, device: IntArray, moved: IntArray, change: tuple[int, int]) -> None:
    """Give ``w``, which began at a kept moment of ``base``, what was before: the schedule, the moments up to this one.

    ``change``: (the moment, how many are moved). The moments are handed over, as ``base`` doesn't need them any more.
    """
    (number, size), k = change, base.kept
    count, row = len(base.start), k.slot[number]
    for v in range(count):
        if base.ready[v] < k.time[row]:
            w.ready[v] = base.ready[v]
    for i in range(k.mark[row, 4]):
        code = base.log[i]
        w.log[i] = code
        if code < count:
            w.start[code], w.before[code] = base.start[code], base.before[code]
        else:
            w.sent[code - count], w.behind[code - count] = base.sent[code - count], base.behind[code - count]
    for d in range(len(t.gap)):
        w.kept.opener[d] = k.opener[d]
    for r in range(number + 1):
        row = k.slot[r]
        move(t, base, (k.left[row], k.device[row]), device, moved, size, k.time[row])
        k.slot[r], w.kept.slot[r] = w.kept.slot[r], row
