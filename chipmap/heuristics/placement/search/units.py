"""Units: sets of operations that the search moves as one, on several levels.

Groups of C1 are the finest. On each coarser level the ends of the largest tensors are joined first, as long as a unit's
work stays below a share of all work (Kruskal's algorithm with a cap).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chipmap.heuristics.placement.shared import joined
from chipmap.instances.placement.problem import IntArray, PlacementProblem

#: The most work of a unit on each level, as a share of all work.
SHARES = (0.0, 1 / 4096, 1 / 1024, 1 / 256, 1 / 64, 1 / 16, 1 / 4)


class Units(NamedTuple):
    """On level k operation v is in unit i = ``unit[k, v]``, whose members are ``members[k, at[k, i]:at[k, i + 1]]``."""

    unit: IntArray
    at: IntArray
    members: IntArray


def units(problem: PlacementProblem) -> Units:
    """The units of ``problem`` on all levels."""
    count, storages = problem.operations, problem.storages
    work = problem.time.min(axis=1)
    order = np.argsort(-storages.bytes[storages.read], kind="stable")
    levels = [
        joined(problem.group, storages.sources[order], storages.readers[order], work, int(share * int(work.sum())))
        for share in SHARES
    ]
    unit, at = np.zeros((len(levels), count), np.int64), np.zeros((len(levels), count + 1), np.int64)
    members = np.zeros((len(levels), count), np.int64)
    for k, root in enumerate(levels):
        _, unit[k] = np.unique(root, return_inverse=True)
        members[k] = np.argsort(unit[k], kind="stable")
        at[k] = np.searchsorted(unit[k][members[k]], np.arange(count + 1))
    return Units(unit, at, members)
