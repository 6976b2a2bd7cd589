"""The decoder: devices and a key per operation make a schedule, by the rules of ``docs/families/placement.md``.

An event simulation with binary heaps. At each time, in this order: everything that ends then is taken note of; waiting
transfers start whose channels are free, the least (key of the producer, storage, device) first; each idle device starts
its ready operation of least (key, position). Where something of no length started, this is repeated at the same time.
The schedule is a function of devices and keys alone: no set or hash decides anything.
"""

from __future__ import annotations

import numpy as np

from chipmap.heuristics.placement.tables import Tables, Work
from chipmap.instances.placement.instance import PlacementSolution, Transfer
from chipmap.instances.placement.problem import IntArray, PlacementProblem
from chipmap.kernels import njit

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
def _shares(place: IntArray) -> None:
    """Of each heap the first place in the array that all share, from their capacities in ``place[:, 0]``."""
    begin = 0
    for i in range(len(place)):
        capacity = place[i, 0]
        place[i, 0] = begin
        begin += capacity


@njit(cache=True, nogil=True)
def _prepare(t: Tables, device: IntArray, w: Work) -> bool:
    """Counts, targets of storages and the places of the heaps; False where a route is missing."""
    devices = len(t.gap)
    w.ready_place[:] = 0
    w.wait_place[:] = 0
    w.device_free[:] = 0
    w.device_last[:] = -1
    w.device_left[:] = 0
    w.channel_free[:] = 0
    w.channel_last[:] = -1
    w.sent[:] = -1
    w.behind[:] = -1
    for v in range(len(device)):
        w.missing[v] = t.reads[v]
        w.before[v] = -1
        w.ready_place[device[v], 0] += 1
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
            w.wait_place[route, 0] += 1
    _shares(w.ready_place)
    _shares(w.wait_place)
    return True


@njit(cache=True, nogil=True)
def _lowest(mask: np.uint64) -> int:
    """The position of the lowest bit of a mask that isn't 0."""
    d = 0
    while not (mask >> np.uint64(d)) & np.uint64(1):
        d += 1
    return d


@njit(cache=True, nogil=True)
def _arrive(
    reader_at: IntArray,
    readers: IntArray,
    device: IntArray,
    missing: IntArray,
    ready: IntArray,
    place: IntArray,
    keys: IntArray,
    codes: IntArray,
    key: IntArray,
    fifo: bool,
    code: int,
    now: int,
) -> None:
    """A storage is on a device (``code`` = s * D + d): its readers there may be ready.

    This and :func:`_leave` take arrays: to pass the tuples that hold them would cost a reference count for each array.
    """
    s, d = code // len(place), code % len(place)
    for i in range(reader_at[s], reader_at[s + 1]):
        v = readers[i]
        if device[v] == d:
            missing[v] -= 1
            ready[v] = now
            if missing[v] == 0:
                _push(keys, codes, place[d, 0], place[d, 1], now if fifo else key[v], v)
                place[d, 1] += 1


@njit(cache=True, nogil=True)
def _leave(
    left: np.uint64,
    first: int,
    key: int,
    code: int,
    place: IntArray,
    keys: IntArray,
    codes: IntArray,
    routes: IntArray,
    touched: int,
) -> int:
    """The transfers of a storage to the devices in ``left`` wait from now on; the new number of ``routes`` to look at.

    ``first``: the route from its device to device 0; ``code`` = s * D.
    """
    while left:
        d = _lowest(left)
        left &= left - np.uint64(1)
        r = first + d
        _push(keys, codes, place[r, 0], place[r, 1], key, code + d)
        place[r, 1] += 1
        routes[touched] = r
        touched += 1
    return touched


@njit(cache=True, nogil=True)
def _first_free(t: Tables, w: Work, now: int) -> int:
    """The route whose first waiting transfer comes first among those with free channels; -1 if none has any."""
    best = -1
    for r in range(len(w.wait_place)):
        if w.wait_place[r, 1] == 0:
            continue
        free = True
        for i in range(t.channel_at[r], t.channel_at[r + 1]):
            if w.channel_free[t.channels[i]] > now:
                free = False
        low, first = w.wait_place[r, 0], w.wait_place[best, 0]
        if free and (best < 0 or _before(w.wait_key[low], w.wait_code[low], w.wait_key[first], w.wait_code[first])):
            best = r
    return best


