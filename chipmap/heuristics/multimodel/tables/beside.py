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

    def moved(self, cell: int) -> int:
        """Which model must move in the least sum of this cell; -1 where any may pause."""
        return -1

    def divide(self, cell: int) -> list[int]:
        """The set of each model at the least sum of this cell."""
        return self._divided(self.sets, len(self.sets[0]) - 1, cell)

    def _divided(self, sets: Sequence[FloatArray], rest: int, cell: int) -> list[int]:
        """The sets of the first models, one of each of ``sets``, within the set ``rest``."""
        found = list[int]()
        for before, own in zip(reversed(self.before[: len(sets) - 1]), reversed(sets[1:]), strict=True):
            inside = self.places.inside(rest)
            found.append(int(inside[np.argmin(before[rest - inside, cell] + own[inside, cell])]))
            rest -= found[-1]
        return [rest, *reversed(found)]


class Moving(Beside):
    """As :class:`Beside`, where at least one model moves: the last one that does is each in turn.

    ``moving`` [set, cell]: what a model costs that moves; ``pauses``: what each costs that doesn't.
    """

    def __init__(
        self, places: Fitting, sets: Sequence[FloatArray], moving: Sequence[FloatArray], pauses: FloatArray
    ) -> None:
        super().__init__(places, sets)
        self.moving = list(moving)
        rest = [float(pauses[m + 1 :].sum()) for m in range(len(pauses))]
        #: The least sums by the last model that moves, and cell.
        self.by_last = np.stack(
            [
                (moving[m][-1] if m == 0 else (self.before[m - 1] + moving[m][::-1]).min(axis=0)) + rest[m]
                for m in range(len(pauses))
            ]
        )
        self.least = self.by_last.min(axis=0)

    def moved(self, cell: int) -> int:
        """Which model moves as the last one."""
        return int(np.argmin(self.by_last[:, cell]))

    def divide(self, cell: int) -> list[int]:
        """The set of each model; those that pause because none moves behind them have none."""
        m = self.moved(cell)
        found = self._divided([*self.sets[:m], self.moving[m]], len(self.sets[0]) - 1, cell)
        return [*found, *[0] * (len(self.sets) - m - 1)]
