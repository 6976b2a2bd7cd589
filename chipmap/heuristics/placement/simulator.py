"""The decoder: devices and a key per operation make a schedule, by the rules of ``docs/families/placement.md``.

An event simulation with binary heaps. At each time, in this order: everything that ends then is taken note of; waiting
transfers start whose channels are free, the least (key of the producer, storage, device) first; each idle device starts
its ready operation of least (key, position). Where something of no length started, this is repeated at the same time.
The schedule is a function of devices and keys alone: no set or hash decides anything.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from chipmap.heuristics.placement.tables import Tables, Work
from chipmap.instances.placement.instance import PlacementSolution, Transfer
from chipmap.instances.placement.problem import IntArray, PlacementProblem

#: What an event is: an operation's end, a transfer's end, a device or a channel that has rested.
OPERATION, TRANSFER, RESTED = 0, 1, 2
#: What :func:`simulate` returns where a transfer has no route, and where the limit is reached.
NO_ROUTE, ABORTED = -1, -2
#: No limit.
NEVER = 2**62


@njit(cache=True, nogil=True)
def _before(key: int, code: int, other_key: int, other_code: int) -> bool:
    return key < other_key or (key == other_key and code < other_code)


@njit(cache=True, nogil=True)
def _push(keys: IntArray, codes: IntArray, low: int, size: int, key: int, code: int) -> None:
    """Add (key, code) to the heap of ``size`` entries that begins at ``low``."""
    i = size
    while i > 0:
        parent = (i - 1) >> 1
        if not _before(key, code, keys[low + parent], codes[low + parent]):
            break
        keys[low + i], codes[low + i] = keys[low + parent], codes[low + parent]
        i = parent
    keys[low + i], codes[low + i] = key, code


@njit(cache=True, nogil=True)
def _pop(keys: IntArray, codes: IntArray, low: int, size: int) -> None:
    """Remove the first entry of the heap of ``size`` entries that begins at ``low``."""
    last = size - 1
    key, code = keys[low + last], codes[low + last]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= last:
            break
        if child + 1 < last and _before(
            keys[low + child + 1], codes[low + child + 1], keys[low + child], codes[low + child]
        ):
            child += 1
        if not _before(keys[low + child], codes[low + child], key, code):
            break
        keys[low + i], codes[low + i] = keys[low + child], codes[low + child]
        i = child
    keys[low + i], codes[low + i] = key, code


@njit(cache=True, nogil=True)
def _prepare(t: Tables, device: IntArray, w: Work) -> bool:
    """Counts, targets of storages and the places of the heaps; False where a route is missing."""
    devices = len(t.gap)
    w.ready_at[:] = 0
    w.ready_size[:] = 0
    w.wait_at[:] = 0
    w.wait_size[:] = 0
    w.device_free[:] = 0
    w.device_last[:] = -1
    w.device_left[:] = 0
    w.channel_free[:] = 0
    w.channel_last[:] = -1
    w.is_touched[:] = 0
    w.sent[:] = -1
    w.behind[:] = -1
    for v in range(len(device)):
        w.missing[v] = t.reads[v]
        w.by[v] = -1
        w.before[v] = -1
        w.ready_at[device[v] + 1] += 1
        w.device_left[device[v]] += t.time[v, device[v]]
    for s in range(len(t.producer)):
        home = device[t.producer[s]]
        mask = np.uint64(0)
        for i in range(t.reader_at[s], t.reader_at[s + 1]):
            mask |= np.uint64(1) << np.uint64(device[t.readers[i]])
        mask &= ~(np.uint64(1) << np.uint64(home))
        w.targets[s] = mask
        left = mask
        while left:
            d = _lowest(left)
            left &= left - np.uint64(1)
            route = home * devices + d
            if t.kind[route] < 0:
                return False
            w.wait_at[route + 1] += 1
    for d in range(devices):
        w.ready_at[d + 1] += w.ready_at[d]
    for r in range(devices * devices):
        w.wait_at[r + 1] += w.wait_at[r]
    return True


@njit(cache=True, nogil=True)
def _lowest(mask: np.uint64) -> int:
    """The position of the lowest bit of a mask that isn't 0."""
    d = 0
    while not (mask >> np.uint64(d)) & np.uint64(1):
        d += 1
    return d


@njit(cache=True, nogil=True, inline="always")
def _arrive(t: Tables, device: IntArray, key: IntArray, fifo: bool, w: Work, s: int, d: int, now: int) -> None:
    """Storage ``s`` is on device ``d``: its readers there may be ready."""
    for i in range(t.reader_at[s], t.reader_at[s + 1]):
        v = t.readers[i]
        if device[v] == d:
            w.missing[v] -= 1
            w.ready[v], w.by[v] = now, s
            if w.missing[v] == 0:
                _push(w.ready_key, w.ready_code, w.ready_at[d], w.ready_size[d], now if fifo else key[v], v)
                w.ready_size[d] += 1


@njit(cache=True, nogil=True, inline="always")
def _touch(w: Work, route: int, touched: int) -> int:
    """Remember that transfers of a route may start; the new number of such routes."""
    if not w.is_touched[route]:
        w.is_touched[route] = 1
        w.touched[touched] = route
        touched += 1
    return touched