@njit(cache=True, nogil=True)
def _send(t: Tables, w: Work, touched: int, now: int, events: int) -> int:
    """Start all transfers that can start; the new number of events.

    Where each route has a channel of its own, the order between routes doesn't matter: only touched ones are looked at.
    """
    k, r = 0, -1
    while True:
        if t.apart:
            while k < touched:
                r = w.routes[k]
                at = t.channel_at[r]
                if w.wait_place[r, 1] > 0 and (at == t.channel_at[r + 1] or w.channel_free[t.channels[at]] <= now):
                    break
                k += 1
            if k == touched:
                return events
        else:
            r = _first_free(t, w, now)
            if r < 0:
                return events
        low = w.wait_place[r, 0]
        code = w.wait_code[low]
        _pop(w.wait_key, w.wait_code, low, w.wait_place[r, 1])
        w.wait_place[r, 1] -= 1
        end = now + t.send[code // len(t.gap), t.kind[r]]
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
    """T of the schedule that ``device`` [N] and ``key`` [N] make (``fifo``: keys are ready times). ``w`` holds it then.

    ``tail`` [N]: what must follow an operation's end at least. As soon as the step is known to take ``limit`` ns or
    more, it returns :data:`ABORTED`; it returns :data:`NO_ROUTE` where a transfer has none.
    """
    devices = len(t.gap)
    if not _prepare(t, device, w):
        return NO_ROUTE
    for v in range(len(device)):
        if t.reads[v] == 0:
            d = device[v]
            w.ready[v] = 0
            _push(w.ready_key, w.ready_code, w.ready_place[d, 0], w.ready_place[d, 1], 0 if fifo else key[v], v)
            w.ready_place[d, 1] += 1
    events, now, longest = 0, 0, 0
    while True:
        touched = 0
        # 1. everything that ends now
        while events > 0 and w.event_time[0] == now:
            what, one = w.event_code[0] % 3, w.event_code[0] // 3
            _pop(w.event_time, w.event_code, 0, events)
            events -= 1
            if what == OPERATION:
                home = device[one]
                for i in range(t.made_at[one], t.made_at[one + 1]):
                    code = t.made[i] * devices
                    # fmt: off
                    _arrive(t.reader_at, t.readers, device, w.missing, w.ready, w.ready_place, w.ready_key,
                            w.ready_code, key, fifo, code + home, now)
                    touched = _leave(w.targets[t.made[i]], home * devices, now if fifo else key[one], code,
                                     w.wait_place, w.wait_key, w.wait_code, w.routes, touched)
                    # fmt: on
            elif what == TRANSFER:
                # fmt: off
                _arrive(t.reader_at, t.readers, device, w.missing, w.ready, w.ready_place, w.ready_key, w.ready_code,
                        key, fifo, one, now)
                # fmt: on
                w.routes[touched] = device[t.producer[one // devices]] * devices + one % devices
                touched += 1
            elif one < devices * devices:
                w.routes[touched] = one
                touched += 1
        # 2. transfers whose channels are free
        if touched > 0:
            events = _send(t, w, touched, now, events)
        # 3. idle devices
        for d in range(devices):
            if w.ready_place[d, 1] == 0 or w.device_free[d] > now:
                continue
            v = w.ready_code[w.ready_place[d, 0]]
            _pop(w.ready_key, w.ready_code, w.ready_place[d, 0], w.ready_place[d, 1])
            w.ready_place[d, 1] -= 1
            busy = t.time[v, d]
            if now + busy + tail[v] >= limit or now + w.device_left[d] >= limit:
                return ABORTED
            w.device_left[d] -= busy
            w.start[v], w.before[v] = now, w.device_last[d]
            longest = max(longest, now + busy)
            if busy > 0:
                w.device_free[d], w.device_last[d] = now + busy + t.gap[d], v
                if t.gap[d] > 0:
                    _push(w.event_time, w.event_code, 0, events, w.device_free[d], 3 * (devices * devices + d) + RESTED)
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
