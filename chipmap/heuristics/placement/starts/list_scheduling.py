"""List scheduling: operations are placed in a given order, each where it ends first; routes are free of contention.

What an operation brings to a device is the static bytes of its **unit** (a group of C1, or more), which all follow its
first operation. A device is chosen by a rule: first one on which these bytes still fit, then the one that is wished
for, then the earliest end.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chipmap.heuristics.placement.simulation.tables import Tables
from chipmap.instances.placement.problem import IntArray, PlacementProblem
from chipmap.kernels import njit

#: Later than any time.
LATE = 2**61


def room(problem: PlacementProblem, unit: IntArray) -> tuple[IntArray, IntArray]:
    """(static bytes of each unit, by its number: weights and outputs [N]; memory [D], :data:`LATE` if unlimited)."""
    need = np.zeros(problem.operations, dtype=np.int64)
    np.add.at(need, unit, problem.weights)
    np.add.at(need, unit[problem.storages.producer], problem.storages.bytes)
    rule = problem.instance.task.memory != "none"
    return need, np.where((problem.memory >= 0) & rule, problem.memory, LATE)


def list_schedule(
    problem: PlacementProblem,
    t: Tables,
    order: IntArray,
    unit: IntArray,
    allowed: NDArray[np.bool_],
    wish: IntArray | None = None,
    weights_last: bool = False,
) -> IntArray:
    """The device of each operation [N], placed in a topological ``order``.

    ``allowed`` [N, D]: the devices of whole units; ``wish`` [N]: the device wished for (-1: none). With
    ``weights_last`` a weight, which takes no time and could be anywhere, is placed with its first reader.
    """
    need, memory = room(problem, unit)
    wish = np.full(problem.operations, -1, dtype=np.int64) if wish is None else wish
    return _list_schedule(t, order, wish, allowed, unit, need, memory, weights_last)


@njit(part=True)
def arrival(t: Tables, v: int, d: int, device: IntArray, end: IntArray) -> int:
    """When the inputs of operation ``v`` are on device ``d``; producers without a device (-1) will be there as well."""
    ready = 0
    for i in range(t.read_at[v], t.read_at[v + 1]):
        s = t.read[i]
        u = t.producer[s]
        at = end[u]
        if device[u] >= 0 and device[u] != d:
            kind = t.kind[device[u] * len(t.gap) + d]
            if kind < 0:
                return LATE
            at += t.send[s, kind]
        ready = max(ready, at)
    return ready


@njit(cache=True, nogil=True)
def _list_schedule(
    t: Tables,
    order: IntArray,
    wish: IntArray,
    allowed: NDArray[np.bool_],
    unit: IntArray,
    need: IntArray,
    memory: IntArray,
    weights_last: bool,
) -> IntArray:
    """``memory`` [D] is what is left."""
    count, devices = len(order), len(t.gap)
    device, end, free = np.full(count, -1, np.int64), np.zeros(count, np.int64), np.zeros(devices, np.int64)
    home = np.full(count, -1, np.int64)  # of each unit
    for v in order:
        if weights_last and t.reads[v] == 0 and t.time[v].max() == 0 and t.made_at[v] < t.made_at[v + 1]:
            continue
        wanted = need[unit[v]] if home[unit[v]] < 0 else 0
        for i in range(t.read_at[v], t.read_at[v + 1]):
            u = t.producer[t.read[i]]
            if device[u] < 0:
                device[u] = home[unit[u]]
                wanted += need[unit[u]] if home[unit[u]] < 0 and unit[u] != unit[v] else 0
        best, where, badness = LATE * 2, -1, 3
        for d in range(devices):
            if not allowed[v, d] or (home[unit[v]] >= 0 and home[unit[v]] != d):
                continue
            bad = 2 * (memory[d] < wanted) + (wish[v] >= 0 and wish[v] != d)
            ends = min(LATE, max(arrival(t, v, d, device, end), free[d]) + t.time[v, d])
            if bad < badness or (bad == badness and ends < best):
                best, where, badness = ends, d, bad
        device[v], end[v] = where, best
        free[where] = best + (t.gap[where] if t.time[v, where] > 0 else 0)
        _settle(v, where, device, unit, home, allowed, need, memory)
        for i in range(t.read_at[v], t.read_at[v + 1]):
            u = t.producer[t.read[i]]
            if device[u] < 0:
                _settle(u, where, device, unit, home, allowed, need, memory)
    for v in range(count):
        if device[v] < 0:  # a weight that nobody reads
            _settle(v, 0, device, unit, home, allowed, need, memory)
    return device


@njit(part=True)
def _settle(
    v: int,
    to: int,
    device: IntArray,
    unit: IntArray,
    home: IntArray,
    allowed: NDArray[np.bool_],
    need: IntArray,
    memory: IntArray,
) -> None:
    """Operation ``v`` is where its unit is; a unit's first one takes it to device ``to`` or the next that allows it."""
    if home[unit[v]] < 0:
        while not allowed[v, to]:
            to = (to + 1) % len(memory)
        home[unit[v]] = to
        memory[to] -= need[unit[v]]
    device[v] = home[unit[v]]
