"""The decoder's keys: topological position, and minus the upward rank. (Ready times need no table.)"""

from __future__ import annotations

import numpy as np

from chipmap.instances.placement.problem import IntArray, PlacementProblem


def topological(problem: PlacementProblem) -> IntArray:
    """The position of each operation in the topological order [N]."""
    found = np.empty(problem.operations, dtype=np.int64)
    found[problem.order] = np.arange(problem.operations)
    return found


def mean_times(problem: PlacementProblem) -> IntArray:
    """The mean of p over the devices that each operation may run on, rounded down [N]."""
    counts = np.maximum(1, problem.allowed.sum(axis=1))
    found: IntArray = np.where(problem.allowed, problem.time, 0).sum(axis=1) // counts
    return found


def mean_sends(problem: PlacementProblem) -> IntArray:
    """The mean of c over the routes, rounded down [S]."""
    kinds = problem.network.kind[problem.network.kind >= 0]
    if not kinds.size:
        return np.zeros(len(problem.storages), dtype=np.int64)
    found: IntArray = problem.storages.time @ np.bincount(kinds, minlength=problem.storages.time.shape[1]) // kinds.size
    return found


def upward_rank(problem: PlacementProblem) -> IntArray:
    """rank(v) = mean p + max over readers of (mean c of what they read + their rank) [N] (HEFT)."""
    return latest(problem, mean_times(problem), mean_sends(problem))


def by_rank(problem: PlacementProblem) -> IntArray:
    """The operations by falling upward rank, producers before readers [N]."""
    found: IntArray = np.lexsort((topological(problem), -upward_rank(problem)))
    return found


def latest(problem: PlacementProblem, time: IntArray, send: IntArray) -> IntArray:
    """The most time from the start of each operation to the end of the last one on a path, with ``time`` [N] of
    operations and ``send`` [S] of storages [N]."""
    storages, rank = problem.storages, [0] * problem.operations
    at, readers = storages.reader_at.tolist(), storages.readers.tolist()
    times, sends = time.tolist(), send.tolist()
    for v in reversed(problem.order.tolist()):
        last = 0
        for s in problem.made[v]:
            for w in readers[at[s] : at[s + 1]]:
                last = max(last, sends[s] + rank[w])
        rank[v] = times[v] + last
    return np.array(rank, dtype=np.int64)


def default_keys(problem: PlacementProblem) -> IntArray:
    """Minus the upward rank [N]."""
    found: IntArray = -upward_rank(problem)
    return found
