"""A search guided by a model: fit what was measured, solve again exactly, and in turn try what is still possible.

Every mapping that it proposes is an optimum: of the analytic cost first, then of the fitted speeds (which exploits what
is known), in turn with speeds drawn from what the measurements leave possible (which explores; Thompson sampling).
"""

from __future__ import annotations

import math

import numpy as np

from chipmap.heuristics.ring.measured.fit import Fit, Speeds
from chipmap.heuristics.ring.measured.resolve import Resolver
from chipmap.instances.ring.problem import IntArray

#: Draws until one's optimum is new; those after the first :data:`LIKELY` don't ask what was measured, and each is this
#: factor wider than the one before.
DRAWS, LIKELY, WIDER = 32, 12, 1.15
#: A mapping is measured for a promised gain of at least this share.
WORTHWHILE = 0.003


class Guided:
    """Proposes mappings [n] of the resolver's problem to measure, and hears their costs."""

    def __init__(self, fit: Fit, resolver: Resolver, draws: bool = True, estimates: bool = True) -> None:
        """Without ``draws`` only the optimum of the fitted speeds is proposed, without ``estimates`` only those of
        drawn speeds."""
        self._fit, self._resolver = fit, resolver
        self._draws, self._estimates = draws, estimates
        self._seen: set[bytes] = set()
        self._best: IntArray | None = None
        self._least = math.inf
        self._turn = 0

    def propose(self) -> IntArray | None:
        """The next mapping, one that wasn't measured; None where no other is found."""
        turn, self._turn = self._turn, self._turn + 1
        if turn == 0 or (self._estimates and (turn % 2 == 1 or not self._draws)):
            chips, better = self._optimum(self._fit.estimate())
            if chips is not None and (better or not self._draws):
                return chips
        spare = None
        for draw in range(DRAWS if self._draws else 0):
            chips, better = self._optimum(self._fit.draw(WIDER ** (draw - LIKELY) if draw >= LIKELY else 0.0))
            if better:
                return chips
            spare = chips if spare is None else spare
        return spare

    def _optimum(self, speeds: Speeds) -> tuple[IntArray | None, bool]:
        """The optimal mapping under these speeds if it wasn't measured, and whether they promise less than the least
        cost."""
        chips = self._resolver(speeds, self._best)
        if chips is None or chips.tobytes() in self._seen:
            return None, False
        return chips, self._fit.cost(speeds, chips) < (1.0 - WORTHWHILE) * self._least

    def observe(self, chips: IntArray, cost: float | None) -> None:
        """The cost of a mapping; None or infinite: it doesn't run."""
        self._seen.add(np.asarray(chips, dtype=np.int64).tobytes())
        if cost is None or not 0.0 < cost < math.inf:
            return
        self._fit.observe(chips, cost)
        if cost < self._least:
            self._best, self._least = np.asarray(chips, dtype=np.int64), cost
