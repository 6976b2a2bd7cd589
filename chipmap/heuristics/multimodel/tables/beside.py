"""Models side by side: the least sum over sets of chiplets that fit beside each other, and which set each model has.

Sets have numbers. Those of two sets that fit beside each other add up to the number of both together, so the last
number is that of all chiplets, and the number of a set's rest is the last one less its own. Sets are bit masks
(:class:`~chipmap.heuristics.multimodel.tables.sets.Places`), or numbers of chiplets of each group
(:class:`~chipmap.heuristics.multimodel.tables.counts.Vectors`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Protocol

import numpy as np

from chipmap.instances.multimodel.problem import FloatArray, IntArray


class Fitting(Protocol):
    """What both kinds of sets can tell."""

    def side_by_side(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """[set, cell]: the least left[a] + right[b] over sets a and b beside each other within each set."""
        ...

    def inside(self, whole: int) -> IntArray:
        """The sets within the set ``whole``."""
        ...


class Beside:
    """One of each of ``sets`` [set, cell], on sets that fit beside each other; ``least`` [cell] is the least sum.

    Sets that hold another one cost no more than it does.
    """

    def __init__(self, places: Fitting, sets: Sequence[FloatArray]) -> None:
        self.places, self.sets = places, list(sets)
        #: The least sums of the first models, one model more in each, but for the last model.
        self.before = list(accumulate(self.sets[:-1], places.side_by_side))
        last = self.sets[-1]
        self.least: FloatArray = (self.before[-1] + last[::-1]).min(axis=0) if self.before else np.array(last[-1])

    def divide(self, cell: int) -> list[int]:
        """The set of each model at the least sum of this cell."""
        rest, found = len(self.sets[0]) - 1, list[int]()
        for before, own in zip(reversed(self.before), reversed(self.sets[1:]), strict=True):
            inside = self.places.inside(rest)
            found.append(int(inside[np.argmin(before[rest - inside, cell] + own[inside, cell])]))
            rest -= found[-1]
        return [rest, *reversed(found)]
