"""The decoder: devices and a key per operation make a schedule, by the rules of ``docs/families/placement.md``.

An event simulation. At each time, in this order: everything that ends then is taken note of; waiting transfers start
whose channels are free, the least (key of the producer, storage, device) first; each idle device starts its ready
operation of least (key, position). Where something of no length started, this is repeated at the same time. The
schedule is a function of devices and keys alone: no set or hash decides anything.

Each device has a heap of ready operations, each route one of waiting transfers. An entry is one number, the key in its
upper bits and the operation or storage in its lower ones, so that one comparison decides. All heaps lie in one array.
A full one moves to its end, with twice the room.
"""

from __future__ import annotations

import numpy as np

from chipmap.heuristics.placement.tables import Tables, Work
from chipmap.instances.placement.instance import PlacementSolution, Transfer
from chipmap.instances.placement.problem import IntArray, PlacementProblem
from chipmap.kernels import njit

#: What an event is, in the two lowest bits of its code: an operation's end, a transfer's, a rested route, a device.
OPERATION, TRANSFER, ROUTE, DEVICE = 0, 1, 2, 3
#: What :func:`simulate` returns where a transfer has no route, and where the limit is reached.
NO_ROUTE, ABORTED = -1, -2
#: No limit.
NEVER = 2**62
#: The columns of ``Work.heap``: where a heap begins, its size, its room. Its last row says where the next one begins.
LOW, SIZE, ROOM = 0, 1, 2
#: The room of each heap at the beginning.
FIRST = 8
#: Bits for an operation or storage in an entry; keys that don't fit above them are replaced by their ranks.
BITS = 24
LOWER = 2**BITS - 1
LARGEST_KEY = 2**38

#: (a time, how many different times were before it).
Moment = tuple[int, int]

#: Parts of the loop: written into it, and without counting references to arrays, which would take most of the time.
_part = njit(cache=True, nogil=True, forceinline=True, _nrt=False)


@_part
def _push(pool: IntArray, heap: IntArray, h: int, entry: int) -> None:
    """Add ``entry`` to heap ``h``."""
    low, i = heap[h, LOW], heap[h, SIZE]
    if i == heap[h, ROOM]:
        top = heap[len(heap) - 1, LOW]
        for k in range(i):
            pool[top + k] = pool[low + k]
        low = top
        heap[h, LOW], heap[h, ROOM], heap[len(heap) - 1, LOW] = low, 2 * i, top + 2 * i
    heap[h, SIZE] = i + 1
    while i > 0:
        parent = (i - 1) >> 1
        if pool[low + parent] <= entry:
            break
        pool[low + i] = pool[low + parent]
        i = parent
    pool[low + i] = entry


@_part
def _pop(pool: IntArray, heap: IntArray, h: int) -> int:
    """Remove and return the least entry of heap ``h``."""
    low, last = heap[h, LOW], heap[h, SIZE] - 1
    heap[h, SIZE] = last
    least, entry = pool[low], pool[low + last]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= last:
            break
        if child + 1 < last and pool[low + child + 1] < pool[low + child]:
            child += 1
        if pool[low + child] >= entry:
            break
        pool[low + i] = pool[low + child]
        i = child
    pool[low + i] = entry
    return least


@_part
def _happen(when: IntArray, what: IntArray, count: int, time: int, code: int) -> int:
    """Add an event to the heap of ``count`` events; their new number. Those at one time come in any order."""
    i = count
    while i > 0:
        parent = (i - 1) >> 1
        if when[parent] <= time:
            break
        when[i], what[i] = when[parent], what[parent]
        i = parent
    when[i], what[i] = time, code
    return count + 1


@_part
def _next(when: IntArray, what: IntArray, count: int) -> int:
    """Remove the first event and return its code."""
    last = count - 1
    first, time, code = what[0], when[last], what[last]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= last:
            break
        if child + 1 < last and when[child + 1] < when[child]:
            child += 1
        if when[child] >= time:
            break
        when[i], what[i] = when[child], what[child]
        i = child
    when[i], what[i] = time, code
    return first


