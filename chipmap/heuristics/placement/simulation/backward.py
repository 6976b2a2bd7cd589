"""Keys from a schedule run backwards: forward and backward passes in turn (justification).

The decoder's rules, with time turned round: an operation may begin when all that read its outputs are done, and a
transfer when all readers on its destination are. What ended last in the schedule goes first. How long before the end
an operation begins then, is how urgent it is: unlike the upward rank, this knows devices and channels that are busy.
Minus that time is its key in the next schedule, which often is shorter; so both go on in turn (Li and Willis, An
iterative scheduling technique for resource-constrained project scheduling, 1992).

It decides keys alone. Where routes share channels, those are served in the order of their numbers, not of keys.
"""

from __future__ import annotations

import numpy as np

from chipmap.heuristics.placement.simulation.checkpoints import BITS
from chipmap.heuristics.placement.simulation.heaps import SIZE, empty, following, happen, part, pop, push
from chipmap.heuristics.placement.simulation.simulator import DEVICE, LOWER, OPERATION, ROUTE, TRANSFER
from chipmap.heuristics.placement.simulation.tables import Tables, Work
from chipmap.instances.placement.problem import IntArray
from chipmap.kernels import njit


@part
def _begin(t: Tables, device: IntArray, rank: IntArray, w: Work) -> None:
    """Nothing is done; what nobody reads is ready.

    ``w.left`` [N]: readers on the device, and other devices, that aren't done with what an operation makes;
    ``w.behind`` [S * D]: readers of a storage on another device that aren't done.
    """
    devices = len(t.gap)
    empty(w.heap)
    w.kept.rows[0] = 0
    for d in range(devices):
        w.device[0, d] = 0
    for c in range(w.channel.shape[1]):
        w.channel[0, c] = 0
    for v in range(len(device)):
        w.left[v] = 0
    for s in range(len(t.producer)):
        u = t.producer[s]
        for d in range(devices):
            w.behind[s * devices + d] = 0
        for i in range(t.reader_at[s], t.reader_at[s + 1]):
            d = device[t.readers[i]]
            if d == device[u] or w.behind[s * devices + d] == 0:
                w.left[u] += 1
            w.behind[s * devices + d] += d != device[u]
    for v in range(len(device)):
        if w.left[v] == 0:
            push(w.pool, w.heap, device[v], rank[v] << BITS | v)


@part
def _done(t: Tables, device: IntArray, rank: IntArray, w: Work, v: int, touched: int) -> int:
    """Operation ``v`` is done: producers on its device may be ready, transfers to it too. The new number of routes."""
    devices, d = len(t.gap), device[v]
    for i in range(t.read_at[v], t.read_at[v + 1]):
        s = t.read[i]
        u = t.producer[s]
        if device[u] == d:
            w.left[u] -= 1
            if w.left[u] == 0:
                push(w.pool, w.heap, d, rank[u] << BITS | u)
            continue
        w.behind[s * devices + d] -= 1
        if w.behind[s * devices + d] == 0:
            r = device[u] * devices + d
            push(w.pool, w.heap, devices + r, rank[u] << BITS | s)
            w.routes[touched] = r
            touched += 1
    return touched


@part
def _send_back(t: Tables, w: Work, r: int, now: int, events: int) -> int:
    """Start the transfers on route ``r`` that can start; the new number of events."""
    devices = len(t.gap)
    while w.heap[devices + r, SIZE] > 0:
        for i in range(t.channel_at[r], t.channel_at[r + 1]):
            if w.channel[0, t.channels[i]] > now:
                return events
        s = pop(w.pool, w.heap, devices + r) & LOWER
        end = now + t.send[s, t.kind[r]]
        for i in range(t.channel_at[r], t.channel_at[r + 1]):
            w.channel[0, t.channels[i]] = end + t.rest[r]
        events = happen(w.event_time, w.event_code, events, end, ((s << 6 | r % devices) << 2) | TRANSFER)
        if t.rest[r] > 0:
            events = happen(w.event_time, w.event_code, events, end + t.rest[r], (r << 2) | ROUTE)
    return events


@njit(cache=True, nogil=True, _nrt=False)
def backward(t: Tables, device: IntArray, rank: IntArray, w: Work, done: IntArray) -> int:
    """How long the schedule takes backwards; ``done`` [N]: the time from each operation's start to the end.

    Of what is ready, the least ``rank`` [N] (below 2**38) goes first. ``w`` is scratch: it holds no schedule then.
    """
    when, what, devices = w.event_time, w.event_code, len(t.gap)
    _begin(t, device, rank, w)
    now, events, look, touched = 0, 0, ~np.uint64(0), 0
    while True:
        while events > 0 and when[0] == now:
            code = following(when, what, events)
            events -= 1
            sort, code = code & 3, code >> 2
            if sort == OPERATION:
                done[code] = now
                look |= np.uint64(1) << np.uint64(device[code])
                touched = _done(t, device, rank, w, code, touched)
            elif sort == TRANSFER:
                u = t.producer[code >> 6]
                w.left[u] -= 1
                if w.left[u] == 0:
                    push(w.pool, w.heap, device[u], rank[u] << BITS | u)
                    look |= np.uint64(1) << np.uint64(device[u])
                w.routes[touched] = device[u] * devices + (code & 63)
                touched += 1
            elif sort == ROUTE:
                w.routes[touched] = code
                touched += 1
            else:
                look |= np.uint64(1) << np.uint64(code)
        if t.apart:
            for k in range(touched):
                events = _send_back(t, w, np.int64(w.routes[k]), now, events)
        elif touched:
            for r in range(devices * devices):
                events = _send_back(t, w, r, now, events)
        touched = 0
        for d in range(devices):
            while (look >> np.uint64(d)) & np.uint64(1) and w.heap[d, SIZE] > 0 and w.device[0, d] <= now:
                v = pop(w.pool, w.heap, d) & LOWER
                end = now + t.pace[v, t.column[d]]
                if end > now:
                    w.device[0, d] = end + t.gap[d]
                    if t.gap[d] > 0:
                        events = happen(when, what, events, end + t.gap[d], (d << 2) | DEVICE)
                events = happen(when, what, events, end, (v << 2) | OPERATION)
        if events == 0:
            return now
        look = np.uint64(0)
        now = when[0]


def backward_keys(t: Tables, device: IntArray, w: Work) -> IntArray:
    """Keys [N] from the schedule that ``w`` holds, run backwards; ``w`` holds none then."""
    count = len(device)
    end = w.start + t.time[np.arange(count), device]
    rank, done = np.empty(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    rank[np.argsort(-end, kind="stable")] = np.arange(count)
    backward(t, device, rank, w, done)
    return -done
