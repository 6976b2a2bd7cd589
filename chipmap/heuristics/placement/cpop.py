"""CPOP (Topcuoglu et al., 2002): the critical path on the device that runs it fastest, the rest where it ends first.

An operation's priority is its upward rank plus its downward rank (the longest path to it, with mean times and mean
transfers). Those of the greatest priority, from an operation without inputs on, are the critical path. Ready operations
are placed by falling priority. Routes are taken as free of contention.
"""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from chipmap.heuristics.placement.keys import mean_sends, mean_times, upward_rank
from chipmap.heuristics.placement.shared import joint
from chipmap.heuristics.placement.starts import LATE, arrival, room
from chipmap.heuristics.placement.tables import Tables
from chipmap.instances.placement.problem import IntArray, PlacementProblem
from chipmap.kernels import njit


def downward_rank(problem: PlacementProblem) -> IntArray:
    """rank(v) = max over its inputs of (the producer's rank + its mean time + mean c) [N]."""
    time, send, rank = mean_times(problem).tolist(), mean_sends(problem).tolist(), [0] * problem.operations
    producer = problem.storages.producer.tolist()
    for v in problem.order.tolist():
        rank[v] = max((rank[producer[s]] + time[producer[s]] + send[s] for s in problem.producers[v]), default=0)
    return np.array(rank, dtype=np.int64)


def critical_path(problem: PlacementProblem, priority: IntArray, t: Tables) -> list[int]:
    """From the operation without inputs of greatest priority on, each time the reader of greatest priority."""
    first = [v for v in range(problem.operations) if t.reads[v] == 0]
    path = [max(first, key=lambda v: (int(priority[v]), -v))] if first else []
    while path:
        v = path[-1]
        readers = {w for s in t.made[t.made_at[v] : t.made_at[v + 1]].tolist() for w in problem.storages.read_by(s)}
        if not readers:
            break
        path.append(max(readers, key=lambda w: (int(priority[w]), -w)))
    return path


def cpop(problem: PlacementProblem, t: Tables) -> IntArray:
    """The devices that CPOP chooses [N]."""
    priority = upward_rank(problem) + downward_rank(problem)
    path, allowed, (need, memory) = critical_path(problem, priority, t), joint(problem), room(problem)
    wish = np.full(problem.operations, -1, dtype=np.int64)
    if path:
        wish[path] = int(np.where(allowed[path], problem.time[path], LATE // len(path)).sum(axis=0).argmin())
    return _cpop(t, priority, wish, allowed, problem.group, need, memory.copy())


@njit(cache=True, nogil=True)
def _cpop(
    t: Tables,
    priority: IntArray,
    wish: IntArray,
    allowed: NDArray[np.bool_],
    group: IntArray,
    need: IntArray,
    memory: IntArray,
) -> IntArray:
    count, devices = len(priority), len(t.gap)
    device, end, free = np.full(count, -1, np.int64), np.zeros(count, np.int64), np.zeros(devices, np.int64)
    home, missing = np.full(count, -1, np.int64), t.reads.copy()
    ready = [(0, 0)]
    ready.pop()
    for v in range(count):
        if missing[v] == 0:
            heapq.heappush(ready, (-priority[v], v))
    while len(ready) > 0:
        v = heapq.heappop(ready)[1]
        wanted = need[group[v]] if home[group[v]] < 0 else 0
        best, where, badness = LATE * 2, -1, 3
        for d in range(devices):
            if not allowed[v, d] or (home[group[v]] >= 0 and home[group[v]] != d):
                continue
            # room first, then the critical path's device
            bad = 2 * (memory[d] < wanted) + (wish[v] >= 0 and wish[v] != d)
            ends = min(LATE, max(arrival(t, v, d, device, end), free[d]) + t.time[v, d])
            if bad < badness or (bad == badness and ends < best) or where < 0:
                best, where, badness = ends, d, bad
        memory[where] -= wanted
        device[v], end[v], home[group[v]] = where, best, where
        free[where] = best + (t.gap[where] if t.time[v, where] > 0 else 0)
        for i in range(t.made_at[v], t.made_at[v + 1]):
            for j in range(t.reader_at[t.made[i]], t.reader_at[t.made[i] + 1]):
                w = 0 + t.readers[j]  # in 64 bits, as what is in the heap
                missing[w] -= 1
                if missing[w] == 0:
                    heapq.heappush(ready, (-priority[w], w))
    return device
