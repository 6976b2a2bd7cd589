"""Packing inequalities Σ load <= 1 on the boxes of the kernels: area and dual feasible functions, on what is reached.

If boxes X_i × Y_i lie without overlap in a fabric A × B and f, g are dual feasible (Σ x_i <= 1 implies Σ f(x_i) <= 1),
then Σ f(X_i / A) · g(Y_i / B) <= 1 (Fekete and Schepers, "A general framework for bounds for higher-dimensional
orthogonal packing problems", 2004). Two families are used, each for one side with the identity for the other:

- u_k(x) = x where (k + 1)·x is whole, else ⌊(k + 1)·x⌋ / k;
- U_e(x) = 0 for x < e, x for e <= x <= 1 - e, 1 for x > 1 - e (0 < e <= 1/2).

Let the centres range over at most p half tiles in x and q in y. Then boxes of min(X_i, p) × min(Y_i, q) lie without
overlap in a fabric of min(A, p) × min(B, q) tiles, so that the inequalities hold with these sides. Proof: let a pair
that is apart in y be ordered by y, any other pair by x. Boxes one above the other from first to last have their outer
centres ΣY - (Y_first + Y_last) / 2 <= q / 2 apart, which is at least half of ΣY; so ΣY <= q, and with every such chain
ends within min(B, q). One box alone has min(Y, q) by definition. So put every box right on the longest chain below it,
and do the same in x: pairs stay in their order, and apart.

Disjoint rectangles that no kernel may cover (C5) are boxes, too: what they take of an inequality kernels can't.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.instances.wafer.problem import IntArray

FloatArray = NDArray[np.float64]
#: The k of u_k and the 1/e of U_e.
STEPS = (1, 2, 3, 4)
CUTS = (0.1, 0.2, 0.3, 0.4)
#: Number of functions, and of inequalities: area, each function on the height, on the width.
FUNCTIONS = len(STEPS) + len(CUTS)
COUNT = 1 + 2 * FUNCTIONS


class Strip(NamedTuple):
    """Centres range over ``low`` to ``high`` half tiles in one direction."""

    low: int
    high: int


class Ranges(NamedTuple):
    """The centres' ranges in x (``across``) and in y (``up``)."""

    across: Strip
    up: Strip


@lru_cache(maxsize=64)
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
        self.whole = Ranges(Strip(0, 2 * width), Strip(0, 2 * height))
        #: What is left of each inequality beside the obstacles, as a factor on what boxes take of the whole fabric.
        self.factors = np.ones(COUNT)
        if obstacles:
            sides = np.array(obstacles, dtype=np.int64)
            left = 1 - self.loads(sides[:, 2], sides[:, 3], self.whole).sum(axis=1)
            self.factors = np.where(left > 0, 1 / np.maximum(left, 1e-9), 1.0)

    def _sides(self, ranges: Ranges) -> tuple[int, int, FloatArray]:
        """Width and height that the ranges of the centres leave, and the factors by which boxes take more."""
        width, height = (
            min(side, max(1, strip.high)) for side, strip in zip((self.width, self.height), ranges, strict=True)
        )
        return width, height, self.factors if (width, height) == (self.width, self.height) else np.ones(COUNT)

    def loads(self, x: IntArray, y: IntArray, ranges: Ranges) -> FloatArray:
        """[COUNT, boxes] what each box takes of each inequality where centres lie within ``ranges``."""
        width, height, factors = self._sides(ranges)
        x, y = np.minimum(x, width), np.minimum(y, height)
        wide, high = x / width, y / height
        every: FloatArray = np.concatenate(
            [[wide * high], wide * functions(height)[:, y], functions(width)[:, x] * high]
        )
        return every * factors[:, None]

    def penalty(self, x: IntArray, y: IntArray, ranges: Ranges, multipliers: FloatArray) -> FloatArray:
        """[boxes] Σ_r multipliers[r] · loads[r]."""
        width, height, factors = self._sides(ranges)
        multipliers = multipliers * factors
        area, up, across = multipliers[0], multipliers[1 : 1 + FUNCTIONS], multipliers[1 + FUNCTIONS :]
        x, y = np.minimum(x, width), np.minimum(y, height)
        by_height = area * np.arange(height + 1) / height + up @ functions(height)
        by_width = across @ functions(width)
        return by_height[y] * (x / width) + by_width[x] * (y / height)