@_part
def _ended(t: Tables, w: Work, device: IntArray, key: IntArray, fifo: bool, v: int, at: Moment, touched: int) -> int:
    """Operation ``v`` ended: readers on its device may be ready, and transfers wait. The new number of ``routes``.

    It is -1 where there is no route.
    """
    home, devices, now, number = device[v], len(t.gap), at[0], at[1]
    rank = (number if fifo else key[v]) << BITS
    for k in range(t.made_at[v], t.made_at[v + 1]):
        s, there = t.made[k], np.uint64(0)
        for i in range(t.reader_at[s], t.reader_at[s + 1]):
            u = t.readers[i]
            d = device[u]
            if d == home:
                w.missing[u] -= 1
                if w.missing[u] == 0:
                    w.ready[u] = now
                    _push(w.pool, w.heap, d, ((number if fifo else key[u]) << BITS) | u)
            elif not (there >> np.uint64(d)) & np.uint64(1):
                there |= np.uint64(1) << np.uint64(d)
                r = home * devices + d
                if t.kind[r] < 0:
                    return -1
                _push(w.pool, w.heap, devices + r, rank | s)
                w.routes[touched] = r
                touched += 1
    return touched


@_part
def _arrived(t: Tables, w: Work, device: IntArray, key: IntArray, fifo: bool, s: int, d: int, at: Moment) -> None:
    """Storage ``s`` arrived on device ``d``: its readers there may be ready."""
    for i in range(t.reader_at[s], t.reader_at[s + 1]):
        u = t.readers[i]
        if device[u] == d:
            w.missing[u] -= 1
            if w.missing[u] == 0:
                w.ready[u] = at[0]
                _push(w.pool, w.heap, d, ((at[1] if fifo else key[u]) << BITS) | u)


@_part
def _first_free(t: Tables, w: Work, now: int) -> int:
    """The route whose first waiting transfer comes first among those with free channels; -1 if none has any."""
    devices, found, least = len(t.gap), -1, 0
    for r in range(devices * devices):
        if w.heap[devices + r, SIZE] == 0:
            continue
        entry = w.pool[w.heap[devices + r, LOW]]
        if found >= 0 and entry >= least:
            continue
        free = True
        for i in range(t.channel_at[r], t.channel_at[r + 1]):
            if w.channel_free[t.channels[i]] > now:
                free = False
        if free:
            found, least = r, entry
    return found


@_part
def _send(t: Tables, w: Work, now: int, touched: int, events: int) -> int:
    """Start all transfers that can start; the new number of events.

    Where each route has a channel of its own, the order between routes doesn't matter: only touched ones are looked at.
    """
    devices, k = len(t.gap), 0
    while k < touched:
        r = w.routes[k]
        low = t.channel_at[r]
        if not t.apart:
            r = _first_free(t, w, now)
            if r < 0:
                break
            low = t.channel_at[r]
        elif w.heap[devices + r, SIZE] == 0 or (low < t.channel_at[r + 1] and w.channel_free[t.channels[low]] > now):
            k += 1
            continue
        s = _pop(w.pool, w.heap, devices + r) & LOWER
        end, code, latest = now + t.send[s, t.kind[r]], s * devices + r % devices, -1
        w.sent[code] = now
        for i in range(low, t.channel_at[r + 1]):
            c = t.channels[i]
            if w.channel_free[c] > latest and w.channel_last[c] >= 0:
                latest, w.behind[code] = w.channel_free[c], w.channel_last[c]
            if end + t.rest[r] > now:
                w.channel_free[c], w.channel_last[c] = end + t.rest[r], code
        events = _happen(w.event_time, w.event_code, events, end, ((s << 6 | r % devices) << 2) | TRANSFER)
        if t.rest[r] > 0:
            events = _happen(w.event_time, w.event_code, events, end + t.rest[r], (r << 2) | ROUTE)
    return events


@_part
def _begin(t: Tables, w: Work, device: IntArray, key: IntArray, fifo: bool) -> None:
    """Empty heaps, idle devices and channels; what reads nothing is ready."""
    for h in range(len(w.heap)):
        w.heap[h, LOW], w.heap[h, SIZE], w.heap[h, ROOM] = FIRST * h, 0, FIRST
    w.device_free[:] = 0
    w.device_last[:] = -1
    w.device_left[:] = 0
    w.channel_free[:] = 0
    w.channel_last[:] = -1
    w.sent[:] = -1
    w.behind[:] = -1
    for v in range(len(device)):
        w.missing[v] = t.reads[v]
        w.device_left[device[v]] += t.time[v, device[v]]
        if t.reads[v] == 0:
            w.ready[v] = 0
            _push(w.pool, w.heap, device[v], ((0 if fifo else key[v]) << BITS) | v)


