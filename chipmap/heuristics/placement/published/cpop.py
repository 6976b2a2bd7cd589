"""CPOP (Topcuoglu et al., 2002): the critical path on the device that runs it fastest, the rest where it ends first.

An operation's priority is its upward rank plus its downward rank (the longest path to it, with mean times and mean
transfers). Those of the greatest priority, from an operation without inputs on, are the critical path. Ready operations
are placed by falling priority. Routes are taken as free of contention.
"""

from __future__ import annotations

import heapq

import numpy as np

from chipmap.heuristics.placement.keys import mean_sends, mean_times, upward_rank
from chipmap.heuristics.placement.shared import common_devices
from chipmap.heuristics.placement.simulation.tables import Tables
from chipmap.heuristics.placement.starts.list_scheduling import LATE, list_schedule
from chipmap.instances.placement.problem import IntArray, PlacementProblem


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
    path, allowed = critical_path(problem, priority, t), common_devices(problem)
    wish = np.full(problem.operations, -1, dtype=np.int64)
    if path:
        wish[path] = int(np.where(allowed[path], problem.time[path], LATE // len(path)).sum(axis=0).argmin())
    return list_schedule(problem, t, by_priority(problem, priority), problem.group, allowed, wish)


def by_priority(problem: PlacementProblem, priority: IntArray) -> IntArray:
    """The operations [N]: of those whose producers stand before, again and again that of the greatest priority."""
    missing, found, high = [len(made) for made in problem.producers], list[int](), priority.tolist()
    made: list[list[int]] = [[] for _ in missing]
    for s, u in enumerate(problem.storages.producer.tolist()):
        made[u].append(s)
    ready = [(-high[v], v) for v, count in enumerate(missing) if not count]
    heapq.heapify(ready)
    while ready:
        found.append(heapq.heappop(ready)[1])
        for w in (w for s in made[found[-1]] for w in problem.storages.read_by(s)):
            missing[w] -= 1
            if not missing[w]:
                heapq.heappush(ready, (-high[w], w))
    return np.array(found, dtype=np.int64)
