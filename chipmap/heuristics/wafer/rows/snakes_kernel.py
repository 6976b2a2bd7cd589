"""The compiled program of snakes: rows of kernels on top of one another, of least wire."""

from __future__ import annotations

import numpy as np

from chipmap.heuristics.wafer.slicing.kernel import NONE, SideArray
from chipmap.instances.wafer.problem import IntArray
from chipmap.kernels import njit
from chipmap.kernels.arrays import integer_table, integers

#: More half tiles of wire than any floorplan has.
INFINITE = 1 << 60


@njit(cache=True, nogil=True)
def snake(
    leaves: SideArray, weights: IntArray, cuts: IntArray, width: int, height: int
) -> tuple[IntArray, IntArray, IntArray]:
    """[n + 1, height + 1] the least wire of rows that hold so many kernels within so many tiles, and their last row.

    ``leaves`` [n, L + 1] are the kernels' least widths by height, in order; ``weights`` [n] the half tiles of wire per
    tile of a kernel's width in one row; ``cuts`` [n + 1] the wires between the kernels before and behind. A row costs
    its widths so weighted, and its height once for every wire that leaves it. The other two tables hold where the last
    row begins and its height.
    """
    n = len(leaves)
    best = integer_table(n + 1, height + 1, INFINITE)
    begins = integer_table(n + 1, height + 1, 0)
    talls = integer_table(n + 1, height + 1, 0)
    best[0, :] = 0
    before = integers(n + 1, 0)
    for i in range(n):
        before[:] = -1
        for tall in range(1, height + 1):
            used, wire = 0, np.int64(0)
            for j in range(i + 1, n + 1):
                least = leaves[j - 1, tall]
                if least >= NONE or used + least > width:
                    break
                used += least
                wire += weights[j - 1] * least
                if wire == before[j]:  # a lower row has the same widths
                    continue
                before[j] = wire
                cost = wire + (cuts[i] + cuts[j]) * tall
                for top in range(tall, height + 1):
                    total = best[i, top - tall] + cost
                    if total < best[j, top]:
                        best[j, top], begins[j, top], talls[j, top] = total, i, tall
    return best, begins, talls


@njit(cache=True, nogil=True)
def lowest(leaves: SideArray, width: int, height: int) -> int:
    """The least total height of rows that hold all kernels (more than ``height``: none do)."""
    n = len(leaves)
    tops = integers(n + 1, height + 1)
    tops[0] = 0
    for i in range(n):
        for tall in range(1, height - tops[i] + 1):
            used = 0
            for j in range(i + 1, n + 1):
                least = leaves[j - 1, tall]
                if least >= NONE or used + least > width:
                    break
                used += least
                tops[j] = min(tops[j], tops[i] + tall)
    return int(tops[n])
