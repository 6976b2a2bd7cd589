"""Floorplans of many kernels: the slicing program's boxes at the shortest times, then kernels of one type exchanged.

Large networks repeat few types of kernel, and kernels of one type may take each other's boxes: time and room stay as
they are, wires and adapters change. So the slicing program (:mod:`chipmap.heuristics.wafer.slicing.program`) cares
for the time alone, and simulated annealing (exchanges, and mirrored parts of the slicing tree) for the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.wafer.slicing import exchange_kernel as kernel
from chipmap.heuristics.wafer.slicing.program import Start
from chipmap.heuristics.wafer.slicing.trees import Tree, boxes_of
from chipmap.instances.wafer.instance import WaferSolution
from chipmap.instances.wafer.problem import TICKS, IntArray, WaferProblem, evaluate
from chipmap.instances.wafer.shapes import Shape, place, ports
from chipmap.kernels.annealing import seeded

#: The shape of a type in a box of some width and height.
Shapes = dict[tuple[int, int, int], Shape]
#: Moves per kernel of the first annealing run, growth from one run to the next, most; moves between two polls.
MOVES, GROWTH, MOST, POLL = 4000, 1.5, 100_000, 100_000
#: Temperatures at the start and the end: a wire of so many half tiles.
HOT, COLD = 300.0, 5.0


def graph_of(problem: WaferProblem) -> kernel.Graph:
    """The problem as the compiled annealing reads it."""
    edges, weights = problem.edges, problem.instance.weights
    m = len(edges)
    ends = np.concatenate([edges, edges[:, ::-1]])
    produces = np.repeat([1, 0], m)
    order = np.argsort(ends[:, 0], kind="stable")
    members = np.argsort(problem.types, kind="stable")
    return kernel.Graph(
        start=np.searchsorted(ends[order, 0], np.arange(problem.n + 1)),
        near=np.ascontiguousarray(np.column_stack([ends[order, 1], produces[order]])),
        first=np.searchsorted(problem.types[members], np.arange(len(problem.type_arrays) + 1)),
        members=members,
        types=problem.types,
        ticks=np.array([2 * weights.wire, TICKS * weights.adapter], dtype=np.int64),
    )


def parts_of(tree: Tree) -> tuple[IntArray, IntArray]:
    """(leaves [n] from left to right, parts [n - 1, 2] the range of leaves under each cut)."""
    leaves: list[int] = []
    parts: list[tuple[int, int]] = []
    waiting = [(tree.root, -1)]
    while waiting:
        node, begin = waiting.pop()
        if begin >= 0:
            parts.append((begin, len(leaves)))
        elif tree.left[node] < 0:
            leaves.append(node)
        else:
            waiting += [(node, len(leaves)), (int(tree.right[node]), -1), (int(tree.left[node]), -1)]
    return np.array(leaves, dtype=np.int64), np.array(parts, dtype=np.int64).reshape(-1, 2)


class Exchange:
    """Floorplans of one problem, one after another; deterministic by ``seed`` and the number of runs."""

    def __init__(self, problem: WaferProblem, seed: int) -> None:
        self.problem, self.graph, start = problem, graph_of(problem), Start(problem)
        self.random = np.random.default_rng(seed)
        self.best: WaferSolution | None = None
        self.score: int | None = None
        self.runs = 0
        self.sizing, self.program, self.least = start.sizing, start.program, start.tau

    def run(self, deadline: Deadline, improved: Callable[[WaferSolution], None]) -> None:
        """One floorplan at the least time: the first from the slicing program's evenest cuts, others from random ones.

        A run that is stopped halfway hands over nothing better than it has; ``improved`` hears of better floorplans.
        """
        tree = self.program.tree(self.random if self.runs else None)
        tight, shapes = self._tighten(boxes_of(self.sizing, tree, self.least))
        leaves, parts = parts_of(tree)
        plan = kernel.Plan(tight, leaves, np.argsort(leaves), parts, seeded(int(self.random.integers(2**62))))
        chunks = 1 + int(min(MOST, MOVES * GROWTH**self.runs) * self.problem.n) // POLL
        self.runs += 1
        unit = int(max(1, self.graph.ticks[0]))
        falls = np.geomspace(unit * HOT, unit * COLD, chunks + 1).tolist()
        for hot, cold in pairwise(falls):
            kernel.anneal(self.graph, plan, POLL, hot, cold)
            if not deadline.keep_going():
                break
        self._keep(plan, shapes, improved)

    def _tighten(self, found: IntArray) -> tuple[IntArray, Shapes]:
        """Boxes [n, 8] with what adapters compare, each as small as its kernel, and the shapes in them."""
        fits: Shapes = {}
        rows = []
        _, choices = self.sizing.choices(self.least)
        for t, (x, y, w, h) in zip(self.problem.types.tolist(), found.tolist(), strict=True):
            if (t, w, h) not in fits:
                fits[t, w, h] = self.sizing.shape(self.least, int(choices[t, h]), t, w, h)
            shape = fits[t, w, h]
            row = ports(self.problem, t, np.array([shape], dtype=np.int64), self.least)[0]
            rows.append((x, y, shape.width, shape.height, *row))
        return np.array(rows, dtype=np.int64), {(t, s.width, s.height): s for (t, _, _), s in fits.items()}

    def _keep(self, plan: kernel.Plan, shapes: Shapes, improved: Callable[[WaferSolution], None]) -> None:
        placements = []
        for i, (x, y, w, h) in enumerate(plan.boxes[:, :4].tolist()):
            placements.append(place(self.problem, i, shapes[int(self.problem.types[i]), w, h], self.least, x, y))
        score = evaluate(self.problem, placements).score
        if self.score is None or score < self.score:
            self.score = score
            self.best = WaferSolution(instance=self.problem.instance.name, placements=tuple(placements))
            improved(self.best)


def exchange(
    problem: WaferProblem,
    seed: int,
    deadline: Deadline,
    improved: Callable[[WaferSolution], None] = lambda solution: None,
    runs: int | None = None,
) -> WaferSolution | None:
    """The best floorplan found until ``deadline``, or after ``runs`` runs; ``improved`` hears of better ones.

    None where the slicing program finds no floorplan at any time. Of one kernel there is nothing to exchange.
    """
    work = Exchange(problem, seed)
    while work.least and problem.n > 1 and deadline.keep_going() and (runs is None or work.runs < runs):
        work.run(deadline, improved)
    return work.best
