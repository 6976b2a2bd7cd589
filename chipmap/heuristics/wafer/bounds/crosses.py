"""Crosses: long boxes whose centres lie near each other can't cover the corners of the fabric.

Let all centres lie in a window of p × q tiles, and let s, r > 0. The upright of the cross is the columns that are at
most s / 2 from the window, its beam the rows at most r / 2 from it. On a fabric A × B the cross has at most

    A·B - (A - min(A, p + s)) · (B - min(B, q + r))

tiles, and a box X × Y has at least X·Y - e(X, s, p) · e(Y, r, q) of them, with

    e(X, s, p) = max(0, X - s) / 2 + max(0, (X - s) / 2 - p).

So boxes without overlap take at most the whole of the cross: tall ones narrower than s and wide ones lower than r lie
in it with all their tiles. Proof: a tile of the box outside the cross lies beyond the upright and beyond the beam. Let
the box's centre be u tiles right of the window's left side. Beyond the upright are max(0, (X - s) / 2 - u) columns of
the box on the left and max(0, (X - s) / 2 - (p - u)) on the right. The sum is a convex function of u in [0, p], largest
at an end, where it is e(X, s, p). The same holds for rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chipmap.heuristics.wafer.bounds.packing import FloatArray, Ranges
from chipmap.instances.wafer.problem import IntArray

#: The values of s and r, as shares of the fabric's sides: boxes that much narrower than long are common.
CAPS = (0.015, 0.03, 0.06, 0.12, 0.24)
#: Which s goes with which r: the same one or the next.
PAIRS = tuple((i, j) for i in range(len(CAPS)) for j in range(len(CAPS)) if abs(i - j) <= 1)
#: Number of crosses.
CROSSES = len(PAIRS)


class Crosses:
    """The inequalities Σ load <= 1 of all crosses on one fabric."""

    def __init__(self, width: int, height: int):
        self.sides = width, height

    def loads(self, x: IntArray, y: IntArray, ranges: Ranges) -> FloatArray:
        """[CROSSES, boxes] what each box takes of each cross where centres lie within ``ranges``."""
        return self._loads(x, y, ranges, range(CROSSES))

    def penalty(self, x: IntArray, y: IntArray, ranges: Ranges, multipliers: FloatArray) -> FloatArray:
        """[boxes] Σ_r multipliers[r] · loads[r]."""
        used = np.flatnonzero(multipliers)
        penalty: FloatArray = multipliers[used] @ self._loads(x, y, ranges, used.tolist())
        return penalty

    def _loads(self, x: IntArray, y: IntArray, ranges: Ranges, which: Sequence[int]) -> FloatArray:
        """[which, boxes] the loads of some of the crosses."""
        (width, height), p, q = self.sides, ranges.across.high / 2, ranges.up.high / 2
        found = np.empty((len(which), len(x)))
        for row, number in enumerate(which):
            s, r = CAPS[PAIRS[number][0]] * width, CAPS[PAIRS[number][1]] * height
            room = width * height - max(0.0, width - p - s) * max(0.0, height - q - r)
            found[row] = (x * y - _beyond(x, s, p) * _beyond(y, r, q)) / room
        return found


def _beyond(side: IntArray, cap: float, window: float) -> FloatArray:
    """[boxes] columns (or rows) of boxes beyond a strip of ``window`` + ``cap`` tiles, at most."""
    half = np.maximum(0.0, side - cap) / 2
    beyond: FloatArray = half + np.maximum(0.0, half - window)
    return beyond
