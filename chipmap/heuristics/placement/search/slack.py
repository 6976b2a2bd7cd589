"""What a move would delay, told from the present schedule without simulating it.

Each operation and transfer has a *latest start*: the step stays as short if it starts then and everything keeps its
order on devices and channels. With L the latest start, E the latest end, T the step:

- E(v) = min(T, L(next operation on the device) - gap, L of readers there, L of the transfers of what v makes);
- E(s to d) = min(L of readers on d, L(next transfer on its channels) - rest); L = E - time in both cases.

A move puts operations on another device. Each begins there when its inputs arrive and the operation before it has
ended. What follows there starts later, what reads its output elsewhere waits for a transfer. The move's *delay* is the
most by which any of these comes after its latest start. The step gets longer by about that much. This is an estimate,
no bound: the decoder may keep another order, and new transfers wait for each other alone. On training graphs a tenth
of all moves has a delay within the limit, and with them nine tenths of those that the simulation would let pass.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chipmap.heuristics.placement.simulation.tables import Tables, Work
from chipmap.instances.placement.problem import IntArray, PlacementProblem
from chipmap.kernels import njit

#: More than any delay, where there is no route.
NEVER = 2**62
#: Operations that a key passes at most.
PASSED = 100
#: Operations up to which moves are left out. Of larger graphs too few moves are simulated at all: of 52,213 operations,
#: 20 s of the processor with moves left out ended 14% worse.
MOST = 10_000


class Slack(NamedTuple):
    """``late`` [N], ``sent`` [S * D]: latest starts of operations and transfers.

    The operations of device d that take time are ``order[at[d]:at[d + 1]]``, as they start; ``idle`` [N]: how long the
    device was idle before each of these. Scratch: ``follower`` [D] and ``channel`` [C]: latest start of what follows;
    ``filled``, ``busy`` [D]; of the move that is judged ``end`` [N], ``arrival`` [S], ``route`` [D], and its ``stamp``
    [1] on operations that move (``mover`` [N]) and on storages that they read (``net`` [S]).
    """

    late: IntArray
    sent: IntArray
    at: IntArray
    order: IntArray
    idle: IntArray
    follower: IntArray
    channel: IntArray
    filled: IntArray
    busy: IntArray
    end: IntArray
    arrival: IntArray
    route: IntArray
    stamp: IntArray
    mover: IntArray
    net: IntArray


def slack_for(problem: PlacementProblem) -> Slack:
    """Room for the latest starts of one schedule after the other; none above :data:`MOST` operations."""
    count, devices, storages = problem.operations, problem.devices, len(problem.storages)
    if count > MOST:
        count = storages = 0
    channels = max(1, problem.network.count)
    sizes = (count, storages * devices, devices + 1, count, count)
    scratch = (devices, channels, devices, devices, count, storages, devices, 1, count, storages)
    return Slack(*(np.zeros(size, dtype=np.int64) for size in (*sizes, *scratch)))


@njit(part=True, _nrt=False)
def _fill_orders(t: Tables, device: IntArray, w: Work, k: Slack) -> None:
    """The order of each device's operations, and its idle time."""
    count, devices = len(device), len(t.gap)
    for d in range(devices + 1):
        k.at[d] = 0
    for v in range(count):
        k.at[device[v] + 1] += t.pace[v, t.column[device[v]]] > 0
    for d in range(devices):
        k.at[d + 1] += k.at[d]
        k.filled[d], k.busy[d] = k.at[d], 0
    for i in range(w.logged[0]):
        v = w.log[i]
        if v >= count:
            continue
        d = device[v]
        time = t.pace[v, t.column[d]]
        if time > 0:
            place = k.filled[d]
            k.order[place], k.idle[place] = v, w.start[v] - k.busy[d]
            k.filled[d] += 1
            k.busy[d] += time


@njit(part=True, _nrt=False)
def fill(t: Tables, device: IntArray, w: Work, step: int, k: Slack) -> None:
    """Latest starts of the schedule in ``w`` of that ``step``, from its end back."""
    count, devices = len(device), len(t.gap)
    _fill_orders(t, device, w, k)
    for d in range(devices):
        k.follower[d] = step + t.gap[d]
    for c in range(len(k.channel)):
        k.channel[c] = NEVER
    for i in range(w.logged[0] - 1, -1, -1):
        code, end = w.log[i], step
        if code < count:
            d = device[code]
            time = t.pace[code, t.column[d]]
            if time > 0:
                end = min(end, k.follower[d] - t.gap[d])
            for j in range(t.made_at[code], t.made_at[code + 1]):
                s = t.made[j]
                for m in range(t.reader_at[s], t.reader_at[s + 1]):
                    u = t.readers[m]
                    end = min(end, k.late[u] if device[u] == d else k.sent[s * devices + device[u]])
            k.late[code] = end - time
            if time > 0:
                k.follower[d] = end - time
            continue
        s, d = (code - count) // devices, (code - count) % devices
        r = device[t.producer[s]] * devices + d
        for m in range(t.reader_at[s], t.reader_at[s + 1]):
            if device[t.readers[m]] == d:
                end = min(end, k.late[t.readers[m]])
        time = t.send[s, t.kind[r]]
        channels = range(t.channel_at[r], t.channel_at[r + 1] if time > 0 else t.channel_at[r])
        for c in channels:
            end = min(end, k.channel[t.channels[c]] - t.rest[r])
        k.sent[code - count] = end - time
        for c in channels:
            k.channel[t.channels[c]] = end - time


