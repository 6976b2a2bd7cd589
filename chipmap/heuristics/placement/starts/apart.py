"""Operations that are to be apart (C1), for starts and searches that know nothing of them.

A start may put them anywhere: afterwards those that share a device move on. Searches leave them where their start has
them, so that what they find keeps them apart.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chipmap.heuristics.placement.shared import common_devices
from chipmap.instances.placement.problem import IntArray, PlacementProblem


def set_apart(problem: PlacementProblem, devices: IntArray) -> IntArray:
    """``devices`` [N], where operations that are to be apart and share one have moved, with their groups.

    One group after the other gets its device, that with the fewest left to it first: its own, if no other of them has
    it, else the one with the least work. Where none is left, it stays: the checker refuses the placement.
    """
    if not problem.apart:
        return devices
    group, fine = problem.group.tolist(), common_devices(problem)
    rivals: dict[int, set[int]] = {}
    for some in problem.apart:
        for g in (numbers := {group[v] for v in some}):
            rivals.setdefault(g, set()).update(numbers - {g})
    free = {g: set(np.flatnonzero(fine[g]).tolist()) for g in rivals}
    found, work = devices.copy(), np.zeros(problem.devices, dtype=np.int64)
    np.add.at(work, devices, problem.time[np.arange(problem.operations), devices])
    left = list(rivals)
    while left:
        g = min(left, key=lambda one: len(free[one]))
        left.remove(g)
        own = int(found[g])
        if free[g] and own not in free[g]:
            members = np.flatnonzero(problem.group == g)
            new = min(free[g], key=lambda d: (int(work[d]) + int(problem.time[members, d].sum()), d))
            work[own] -= int(problem.time[members, own].sum())
            work[new] += int(problem.time[members, new].sum())
            found[members], own = new, new
        for other in rivals[g]:
            free[other].discard(own)
    return found


def held(problem: PlacementProblem, devices: IntArray) -> NDArray[np.bool_]:
    """The devices that a search may give to each operation [N, D]: those that it may run on, or where it is, if it is
    to be apart from others or in a group with such a one."""
    if not problem.apart:
        return problem.allowed
    fixed = np.isin(problem.group, problem.group[sorted({v for some in problem.apart for v in some})])
    here = np.arange(problem.devices) == devices[:, None]
    found: NDArray[np.bool_] = np.where(fixed[:, None], here, problem.allowed)
    return found
