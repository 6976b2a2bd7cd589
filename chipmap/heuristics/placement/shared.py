"""Operations that share a device: sets of them, the devices that they have in common, the bytes that they take up."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chipmap.instances.placement.problem import IntArray, PlacementProblem
from chipmap.kernels import njit


def common_devices(problem: PlacementProblem) -> NDArray[np.bool_]:
    """The devices that all operations of an operation's group may run on [N, D]."""
    return common_devices_of(problem, problem.group)


def common_devices_of(problem: PlacementProblem, unit: IntArray) -> NDArray[np.bool_]:
    """The devices that all operations of an operation's unit (numbers [N]) may run on [N, D]."""
    allowed = np.ones_like(problem.allowed)
    np.logical_and.at(allowed, unit, problem.allowed)
    found: NDArray[np.bool_] = allowed[unit]
    return found


def part_bytes(problem: PlacementProblem, part: IntArray, parts: int | None = None) -> IntArray:
    """What rests for the whole step of each part's operations, in bytes, by the number of the part [``parts``].

    ``part`` [N] is the part of each operation, or its device; ``parts`` is N unless it is given."""
    storages, static = problem.storages, problem.instance.task.memory == "static"
    found = np.zeros(problem.operations if parts is None else parts, dtype=np.int64)
    np.add.at(found, part, problem.weights)
    rests = np.ones(len(storages), dtype=bool) if static else storages.resident
    np.add.at(found, part[storages.producer[rests]], storages.bytes[rests])
    for size, readers in problem.copies:
        found[np.unique(part[list(readers)])] += size
    return found


@njit(cache=True, nogil=True)
def joined(group: IntArray, u: IntArray, v: IntArray, work: IntArray, cap: int) -> IntArray:
    """The least operation [N] of the set of each one: groups, and the ends of edges (u, v) in their order, which are
    joined up to ``cap`` work."""
    count = len(group)
    part, total = np.arange(count), work.copy()
    for i in range(count + len(u)):
        a, b = (i, group[i]) if i < count else (u[i - count], v[i - count])
        while part[a] != a:
            part[a] = part[part[a]]
            a = part[a]
        while part[b] != b:
            part[b] = part[part[b]]
            b = part[b]
        if a != b and (i < count or total[a] + total[b] <= cap):
            low = min(a, b)
            part[max(a, b)] = low
            total[low] = total[a] + total[b]
    for a in range(count):  # the least of a set is met first
        part[a] = part[part[a]]
    return part
