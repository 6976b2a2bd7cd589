"""ETF, and m-ETF of Baechi: again and again the ready operation that can start first, wherever that is.

ETF (Hwang et al., 1989) takes routes as free of contention. Of equal starts the operation of the higher upward rank
goes first, and devices on which the static bytes still fit are preferred.

m-ETF (Jeon et al., *Baechi*, 2020) knows devices with memory and links that carry one tensor after the other:

- a device without room for an operation is no candidate: for the weights of its whole group if that has no device yet,
  its outputs, and copies of its inputs. With memory rule ``live`` a storage is free again after its last reader;
- a tensor is sent once to a device, as soon as its channels are free, when its first reader there is placed;
- of equal starts the topologically first operation goes first.

Where no operation has room anywhere, the least bytes too many decide, and the placement overflows. (A favourite child,
which waits for its parent's device, belongs to Baechi's m-SCT, which needs a linear program first.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.deadline import Deadline
from chipmap.heuristics.placement.keys import topological, upward_rank
from chipmap.heuristics.placement.shared import common_devices
from chipmap.heuristics.placement.simulation.tables import Tables
from chipmap.heuristics.placement.starts.list_scheduling import LATE, arrival, room
from chipmap.instances.placement.problem import IntArray, PlacementProblem
from chipmap.kernels import njit

#: Operations that are placed between two looks at the clock.
STEPS = 500


class Progress(NamedTuple):
    """Where ETF stands.

    Of each operation [N]: ``device``, ``end``, ``home`` (of the group of that number), ``missing`` (inputs that aren't
    placed). ``free`` [D]; ``ready[:size[0]]`` are the ready operations, ``arrival`` [N, D] when their inputs are there.
    """

    device: IntArray
    end: IntArray
    home: IntArray
    missing: IntArray
    free: IntArray
    ready: IntArray
    size: IntArray
    arrival: IntArray


class Room(NamedTuple):
    """Memory in m-ETF.

    ``rule``: 0 none, 1 static, 2 live. Bytes: ``resting`` [N] of each group, by its number, for the whole step;
    ``size`` [S] of storages; ``left`` [D]. ``kept`` [S]: never freed. ``readers`` [S]: how many aren't placed.
    """

    rule: int
    resting: IntArray
    size: IntArray
    left: IntArray
    kept: NDArray[np.bool_]
    resident: NDArray[np.bool_]
    readers: IntArray


def _begin(t: Tables, count: int) -> Progress:
    devices = len(t.gap)
    first = np.flatnonzero(t.reads == 0)
    ready = np.zeros(count, dtype=np.int64)
    ready[: len(first)] = first
    return Progress(
        device=np.full(count, -1, dtype=np.int64),
        end=np.zeros(count, dtype=np.int64),
        home=np.full(count, -1, dtype=np.int64),
        missing=t.reads.astype(np.int64),
        free=np.zeros(devices, dtype=np.int64),
        ready=ready,
        size=np.array([len(first)]),
        arrival=np.zeros((count, devices), dtype=np.int64),
    )


def etf(problem: PlacementProblem, t: Tables, deadline: Deadline = Deadline()) -> IntArray:
    """The devices that ETF chooses [N]."""
    (need, memory), now = room(problem, problem.group), _begin(t, problem.operations)
    rank, allowed, left = upward_rank(problem), common_devices(problem), memory
    while now.size[0]:
        deadline.check()
        _etf(t, rank, allowed, problem.group, need, left, now, STEPS)
    return now.device


def m_etf(problem: PlacementProblem, t: Tables, deadline: Deadline = Deadline()) -> IntArray:
    """The devices that m-ETF chooses [N]."""
    now, storages = _begin(t, problem.operations), problem.storages
    resting = np.zeros(problem.operations, dtype=np.int64)
    np.add.at(resting, problem.group, problem.weights)
    np.add.at(resting, problem.group[storages.producer], np.where(storages.resident, storages.bytes, 0))
    memory = Room(
        rule={"none": 0, "static": 1, "live": 2}[problem.instance.task.memory],
        resting=resting,
        size=storages.bytes,
        left=np.where(problem.memory >= 0, problem.memory, LATE),
        kept=storages.resident | storages.output,
        resident=storages.resident,
        readers=np.diff(storages.reader_at),
    )
    sent = np.full(len(storages) * problem.devices, -1, dtype=np.int64)
    channel = np.zeros(max(1, problem.network.count), dtype=np.int64)
    place, allowed = topological(problem), common_devices(problem)
    while now.size[0]:
        deadline.check()
        _m_etf(t, place, allowed, problem.group, memory, sent, channel, now, STEPS)
    return now.device


@njit(cache=True, nogil=True)
def _placed(t: Tables, v: int, d: int, start: int, at: int, now: Progress) -> int:
    """Operation ``v``, at place ``at`` of ``ready``, runs on ``d``. How many become ready, at the end of ``ready``."""
    now.size[0] -= 1
    now.ready[at] = now.ready[now.size[0]]
    now.device[v] = d
    now.end[v] = min(LATE, start + t.time[v, d])
    now.free[d] = now.end[v] + (t.gap[d] if t.time[v, d] > 0 else 0)
    fresh = 0
    for i in range(t.made_at[v], t.made_at[v + 1]):
        for j in range(t.reader_at[t.made[i]], t.reader_at[t.made[i] + 1]):
            w = t.readers[j]
            now.missing[w] -= 1
            if now.missing[w] == 0:
                now.ready[now.size[0]] = w
                now.size[0] += 1
                fresh += 1
    return fresh


@njit(cache=True, nogil=True)
def _etf(
    t: Tables,
    rank: IntArray,
    allowed: NDArray[np.bool_],
    group: IntArray,
    need: IntArray,
    memory: IntArray,
    now: Progress,
    steps: int,
) -> None:
    devices = len(t.gap)
    while now.size[0] > 0 and steps > 0:
        steps -= 1
        best, at, where, cramped = LATE * 2, -1, -1, True
        for i in range(now.size[0]):
            v = now.ready[i]
            home = now.home[group[v]]
            wanted = need[group[v]] if home < 0 else 0
            for d in range(devices):
                if not allowed[v, d] or (home >= 0 and home != d):
                    continue
                start, tight = max(now.arrival[v, d], now.free[d]), memory[d] < wanted
                if (
                    at < 0
                    or (cramped and not tight)
                    or (cramped == tight and (start < best or (start == best and rank[v] > rank[now.ready[at]])))
                ):
                    best, at, where, cramped = start, i, d, tight
        v = now.ready[at]
        memory[where] -= need[group[v]] if now.home[group[v]] < 0 else 0
        now.home[group[v]] = where
        fresh = _placed(t, v, where, best, at, now)
        for i in range(now.size[0] - fresh, now.size[0]):
            for d in range(devices):
                now.arrival[now.ready[i], d] = arrival(t, now.ready[i], d, now.device, now.end)


@njit(cache=True, nogil=True)
def _arrives(t: Tables, s: int, d: int, now: Progress, sent: IntArray, channel: IntArray) -> int:
    """When storage ``s`` is on device ``d``: made or sent there, or sent now as soon as its channels are free."""
    devices, u = len(t.gap), t.producer[s]
    if now.device[u] == d:
        return now.end[u]
    if sent[s * devices + d] >= 0:
        return sent[s * devices + d]
    route = now.device[u] * devices + d
    if t.kind[route] < 0:
        return LATE
    start = now.end[u]
    for i in range(t.channel_at[route], t.channel_at[route + 1]):
        start = max(start, channel[t.channels[i]])
    return start + t.send[s, t.kind[route]]


@njit(cache=True, nogil=True)
def _lacking(t: Tables, v: int, d: int, group: int, b: Room, now: Progress, sent: IntArray) -> int:
    """Bytes that device ``d`` is short of for operation ``v``."""
    if b.rule == 0:
        return 0
    wanted = b.resting[group] if now.home[group] < 0 else 0
    for i in range(t.made_at[v], t.made_at[v + 1]):
        wanted += 0 if b.resident[t.made[i]] else b.size[t.made[i]]
    for i in range(t.read_at[v], t.read_at[v + 1]):
        s = t.read[i]
        if now.device[t.producer[s]] != d and sent[s * len(t.gap) + d] < 0:
            wanted += b.size[s]
    return max(0, wanted - b.left[d])


@njit(cache=True, nogil=True)
def _fetch(t: Tables, v: int, d: int, now: Progress, sent: IntArray, channel: IntArray, trial: IntArray) -> int:
    """When all that operation ``v`` reads is on device ``d``, sent one storage after the other.

    ``trial`` holds when channels are free afterwards, where they are used.
    """
    devices, ready = len(t.gap), 0
    for i in range(t.read_at[v], t.read_at[v + 1]):
        route = now.device[t.producer[t.read[i]]] * devices + d
        for k in range(t.channel_at[route], t.channel_at[route + 1]):
            trial[t.channels[k]] = channel[t.channels[k]]
    for i in range(t.read_at[v], t.read_at[v + 1]):
        s = t.read[i]
        there = _arrives(t, s, d, now, sent, trial)
        route = now.device[t.producer[s]] * devices + d
        if now.device[t.producer[s]] != d and sent[s * devices + d] < 0:
            for k in range(t.channel_at[route], t.channel_at[route + 1]):
                trial[t.channels[k]] = there + t.rest[route]
        ready = max(ready, there)
    return ready


@njit(cache=True, nogil=True)
def _send(t: Tables, v: int, d: int, b: Room, now: Progress, sent: IntArray, channel: IntArray) -> None:
    """Send what operation ``v`` reads to device ``d``."""
    devices = len(t.gap)
    for i in range(t.read_at[v], t.read_at[v + 1]):
        s = t.read[i]
        route = now.device[t.producer[s]] * devices + d
        if now.device[t.producer[s]] != d and sent[s * devices + d] < 0:
            sent[s * devices + d] = _arrives(t, s, d, now, sent, channel)
            b.left[d] -= b.size[s]
            for k in range(t.channel_at[route], t.channel_at[route + 1]):
                channel[t.channels[k]] = sent[s * devices + d] + t.rest[route]


@njit(cache=True, nogil=True)
def _release(t: Tables, v: int, b: Room, now: Progress, sent: IntArray) -> None:
    """Operation ``v`` has read its inputs: those that nobody else reads are free, wherever they are."""
    devices = len(t.gap)
    for i in range(t.read_at[v], t.read_at[v + 1]):
        s = t.read[i]
        b.readers[s] -= 1
        if b.readers[s] == 0 and b.rule == 2:
            if not b.kept[s]:
                b.left[now.device[t.producer[s]]] += b.size[s]
            for d in range(devices):
                if sent[s * devices + d] >= 0:
                    b.left[d] += b.size[s]


@njit(cache=True, nogil=True)
def _m_etf(
    t: Tables,
    place: IntArray,
    allowed: NDArray[np.bool_],
    group: IntArray,
    b: Room,
    sent: IntArray,
    channel: IntArray,
    now: Progress,
    steps: int,
) -> None:
    devices, trial = len(t.gap), channel.copy()
    while now.size[0] > 0 and steps > 0:
        steps -= 1
        best, at, where, short = LATE * 2, -1, -1, LATE * 2
        for i in range(now.size[0]):
            v = now.ready[i]
            home = now.home[group[v]]
            for d in range(devices):
                if not allowed[v, d] or (home >= 0 and home != d):
                    continue
                # channels fill up: what was known before is a lower limit, and often enough
                start = max(now.arrival[v, d], now.free[d])
                if short == 0 and start > best:
                    continue
                lacks = _lacking(t, v, d, group[v], b, now, sent)
                if lacks > short:
                    continue
                start = max(start, _fetch(t, v, d, now, sent, channel, trial))
                now.arrival[v, d] = start
                first = start < best or (start == best and at >= 0 and place[v] < place[now.ready[at]])
                if lacks < short or first:
                    best, at, where, short = start, i, d, lacks
        v = now.ready[at]
        _send(t, v, where, b, now, sent, channel)
        if now.home[group[v]] < 0:
            now.home[group[v]] = where
            b.left[where] -= b.resting[group[v]]
        for i in range(t.made_at[v], t.made_at[v + 1]):
            s = t.made[i]
            if not b.resident[s] and (b.rule != 2 or b.readers[s] > 0 or b.kept[s]):
                b.left[where] -= b.size[s]
        _release(t, v, b, now, sent)
        _placed(t, v, where, best, at, now)
