"""Search over slicing trees and the target time in one, for the whole score.

Simulated annealing on :mod:`chipmap.heuristics.wafer.slicing.annealing_kernel`'s states: each leaf carries its exact
box curve at the state's target time, so that a tree's boxes are chosen together and a tree costs what its floorplan
costs, w_t · time + w_l · wire. Runs of growing length follow each other, from the slicing program's floorplan or the
best so far; the grid of target times narrows round the best.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import product

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.wafer import adapters
from chipmap.heuristics.wafer.slicing import annealing_kernel as kernel
from chipmap.heuristics.wafer.slicing import moves_kernel
from chipmap.heuristics.wafer.slicing.guillotine import guillotine
from chipmap.heuristics.wafer.slicing.orders import ORDERS, order_search
from chipmap.heuristics.wafer.slicing.program import Start, slicing_layout
from chipmap.heuristics.wafer.slicing.trees import Tree, boxes_of, floor_of, layout, state_of
from chipmap.instances.wafer.instance import WaferSolution
from chipmap.instances.wafer.problem import IntArray, WaferProblem, evaluate, in_order

Improved = Callable[[WaferSolution], None]


#: Runs in a row without a better floorplan that end a search.
IDLE = 8


class Search:
    """The annealing runs over one problem, one after another; deterministic by ``seed`` and the number of runs.

    From a slicing ``start`` two of three runs go on from the best, and floorplans that are too high are allowed
    at a penalty; without a start, every other run goes on.

    Where adapters cost, two of three fresh runs give all kernels the same h and w, one of the pairs that need the
    least time by their areas.
    """

    #: Moves per kernel of the first run, growth from one run to the next, work between two polls (about 0.1 s).
    FIRST, GROWTH, POLL = 1500, 1.8, 80_000
    #: Grid of target times: entries at most, and curve entries at most (memory).
    GRID, ENTRIES = 256, 1 << 23
    #: A fresh run's first temperature: a wire across the fabric, times a random factor from LEAST to MOST, and a share
    #: of the least time. The last one, as a share of the first.
    LEAST, MOST, OF_TIME, COLD = 0.5, 1.5, 0.0005, 0.015
    #: Factors of the first temperature of a run that goes on from the best, and from a given start (wires change by a
    #: few tiles up to many).
    AGAIN, HOT = 0.25, (0.1, 0.3, 0.75)
    #: Share of the moves that change the time: as much as that of so many kernels' own moves, but for a limit.
    TIME_MOVES, MOST_TIME_MOVES = 4.0, 0.1
    #: The penalty for a tile too many grows by this factor during a run.
    PENALTY = 4
    #: How far, as a share of the best time, the grid of a run that goes on from the best reaches to either side.
    MARGINS = 0.03, 0.2
    #: Values of h and w to choose pairs from, and pairs kept.
    SIDES, PAIRS = 12, 5

    def __init__(self, problem: WaferProblem, seed: int, start: WaferSolution | None = None) -> None:
        self.problem = problem
        self.random = np.random.default_rng(seed)
        self.best: WaferSolution | None = None
        self.score = moves_kernel.WORST
        self.runs = 0
        self._found = moves_kernel.WORST
        self._all = Start(problem)
        self._pairs: list[Start] | None = None
        self._nodes: IntArray | None = None
        self._start, self._time = self._all, 0
        self.given = start is not None and self._begin(start)

    def _begin(self, start: WaferSolution) -> bool:
        """Take ``start`` as the best so far; whether it is slicing, so that runs can go on from it."""
        placements = in_order(self.problem, start)
        found = guillotine(adapters.boxes_of(placements))
        if found is None:
            return False
        parts = evaluate(self.problem, placements)
        self.best, self._found, self._time = start, parts.score, parts.time
        self._nodes = state_of(self._all.sizing, found[0], 0, 0, found[1]).tree
        return True

    @property
    def possible(self) -> bool:
        """Whether there is a start: one given, or a slicing floorplan of the depth-first order."""
        return self.given or self._all.tau > 0

    def run(self, deadline: Deadline, improved: Improved) -> None:
        """One annealing run; ``improved`` hears of each better floorplan."""
        n, weights = self.problem.n, self.problem.instance.weights
        # without a slicing floorplan of the depth-first order there is nothing to begin afresh from
        turn = self._all.tau <= 0 or (self.runs % 3 != 2 if self.given else self.runs % 2 == 1)
        again = self._nodes is not None and turn
        soft = self.given and again
        start = self._start if again else self._fresh(deadline)
        floor = floor_of(start.sizing, self._grid(start, again))
        state = self._state(start, floor, again)
        kernel.restart(state, floor)
        self._report(start, state, floor, improved)
        # from wires changed by up to a quarter of the fabric to wires changed by a few tiles
        hot = (
            start.sizing.limit * weights.wire * self.random.uniform(self.LEAST, self.MOST)
            + self.OF_TIME * start.low * weights.time
        )
        if again:
            hot *= self.AGAIN if not self.given else float(self.random.choice(self.HOT))
        hot = max(1.0, hot)
        # a change of the time costs as much as n / 12 other moves
        ease = min(self.MOST_TIME_MOVES, self.TIME_MOVES / n)
        moves = int(self.FIRST * n * self.GROWTH**self.runs)
        chunks = max(1, moves // max(200, self.POLL // (n + 4)))
        for chunk in range(chunks):
            if not deadline.keep_going():
                break
            ends = [hot * self.COLD ** (at / chunks) for at in (chunk, chunk + 1)]
            if soft:
                # a tile of height is worth about what the score would fall with the fabric's area; later more
                floor.numbers[moves_kernel.PER_OVER] = int(
                    self.PENALTY ** (chunk / chunks) * self.score / self.problem.height
                )
                kernel.restart(state, floor)
            kernel.anneal(state, floor, moves // chunks, ends[0], ends[1], ease)
            self._report(start, state, floor, improved)
        self.runs += 1

    def _fresh(self, deadline: Deadline) -> Start:
        """The start of a run that doesn't go on from the best."""
        if self.problem.instance.weights.adapter == 0 or self.runs % 3 == 0:
            return self._all
        if self._pairs is None:
            self._pairs = self._best_pairs(deadline)
        choice = self._pairs[int(self.random.integers(len(self._pairs)))] if self._pairs else self._all
        return choice if choice.tau else self._all

    def _best_pairs(self, deadline: Deadline) -> list[Start]:
        """Starts of the pairs (h, w) with the least time by area."""
        heights = [conv.H for convs in self.problem.convs for conv in convs]
        sides = Counter(-(-height // q) for height in heights for q in range(1, height + 1))
        common = [side for side, _ in sides.most_common(self.SIDES)]
        starts = []
        for h, w in product(common, common):
            if deadline.keep_going() and 2 * h * w <= self._all.sizing.limit:
                start = Start(self.problem, (h, w))
                if start.low:
                    starts.append(start)
        return sorted(starts, key=lambda start: start.low)[: self.PAIRS]

    def _grid(self, start: Start, again: bool) -> IntArray:
        entries = len(self.problem.type_arrays) * (start.sizing.limit + 1)
        count = max(16, min(self.GRID, self.ENTRIES // entries))
        weights = self.problem.instance.weights
        if again:
            margin = self.random.choice(self.MARGINS)
            low, high = max(start.low, int((1 - margin) * self._time)), int((1 + margin) * self._time)
        else:
            # beyond the best score in time alone there is nothing to gain
            low, high = start.low, 2 * start.tau
            if weights.time == 0:
                high = start.sizing.problem.longest
            elif self.score < moves_kernel.WORST:
                high = max(start.tau, self.score // weights.time)
        grid = np.geomspace(low, high + 1, count - 1).astype(np.int64)
        return np.unique(np.append(grid, self._time if again else start.tau))

    def _state(self, start: Start, floor: moves_kernel.Floor, again: bool) -> moves_kernel.SlicingTreeState:
        seed = int(self.random.integers(2**62))
        if again and self._nodes is not None:
            time = int(np.searchsorted(floor.taus, self._time))
            return state_of(start.sizing, tree_of(self._nodes), time, seed, self._nodes[moves_kernel.ALIGN, :-1])
        tree = start.program.tree(self.random if self.runs else None)
        return state_of(start.sizing, tree, int(np.searchsorted(floor.taus, start.tau)), seed)

    def _report(
        self, start: Start, state: moves_kernel.SlicingTreeState, floor: moves_kernel.Floor, improved: Improved
    ) -> None:
        if state.score[1] >= self.score:
            return
        self.score = int(state.score[1])
        self._nodes, self._start = state.best.copy(), start
        self._time = int(floor.taus[state.best[moves_kernel.TIME, -1]])
        nodes, height = self._nodes, int(self._nodes[moves_kernel.TALL, -1])
        boxes = boxes_of(start.sizing, tree_of(nodes), self._time, nodes[moves_kernel.ALIGN, :-1], height)
        solution = layout(start.sizing, self._time, boxes)
        found = evaluate(self.problem, solution.placements).score
        if found < self._found:
            self.best, self._found = solution, found
            improved(solution)


def tree_of(nodes: IntArray) -> Tree:
    """The slicing tree of a state's array [5, 2n]."""
    rows = nodes[:, :-1]
    return Tree(
        rows[moves_kernel.LEFT], rows[moves_kernel.RIGHT], rows[moves_kernel.CUT], int(nodes[moves_kernel.ROOT, -1])
    )


def search(
    problem: WaferProblem,
    seed: int,
    deadline: Deadline,
    improved: Improved = lambda solution: None,
    runs: int | None = None,
    start: WaferSolution | None = None,
) -> WaferSolution | None:
    """The best floorplan found until ``deadline`` (asked several times a second), or after ``runs`` runs.

    It also ends after :data:`IDLE` runs, each longer than the one before, without a better one: tiny instances only.

    ``improved`` hears of every better one. None where the slicing program finds no floorplan at any time. Where wires
    and adapters cost nothing, orders are searched instead (:mod:`chipmap.heuristics.wafer.slicing.orders`).
    """
    weights = problem.instance.weights
    if weights.wire == 0 and weights.adapter == 0:
        return order_search(problem, seed, deadline, improved, ORDERS if runs is None else 1000 * runs)
    work = Search(problem, seed, start)
    if problem.n == 1:
        return slicing_layout(problem)
    if not work.possible:
        return None
    idle, best = 0, work.best
    while deadline.keep_going() and idle < IDLE and (runs is None or work.runs < runs):
        work.run(deadline, improved)
        idle, best = (idle + 1, best) if work.best is best else (0, work.best)
    return work.best
