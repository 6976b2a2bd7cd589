"""HEFT on units: a weight, its update and the chain of its gradients run on one device.

Plain HEFT scatters the gradient operations of a weight over the devices, and each sum of two of them is then sent over
a link. A **unit** is a group of C1 with all that only the group needs: an operation joins if it has readers, all in the
unit, and reads no weight of another unit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chipmap.heuristics.placement.keys import by_rank
from chipmap.heuristics.placement.shared import common_devices_of
from chipmap.heuristics.placement.simulation.tables import Tables
from chipmap.heuristics.placement.starts.list_scheduling import list_schedule
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
    unit = unit_of(problem, t)
    allowed = common_devices_of(problem, unit)
    if not allowed.any(axis=1).all():  # what a unit needs together no device has: groups alone
        unit, allowed = problem.group, common_devices_of(problem, problem.group)
    return list_schedule(problem, t, by_rank(problem), unit, allowed, weights_last=True)
