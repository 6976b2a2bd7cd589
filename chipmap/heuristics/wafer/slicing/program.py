"""The slicing program: for kernels in a linear order, the shortest time over all slicing floorplans of that order.

A slicing floorplan halves rectangles again and again; it keeps an order if every rectangle holds a run of it. With
W(i, j, h) the least width of a rectangle of height h that holds kernels i .. j-1,

    W(i, j, h) = min over i < m < j of   W(i, m, h) + W(m, j, h)              (side by side)
                                    and  W'(i, j, h), the inverse of min_m H(i, m, w) + H(m, j, w)   (stacked),

H being W with the axes exchanged. As kernels may be turned, W and H of a run are the same function. The layout is
exact for the order, the time is found by bisection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise
from math import isqrt

import numpy as np

from chipmap.heuristics.wafer.slicing.kernel import SideArray, order_curves
from chipmap.heuristics.wafer.slicing.sizing import Sizing, least_time
from chipmap.heuristics.wafer.slicing.trees import Tree, boxes_of, layout
from chipmap.instances.wafer.instance import WaferSolution
from chipmap.instances.wafer.problem import IntArray, WaferProblem, depth_first_order

#: The node of part i within a width and a height.
Part = Callable[[int, int, int], int]


class OrderProgram:
    """The slicing program of one order [n] of all kernels.

    Beyond :data:`EXACT` kernels the order is cut into about √n runs, and only floorplans in which each of them has a
    rectangle are considered: exact within the runs and over them.
    """

    EXACT = 128

    def __init__(self, sizing: Sizing, order: Sequence[int] | IntArray) -> None:
        self.sizing, self.problem = sizing, sizing.problem
        self.order = np.asarray(order, dtype=np.int64)
        n, side = len(self.order), sizing.limit + 1
        parts = 1 if n <= self.EXACT else isqrt(n)
        ends = [n * part // parts for part in range(parts + 1)]
        self._runs = [np.arange(a, b) for a, b in pairwise(ends)]
        self._inner = [np.empty((len(run), len(run) + 1, side), np.int32) for run in self._runs]
        self._outer = np.empty((parts, parts + 1, side), np.int32)

    def feasible(self, tau: int) -> bool:
        """Whether some slicing floorplan of the order meets ``tau`` quarters on the fabric."""
        return self.width(tau) <= self.problem.width

    def width(self, tau: int) -> int:
        """The least width, on the fabric's height, of a slicing floorplan of the order that meets ``tau`` quarters."""
        leaves = self.sizing.curves(tau)[self.problem.types[self.order]]
        for run, curves in zip(self._runs, self._inner, strict=True):
            order_curves(leaves[run], curves)
        order_curves(np.stack([curves[0, -1] for curves in self._inner]), self._outer)
        return int(self._outer[0, -1, self.problem.height])

    def least(self, low: int = 1, high: int | None = None) -> int:
        """The least time in quarters, 0 where the kernels don't fit at any time; the curves are left at it."""
        high = max(low, self.sizing.problem.longest if high is None else high)
        # galloping: cheaper than bisection, as the answer is mostly near the area bound
        step = max(1, low // 64)
        while low + step < high and not self.feasible(low + step):
            low, step = low + step, 2 * step
        best = least_time(self.feasible, low, min(high, low + step))
        if best:
            self.feasible(best)
        return best

    def tree(self, random: np.random.Generator | None = None) -> Tree:
        """A slicing tree that meets the last feasible time; ``random`` chooses among cuts, else the evenest counts."""
        tree = Tree.empty(len(self.order))
        fresh = iter(range(len(self.order), 2 * len(self.order)))

        def grow(curves: SideArray, i: int, j: int, width: int, height: int, part: Part) -> int:
            """The node of the subtree for kernels i to j - 1 of the order in a rectangle."""
            if j - i == 1:
                return part(i, width, height)
            node = next(fresh)
            m, tree.cut[node] = _cut(curves, i, j, width, height, random)
            first = int(curves[i, m - i, (height, width)[tree.cut[node]]])
            if tree.cut[node] == 0:
                left, right = (first, height), (width - first, height)
            else:
                left, right = (width, first), (width, height - first)
            tree.left[node], tree.right[node] = grow(curves, i, m, *left, part), grow(curves, m, j, *right, part)
            return node

        def run(r: int, width: int, height: int) -> int:
            kernels = self.order[self._runs[r]]
            return grow(self._inner[r], 0, len(kernels), width, height, lambda i, w, h: int(kernels[i]))

        grow(self._outer, 0, len(self._runs), self.problem.width, self.problem.height, run)
        return tree

    def layout(self, tau: int) -> WaferSolution:
        """The floorplan at ``tau`` quarters, the last feasible time, of the evenest cuts."""
        return layout(self.sizing, tau, boxes_of(self.sizing, self.tree(), tau))


def _cut(
    curves: SideArray, i: int, j: int, width: int, height: int, random: np.random.Generator | None
) -> tuple[int, int]:
    """(m, cut) of a cut of parts i .. j-1 between m-1 and m that fits ``width`` x ``height``."""
    found = []
    for m in range(i + 1, j):
        for cut, (room, across) in enumerate(((width, height), (height, width))):
            if curves[i, m - i, across] + curves[m, j - m, across] <= room:
                found.append((abs(2 * m - i - j), m, cut))
    chosen = min(found) if random is None else found[int(random.integers(len(found)))]
    return chosen[1], chosen[2]


class Start:
    """The slicing program over the depth-first order, with the box curves of all arguments or of one pair (h, w)."""

    def __init__(self, problem: WaferProblem, pair: tuple[int, int] | None = None) -> None:
        self.sizing = Sizing(problem, pair)
        self.low = self.sizing.area_time()

    @cached_property
    def program(self) -> OrderProgram:
        """The program, at no time yet."""
        return OrderProgram(self.sizing, depth_first_order(self.sizing.problem))

    @cached_property
    def tau(self) -> int:
        """The least time of a floorplan, at which this leaves the program; 0 where there is none."""
        return self.program.least(self.low) if self.low else 0


def slicing_layout(problem: WaferProblem) -> WaferSolution | None:
    """The floorplan of shortest time over all slicing floorplans of the depth-first order, if any fits."""
    start = Start(problem)
    return start.program.layout(start.tau) if start.tau else None
