"""An order that holds little, by plain Python, and the most bytes that devices hold at a time.

Step by step an operation runs that frees at least as many bytes as it makes; where there is none, and of several, the
last one in the graph. So a backward pass begins as soon as it can, where the order of the graph makes all forward
operations first and keeps what they save.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from chipmap.heuristics.placement.shared import part_bytes
from chipmap.heuristics.placement.starts.in_order import Times, busy_on
from chipmap.instances.placement.problem import IntArray, PlacementProblem
from chipmap.records import kept


def frugal_order(problem: PlacementProblem) -> list[int]:
    """A topological order of the operations [N] that holds little at a time (kept with the problem)."""
    return kept(problem, "_frugal_order", _frugal_order)


def _frugal_order(problem: PlacementProblem) -> list[int]:
    storages, made, reads = problem.storages, problem.made, problem.producers
    at, readers = storages.reader_at.tolist(), storages.readers.tolist()
    sizes = np.where(storages.resident, 0, storages.bytes)
    frees = np.where(storages.output, 0, sizes).tolist()
    makes = np.zeros(problem.operations, dtype=np.int64)
    np.add.at(makes, storages.producer, sizes)
    net = makes.tolist()  # bytes that an operation adds, if it ran now
    waiting, lacks = np.diff(storages.reader_at).tolist(), list(map(len, reads))
    for s, count in enumerate(waiting):
        if count == 1:
            net[readers[at[s]]] -= frees[s]
    last = {v: -i for i, v in enumerate(problem.order.tolist())}
    ready = [not count for count in lacks]
    heap = [(net[v] > 0, last[v], v) for v in last if ready[v]]
    heapq.heapify(heap)
    found = list[int]()
    while heap:
        _, _, v = heapq.heappop(heap)
        if not ready[v]:
            continue
        ready[v] = False
        found.append(v)
        for s in reads[v]:
            waiting[s] -= 1
            if waiting[s] == 1 and frees[s]:
                for w in readers[at[s] : at[s + 1]]:
                    net[w] -= frees[s]
                    if ready[w]:
                        heapq.heappush(heap, (net[w] > 0, last[w], w))
        for s in made[v]:
            for w in readers[at[s] : at[s + 1]]:
                lacks[w] -= 1
                if not lacks[w]:
                    ready[w] = True
                    heapq.heappush(heap, (net[w] > 0, last[w], w))
    return found


def curves_one_by_one(problem: PlacementProblem, device: IntArray, order: Sequence[int]) -> IntArray:
    """The bytes on each device at each place of a topological order [D, N] with rule ``live``, if operations run one at
    a time, and what one lacks is sent right before it."""
    count = problem.operations
    place = np.empty(count, dtype=np.int64)
    place[np.asarray(order, dtype=np.int64)] = np.arange(count)
    begin, end = _spans(problem, device, place, place, count)
    home = device[problem.storages.producer]
    every = np.arange(len(home))
    arrived = np.where(begin < count, begin, -1)
    arrived[problem.storages.resident] = -1
    end[every, home] = np.maximum(end[every, home], arrived.max(axis=1, initial=-1))
    begin[every, home] = place[problem.storages.producer]
    found = np.zeros((problem.devices, count + 2), dtype=np.int64)
    for d in range(problem.devices):
        there = end[:, d] >= 0
        np.add.at(found[d], begin[there, d], problem.storages.bytes[there])
        np.subtract.at(found[d], end[there, d] + 1, problem.storages.bytes[there])
    curve: IntArray = np.cumsum(found, axis=1)[:, :count] + part_bytes(problem, device, problem.devices)[:, None]
    return curve


def peaks_of(problem: PlacementProblem, device: IntArray, times: Times) -> IntArray:
    """The most bytes on each device [D] with rule ``live`` of a schedule (C6)."""
    storages, count = problem.storages, problem.devices
    start = np.array(times.start, dtype=np.int64)
    ends, step = start + np.array(busy_on(problem, device), dtype=np.int64), times.step
    begin, end = _spans(problem, device, start, ends, step)
    home, every = device[storages.producer], np.arange(len(storages))
    begin[every, home] = start[storages.producer]
    if times.moves:
        s, to, leaves = np.array(times.moves, dtype=np.int64).T
        begin[s, to] = leaves
        arrives = leaves + storages.time[s, problem.network.kind[home[s], to]]
        np.maximum.at(end, (s, home[s]), np.where(storages.resident[s], -1, arrives))
    found = np.zeros(count, dtype=np.int64)
    for d in range(count):
        there = end[:, d] > begin[:, d]
        when = np.concatenate((2 * begin[there, d] + 1, 2 * end[there, d]))
        change = np.concatenate((storages.bytes[there], -storages.bytes[there]))
        found[d] = np.cumsum(change[np.argsort(when, kind="stable")]).max(initial=0)
    most: IntArray = found + part_bytes(problem, device, count)
    return most


def peaks_at_least(problem: PlacementProblem, device: IntArray, order: Sequence[int]) -> IntArray:
    """The most bytes on each device [D] with rule ``live`` (C6) that no schedule can avoid in which the operations
    that take time run in this ``order`` on their devices, whenever they start.

    Place by place: what the operation there makes or reads, and what one before it made or read for one behind it. So
    an output counts from its producer to its last reader there, a copy from its first reader to its last one.
    Operations without time count neither as producers nor as readers, as they may run at other places.
    """
    storages, count, operations = problem.storages, problem.devices, problem.operations
    place = np.empty(operations, dtype=np.int64)
    place[np.asarray(order, dtype=np.int64)] = np.arange(operations)
    timed = np.array(busy_on(problem, device), dtype=np.int64) > 0
    begin, end = np.full(len(storages) * count, operations), np.full(len(storages) * count, -1)
    by = timed[storages.readers]
    readers, where = storages.readers[by], storages.read[by] * count + device[storages.readers[by]]
    np.minimum.at(begin, where, place[readers])
    np.maximum.at(end, where, place[readers])
    home = np.arange(len(storages)) * count + device[storages.producer]
    made = timed[storages.producer]
    own, at = home[made], place[storages.producer[made]]
    begin[own], end[own] = at, np.maximum(end[own], at)
    stays = home[storages.output]
    end[stays] = np.where(end[stays] >= 0, operations - 1, -1)
    end[home[storages.resident]] = -1
    there = np.flatnonzero(end >= 0)
    sizes, row = storages.bytes[there // count], there % count * (operations + 1)
    change = np.zeros(count * (operations + 1), dtype=np.int64)
    np.add.at(change, row + begin[there], sizes)
    np.subtract.at(change, row + end[there] + 1, sizes)
    most: IntArray = np.cumsum(change.reshape(count, -1), axis=1).max(axis=1) + part_bytes(problem, device, count)
    return most


def held_static(problem: PlacementProblem, device: IntArray) -> IntArray:
    """The bytes on each device [D] with rule ``static``: what is made there, and every copy that is sent there."""
    storages, count = problem.storages, problem.devices
    sent = np.unique(storages.read * count + device[storages.readers])
    s, to = sent // count, sent % count
    away = to != device[storages.producer[s]]
    found = part_bytes(problem, device, count)
    np.add.at(found, to[away], storages.bytes[s[away]])
    return found


def _spans(
    problem: PlacementProblem, device: IntArray, start: IntArray, ends: IntArray, last: int
) -> tuple[IntArray, IntArray]:
    """When each storage is first read and no longer needed on each device [S, D] (-1: never), by the ``start`` and
    ``ends`` [N] of operations; at home at its producer's end at the earliest. What rests isn't counted."""
    storages, count = problem.storages, problem.devices
    begin: IntArray = np.full(len(storages) * count, last, dtype=np.int64)
    end: IntArray = np.full(len(storages) * count, -1, dtype=np.int64)
    place = storages.read * count + device[storages.readers]
    np.minimum.at(begin, place, start[storages.readers])
    np.maximum.at(end, place, ends[storages.readers])
    begin, end = begin.reshape(-1, count), end.reshape(-1, count)
    home, every = device[storages.producer], np.arange(len(storages))
    until = np.maximum(end[every, home], ends[storages.producer])
    end[every, home] = np.where(storages.resident, -1, np.where(storages.output, last, until))
    return begin, end
