"""Moments of a simulation that are kept, so that another one that differs later only goes on from there."""

from __future__ import annotations

from chipmap.heuristics.placement.heaps import FIRST, LOW, ROOM, SIZE, part
from chipmap.heuristics.placement.tables import Kept, Tables, Work
from chipmap.instances.placement.problem import IntArray
from chipmap.kernels import njit

#: More operations than there are.
NEVER = 2**62

#: (time, different times before it, events to come, last end so far, operations that have started).
Mark = tuple[int, int, int, int, int]


@part
def due(k: Kept, count: int) -> int:
    """When so many of ``count`` operations have started, the next moment is kept."""
    row, rows = k.rows[0], len(k.time)
    return NEVER if row >= rows else (row + 1) * count // (rows + 1) + 1


@part
def keep(w: Work, mark: Mark) -> None:
    """Keep this moment behind the others."""
    k, row = w.kept, w.kept.rows[0]
    k.rows[0] = row + 1
    now, number, events, longest, started = mark
    k.time[row] = now
    k.mark[row, 0], k.mark[row, 1], k.mark[row, 2], k.mark[row, 3] = number, events, longest, started
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
def restore(w: Work, row: int) -> Mark:
    """Put back what was kept in ``row``."""
    k, top = w.kept, 0
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
    return k.time[row], k.mark[row, 0], events, k.mark[row, 2], k.mark[row, 3]


@njit(cache=True, nogil=True)
def first_change(t: Tables, device: IntArray, w: Work, moved: IntArray, size: int, keyed: int) -> int:
    """The last kept moment before which nothing changes if ``moved[:size]`` go elsewhere and ``keyed`` gets a new key.

    Where an operation runs matters from the first end of a producer on, as this sends its output there; its key (-1:
    none changes) from when it is ready. What reads nothing matters from the beginning on (-1). ``device`` and ``w``
    are those of the kept simulation.
    """
    first = NEVER
    if keyed >= 0:
        first = w.ready[keyed] if t.reads[keyed] > 0 else -1
    for k in range(size):
        v = moved[k]
        if t.reads[v] == 0:
            return -1
        for i in range(t.read_at[v], t.read_at[v + 1]):
            u = t.producer[t.read[i]]
            first = min(first, w.start[u] + t.pace[u, t.column[device[u]]])
    row = w.kept.rows[0] - 1
    while row >= 0 and w.kept.time[row] > first:
        row -= 1
    return row


@part
def move(t: Tables, w: Work, device: IntArray, moved: IntArray, size: int) -> None:
    """Put ``moved[:size]``, none of which has started, where ``device`` says."""
    for k in range(size):
        v = moved[k]
        home, to = w.left[v] & 63, device[v]
        w.left[v] += to - home
        w.device[2, home] -= t.pace[v, t.column[home]]
        w.device[2, to] += t.pace[v, t.column[to]]


@part
def move_kept(t: Tables, k: Kept, device: IntArray, moved: IntArray, size: int, row: int) -> None:
    """The same in the kept moments up to ``row``; the later ones are forgotten."""
    k.rows[0] = row + 1
    for r in range(row + 1):
        for i in range(size):
            v = moved[i]
            home, to = k.left[r, v] & 63, device[v]
            k.left[r, v] += to - home
            k.device[r, 2, home] -= t.pace[v, t.column[home]]
            k.device[r, 2, to] += t.pace[v, t.column[to]]
