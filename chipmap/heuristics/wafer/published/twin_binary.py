"""Annealing on twin binary sequences, one of the two placers that CU.POKer was measured against.

A floorplan of n rooms without empty ones (mosaic) is a pair of binary trees with nodes 1..n in order and leaves 0..n
between them, in which leaf v (0 < v < n) is a left child of one tree and a right child of the other. Room i spans the
lines from its first leaf in the second tree to its last in the first across, and from its last in the second up to its
first in the first. As bits: alpha[v] says whether leaf v is a right child in the first tree, beta[i] and beta2[i]
whether node i is one in the first and in the second.

Source: E. F. Y. Young, C. C. N. Chu, Z. C. Shen, "Twin binary sequences: a nonredundant representation for general
nonslicing floorplan", IEEE TCAD 22(4), 2003, 457-469. Their moves here: another shape, two kernels swapped, a rotation.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.wafer.published import twin_binary_kernel as kernel
from chipmap.heuristics.wafer.published.cu_poker import Found, best_over_times
from chipmap.heuristics.wafer.slicing.sizing import Sizing
from chipmap.instances.wafer.instance import Placement
from chipmap.instances.wafer.problem import TICKS, WaferProblem, depth_first_order
from chipmap.instances.wafer.shapes import Shape, place, ports, shapes
from chipmap.kernels.annealing import seeded

#: Moves per kernel of one annealing.
MOVES = 3000
#: Target times tried, as multiples of the least at which the kernels' areas fit the fabric.
STRETCH = (1.06, 1.1, 1.15, 1.2, 1.3, 1.45, 1.7, 2.2, 3.2, 5.0, 8.0, 16.0)
#: The first and the last temperature: half tiles of wire, adapters, ticks.
HOT, COLD = (400.0, 1.0, 1.0), (4.0, 0.1, 0.01)
#: A tile beyond the fabric costs a half tile of wire per edge, and an adapter per so many edges.
ADAPTERS_OVER = 20


class Annealer:
    """Annealing of one problem at given target times, each from the best floorplan of the one before."""

    def __init__(self, problem: WaferProblem, seed: int, moves: int = MOVES) -> None:
        self.problem = problem
        n = problem.n
        weights, m = problem.instance.weights, len(problem.edges)
        wire, adapter = 2 * weights.wire, TICKS * weights.adapter
        ticks = np.array([wire, adapter, max(1, wire * m + adapter * m // ADAPTERS_OVER)], dtype=np.int64)
        side = np.array([problem.width, problem.height], dtype=np.int64)
        self.task = kernel.Task(problem.types, problem.edges, side, ticks)
        hot, cold = (tiles * wire + share * adapter + rest for tiles, share, rest in (HOT, COLD))
        self.schedule = kernel.Schedule(moves * n, seeded(seed), hot, cold)
        self.layouts = kernel.Layouts(self._chain(), self._chain(), self._chain())
        sizes: tuple[tuple[int, ...], ...] = ((2, 2, n + 1), (n + 2,), (2, n + 1), (n,), (n,))
        self.room = kernel.Room(*(np.zeros(size, np.int64) for size in sizes))

    def _chain(self) -> kernel.TwinTreeState:
        """The kernels side by side in depth-first order."""
        n = self.problem.n
        up, down, none = [0, *range(2, n + 1), 0], [0, *range(n)], [0] * (n + 1)
        trees = np.array([[up, down, none], [down, none, up]], dtype=np.int64)
        order = np.append(np.zeros(1, np.int64), depth_first_order(self.problem))
        return kernel.TwinTreeState(trees, order, np.zeros(n, dtype=np.int64))

    def at(self, tau: int) -> list[Placement] | None:
        """The best floorplan found within ``tau`` quarters, or None if none fits the fabric."""
        problem = self.problem
        found = shapes(problem, tau)
        if not all(len(boxes) for boxes in found):
            return None
        first = np.cumsum([0, *map(len, found)])
        all_ports = np.concatenate([ports(problem, t, boxes, tau) for t, boxes in enumerate(found)])
        sides = np.ascontiguousarray(np.concatenate([boxes[:, :2] for boxes in found]))  # one layout: compiled once
        fronts = kernel.Fronts(first, sides, all_ports)
        for k, t in enumerate(problem.types):
            boxes = found[t]
            self.layouts.now.shape[k] = first[t] + int(np.argmin(boxes[:, 0] * boxes[:, 1]))
        now, _, best = self.layouts
        _, fits = kernel.anneal(self.task, fronts, self.layouts, self.room, self.schedule)
        for mine, theirs in zip(now, best, strict=True):
            mine[:] = theirs
        if not fits:
            return None
        kernel.pack(best, fronts, self.room)
        placed = []
        for k, t in enumerate(problem.types):
            shape = Shape(*found[t][best.shape[k] - first[t]].tolist())
            placed.append(place(problem, k, shape, tau, int(self.room.x[k]), int(self.room.y[k])))
        return placed


def twin_binary(
    problem: WaferProblem,
    seed: int = 0,
    deadline: Deadline = Deadline(),
    report: Callable[[Found], None] = lambda found: None,
    moves: int = MOVES,
) -> Found | None:
    """The best floorplan by score over the target times of :data:`STRETCH`; None where none fits."""
    least = Sizing(problem).area_time()
    taus = [int(least * stretch) + 1 for stretch in STRETCH] if least else []
    return best_over_times(problem, taus, Annealer(problem, seed, moves).at, deadline, report)
