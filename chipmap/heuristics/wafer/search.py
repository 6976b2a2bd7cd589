"""Search over slicing trees and the target time in one, for the whole score.

Simulated annealing on :mod:`chipmap.heuristics.wafer.search_kernel`'s states: each leaf carries its exact box curve at
the state's target time, so that a tree's boxes are chosen together and a tree costs what its floorplan costs,
w_t · time + w_l · wire. Runs of growing length follow each other, from the slicing program's floorplan or the best so
far; the grid of target times narrows round the best.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from chipmap.heuristics.wafer import search_kernel as kernel
from chipmap.heuristics.wafer.slicing import OrderProgram, Tree, depth_first_order, layout, slicing_layout
from chipmap.heuristics.wafer.slicing_sizing import IntArray, Sizing
from chipmap.instances.wafer.costs import WaferProblem, evaluate
from chipmap.instances.wafer.instance import WaferSolution

Improved = Callable[[WaferSolution], None]
KeepGoing = Callable[[], bool]


def floor_of(sizing: Sizing, taus: IntArray) -> kernel.Floor:
    """The problem as the compiled search reads it, with a grid of target times."""
    problem = sizing.problem
    both = np.concatenate([problem.edges, problem.edges[:, ::-1]]) if len(problem.edges) else problem.edges
    both = both[np.argsort(both[:, 0], kind="stable")]
    weights = problem.instance.weights
    return kernel.Floor(
        numbers=np.array([problem.width, problem.height, weights.time, 2 * weights.wire]),
        types=problem.types,
        edges=problem.edges,
        start=np.searchsorted(both[:, 0], np.arange(problem.n + 1)),
        near=np.ascontiguousarray(both[:, 1]),
        taus=taus,
        table=np.stack([sizing.curves(int(tau)) for tau in taus]),
    )


def state_of(sizing: Sizing, tree: Tree, time: int, seed: int, align: IntArray | None = None) -> kernel.State:
    """A state at the given tree and index of the target time."""
    size = len(tree.left)
    nodes = np.full((5, size + 1), -1)
    nodes[kernel.LEFT, :-1], nodes[kernel.RIGHT, :-1], nodes[kernel.CUT, :-1] = tree.left, tree.right, tree.cut
    nodes[kernel.ALIGN, :-1] = 1 if align is None else align
    nodes[:3, -1] = tree.root, time, sizing.problem.height
    for node in np.flatnonzero(tree.left >= 0):
        nodes[kernel.PARENT, tree.left[node]] = nodes[kernel.PARENT, tree.right[node]] = node
    return kernel.State(
        tree=nodes,
        saved=nodes.copy(),
        best=nodes.copy(),
        curves=np.zeros((2, 2, size, sizing.limit + 1), np.int32),
        work=np.zeros((11, 2 * size + 2), np.int64),
        plan=np.full(4, -1),
        score=np.array([kernel.WORST, kernel.WORST]),
        random=np.random.default_rng(seed).integers(1, 2**63, 1, dtype=np.uint64),
    )


class Search:
    """The annealing runs over one problem, one after another; deterministic by ``seed`` and the number of runs.

    Raises ValueError from :meth:`run` where not even the slicing program finds a floorplan (see ``possible``).
    """

    #: Moves per kernel of the first run, growth from one run to the next, moves between two polls (about 0.1 s).
    FIRST, GROWTH, POLL = 1500, 1.4, 4000
    #: Grid of target times: entries at most, and curve entries at most (memory).
    GRID, ENTRIES = 256, 1 << 25

    def __init__(self, problem: WaferProblem, seed: int) -> None:
        self.problem, self.sizing = problem, Sizing(problem)
        self.random = np.random.default_rng(seed)
        self.best: WaferSolution | None = None
        self.score = kernel.WORST
        self.runs = 0
        self._nodes: IntArray | None = None
        self._best_score = kernel.WORST
        self.low = self.sizing.area_time()
        self._tau = 0
        if self.low and problem.n > 1:
            self._program = OrderProgram(self.sizing, depth_first_order(problem))
            self._tau = self._program.least(self.low)
            self._time = self._tau

    @property
    def possible(self) -> bool:
        """Whether a slicing floorplan of the depth-first order exists, so that there is a start."""
        return self._tau > 0

    def run(self, keep_going: KeepGoing, improved: Improved) -> None:
        """One annealing run; ``improved`` hears of each better floorplan."""
        again = self._nodes is not None and self.runs % 2 == 1
        floor = floor_of(self.sizing, self._grid(again))
        state = self._start(floor, again)
        kernel.restart(state, floor)
        self._report(state, floor, improved)
        weights = self.problem.instance.weights
        hot = 0.6 * self.sizing.limit * weights.wire * self.random.uniform(0.5, 1.5) + 0.0005 * self.low * weights.time
        hot = max(1.0, hot * (0.3 if again else 1.0))
        # a change of the time costs as much as n / 12 other moves
        ease = min(0.1, 4 / self.problem.n)
        moves = int(self.FIRST * self.problem.n * self.GROWTH**self.runs)
        chunks = max(1, moves // max(200, self.POLL * 20 // (self.problem.n + 4)))
        for chunk in range(chunks):
            if not keep_going():
                break
            ends = [hot * 0.02 ** (at / chunks) for at in (chunk, chunk + 1)]
            kernel.anneal(state, floor, moves // chunks, ends[0], ends[1], ease)
            self._report(state, floor, improved)
        self.runs += 1

    def _grid(self, again: bool) -> IntArray:
        entries = len(self.problem.type_arrays) * (self.sizing.limit + 1)
        count = max(16, min(self.GRID, self.ENTRIES // entries))
        weights = self.problem.instance.weights
        if again:
            margin = self.random.choice((0.03, 0.2))
            low, high = max(self.low, int((1 - margin) * self._time)), int((1 + margin) * self._time)
        else:
            # beyond the best score in time alone there is nothing to gain
            low, high = self.low, 2 * self._tau
            if weights.time == 0:
                high = self.sizing.longest
            elif self.score < kernel.WORST:
                high = max(self._tau, self.score // weights.time)
        grid = np.geomspace(low, high + 1, count - 1).astype(np.int64)
        return np.unique(np.append(grid, self._time if again else self._tau))

    def _start(self, floor: kernel.Floor, again: bool) -> kernel.State:
        seed = int(self.random.integers(2**62))
        if not again:
            tree = self._program.tree(self.random if self.runs else None)
            return state_of(self.sizing, tree, int(np.searchsorted(floor.taus, self._tau)), seed)
        assert self._nodes is not None
        time = int(np.searchsorted(floor.taus, self._time))
        return state_of(self.sizing, tree_of(self._nodes), time, seed, self._nodes[kernel.ALIGN, :-1])

    def _report(self, state: kernel.State, floor: kernel.Floor, improved: Improved) -> None:
        if state.score[1] >= self.score:
            return
        self.score = int(state.score[1])
        self._nodes = state.best.copy()
        self._time = int(floor.taus[state.best[kernel.TIME, -1]])
        solution = layout(self.sizing, self._time, boxes_of(self.sizing, self._nodes, self._time))
        score = evaluate(self.problem, solution.placements).score
        if score < self._best_score:
            self.best, self._best_score = solution, score
            improved(solution)


def tree_of(nodes: IntArray) -> Tree:
    """The slicing tree of a state's array [5, 2n]."""
    rows = nodes[:, :-1]
    return Tree(rows[kernel.LEFT], rows[kernel.RIGHT], rows[kernel.CUT], int(nodes[kernel.ROOT, -1]))


def boxes_of(sizing: Sizing, nodes: IntArray, tau: int) -> IntArray:
    """[n, 4] left, bottom, width and height of the kernels of a state's tree at ``tau`` quarters."""
    floor = floor_of(sizing, np.array([tau]))
    state = state_of(sizing, tree_of(nodes), 0, 0, nodes[kernel.ALIGN, :-1])
    kernel.restart(state, floor)
    kernel.lay_out(state, int(nodes[kernel.TALL, -1]))
    rows = [kernel.X, kernel.Y, kernel.W, kernel.H]
    return np.ascontiguousarray(state.work[rows, : sizing.problem.n].T)


def search(
    problem: WaferProblem,
    seed: int,
    keep_going: KeepGoing,
    improved: Improved = lambda solution: None,
    runs: int | None = None,
) -> WaferSolution | None:
    """The best floorplan found until ``keep_going`` (asked several times a second) says no, or after ``runs`` runs.

    ``improved`` hears of every better one. None where the slicing program finds no floorplan at any time.
    """
    work = Search(problem, seed)
    if not work.possible:
        return slicing_layout(problem) if problem.n == 1 else None
    while keep_going() and (runs is None or work.runs < runs):
        work.run(keep_going, improved)
    return work.best
