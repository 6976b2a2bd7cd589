"""Placements to start from: one device, HEFT, a random one. Each gives devices; the decoder gives the times.

HEFT (Topcuoglu et al., 2002) places operations by falling upward rank where each ends first. It takes routes as free of
contention, keeps groups together and prefers devices on which the static bytes still fit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chipmap.heuristics.placement.keys import topological, upward_rank
from chipmap.heuristics.placement.shared import joint
from chipmap.heuristics.placement.tables import Tables
from chipmap.instances.placement.problem import IntArray, PlacementProblem
from chipmap.kernels import njit

#: Later than any time.
LATE = 2**61


def one_device(problem: PlacementProblem, d: int) -> IntArray | None:
    """Everything on device ``d``; None where an operation isn't allowed there."""
    return np.full(problem.operations, d, dtype=np.int64) if problem.allowed[:, d].all() else None


def kept_off(problem: PlacementProblem, d: int) -> list[str]:
    """The first operation that isn't allowed on device ``d``, if there is one."""
    return [problem.names[v] for v in np.flatnonzero(~problem.allowed[:, d])[:1].tolist()]


def at_random(problem: PlacementProblem, seed: int) -> IntArray:
    """A random device for each group of C1, among those that all of it may run on."""
    draw = np.where(joint(problem), np.random.default_rng(seed).random(problem.allowed.shape), -1.0)
    found: IntArray = draw.argmax(axis=1).astype(np.int64)[problem.group]
    return found


def room(problem: PlacementProblem) -> tuple[IntArray, IntArray]:
    """(static bytes of each group, by its number: weights and outputs [N]; memory [D], :data:`LATE` if unlimited)."""
    return room_of(problem, problem.group)


def room_of(problem: PlacementProblem, unit: IntArray) -> tuple[IntArray, IntArray]:
    """(static bytes of each unit, by its number [N]; memory [D], :data:`LATE` if unlimited)."""
    need = np.zeros(problem.operations, dtype=np.int64)
    np.add.at(need, unit, problem.weights)
    np.add.at(need, unit[problem.storages.producer], problem.storages.bytes)
    rule = problem.instance.task.memory != "none"
    return need, np.where((problem.memory >= 0) & rule, problem.memory, LATE)


def heft(problem: PlacementProblem, t: Tables) -> IntArray:
    """The devices that HEFT chooses [N]."""
    order = np.lexsort((topological(problem), -upward_rank(problem)))
    need, memory = room(problem)
    return _heft(t, order, joint(problem), problem.group, need, memory.copy())


@njit(cache=True, nogil=True)
def arrival(t: Tables, v: int, d: int, device: IntArray, end: IntArray) -> int:
    """When the inputs of operation ``v`` are on device ``d``, without contention."""
    ready = 0
    for i in range(t.read_at[v], t.read_at[v + 1]):
        s = t.read[i]
        u = t.producer[s]
        at = end[u]
        if device[u] != d:
            kind = t.kind[device[u] * len(t.gap) + d]
            if kind < 0:
                return LATE
            at += t.send[s, kind]
        ready = max(ready, at)
    return ready


@njit(cache=True, nogil=True)
def _heft(
    t: Tables, order: IntArray, allowed: NDArray[np.bool_], group: IntArray, need: IntArray, memory: IntArray
) -> IntArray:
    count, devices = len(order), len(t.gap)
    device, end, free = np.full(count, -1, np.int64), np.zeros(count, np.int64), np.zeros(devices, np.int64)
    home = np.full(count, -1, np.int64)  # of each group
    for v in order:
        best, where, cramped = LATE * 2, -1, True
        wanted = need[group[v]] if home[group[v]] < 0 else 0  # a group takes its room with its first operation
        for d in range(devices):
            if not allowed[v, d] or (home[group[v]] >= 0 and home[group[v]] != d):
                continue
            ends = min(LATE, max(arrival(t, v, d, device, end), free[d]) + t.time[v, d])
            tight = memory[d] < wanted
            if where < 0 or (cramped and not tight) or (cramped == tight and ends < best):
                best, where, cramped = ends, d, tight
        memory[where] -= wanted
        device[v], end[v], home[group[v]] = where, best, where
        free[where] = best + (t.gap[where] if t.time[v, where] > 0 else 0)
    return device
