"""Devices that operations which share one (C1) have in common."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chipmap.instances.placement.problem import IntArray, PlacementProblem


def joint(problem: PlacementProblem) -> NDArray[np.bool_]:
    """The devices that all operations of an operation's group may run on [N, D]."""
    return joint_of(problem, problem.group)


def joint_of(problem: PlacementProblem, unit: IntArray) -> NDArray[np.bool_]:
    """The devices that all operations of an operation's unit (numbers [N]) may run on [N, D]."""
    allowed = np.ones_like(problem.allowed)
    np.logical_and.at(allowed, unit, problem.allowed)
    found: NDArray[np.bool_] = allowed[unit]
    return found
