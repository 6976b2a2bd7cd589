"""Packing inequalities Σ load <= 1 on the boxes of the kernels: area, dual feasible functions, the middle line.

If boxes X_i × Y_i lie without overlap in a fabric A × B and f, g are dual feasible (Σ x_i <= 1 implies Σ f(x_i) <= 1),
then Σ f(X_i / A) · g(Y_i / B) <= 1 (Fekete and Schepers, "A general framework for bounds for higher-dimensional
orthogonal packing problems", 2004). Two families are used, each for one side with the identity for the other:

- u_k(x) = x where (k + 1)·x is whole, else ⌊(k + 1)·x⌋ / k;
- U_e(x) = 0 for x < e, x for e <= x <= 1 - e, 1 for x > 1 - e (0 < e <= 1/2).

If the centres lie in a strip of height r / 2 (r in half tiles) across the fabric:

- two boxes with Y_i + Y_j > r are not above each other, so that the boxes with 2·Y > r lie side by side: Σ X <= A;
- the boxes with 2·Y <= r lie in a strip of height r: Σ X·Y <= A · min(B, r).

Disjoint rectangles that no kernel may cover (C5) are boxes, too: what they take of an inequality kernels can't.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from chipmap.instances.wafer.problem import IntArray

FloatArray = NDArray[np.float64]
#: The k of u_k and the 1/e of U_e.
STEPS = (1, 2, 3, 4)
CUTS = (0.1, 0.2, 0.3, 0.4)
#: Number of functions, and of inequalities: area, each function on the height, on the width, the two of the strip.
FUNCTIONS = len(STEPS) + len(CUTS)
COUNT = 1 + 2 * FUNCTIONS + 2


def functions(side: int) -> FloatArray:
    """[FUNCTIONS, side + 1] the dual feasible functions at x / side."""
    x = np.arange(side + 1)
    rows = []
    for k in STEPS:
        quotient, rest = np.divmod((k + 1) * x, side)
        rows.append(np.where(rest == 0, x / side, quotient / k))
    for cut in CUTS:
        least = int(np.ceil(cut * side))
        rows.append(np.where(x < least, 0.0, np.where(x > side - least, 1.0, x / side)))
    return np.array(rows)


class Packing:
    """The inequalities for one fabric; ``obstacles`` (x, y, width, height) are disjoint."""

    def __init__(self, width: int, height: int, obstacles: Sequence[tuple[int, int, int, int]] = ()):
        self.width, self.height = width, height
        self._across, self._up = functions(width), functions(height)
        #: What is left of each inequality beside the obstacles, as a factor on what boxes take.
        self.factors = np.ones(COUNT)
        if obstacles:
            sides = np.array(obstacles, dtype=np.int64)
            left = 1 - self.loads(sides[:, 2], sides[:, 3], 2 * height).sum(axis=1)[:-2]
            self.factors[:-2] = np.where(left > 0, 1 / np.maximum(left, 1e-9), 1.0)

    def loads(self, x: IntArray, y: IntArray, strip: int) -> FloatArray:
        """[COUNT, boxes] what each box takes of each inequality where centres lie within ``strip`` half tiles."""
        wide, high = x / self.width, y / self.height
        crosses = 2 * y > strip
        part = x * y / (self.width * min(self.height, max(1, strip)))
        every: FloatArray = np.concatenate(
            [
                [wide * high],
                wide * self._up[:, y],
                self._across[:, x] * high,
                [np.where(crosses, wide, 0.0), np.where(crosses, 0.0, part)],
            ]
        )
        return every * self.factors[:, None]

    def penalty(self, x: IntArray, y: IntArray, strip: int, multipliers: FloatArray) -> FloatArray:
        """[boxes] Σ_r multipliers[r] · loads[r]."""
        multipliers = multipliers * self.factors
        area, up, across = multipliers[0], multipliers[1 : 1 + FUNCTIONS], multipliers[1 + FUNCTIONS : -2]
        line = np.arange(self.height + 1)
        by_height = area * line / self.height + up @ self._up
        crosses = 2 * line > strip
        by_height[crosses] += multipliers[-2]
        by_height[~crosses] += multipliers[-1] * line[~crosses] / min(self.height, max(1, strip))
        by_width = across @ self._across
        return by_height[y] * (x / self.width) + by_width[x] * (y / self.height)