@njit(cache=True, nogil=True, inline="always")
def _first_free(t: Tables, w: Work, routes: int, touched: int, now: int) -> int:
    """The route whose first waiting transfer comes first among those with free channels; -1 if none has any."""
    best = -1
    for k in range(touched if t.apart else routes):
        r = w.touched[k] if t.apart else k
        if w.wait_size[r] == 0:
            continue
        free = True
        for i in range(t.channel_at[r], t.channel_at[r + 1]):
            if w.channel_free[t.channels[i]] > now:
                free = False
        if free and (
            best < 0
            or _before(
                w.wait_key[w.wait_at[r]],
                w.wait_code[w.wait_at[r]],
                w.wait_key[w.wait_at[best]],
                w.wait_code[w.wait_at[best]],
            )
        ):
            best = r
    return best


@njit(cache=True, nogil=True, inline="always")
def _send(t: Tables, w: Work, touched: int, now: int, events: int) -> int:
    """Start all transfers that can start; the new number of events."""
    devices = len(t.gap)
    while True:
        r = _first_free(t, w, devices * devices, touched, now)
        if r < 0:
            return events
        code = w.wait_code[w.wait_at[r]]
        _pop(w.wait_key, w.wait_code, w.wait_at[r], w.wait_size[r])
        w.wait_size[r] -= 1
        end = now + t.send[code // devices, t.kind[r]]
        w.sent[code] = now
        latest = -1
        for i in range(t.channel_at[r], t.channel_at[r + 1]):
            c = t.channels[i]
            if w.channel_free[c] > latest and w.channel_last[c] >= 0:
                latest, w.behind[code] = w.channel_free[c], w.channel_last[c]
            if end + t.rest[r] > now:
                w.channel_free[c], w.channel_last[c] = end + t.rest[r], code
        _push(w.event_time, w.event_code, 0, events, end, 3 * code + TRANSFER)
        events += 1
        if t.rest[r] > 0:
            _push(w.event_time, w.event_code, 0, events, end + t.rest[r], 3 * r + RESTED)
            events += 1


@njit(cache=True, nogil=True)
def simulate(t: Tables, device: IntArray, key: IntArray, fifo: bool, tail: IntArray, limit: int, w: Work) -> int:
    """T of the schedule that ``device`` [N] and ``key`` [N] make (``fifo``: ready times are keys). ``w`` holds it then.

    ``tail`` [N]: what must follow an operation's end at least. As soon as the step is known to take ``limit`` ns or
    more, it returns :data:`ABORTED`; it returns :data:`NO_ROUTE` where a transfer has none.
    """
    count, devices = len(device), len(t.gap)
    routes = devices * devices
    if not _prepare(t, device, w):
        return NO_ROUTE
    for v in range(count):
        if t.reads[v] == 0:
            d = device[v]
            w.ready[v] = 0
            _push(w.ready_key, w.ready_code, w.ready_at[d], w.ready_size[d], 0 if fifo else key[v], v)
            w.ready_size[d] += 1
    events, now, longest = 0, 0, 0
    while True:
        touched = 0
        # 1. everything that ends now
        while events > 0 and w.event_time[0] == now:
            code = w.event_code[0]
            _pop(w.event_time, w.event_code, 0, events)
            events -= 1
            what, one = code % 3, code // 3
            if what == OPERATION:
                for i in range(t.made_at[one], t.made_at[one + 1]):
                    s = t.made[i]
                    _arrive(t, device, key, fifo, w, s, device[one], now)
                    left = w.targets[s]
                    while left:
                        d = _lowest(left)
                        left &= left - np.uint64(1)
                        r = device[one] * devices + d
                        _push(
                            w.wait_key,
                            w.wait_code,
                            w.wait_at[r],
                            w.wait_size[r],
                            now if fifo else key[one],
                            s * devices + d,
                        )
                        w.wait_size[r] += 1
                        touched = _touch(w, r, touched)
            elif what == TRANSFER:
                s, d = one // devices, one % devices
                _arrive(t, device, key, fifo, w, s, d, now)
                touched = _touch(w, device[t.producer[s]] * devices + d, touched)
            elif one < routes:
                touched = _touch(w, one, touched)
        # 2. transfers whose channels are free
        events = _send(t, w, touched, now, events)
        for k in range(touched):
            w.is_touched[w.touched[k]] = 0
        # 3. idle devices
        for d in range(devices):
            if w.ready_size[d] == 0 or w.device_free[d] > now:
                continue
            v = w.ready_code[w.ready_at[d]]
            _pop(w.ready_key, w.ready_code, w.ready_at[d], w.ready_size[d])
            w.ready_size[d] -= 1
            busy = t.time[v, d]
            if now + busy + tail[v] >= limit or now + w.device_left[d] >= limit:
                return ABORTED
            w.device_left[d] -= busy
            w.start[v], w.before[v] = now, w.device_last[d]
            longest = max(longest, now + busy)
            if busy > 0:
                w.device_free[d], w.device_last[d] = now + busy + t.gap[d], v
                if t.gap[d] > 0:
                    _push(w.event_time, w.event_code, 0, events, now + busy + t.gap[d], 3 * (routes + d) + RESTED)
                    events += 1
            _push(w.event_time, w.event_code, 0, events, now + busy, 3 * v + OPERATION)
            events += 1
        if events == 0:
            return longest
        now = w.event_time[0]


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