@njit(cache=True, nogil=True)
def narrow(key: IntArray) -> IntArray:
    """Keys of the same order that fit into entries: the same ones, or their ranks if some are too large."""
    if len(key) == 0 or (key.min() > -LARGEST_KEY and key.max() < LARGEST_KEY):
        return key
    order, found = np.argsort(key), np.zeros(len(key), np.int64)
    for i in range(1, len(key)):
        found[order[i]] = found[order[i - 1]] + (key[order[i]] > key[order[i - 1]])
    return found


@njit(cache=True, nogil=True, _nrt=False)
def _run(t: Tables, w: Work, device: IntArray, key: IntArray, fifo: bool, tail: IntArray, limit: int) -> int:
    """The simulation, with keys that fit into entries."""
    when, what, devices = w.event_time, w.event_code, len(t.gap)
    events, now, number, longest = 0, 0, 0, 0  # ``number`` of different times so far: keys that say first in, first out
    look = ~np.uint64(0)  # the devices that may start something
    _begin(t, w, device, key, fifo)
    while True:
        touched, at = 0, (now, number)
        # 1. everything that ends now
        while events > 0 and when[0] == now:
            code = _next(when, what, events)
            events -= 1
            sort, code = code & 3, code >> 2
            if sort == OPERATION:
                look |= np.uint64(1) << np.uint64(device[code])
                touched = _ended(t, w, device, key, fifo, code, at, touched)
                if touched < 0:
                    return NO_ROUTE
            elif sort == TRANSFER:
                s, d = code >> 6, code & 63
                look |= np.uint64(1) << np.uint64(d)
                _arrived(t, w, device, key, fifo, s, d, at)
                w.routes[touched] = device[t.producer[s]] * devices + d
                touched += 1
            elif sort == ROUTE:
                w.routes[touched] = code
                touched += 1
            else:
                look |= np.uint64(1) << np.uint64(code)
        # 2. transfers whose channels are free
        events = _send(t, w, now, touched, events)
        # 3. idle devices
        for d in range(devices):
            if not (look >> np.uint64(d)) & np.uint64(1) or w.heap[d, SIZE] == 0 or w.device_free[d] > now:
                continue
            v = _pop(w.pool, w.heap, d) & LOWER
            end = now + t.time[v, d]
            if end + tail[v] >= limit or now + w.device_left[d] >= limit:
                return ABORTED
            w.device_left[d] -= end - now
            w.start[v], w.before[v], longest = now, w.device_last[d], max(longest, end)
            if end > now:
                w.device_free[d], w.device_last[d] = end + t.gap[d], v
                if t.gap[d] > 0:
                    events = _happen(when, what, events, end + t.gap[d], (d << 2) | DEVICE)
            events = _happen(when, what, events, end, (v << 2) | OPERATION)
        if events == 0:
            return longest
        look = np.uint64(0)
        if when[0] > now:
            now, number = when[0], number + 1


@njit(cache=True, nogil=True)
def simulate(t: Tables, device: IntArray, key: IntArray, fifo: bool, tail: IntArray, limit: int, w: Work) -> int:
    """T of the schedule that ``device`` [N] and ``key`` [N] make (``fifo``: keys are ready times). ``w`` holds it then.

    ``tail`` [N]: what must follow an operation's end at least. As soon as the step is known to take ``limit`` ns or
    more, it returns :data:`ABORTED`; it returns :data:`NO_ROUTE` where a transfer has none.
    """
    return _run(t, w, device, narrow(key), fifo, tail, limit)


def schedule(problem: PlacementProblem, device: IntArray, w: Work) -> PlacementSolution:
    """The schedule that the last simulation, of ``device``, left in ``w``."""
    tensors, count = problem.storages.tensor.tolist(), problem.devices
    moves = [
        Transfer(tensor=tensors[code // count], to=problem.device_names[code % count], start=int(w.sent[code]))
        for code in np.flatnonzero(w.sent[: len(tensors) * count] >= 0).tolist()
    ]
    return PlacementSolution(
        instance=problem.instance.name,
        devices=problem.names_of(device),
        start=dict(zip(problem.names, w.start[: problem.operations].tolist(), strict=True)),
        transfers=tuple(moves),
    )
