"""The decoder: devices and a key per operation make a schedule, by the rules of ``docs/families/placement.md``.

An event simulation. At each time, in this order: everything that ends then is taken note of; waiting transfers start
whose channels are free, the least (key of the producer, storage, device) first; each idle device starts its ready
operation of least (key, position). Where something of no length started, this is repeated at the same time. The
schedule is a function of devices and keys alone: no set or hash decides anything.

Each device has a heap of ready operations, each route one of waiting transfers. An entry is one number, the key in its
upper bits and the operation or storage in its lower ones, so that one comparison decides.

**Moments.** A simulation from the beginning keeps what it looks like at some moments, if there is room for them. Where
a move changes nothing before such a moment, a trial goes on from there, in another workspace (:func:`trial`). If its
placement is taken, that gets the schedule and the moments before, too (:func:`take`); if not, nothing has to be undone.
"""

from __future__ import annotations

import numpy as np

from chipmap.heuristics.placement.simulation.checkpoints import BITS, Mark, due, hand_on, keep, move, restore
from chipmap.heuristics.placement.simulation.heaps import LOW, SIZE, empty, following, happen, part, pop, push
from chipmap.heuristics.placement.simulation.tables import LAST, Tables, Work
from chipmap.instances.placement.instance import PlacementSolution
from chipmap.instances.placement.problem import IntArray, PlacementProblem
from chipmap.kernels import njit
from chipmap.kernels.sorting import argsort

#: What an event is, in the two lowest bits of its code: an operation's end, a transfer's, a rested route, a device.
OPERATION, TRANSFER, ROUTE, DEVICE = 0, 1, 2, 3
#: What a simulation returns where a transfer has no route, and where the limit is reached.
NO_ROUTE, ABORTED = -1, -2
#: No limit.
NEVER = 2**62
#: What is below the key in an entry; keys that don't fit above that are replaced by their ranks.
LOWER = 2**BITS - 1
LARGEST_KEY = 2**38

#: (a time, how many different times were before it).
Moment = tuple[int, int]
#: (a kept moment, how many operations are moved).
Change = tuple[int, int]


@part
def _ended(t: Tables, w: Work, key: IntArray, fifo: bool, v: int, at: Moment, touched: int) -> int:
    """Operation ``v`` ended: readers on its device may be ready, and transfers wait. The new number of ``routes``.

    It is -1 where there is no route.
    """
    home, devices, now, number = w.left[v] & 63, len(t.gap), at[0], at[1]
    rank = (number if fifo else key[v]) << BITS
    for k in range(t.made_at[v], t.made_at[v + 1]):
        s, there = t.made[k], np.uint64(0)
        for i in range(t.reader_at[s], t.reader_at[s + 1]):
            u = t.readers[i]
            left = w.left[u]
            d = left & 63
            if d == home:
                w.left[u] = left - 64
                if left < 128:
                    w.ready[u] = now
                    push(w.pool, w.heap, d, ((number if fifo else key[u]) << BITS) | u)
            elif not (there >> np.uint64(d)) & np.uint64(1):
                there |= np.uint64(1) << np.uint64(d)
                r = home * devices + d
                if t.kind[r] < 0:
                    return -1
                push(w.pool, w.heap, devices + r, rank | s)
                w.routes[touched] = r
                touched += 1
    return touched


@part
def _arrived(t: Tables, w: Work, key: IntArray, fifo: bool, s: int, d: int, at: Moment) -> None:
    """Storage ``s`` arrived on device ``d``: its readers there may be ready."""
    for i in range(t.reader_at[s], t.reader_at[s + 1]):
        u = t.readers[i]
        left = w.left[u]
        if left & 63 == d:
            w.left[u] = left - 64
            if left < 128:
                w.ready[u] = at[0]
                push(w.pool, w.heap, d, ((at[1] if fifo else key[u]) << BITS) | u)


@part
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
            if w.channel[0, t.channels[i]] > now:
                free = False
        if free:
            found, least = r, entry
    return found


