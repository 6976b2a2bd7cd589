"""What a link costs: an edge from a kernel of a triangle to one outside, beside what the triangle claims on it.

All lengths are half tiles, s = min(X, Y). A triangle whose kernels are all apart in x, with b in the middle, claims

    min(2·X_u over both outer u, Y_u over both, 4·m, Y_b - X_b)

on the link from b to p, where m is the least s that p can have (:mod:`.clusters`); it is the same with x and y
exchanged. Wires and link have at least s_b + s_p and all claims more than the triangles' cases. Where one end is tall
and the other wide, that is little: the link goes through a long side. So it counts with the lesser of two sums, for b
and p apart in x and for them apart in y:

    e(b) + e(p),   in x: e = max(s, X - 4·m),   in y: e = max(s, Y - 4·m),

with 0 for 4·m at an end whose kernel has no triangle with this link. Proof, for b and p apart in y, where the link
has Y_b + Y_p at least. Claims of triangles all apart in y hold beyond that, as the first three lines of their proof
say. A claim of a triangle all apart in x is at most k = min(4·m, max(0, Y - X)) for the sides of its middle. So wires,
link and claims come to Y_b + Y_p - k_b - k_p and all claims. Now Y - k = max(s, Y - 4·m) where Y > X, and
Y - k = Y = s elsewhere: each e is s or Y - k, and never above the latter. Scaled x and y change nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chipmap.heuristics.wafer.bounds.packing import FloatArray
from chipmap.heuristics.wafer.bounds.states import States
from chipmap.instances.wafer.problem import IntArray


class End(NamedTuple):
    """One end of a link: its kernel's states, those of the other end if a triangle of this one claims 4·m (else None),
    and ``scale`` [2], ticks of half a tile in x and in y."""

    own: States
    other: States | None
    scale: FloatArray

    def costs(self) -> FloatArray:
        """[2, states] e in ticks where the kernels are apart in x, and where they are in y."""
        sides = np.stack([self.scale[0] * self.own.x, self.scale[1] * self.own.y])
        costs: FloatArray = np.maximum(sides.min(axis=0), sides - float(self.scale @ self._claim()))
        return costs

    def discounted(self, at: int, state: int) -> FloatArray:
        """[2] half tiles in x and in y that e of a state has where the kernels are apart in x (``at`` 0) or y (1)."""
        sides = np.array([self.own.x[state], self.own.y[state]], dtype=np.float64)
        thin, claim = int(np.argmin(self.scale * sides)), self._claim()
        if self.scale[at] * sides[at] - self.scale @ claim <= self.scale[thin] * sides[thin]:
            return np.where(np.arange(2) == thin, sides, 0.0)
        parts: FloatArray = np.where(np.arange(2) == at, sides, 0.0) - claim
        return parts

    def _claim(self) -> FloatArray:
        """[2] half tiles in x and in y of 4·m."""
        if self.other is None:
            return np.zeros(2)
        least = np.array([self.other.x.min(), self.other.y.min()], dtype=np.float64)
        claim: FloatArray = np.where(np.arange(2) == int(np.argmin(self.scale * least)), 4 * least, 0.0)
        return claim


def direction(case: IntArray) -> int:
    """In which direction a case of an edge has its two kernels apart: 0 in x, 1 in y."""
    return int(case[1] > 0)
