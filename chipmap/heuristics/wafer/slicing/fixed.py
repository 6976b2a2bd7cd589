"""Annealing of slicing trees whose kernels have one box each: many moves in little time, for nearly full fabrics.

The search of :mod:`.annealing` chooses all boxes of a tree anew after each move, which is exact and slow. Here each
kernel keeps a box until a move gives it another one, and a move that doesn't fit the fabric is undone. So a move on
49 kernels takes about a microsecond. It needs a floorplan to begin with, whose time stays. Boxes carry their
execution arguments, so that adapters count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.wafer.adapters import boxes_of
from chipmap.heuristics.wafer.slicing import fixed_kernel as kernel
from chipmap.heuristics.wafer.slicing import moves_kernel
from chipmap.heuristics.wafer.slicing.exchange import graph_of
from chipmap.heuristics.wafer.slicing.guillotine import guillotine
from chipmap.instances.wafer.instance import WaferSolution
from chipmap.instances.wafer.problem import IntArray, WaferProblem, evaluate, in_order
from chipmap.instances.wafer.shapes import Shape, place, ports, shapes
from chipmap.kernels.annealing import seeded

#: Moves per kernel of the first run, growth from one round to the next, most; moves between two polls.
MOVES, GROWTH, MOST, POLL = 5_000, 3.0, 400_000, 50_000
#: Temperatures at the start and the end: a wire of so many half tiles. Where wires cost nothing, one costs such a part
#: of an adapter.
HOT, COLD, ADAPTER = 300.0, 5.0, 100
#: Starts of the first round; every round after it keeps the better half, the last one goes on alone.
STARTS = 8
Improved = Callable[[WaferSolution], None]


@dataclass(eq=False)
class Fixed:
    """A slicing floorplan at its own time; :meth:`run` anneals it. ``score`` is that of ``solution``."""

    problem: WaferProblem
    solution: WaferSolution
    score: int
    time: int
    boxes: kernel.Boxes
    choices: Sequence[IntArray]
    tree: IntArray

    @classmethod
    def of(cls, problem: WaferProblem, solution: WaferSolution) -> Fixed | None:
        """None where it isn't slicing, or where a box is none of those at its time."""
        placements = in_order(problem, solution)
        slicing = guillotine(boxes_of(placements))
        parts = evaluate(problem, placements)
        choices = shapes(problem, parts.time)
        if slicing is None or problem.n < 2:
            return None
        first = np.cumsum([0, *map(len, choices)])
        rows = [np.column_stack([some[:, :2], ports(problem, t, some, parts.time)]) for t, some in enumerate(choices)]
        cuts, align = slicing
        tree = np.full((6, 2 * problem.n), -1)
        tree[[moves_kernel.LEFT, moves_kernel.RIGHT, moves_kernel.CUT], :-1] = cuts.left, cuts.right, cuts.cut
        tree[moves_kernel.ALIGN, :-1] = align
        tree[moves_kernel.ROOT, -1] = cuts.root
        for node in np.flatnonzero(cuts.left >= 0):
            tree[moves_kernel.PARENT, cuts.left[node]] = tree[moves_kernel.PARENT, cuts.right[node]] = node
        for i, (left, bottom, right, top) in enumerate(boxes_of(placements).tolist()):
            t = int(problem.types[i])
            within = (choices[t][:, 0] <= right - left) & (choices[t][:, 1] <= top - bottom)
            if not within.any():
                return None
            tree[kernel.SHAPE, i] = first[t] + int(np.argmax(within))
        table = np.ascontiguousarray(np.concatenate(rows), dtype=np.int64)
        sides = np.array([problem.width, problem.height])
        return cls(
            problem, solution, parts.score, parts.time, kernel.Boxes(table, first, problem.edges, sides), choices, tree
        )

    def run(self, moves: int, seed: int, deadline: Deadline) -> bool:
        """So many moves, fewer where the time is up; whether the floorplan got better."""
        graph = graph_of(self.problem)
        state = kernel.FixedState(
            tree=self.tree.copy(),
            best=self.tree.copy(),
            work=np.zeros((kernel.ROWS, 2 * self.tree.shape[1]), np.int64),
            move=np.zeros(5, np.int64),
            score=np.array([0, moves_kernel.WORST]),
            random=seeded(seed),
        )
        unit, chunks = int(max(1, graph.ticks[0] or graph.ticks[1] // ADAPTER)), max(1, moves // POLL)
        heats = np.geomspace(unit * HOT, unit * COLD, chunks + 1).tolist()
        for hot, cold in pairwise(heats):
            kernel.anneal(graph, self.boxes, state, moves // chunks, hot, cold)
            if not deadline.keep_going():
                break
        self.tree = state.best
        solution = self._floorplan()
        score = evaluate(self.problem, in_order(self.problem, solution)).score
        better = score < self.score
        if better:
            self.solution, self.score = solution, score
        return better

    def _floorplan(self) -> WaferSolution:
        """The tree as a solution."""
        work = np.zeros((kernel.ROWS, 2 * self.tree.shape[1]), np.int64)
        kernel.lay_out(self.tree, work, self.boxes.shapes, self.boxes.sides)
        placements = []
        for i, t in enumerate(self.problem.types.tolist()):
            row = self.choices[t][int(self.tree[kernel.SHAPE, i] - self.boxes.first[t])]
            x, y = int(work[kernel.X, i]), int(work[kernel.Y, i])
            placements.append(place(self.problem, i, Shape(*row.tolist()), self.time, x, y))
        return WaferSolution(instance=self.problem.instance.name, placements=tuple(placements))


def fixed_boxes(
    problem: WaferProblem,
    starts: Sequence[WaferSolution],
    seed: int,
    deadline: Deadline,
    improved: Improved = lambda solution: None,
    work: float = inf,
    known: float = inf,
) -> WaferSolution | None:
    """The best floorplan found from slicing ``starts`` until ``deadline``.

    The starts of least score are annealed, round by round: the better half goes on with more moves. It ends where the
    last one alone gets no better, and after a round whose best score isn't below ``known``. ``work``: so many moves
    times kernels at most, of which the first round gets up to a third. ``improved`` hears of every floorplan better
    than all starts. None where nothing is better, and at once where neither wires nor adapters cost.
    """
    random = np.random.default_rng(seed)
    if not graph_of(problem).ticks.any():
        return None
    some = [one for one in (Fixed.of(problem, start) for start in starts) if one is not None]
    some = sorted(some, key=lambda one: one.score)[:STARTS]
    least, best = min((one.score for one in some), default=0), None
    moves = min(float(MOVES), work / (3 * problem.n**2 * max(1, len(some))))
    while some and work > 0 and deadline.keep_going():
        better = False
        for one in some:
            if work <= 0 or not deadline.keep_going():
                break
            count = int(min(moves * problem.n, work / problem.n))
            work -= max(1, count) * problem.n
            better |= one.run(count, int(random.integers(2**62)), deadline)
            if one.score < least:
                least, best = one.score, one.solution
                improved(best)
        if least >= known or (len(some) == 1 and not better):
            break
        some = sorted(some, key=lambda one: one.score)[: (len(some) + 1) // 2]
        moves = min(MOST, GROWTH * moves)
    return best
