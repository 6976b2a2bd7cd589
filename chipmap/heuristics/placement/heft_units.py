"""HEFT on units: a weight, its update and the chain of its gradients run on one device.

Plain HEFT scatters the gradient operations of a weight over the devices, and each sum of two of them is then sent over
a link. A **unit** is a group of C1 with all that only the group needs: an operation joins if it has readers, all in the
unit, and reads no weight of another unit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chipmap.heuristics.placement.keys import topological, upward_rank
from chipmap.heuristics.placement.shared import joint_of
from chipmap.heuristics.placement.starts import LATE, room_of
from chipmap.heuristics.placement.tables import Tables
from chipmap.instances.placement.problem import IntArray, PlacementProblem
from chipmap.kernels import njit


def unit_of(problem: PlacementProblem, t: Tables) -> IntArray:
    """The unit of each operation [N]: the number of the group that it belongs to or joins."""
    core = np.bincount(problem.group, minlength=problem.operations) > 1
    return _units(t, problem.order, problem.group, core, problem.storages.resident)


@njit(cache=True, nogil=True)
def _units(
    t: Tables, order: IntArray, group: IntArray, core: NDArray[np.bool_], resident: NDArray[np.bool_]
) -> IntArray:
    """Operations join from the last to the first. ``core`` [N]: the numbers of groups that others may join."""
    unit = group.copy()
    for k in range(len(order) - 1, -1, -1):
        v = order[k]
        if core[group[v]]:
            continue
        common = -1  # the unit of all readers so far; -1 before the first, -2 once two differ
        for i in range(t.made_at[v], t.made_at[v + 1]):
            for j in range(t.reader_at[t.made[i]], t.reader_at[t.made[i] + 1]):
                at = unit[t.readers[j]]
                common = at if common == -1 or common == at else -2
        if common < 0 or not core[common]:
            continue
        for i in range(t.read_at[v], t.read_at[v + 1]):
            if resident[t.read[i]] and unit[t.producer[t.read[i]]] != common:
                common = -2
        if common >= 0:
            unit[v] = common
    return unit


def heft_units(problem: PlacementProblem, t: Tables) -> IntArray:
    """The devices that HEFT chooses for units [N]: a unit is where its first operation is, in falling upward rank.

    A weight takes no time and could be anywhere, so that it is left until its first reader is placed.
    """
    order, unit = np.lexsort((topological(problem), -upward_rank(problem))), unit_of(problem, t)
    allowed = joint_of(problem, unit)
    if not allowed.any(axis=1).all():  # what a unit needs together no device has: groups alone
        unit, allowed = problem.group, joint_of(problem, problem.group)
    need, memory = room_of(problem, unit)
    return _heft(t, order, allowed, unit, need, memory)


@njit(cache=True, nogil=True)
def _arrival(t: Tables, v: int, d: int, at: IntArray, end: IntArray) -> int:
    """When the inputs of ``v`` are on device ``d`` if producers are on devices ``at`` (-1: on ``d`` as well)."""
    ready = 0
    for i in range(t.read_at[v], t.read_at[v + 1]):
        s = t.read[i]
        u = t.producer[s]
        arrives = end[u]
        if at[u] >= 0 and at[u] != d:
            kind = t.kind[at[u] * len(t.gap) + d]
            arrives = LATE if kind < 0 else arrives + t.send[s, kind]
        ready = max(ready, arrives)
    return ready


@njit(cache=True, nogil=True)
def _heft(
    t: Tables, order: IntArray, allowed: NDArray[np.bool_], unit: IntArray, need: IntArray, memory: IntArray
) -> IntArray:
    count, devices = len(order), len(t.gap)
    device, end, free = np.full(count, -1, np.int64), np.zeros(count, np.int64), np.zeros(devices, np.int64)
    home = np.full(count, -1, np.int64)  # of each unit
    for v in order:
        if t.reads[v] == 0 and t.time[v].max() == 0 and t.made_at[v] < t.made_at[v + 1]:
            continue  # it goes with its first reader
        wanted = need[unit[v]] if home[unit[v]] < 0 else 0
        for i in range(t.read_at[v], t.read_at[v + 1]):
            u = t.producer[t.read[i]]
            if device[u] < 0:
                device[u] = home[unit[u]]
                wanted += need[unit[u]] if home[unit[u]] < 0 and unit[u] != unit[v] else 0
        best, where, cramped = LATE * 2, -1, True
        for d in range(devices):
            if not allowed[v, d] or (home[unit[v]] >= 0 and home[unit[v]] != d):
                continue
            ends = min(LATE, max(_arrival(t, v, d, device, end), free[d]) + t.time[v, d])
            tight = memory[d] < wanted
            if where < 0 or (cramped and not tight) or (cramped == tight and ends < best):
                best, where, cramped = ends, d, tight
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


@njit(cache=True, nogil=True)
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
