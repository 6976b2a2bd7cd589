"""Continuous columns that equations make whole numbers, for HiGHS.

HiGHS's presolve (1.13.1; ERGO-Code/HiGHS issue 3274) finds such columns by itself, but keeps the fractional bounds that
it has derived for them, and strengthens coefficients as if these were whole: that cuts off optima. Bounds of columns
that are stated as integers it rounds. So they are stated as integers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

#: Coefficients count as whole numbers this near to one.
NEAR = 1e-9


def implied_integers(matrix: csr_array, low: Floats, high: Floats, integer: Bools) -> Bools:
    """``integer``, and every column x that an equation a · x + Σ b · y = c gives: b/a and c/a whole, all y in here."""
    whole = integer.copy()
    rows = np.flatnonzero((low == high) & np.isfinite(low))
    while len(rows):
        part = csr_array(matrix[rows])
        at = np.repeat(np.arange(len(rows)), np.diff(part.indptr))
        free = (part.data != 0.0) & ~whole[part.indices]
        left = np.bincount(at[free], minlength=len(rows))
        single = left == 1
        if not single.any():
            return whole
        factor, column = np.ones(len(rows)), np.zeros(len(rows), int)
        factor[at[free]], column[at[free]] = part.data[free], part.indices[free]
        broken = ~_near_whole(low[rows] / factor)
        broken |= np.bincount(at[~_near_whole(part.data / factor[at])], minlength=len(rows)) > 0
        whole[column[single & ~broken]] = True
        rows = rows[left > 1]
    return whole


def _near_whole(values: Floats) -> Bools:
    near: Bools = np.abs(values - np.rint(values)) <= NEAR
    return near
