"""Placements to start from: one device, HEFT, a random one. Each gives devices; the decoder gives the times.

HEFT (Topcuoglu et al., 2002) places operations by falling upward rank where each ends first. It takes routes as free of
contention, keeps groups together and prefers devices on which the static bytes still fit.
"""

from __future__ import annotations

import numpy as np

from chipmap.heuristics.placement.keys import by_rank
from chipmap.heuristics.placement.shared import common_devices
from chipmap.heuristics.placement.simulation.tables import Tables
from chipmap.heuristics.placement.starts.list_scheduling import list_schedule
from chipmap.instances.placement.problem import IntArray, PlacementProblem


def one_device(problem: PlacementProblem, d: int) -> IntArray | None:
    """Everything on device ``d``; None where an operation isn't allowed there."""
    return np.full(problem.operations, d, dtype=np.int64) if problem.allowed[:, d].all() else None


def kept_off(problem: PlacementProblem, d: int) -> list[str]:
    """The first operation that isn't allowed on device ``d``, if there is one."""
    return [problem.names[v] for v in np.flatnonzero(~problem.allowed[:, d])[:1].tolist()]


def at_random(problem: PlacementProblem, seed: int) -> IntArray:
    """A random device for each group of C1, among those that all of it may run on."""
    draw = np.where(common_devices(problem), np.random.default_rng(seed).random(problem.allowed.shape), -1.0)
    found: IntArray = draw.argmax(axis=1).astype(np.int64)[problem.group]
    return found


def heft(problem: PlacementProblem, t: Tables) -> IntArray:
    """The devices that HEFT chooses [N]."""
    return list_schedule(problem, t, by_rank(problem), problem.group, common_devices(problem))
