"""Units: sets of operations that the search moves as one, on several levels.

Groups of C1 are the finest. On each coarser level the ends of the largest tensors are joined first, as long as a unit's
work stays below a share of all work (Kruskal's algorithm with a cap).

Where most of a graph repeats, further levels have **runs**: operations of one role in successive steps. A single one of
them rarely gains anything on another device, as it needs the weights there; many of them do.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chipmap.heuristics.placement.shared import joined
from chipmap.heuristics.placement.siblings.roles import Roles
from chipmap.instances.placement.problem import IntArray, PlacementProblem

#: The most work of a unit on each level, as a share of all work.
SHARES = (0.0, 1 / 4096, 1 / 1024, 1 / 256, 1 / 64, 1 / 16, 1 / 4)
#: The most steps of a run on each level of runs (the last one has whole roles), and the share of edges that must fit
#: the steps. On AmoebaNet, where it is 0.45, runs gain nothing; it is 0.65 or more on recurrent networks and WaveNet.
STEPS, FITTING = (4, 16, 2**20), 0.6


class Units(NamedTuple):
    """On level k operation v is in unit i = ``unit[k, v]``, whose members are ``members[k, at[k, i]:at[k, i + 1]]``."""

    unit: IntArray
    at: IntArray
    members: IntArray


def units(problem: PlacementProblem, repeated: Roles | None = None) -> Units:
    """The units of ``problem`` on all levels; with runs where enough is ``repeated``."""
    storages = problem.storages
    work = problem.time.min(axis=1)
    order = np.argsort(-storages.bytes[storages.read], kind="stable")
    levels = [
        joined(problem.group, storages.sources[order], storages.readers[order], work, int(share * int(work.sum())))
        for share in SHARES
    ]
    if repeated is not None and repeated.near >= FITTING:
        levels += [_runs(problem, repeated, steps) for steps in STEPS]
    return _units(problem, levels)


def _runs(problem: PlacementProblem, repeated: Roles, steps: int) -> IntArray:
    """A number for the run of each operation [N]: its role and its step by so many, or itself where nothing repeats.

    Groups of C1 go with their first operation.
    """
    first = problem.group
    run = repeated.role * (int(repeated.step.max()) // steps + 1) + repeated.step // steps
    alone = int(run.max()) + 1 + np.arange(problem.operations)
    found: IntArray = np.where(repeated.part >= 0, run, alone)[first]
    return found


def _units(problem: PlacementProblem, levels: list[IntArray]) -> Units:
    """Units by a number for each operation on each level; members stand in the order of the graph."""
    count, place = problem.operations, np.empty(problem.operations, dtype=np.int64)
    place[problem.order] = np.arange(count)
    unit, at = np.zeros((len(levels), count), np.int64), np.zeros((len(levels), count + 1), np.int64)
    members = np.zeros((len(levels), count), np.int64)
    for k, root in enumerate(levels):
        _, unit[k] = np.unique(root, return_inverse=True)
        members[k] = np.lexsort((place, unit[k]))
        at[k] = np.searchsorted(unit[k][members[k]], np.arange(count + 1))
    return Units(unit, at, members)
