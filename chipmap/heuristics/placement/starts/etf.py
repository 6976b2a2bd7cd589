"""ETF, and m-ETF of Baechi: again and again the ready operation that can start first, wherever that is.

ETF (Hwang et al., 1989) takes routes as free of contention: none has a channel. Of equal starts the operation of the
higher upward rank goes first, and devices on which the static bytes still fit are preferred.

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
from chipmap.heuristics.placement.starts.list_scheduling import LATE, room
from chipmap.instances.placement.problem import IntArray, PlacementProblem
from chipmap.kernels import njit

#: Operations that are placed between two looks at the clock.
STEPS = 500


class Progress(NamedTuple):
    """Where ETF stands.

    Of each operation [N]: ``device``, ``end``, ``home`` (of the group of that number), ``missing`` (inputs that aren't
    placed). ``free`` [D]; ``ready[:size[0]]`` are the ready operations, ``arrival`` [N, D] when their
    inputs are there at the earliest (-1: not known).
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
    """Memory.

    ``live``: what is read is freed. ``most``: more bytes too many are no worse. Bytes: ``resting`` [N] of each group,
    by its number, for the whole step; ``size`` [S] of storages; ``left`` [D]. ``kept`` [S]: never freed. ``readers``
    [S]: how many aren't placed.
    """

    live: bool
    most: int
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
        arrival=np.full((count, devices), -1, dtype=np.int64),
    )


def etf(problem: PlacementProblem, t: Tables, deadline: Deadline = Deadline()) -> IntArray:
    """The devices that ETF chooses [N]."""
    (need, memory), storages = room(problem, problem.group), problem.storages
    free = np.zeros_like(storages.bytes)
    memory_of = Room(False, 1, need, free, memory, storages.resident, storages.resident, free.copy())
    return _chosen(
        problem, t._replace(channel_at=np.zeros_like(t.channel_at)), -upward_rank(problem), memory_of, deadline
    )


def m_etf(problem: PlacementProblem, t: Tables, deadline: Deadline = Deadline()) -> IntArray:
    """The devices that m-ETF chooses [N]."""
    storages, rule = problem.storages, problem.instance.task.memory
    resting = np.zeros(problem.operations, dtype=np.int64)
    np.add.at(resting, problem.group, problem.weights)
    np.add.at(resting, problem.group[storages.producer], np.where(storages.resident, storages.bytes, 0))
    memory = Room(
        live=rule == "live",
        most=LATE,
        resting=resting,
        size=storages.bytes,
        left=np.where((problem.memory >= 0) & (rule != "none"), problem.memory, LATE),
        kept=storages.resident | storages.output,
        resident=storages.resident,
        readers=np.diff(storages.reader_at),
    )
    return _chosen(problem, t, topological(problem), memory, deadline)


def _chosen(problem: PlacementProblem, t: Tables, place: IntArray, memory: Room, deadline: Deadline) -> IntArray:
    """The devices [N]; of equal starts the operation of the least ``place`` [N] goes first."""
    now, allowed = _begin(t, problem.operations), common_devices(problem)
    sent = np.full(len(problem.storages) * problem.devices, -1, dtype=np.int64)
    channel = np.zeros(max(1, problem.network.count), dtype=np.int64)
    while now.size[0]:
        deadline.check()
        _place(t, place, allowed, problem.group, memory, sent, channel, now, STEPS)
    return now.device


@njit(part=True)
def _placed(t: Tables, v: int, d: int, start: int, at: int, now: Progress) -> None:
    """Operation ``v``, at place ``at`` of ``ready``, runs on ``d``."""
    now.size[0] -= 1
    now.ready[at] = now.ready[now.size[0]]
    now.device[v] = d
    now.end[v] = min(LATE, start + t.time[v, d])
    now.free[d] = now.end[v] + (t.gap[d] if t.time[v, d] > 0 else 0)
    for i in range(t.made_at[v], t.made_at[v + 1]):
        for j in range(t.reader_at[t.made[i]], t.reader_at[t.made[i] + 1]):
            w = t.readers[j]
            now.missing[w] -= 1
            if now.missing[w] == 0:
                now.ready[now.size[0]] = w
                now.size[0] += 1


@njit(part=True)
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


@njit(part=True)
def _lacking(t: Tables, v: int, d: int, group: int, b: Room, now: Progress, sent: IntArray) -> int:
    """Bytes that device ``d`` is short of for operation ``v``."""
    wanted = b.resting[group] if now.home[group] < 0 else 0
    for i in range(t.made_at[v], t.made_at[v + 1]):
        wanted += 0 if b.resident[t.made[i]] else b.size[t.made[i]]
    for i in range(t.read_at[v], t.read_at[v + 1]):
        s = t.read[i]
        if now.device[t.producer[s]] != d and sent[s * len(t.gap) + d] < 0:
            wanted += b.size[s]
    return min(b.most, max(0, wanted - b.left[d]))


@njit(part=True)
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


@njit(part=True)
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


@njit(part=True)
def _release(t: Tables, v: int, b: Room, now: Progress, sent: IntArray) -> None:
    """Operation ``v`` has read its inputs: those that nobody else reads are free, wherever they are."""
    devices = len(t.gap)
    for i in range(t.read_at[v], t.read_at[v + 1]):
        s = t.read[i]
        b.readers[s] -= 1
        if b.readers[s] == 0 and b.live:
            if not b.kept[s]:
                b.left[now.device[t.producer[s]]] += b.size[s]
            for d in range(devices):
                if sent[s * devices + d] >= 0:
                    b.left[d] += b.size[s]


@njit(cache=True, nogil=True)
def _place(
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
    devices, trial, contended = len(t.gap), channel.copy(), t.channel_at[-1] > 0
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
                if short == 0 and (start > best or (start == best and place[v] >= place[now.ready[at]])):
                    continue
                lacks = _lacking(t, v, d, group[v], b, now, sent)
                if lacks > short:
                    continue
                if contended or now.arrival[v, d] < 0:
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
            if not b.resident[s] and (not b.live or b.readers[s] > 0 or b.kept[s]):
                b.left[where] -= b.size[s]
        _release(t, v, b, now, sent)
        _placed(t, v, where, best, at, now)
