"""Phases of a step: stretches of equal work, in each of which the devices should have as much to do.

A partition with even work may still leave devices idle. If all operations at the beginning are on one device, the
others wait for them. So operations are dealt out to **phases** by when they are likely to run. An operation can't start
before its head, and must end before its tail begins: the middle of that window counts. All phases have the same work.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chipmap.heuristics.placement.bounds.simple import HeadsAndTails, directions, least_times
from chipmap.instances.placement.problem import IntArray, PlacementProblem

#: A device may have so much of a phase's mean work before it counts as too much.
SLACK = 1.03


class Phases(NamedTuple):
    """Operation v is in phase ``phase[v]`` [N], of whose work a device's share is ``share[phase]`` [B] ns."""

    phase: IntArray
    share: IntArray


def path_windows(problem: PlacementProblem) -> HeadsAndTails:
    """Heads and tails by longest paths without transfers, at once: max over what v reads of head + time."""
    time, found = least_times(problem), []
    for order, _, waits in directions(problem):
        done, at, other, own = [0] * problem.operations, waits.at.tolist(), waits.other.tolist(), time.tolist()
        for v in order.tolist():
            done[v] = own[v] + max([done[u] for u in other[at[v] : at[v + 1]]], default=0)
        found.append(np.array(done, dtype=np.int64) - time)
    return HeadsAndTails(found[0], time, found[1])


def middle(windows: HeadsAndTails) -> IntArray:
    """The head of each operation, less its tail, plus half of its time [N], in ns.

    Half of it and half the step is the moment around which the operation is likely to run.
    """
    found: IntArray = windows.head + windows.time // 2 - windows.tail
    return found


def phases(problem: PlacementProblem, when: IntArray, count: int) -> Phases:
    """``count`` phases of equal work, by rising ``when`` [N]."""
    work, order = problem.time.min(axis=1), np.argsort(when, kind="stable")
    before = np.cumsum(work[order]) - work[order]
    phase = np.empty(problem.operations, dtype=np.int64)
    phase[order] = np.minimum(count - 1, before * count // max(1, int(work.sum())))
    whole = np.zeros((count, problem.devices), dtype=np.int64)
    np.add.at(whole, phase, problem.time)
    share = SLACK / (1 / np.maximum(1, whole)).sum(axis=1)
    return Phases(phase, np.maximum(1, share.astype(np.int64)))
