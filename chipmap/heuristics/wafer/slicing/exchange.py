"""Floorplans of many kernels: the slicing program's boxes at the shortest times, then kernels of one type exchanged.

Large networks repeat few types of kernel, and kernels of one type may take each other's boxes: time and room stay as
they are, wires and adapters change. So the slicing program (:mod:`chipmap.heuristics.wafer.slicing.program`) cares
for the time alone, and simulated annealing (exchanges, and mirrored parts of the slicing tree) for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.wafer.slicing import exchange_kernel as kernel
from chipmap.heuristics.wafer.slicing.program import Start
from chipmap.heuristics.wafer.slicing.trees import Tree, boxes_of
from chipmap.instances.wafer.instance import Placement, WaferSolution
from chipmap.instances.wafer.problem import TICKS, IntArray, WaferProblem, evaluate
from chipmap.instances.wafer.shapes import Shape, place, ports
from chipmap.kernels.annealing import seeded

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
        found = boxes_of(self.sizing, tree, self.least)
        chunks = 1 + int(min(MOST, MOVES * GROWTH**self.runs) * self.problem.n) // POLL
        self.runs += 1
        seed = int(self.random.integers(2**62))
        given = self._tighten(found), found[:, :2]
        placements = rearrange(self.problem, self.graph, self.least, given, tree, chunks, seed, deadline)
        score = evaluate(self.problem, placements).score
        if self.score is None or score < self.score:
            self.score = score
            self.best = WaferSolution(instance=self.problem.instance.name, placements=tuple(placements))
            improved(self.best)

    def _tighten(self, found: IntArray) -> list[Shape]:
        """[n] the shapes in boxes ``found`` [n, 4], each as small as its kernel."""
        fits = dict[tuple[int, int, int], Shape]()
        _, choices = self.sizing.choices(self.least)
        kinds = self.problem.types.tolist()
        for t, (_, _, w, h) in zip(kinds, found.tolist(), strict=True):
            if (t, w, h) not in fits:
                fits[t, w, h] = self.sizing.shape(self.least, int(choices[t, h]), t, w, h)
        return [fits[t, w, h] for t, (_, _, w, h) in zip(kinds, found.tolist(), strict=True)]


def rearrange(
    problem: WaferProblem,
    graph: kernel.Graph,
    tau: int,
    given: tuple[Sequence[Shape], IntArray],
    tree: Tree,
    chunks: int,
    seed: int,
    deadline: Deadline,
) -> list[Placement]:
    """A slicing floorplan at ``tau`` quarters after ``chunks`` times :data:`POLL` moves, or as many as time allows.

    ``given``: the shapes [n] and the lower left corners [n, 2] of its boxes, whose cuts are ``tree``.
    """
    shapes, corners = given
    types, known = problem.types.tolist(), dict[tuple[int, Shape], IntArray]()
    rows = []
    for t, shape, (x, y) in zip(types, shapes, corners.tolist(), strict=True):
        if (t, shape) not in known:
            known[t, shape] = ports(problem, t, np.array([shape], dtype=np.int64), tau)[0]
        rows.append((x, y, shape.width, shape.height, *known[t, shape]))
    leaves, parts = parts_of(tree)
    plan = kernel.Plan(np.array(rows, dtype=np.int64), leaves, np.argsort(leaves), parts, seeded(seed))
    unit = int(max(1, graph.ticks[0]))
    for hot, cold in pairwise(np.geomspace(unit * HOT, unit * COLD, chunks + 1).tolist()):
        kernel.anneal(graph, plan, POLL, hot, cold)
        if not deadline.keep_going():
            break
    fits = {(t, shape.width, shape.height): shape for t, shape in known}
    return [
        place(problem, i, fits[types[i], w, h], tau, x, y) for i, (x, y, w, h) in enumerate(plan.boxes[:, :4].tolist())
    ]


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