@njit(part=True, _nrt=False)
def _arrival(t: Tables, device: IntArray, w: Work, k: Slack, s: int, to: int) -> int:
    """When storage ``s`` would be on device ``to``; :data:`NEVER` without a route."""
    u, stamp = t.producer[s], k.stamp[0]
    home = device[u]
    if k.mover[u] == stamp:
        return int(k.end[u])
    end = w.start[u] + t.pace[u, t.column[home]]
    if home == to:
        return int(end)
    if k.net[s] != stamp:
        kind = t.kind[home * len(t.gap) + to]
        if kind < 0:
            return NEVER
        k.net[s], there = stamp, False
        for i in range(t.reader_at[s], t.reader_at[s + 1]):
            there = there or (device[t.readers[i]] == to and k.mover[t.readers[i]] != stamp)
        if there:
            k.arrival[s] = w.sent[s * len(t.gap) + to] + t.send[s, kind]
        else:
            k.route[home] = max(k.route[home], end) + t.send[s, kind]
            k.arrival[s] = k.route[home]
    return int(k.arrival[s])


@njit(part=True, _nrt=False)
def _output_delay(t: Tables, device: IntArray, k: Slack, v: int, to: int) -> int:
    """The most by which readers that stay would come too late for what ``v`` makes on device ``to``."""
    worst = -NEVER
    for i in range(t.made_at[v], t.made_at[v + 1]):
        s = t.made[i]
        for j in range(t.reader_at[s], t.reader_at[s + 1]):
            u = t.readers[j]
            if k.mover[u] == k.stamp[0]:
                continue
            late = k.end[v] - k.late[u]
            if device[u] != to:
                kind = t.kind[to * len(t.gap) + device[u]]
                late = late + t.send[s, kind] if kind >= 0 else NEVER
            worst = max(worst, late)
    return worst


@njit(part=True, _nrt=False)
def delay(t: Tables, device: IntArray, w: Work, k: Slack, moved: IntArray, change: tuple[int, int], limit: int) -> int:
    """The delay if ``moved`` go elsewhere, or what is known of it once it is above ``limit``.

    ``change``: (how many are moved, their new device).
    """
    size, to = change
    k.stamp[0] += 1
    for d in range(len(t.gap)):
        k.route[d] = 0
    for i in range(size):
        k.mover[moved[i]] = k.stamp[0]
    # ``pushed``: by how much the operations from ``last`` of the device's order on start later
    worst, pushed, low, high, last = -NEVER, 0, k.at[to], k.at[to + 1], -1
    for i in range(size):
        v, begin = moved[i], 0
        for j in range(t.read_at[v], t.read_at[v + 1]):
            begin = max(begin, _arrival(t, device, w, k, t.read[j], to))
        if begin == NEVER:
            return NEVER
        time = t.pace[v, t.column[to]]
        if time > 0:
            place, beyond = low, high
            while place < beyond:
                middle = (place + beyond) >> 1
                if w.start[k.order[middle]] >= begin:
                    beyond = middle
                else:
                    place = middle + 1
            if last >= 0 and place >= last:
                pushed = max(0, pushed - (k.idle[place] - k.idle[last])) if place < high else 0
            if place > low:
                u = k.order[place - 1]
                begin = max(begin, w.start[u] + t.pace[u, t.column[to]] + t.gap[to])
            begin += pushed
            if place < high:
                pushed = max(0, begin + time + t.gap[to] - w.start[k.order[place]])
                worst = max(worst, w.start[k.order[place]] + pushed - k.late[k.order[place]])
            last = place
        k.end[v] = begin + time
        worst = max(worst, _output_delay(t, device, k, v, to))
        if worst > limit:
            break
    return worst


@njit(part=True, _nrt=False)
def passed(t: Tables, device: IntArray, w: Work, k: Slack, v: int, far: bool, limit: int) -> int:
    """The operation of its device before which ``v`` should go; -1 if there is none.

    ``v`` passes operations that were started when it could have been, each of which then starts later by the time of
    ``v``. None of their readers may be delayed by more than ``limit``. Without ``far`` it is the last one.
    """
    d, goal, x = device[v], -1, w.before[v]
    time = t.pace[v, t.column[d]] + t.gap[d]
    for _ in range(PASSED):
        if x < 0 or w.start[x] < w.ready[v]:
            break
        end, late = w.start[x] + t.pace[x, t.column[d]] + time, False
        for i in range(t.made_at[x], t.made_at[x + 1]):
            s = t.made[i]
            for j in range(t.reader_at[s], t.reader_at[s + 1]):
                u = t.readers[j]
                latest = k.late[u] if device[u] == d else k.sent[s * len(t.gap) + device[u]]
                late = late or (u != v and end - latest > limit)
        if late:
            break
        goal, x = x, w.before[x]
        if not far:
            break
    return int(goal)