@part
def _send(t: Tables, w: Work, now: int, touched: int, events: int) -> int:
    """Start all transfers that can start; the new number of events.

    Where each route has a channel of its own, the order between routes doesn't matter: only touched ones are looked at.
    """
    devices, k = len(t.gap), 0
    while k < touched:
        r = np.int64(w.routes[k])
        low = t.channel_at[r]
        if not t.apart:
            r = _first_free(t, w, now)
            if r < 0:
                break
            low = t.channel_at[r]
        elif w.heap[devices + r, SIZE] == 0 or (low < t.channel_at[r + 1] and w.channel[0, t.channels[low]] > now):
            k += 1
            continue
        s = pop(w.pool, w.heap, devices + r) & LOWER
        end, code, latest = now + t.send[s, t.kind[r]], s * devices + r % devices, -1
        w.sent[code], w.behind[code] = now, -1
        w.log[w.logged[0]] = len(t.reads) + code
        w.logged[0] += 1
        for i in range(low, t.channel_at[r + 1]):
            c = t.channels[i]
            if w.channel[0, c] > latest and w.channel[1, c] >= 0:
                latest, w.behind[code] = w.channel[0, c], w.channel[1, c]
            if end + t.rest[r] > now:
                w.channel[0, c], w.channel[1, c] = end + t.rest[r], code
        events = happen(w.event_time, w.event_code, events, end, ((s << 6 | r % devices) << 2) | TRANSFER)
        if t.rest[r] > 0:
            events = happen(w.event_time, w.event_code, events, end + t.rest[r], (r << 2) | ROUTE)
    return events


@part
def _start_all(t: Tables, w: Work, device: IntArray, key: IntArray, fifo: bool) -> None:
    """Empty heaps, idle devices and channels; what reads nothing is ready."""
    empty(w.heap)
    for d in range(len(t.gap)):
        w.device[0, d], w.device[1, d], w.device[2, d] = 0, -1, 0
    for c in range(w.channel.shape[1]):
        w.channel[0, c], w.channel[1, c] = 0, -1
    for v in range(len(device)):
        d = device[v]
        w.left[v] = t.reads[v] << 6 | d
        w.device[2, d] += t.pace[v, t.column[d]]
        if t.reads[v] == 0:
            w.ready[v] = 0
            push(w.pool, w.heap, d, ((0 if fifo else key[v]) << BITS) | v)


@njit(part=True)
def narrow(key: IntArray) -> IntArray:
    """Keys of the same order that fit into entries: the same ones, or their ranks if some are too large."""
    fits = True
    for v in range(len(key)):
        fits = fits and -LARGEST_KEY < key[v] < LARGEST_KEY
    if fits:
        return key
    order, found = argsort(key, len(key), 1), np.zeros(len(key), np.int64)
    for i in range(1, len(key)):
        found[order[i]] = found[order[i - 1]] + (key[order[i]] > key[order[i - 1]])
    return found


@part
def _run(t: Tables, w: Work, key: IntArray, fifo: bool, tail: IntArray, limit: int, mark: Mark) -> int:
    """The simulation from ``mark`` on, with schedule and moments, with keys that fit into entries."""
    when, what, devices = w.event_time, w.event_code, len(t.gap)
    # ``number`` of different times so far: keys that say first in, first out
    now, number, events, longest, started, w.logged[0] = mark
    look = ~np.uint64(0)  # the devices that may start something
    next_kept = due(w.kept, len(t.reads))
    while True:
        touched, at = 0, (now, number)
        # 1. everything that ends now
        while events > 0 and when[0] == now:
            code = following(when, what, events)
            events -= 1
            sort, code = code & 3, code >> 2
            if sort == OPERATION:
                look |= np.uint64(1) << np.uint64(w.left[code] & 63)
                touched = _ended(t, w, key, fifo, code, at, touched)
                if touched < 0:
                    return NO_ROUTE
            elif sort == TRANSFER:
                s, d = code >> 6, code & 63
                look |= np.uint64(1) << np.uint64(d)
                _arrived(t, w, key, fifo, s, d, at)
                w.routes[touched] = (w.left[t.producer[s]] & 63) * devices + d
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
            if not (look >> np.uint64(d)) & np.uint64(1) or w.heap[d, SIZE] == 0 or w.device[0, d] > now:
                continue
            entry = pop(w.pool, w.heap, d)
            v = entry & LOWER
            end = now + t.pace[v, t.column[d]]
            if end + tail[v] >= limit or now + w.device[2, d] >= limit:
                return ABORTED
            w.device[2, d] -= end - now
            started, longest = started + 1, max(longest, end)
            w.start[v], w.before[v] = now, w.device[1, d]
            w.log[w.logged[0]] = v
            w.logged[0] += 1
            if end > now:
                if now == 0:
                    w.kept.opener[d] = entry
                w.device[0, d], w.device[1, d] = end + t.gap[d], v
                if t.gap[d] > 0:
                    events = happen(when, what, events, end + t.gap[d], (d << 2) | DEVICE)
            events = happen(when, what, events, end, (v << 2) | OPERATION)
        if events == 0:
            return longest
        look = np.uint64(0)
        if when[0] > now:
            now, number = when[0], number + 1
            if started >= next_kept:
                keep(w, (now, number, events, longest, started, w.logged[0]))
                next_kept = due(w.kept, len(t.reads))


