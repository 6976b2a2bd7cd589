"""Least wire at a target time of the parts of a kernel graph that stay connected without any one edge (its cycles).

**Wire.** Let the centres of such a part K range over Rx × Ry tiles, its *window*. A vertical line inside the window has
centres on both sides, so at least two edges of K cross it; hence the wire of K is at least 2·(Rx + Ry).

**Area.** In a fabric A × B let m_i be the least area of a box of kernel i. No box of K is larger than
a = max m_i (i in K) + (A·B - Σ m_i over all kernels), and the boxes of K cover Σ m_i (i in K) tiles. How much can boxes
of at most a tiles with their centres in the window cover?

- A point p tiles left or right and q tiles above or below the window is covered only if 4·p·q <= a: its box has half
  sides of at least p and q. In a corner of s = p·q tiles outside the window at most g(s) tiles are covered,
  g(s) = s for s <= a/4, otherwise (a/4)·(1 + ln(4·s / a)).
- Two boxes higher than Ry are not above each other, so they are apart in x and only the leftmost reaches out of the
  window to the left, with at most half of its area. A box of at most Ry reaches out by at most Ry/2 above and below.

Let l be the width of the fabric left of the window, M = B - Ry. At most

    C(l) = Ry·l + min(2·g(l·M/2), a/2 + 2·g(l·min(M, Ry)/2))

tiles are covered left of the window: g is concave, so equal corners above and below cover most. C is concave, so equal
parts left and right cover most: Σ m_i (i in K) <= Rx·B + 2·C((A - Rx)/2), and the same with x and y exchanged. Both
right sides grow with Rx (g' <= 1), so the least Rx for every Ry is found by bisection; ranges are whole half tiles.
"""

from __future__ import annotations

import networkx as nx
import numpy as np

from chipmap.heuristics.wafer.bounds.packing import FloatArray
from chipmap.heuristics.wafer.bounds.states import States
from chipmap.instances.wafer.problem import IntArray, WaferProblem

#: Tiles of rounding error allowed for in areas.
ERROR = 1e-3


class Cycles:
    """The bound of this module for one problem."""

    def __init__(self, problem: WaferProblem):
        self.problem = problem
        graph: nx.Graph[int] = nx.Graph(problem.edges.tolist())
        self.parts: list[list[int]] = [sorted(p) for p in nx.k_edge_components(graph, 2) if len(p) > 2]
        part_of = np.full(problem.n, -1)
        for number, part in enumerate(self.parts):
            part_of[part] = number
        ends = part_of[problem.edges] if len(problem.edges) else np.zeros((0, 2), np.int64)
        self._inside = np.where(ends[:, 0] == ends[:, 1], ends[:, 0], -1)

    def least_wire(self, fronts: list[States]) -> int:
        """Half tiles of wire that every floorplan of boxes from ``fronts`` [types] has (0 where the area is exceeded).

        Σ over the parts of their window's bound, or of their edges' thin sides where that is more, plus the thin sides
        of the edges outside the parts.
        """
        if not self.parts:
            return 0
        problem = self.problem
        thin = np.array([np.minimum(f.x, f.y).min() for f in fronts])[problem.types]
        area = np.array([(f.x * f.y).min() for f in fronts])[problem.types]
        slack = problem.width * problem.height - int(area.sum())
        if slack < 0:
            return 0
        edges = thin[problem.edges].sum(axis=1)
        total = int(edges[self._inside < 0].sum())
        for number, part in enumerate(self.parts):
            some = area[part]
            window = least_window(problem.width, problem.height, int(some.sum()), int(some.max()) + slack)
            total += max(2 * window, int(edges[self._inside == number].sum()))
        return total


def least_window(width: int, height: int, total: int, largest: int) -> int:
    """The least Rx + Ry (half tiles) of a window for boxes of ``total`` tiles, each of at most ``largest``."""
    up = np.arange(2 * height + 1)
    low, high = np.zeros(len(up), np.int64), np.full(len(up), 2 * width)
    while (low < high).any():
        middle = (low + high) // 2
        enough = covered(width, height, middle, up, largest) >= total - ERROR
        low, high = np.where(enough, low, np.minimum(middle + 1, high)), np.where(enough, middle, high)
    return int((low + up).min())


def covered(width: int, height: int, across: IntArray, up: IntArray, largest: int) -> FloatArray:
    """Most tiles covered from windows of ``across`` × ``up`` half tiles by boxes of at most ``largest`` tiles."""
    x, y = across / 2, up / 2
    return np.minimum(_one_way(width, height, x, y, largest), _one_way(height, width, y, x, largest))


def _one_way(width: int, height: int, x: FloatArray, y: FloatArray, largest: int) -> FloatArray:
    """x · B + 2 · C((A - x) / 2)."""
    left, rest = (width - x) / 2, height - y
    every = 2 * _corner(left * rest / 2, largest)
    one_high = largest / 2 + 2 * _corner(left * np.minimum(rest, y) / 2, largest)
    return x * height + 2 * (y * left + np.minimum(every, one_high))


def _corner(size: FloatArray, largest: int) -> FloatArray:
    """g(size)."""
    quarter = largest / 4
    return np.where(size <= quarter, size, quarter * (1 + np.log(np.maximum(size, quarter) / quarter)))
