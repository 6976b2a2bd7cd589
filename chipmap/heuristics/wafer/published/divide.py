"""The divide-and-conquer slicing placer, one of the two that CU.POKer was measured against.

Top down, the kernels are parted in two of similar area with few edges between them, down to single kernels. Bottom up,
the shape curves of both parts are merged, side by side or stacked, whichever is narrower at each height. Source:
CU.POKer's slides, "Divide and Conquer Placer"; curves as in L. Stockmeyer, "Optimal orientations of cells in slicing
floorplan designs", Information and Control 57, 1983.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from chipmap.deadline import Deadline
from chipmap.heuristics.wafer.published.cu_poker import Found, best_over_times
from chipmap.heuristics.wafer.slicing.sizing import Sizing
from chipmap.instances.wafer.instance import Placement
from chipmap.instances.wafer.problem import IntArray, WaferProblem, depth_first_order, evaluate
from chipmap.instances.wafer.shapes import Shape, place, shapes

#: A part may have this share of the area at least.
BALANCE = 0.4
#: The sweep over the target time goes up by 1/SWEEP of it, in STEPS at most.
SWEEP = 50
STEPS = 250
NONE = np.int64(1) << np.int64(40)


@dataclass
class Part:
    """A node of the slicing tree: its kernels, two parts (none: one kernel), and its shape curve [H + 1]."""

    kernels: list[int]
    parts: list[Part] = field(default_factory=list)
    curve: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    beside: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))


def halves(problem: WaferProblem, kernels: list[int], area: IntArray) -> tuple[list[int], list[int]]:
    """Two parts of similar area with few edges between them: the better half of the order, improved by moves.

    The order is cut where the fewest edges cross within the balance; then single kernels change sides while that cuts
    fewer edges (Fiduccia and Mattheyses's rule, without its buckets).
    """
    inside = set(kernels)
    edges = [(u, v) for u, v in problem.edges.tolist() if u in inside and v in inside]
    total, position = int(area[kernels].sum()), {k: i for i, k in enumerate(kernels)}
    options, share = [], 0
    for i in range(1, len(kernels)):
        share += int(area[kernels[i - 1]])
        cut = sum((position[u] < i) != (position[v] < i) for u, v in edges)
        even = min(share, total - share) / total
        options.append((even < BALANCE, cut if even >= BALANCE else -even, -even, i))
    split = min(options)[3]
    left = set(kernels[:split])
    for _ in range(len(kernels)):
        gain, kernel = max((_gain(k, edges, left), -k) for k in kernels)
        moved = left ^ {-kernel}
        share = int(area[list(moved)].sum()) if moved else 0
        if gain <= 0 or not BALANCE * total <= share <= (1 - BALANCE) * total:
            break
        left = moved
    return [k for k in kernels if k in left], [k for k in kernels if k not in left]


def _gain(kernel: int, edges: list[tuple[int, int]], left: set[int]) -> int:
    """By how many edges fewer are cut if the kernel changes sides."""
    return sum(1 if (u in left) != (v in left) else -1 for u, v in edges if kernel in (u, v))


def slicing_tree(problem: WaferProblem, area: IntArray) -> list[Part]:
    """The nodes of the tree of parts, each before its own: from all kernels depth-first down to single ones."""
    found, waiting = [], [Part(depth_first_order(problem).tolist())]
    while waiting:
        found.append(part := waiting.pop())
        if len(part.kernels) > 1:
            part.parts = [Part(half) for half in halves(problem, part.kernels, area)]
            waiting += part.parts
    return found


def other_way(curve: IntArray, limit: int) -> IntArray:
    """The least height for each width 0..limit, of a curve of least widths per height (and the reverse)."""
    order = np.searchsorted(-curve, -np.arange(limit + 1), "left")
    return np.where(order < len(curve), order, NONE)


class Divider:
    """The slicing placer of one problem."""

    def __init__(self, problem: WaferProblem, tau: int) -> None:
        self.problem = problem
        least = [int((boxes[:, 0] * boxes[:, 1]).min()) for boxes in shapes(problem, tau)]
        self.nodes = slicing_tree(problem, np.array(least, dtype=np.int64)[problem.types])
        self._found: tuple[IntArray, ...] = ()

    def merge(self, tau: int) -> bool:
        """Fill all curves for ``tau`` quarters; whether the whole fits the fabric."""
        problem = self.problem
        self._found = shapes(problem, tau)
        if not all(len(boxes) for boxes in self._found):
            return False
        heights = np.arange(problem.height + 1)
        leaves = []
        for boxes in self._found:
            at = np.searchsorted(boxes[:, 1], heights, "right") - 1
            leaves.append(np.where(at >= 0, boxes[np.maximum(at, 0), 0], NONE))
        for part in reversed(self.nodes):
            if not part.parts:
                part.curve = leaves[problem.types[part.kernels[0]]]
                continue
            a, b = (half.curve for half in part.parts)
            beside = a + b
            stacked = other_way(a, problem.width) + other_way(b, problem.width)
            above = other_way(stacked, problem.height)
            part.beside = beside <= above
            part.curve = np.minimum(np.minimum(beside, above), NONE)
        return bool(self.nodes[0].curve[-1] <= problem.width)

    def layout(self, tau: int, height: int, swapped: set[int]) -> list[Placement]:
        """The floorplan of that height; the parts of nodes whose number is in ``swapped`` change places."""
        problem = self.problem
        number = {id(part): i for i, part in enumerate(self.nodes)}
        placed: dict[int, Placement] = {}
        waiting = [(self.nodes[0], 0, 0, height)]
        while waiting:
            part, x, y, high = waiting.pop()
            if not part.parts:
                kernel = part.kernels[0]
                boxes = self._found[problem.types[kernel]]
                row = boxes[int(np.searchsorted(boxes[:, 1], high, "right")) - 1]
                placed[kernel] = place(problem, kernel, Shape(*row.tolist()), tau, x, y)
                continue
            first, second = part.parts[::-1] if number[id(part)] in swapped else part.parts
            if part.beside[high]:
                waiting += [(first, x, y, high), (second, x + int(first.curve[high]), y, high)]
            else:
                low, top = (int(np.searchsorted(-half.curve, -part.curve[high], "left")) for half in (first, second))
                waiting += [(first, x, y, low), (second, x, y + low, top)]
        return [placed[k] for k in range(problem.n)]

    def untangled(self, tau: int, deadline: Deadline) -> list[Placement] | None:
        """The floorplan with parts swapped, from the largest down, where that lowers the score; None if none fits."""
        if not self.merge(tau):
            return None
        fit = np.flatnonzero(self.nodes[0].curve <= self.problem.width)
        # Small and square keeps wires short: the height of the least half perimeter.
        height = int(fit[np.argmin(fit + self.nodes[0].curve[fit])])
        swapped: set[int] = set()
        best = self.layout(tau, height, swapped)
        score = evaluate(self.problem, best).score
        for i, part in enumerate(self.nodes):
            if part.parts:
                deadline.check()
                trial = self.layout(tau, height, swapped | {i})
                value = evaluate(self.problem, trial).score
                if value < score:
                    best, score, swapped = trial, value, swapped | {i}
        return best


def divide(
    problem: WaferProblem,
    deadline: Deadline = Deadline(),
    report: Callable[[Found], None] = lambda found: None,
) -> Found | None:
    """The best floorplan by score over target times from the least feasible one up; None where none fits."""
    least = Sizing(problem).area_time()
    if not least:
        return None
    divider = Divider(problem, least)
    taus = accumulate(range(STEPS - 1), lambda tau, _: tau + max(1, tau // SWEEP), initial=least)
    return best_over_times(problem, taus, lambda tau: divider.untangled(tau, deadline), deadline, report)