@part
def _begin(t: Tables, w: Work, device: IntArray, key: IntArray, fifo: bool) -> Mark:
    """The beginning, before which nothing is kept."""
    w.kept.rows[0] = 0
    for d in range(len(t.gap)):
        w.kept.opener[d] = LAST
    _start_all(t, w, device, key, fifo)
    return 0, 0, 0, 0, 0, 0


@njit(part=True)
def simulated(t: Tables, device: IntArray, key: IntArray, fifo: bool, tail: IntArray, limit: int, w: Work) -> int:
    """:func:`simulate` for compiled searches."""
    fitting = narrow(key)
    return _run(t, w, fitting, fifo, tail, limit, _begin(t, w, device, fitting, fifo))


@njit(cache=True, nogil=True)
def simulate(t: Tables, device: IntArray, key: IntArray, fifo: bool, tail: IntArray, limit: int, w: Work) -> int:
    """T of the schedule that ``device`` [N] and ``key`` [N] make (``fifo``: keys are ready times). ``w`` holds it then.

    ``tail`` [N]: what must follow an operation's end at least. As soon as the step is known to take ``limit`` ns or
    more, it returns :data:`ABORTED`; it returns :data:`NO_ROUTE` where a transfer has none.
    """
    return simulated(t, device, key, fifo, tail, limit, w)


@njit(part=True, _nrt=False)
def trial(
    t: Tables,
    device: IntArray,
    key: IntArray,
    tail: IntArray,
    limit: int,
    both: tuple[Work, Work],
    moved: IntArray,
    change: Change,
) -> int:
    """As :func:`simulate`, from a moment on that the first of ``both`` keeps, in the second one.

    ``change``: (the moment, -1 for the beginning; how many of ``moved`` are on other devices than when it was kept).
    :func:`~chipmap.heuristics.placement.simulation.checkpoints.first_change` says which moment is early enough.
    ``key`` fits into entries.
    """
    (w, other), (row, size) = both, change
    if row < 0:
        mark = _begin(t, other, device, key, False)
    else:
        mark = restore(w.kept, other, row)
        other.kept.rows[0] = row + 1
        move(t, w, (other.left, other.device), device, moved, size, mark[0])
    return _run(t, other, key, False, tail, limit, mark)


@njit(part=True, _nrt=False)
def take(t: Tables, device: IntArray, both: tuple[Work, Work], moved: IntArray, change: Change) -> None:
    """Give the second of ``both``, where a trial with ``change`` ended well, what was before the trial began."""
    if change[0] >= 0:
        hand_on(t, both[0], both[1], device, moved, change)


def schedule(problem: PlacementProblem, device: IntArray, w: Work) -> PlacementSolution:
    """The schedule that the last simulation, of ``device``, left in ``w``."""
    storages, count = problem.storages, problem.devices
    to = device[storages.readers]
    codes = np.unique((storages.read * count + to)[to != device[storages.sources]])
    moves = zip((codes // count).tolist(), (codes % count).tolist(), w.sent[codes].tolist(), strict=True)
    return problem.solution(device, w.start.tolist(), moves)
