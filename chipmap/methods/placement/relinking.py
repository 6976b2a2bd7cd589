"""What other placements do better, taken over piece by piece.

Rounds of a search end with placements that are alike in quality and differ in places. Take the best placement and
another one. A **piece** is a connected set of operations that lie on one device in the first and on one device in the
second. Groups of C1 stay whole. The best placement takes over one piece after the other, and keeps what makes the step
no longer (greedy path relinking after Glover, Laguna and Martí, 2000).
"""

from __future__ import annotations

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.placement.shared import joined
from chipmap.instances.placement.problem import IntArray, PlacementProblem
from chipmap.methods.placement.chain_state import ChainState, Placed

#: Operations that one relinking may simulate at most.
SIMULATED = 5_000_000


def relinked(state: ChainState, best: Placed, others: list[Placed], deadline: Deadline) -> Placed:
    """``best`` with pieces of ``others``, until none makes it better or the time is up.

    Keys stay those of the best. Where operations are to be apart, nothing is taken over.
    """
    problem, left = state.problem, SIMULATED // max(1, state.problem.operations)
    before = None
    while not problem.apart and before != best[:2]:
        before = best[:2]
        for other in others:
            piece = pieces(problem, best[2], other[2])
            for one in largest_first(problem, piece, np.flatnonzero(best[2] != other[2])):
                if not left or not deadline.keep_going():
                    return best
                left -= 1
                with state.turns:
                    found = state.placed(np.where(piece == one, other[2], best[2]), best[3], state.work)
                    state.simulated += 1
                if found is not None and found[:2] <= best[:2]:
                    best = found
    return best


def pieces(problem: PlacementProblem, one: IntArray, other: IntArray) -> IntArray:
    """The least operation [N] of each one's piece, for two placements [N]."""
    pair, storages = one * problem.devices + other, problem.storages
    alike = pair[storages.sources] == pair[storages.readers]
    no_work = np.zeros(problem.operations, dtype=np.int64)
    return joined(problem.group, storages.sources[alike], storages.readers[alike], no_work, 0)


def largest_first(problem: PlacementProblem, piece: IntArray, differ: IntArray) -> list[int]:
    """The pieces of operations that ``differ``, those with the most work first."""
    work = np.bincount(piece[differ], problem.time.min(axis=1)[differ], problem.operations)
    found = np.unique(piece[differ])
    return [int(v) for v in found[np.argsort(-work[found], kind="stable")]]
