"""Packing inequalities on the boxes of the kernels: area and dual feasible functions.

If boxes X_i × Y_i lie without overlap in a fabric A × B and f, g are dual feasible (Σ x_i <= 1 implies Σ f(x_i) <= 1),
then Σ f(X_i / A) · g(Y_i / B) <= 1 (Fekete and Schepers, "A general framework for bounds for higher-dimensional
orthogonal packing problems", 2004). Two families are used, each for one side with the identity for the other:

- u_k(x) = x where (k + 1)·x is whole, else ⌊(k + 1)·x⌋ / k;
- U_e(x) = 0 for x < e, x for e <= x <= 1 - e, 1 for x > 1 - e (0 < e <= 1/2).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chipmap.instances.wafer.costs import IntArray

FloatArray = NDArray[np.float64]
#: The k of u_k and the 1/e of U_e.
STEPS = (1, 2, 3, 4)
CUTS = (0.1, 0.2, 0.3, 0.4)
#: Inequalities: area, then each function on the height, and on the width (mean of the two).
COUNT = 1 + len(STEPS) + len(CUTS)


def functions(side: int) -> FloatArray:
    """[COUNT, side + 1] the dual feasible functions at x / side, the identity first."""
    x = np.arange(side + 1)
    rows = [x / side]
    for k in STEPS:
        quotient, rest = np.divmod((k + 1) * x, side)
        rows.append(np.where(rest == 0, x / side, quotient / k))
    for cut in CUTS:
        least = int(np.ceil(cut * side))
        rows.append(np.where(x < least, 0.0, np.where(x > side - least, 1.0, x / side)))
    return np.array(rows)


def loads(x: IntArray, y: IntArray, width: int, height: int) -> FloatArray:
    """[len(x), COUNT] what each box takes of each inequality Σ load <= 1.

    Column r > 0 is the mean of f_r(X)·Y and X·f_r(Y) in parts of the fabric: both sums are at most 1.
    """
    across, up = functions(width)[:, x], functions(height)[:, y]
    mean = (across * up[0] + across[0] * up) / 2
    return np.ascontiguousarray(mean.T)
