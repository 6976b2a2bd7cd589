"""Wired cuts: the slicing program of an order that knows wires and adapters.

The slicing program (:mod:`chipmap.heuristics.wafer.slicing.program`) keeps the least width of every run i .. j-1 of an
order and every height h. Here each of them keeps one floorplan, the one that is cheapest by

    price · (its width · h)  +  its wires  +  the way from its first and its last kernel to its nearest side,

the adapters among the wires. Two parts side by side are mirrored such that the kernels that meet there are close. As
with the slicing program a floorplan may be turned, so that stacked parts are those of the turned program. It is a
heuristic: a run keeps one floorplan per height, and edges between other kernels than neighbours of the order count
from the middle of one part to the middle of the other. The price of tiles is the least one found at which the whole
fits on the fabric.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, sqrt

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.wafer.slicing.sizing import Sizing
from chipmap.heuristics.wafer.slicing.trees import layout
from chipmap.heuristics.wafer.slicing.wired_kernel import FARTHEST, ROWS, Runs, Wired, fill
from chipmap.instances.wafer.instance import WaferSolution
from chipmap.instances.wafer.problem import TICKS, IntArray, WaferProblem, depth_first_order, evaluate

#: Tiles of the longest side: coordinates are 16-bit half tiles.
SIDE = FARTHEST // 2
#: More than this part of the edges has to join neighbours of the order.
ALONG = 0.8
#: Entries of a table at most: beyond that, slots are several tiles apart.
ENTRIES = 6_000_000
#: Pairs of parts and slots in a second, and between two questions whether there is time left.
RATE, WORK = 100_000_000, 20_000_000
#: The first time above the least one by area, as a part of it; it is halved and doubled down to and up to these.
SHARE, SHORTEST, LONGEST = 0.24, 0.005, 4.0
#: Least, first and largest price of a tile in half tiles of wire, and the factor from one to the next.
CHEAP, MIDDLE, DEAR, FACTOR = 0.004, 0.25, 60.0, 3.0
#: Programs round the best time and price, and how far they lie from these.
AROUND, TIMES, PRICES = 40, 0.04, 0.4


class WiredCuts:
    """The program of this module for one problem and one order [n] of its kernels, at any time and price.

    ``sums``: how many pairs of parts and slots it may look at; beyond that, it is as if the time were up.
    """

    def __init__(self, sizing: Sizing, order: IntArray, sums: float = inf) -> None:
        self.sizing, self.problem, self.order, self.sums = sizing, sizing.problem, order, sums
        n, weights = self.problem.n, self.problem.instance.weights
        rows = n * (n + 1) // 2
        self.step = -(-rows * (sizing.limit + 1) // ENTRIES)
        slots = sizing.limit // self.step + 1
        self._runs = Runs(
            width=np.empty((rows, slots), np.int32),
            wire=np.empty((rows, slots), np.float32),
            ends=np.empty((rows, 6, slots), np.int16),
            cut=np.zeros((rows, slots), np.int16),
            source=np.zeros((rows, slots), np.int16),
        )
        self._first = np.cumsum([0, 0, *range(n, 0, -1)])
        place = np.argsort(order)
        edges = np.zeros((n + 1, n + 1), np.int64)
        ends = np.sort(place[self.problem.edges], axis=1) + 1
        np.add.at(edges, (ends[:, 0], ends[:, 1]), 1)
        self._near = np.array([edges[m, m + 1] for m in range(1, n)], dtype=np.int64)
        self._between = edges.cumsum(axis=0).cumsum(axis=1)
        self._adapter = TICKS * weights.adapter / (2 * weights.wire)
        self._arguments, options = np.unique(sizing.options.arguments[:, 1:], axis=0, return_inverse=True)
        self._options, self._time = options.reshape(-1), 0

    @property
    def work(self) -> int:
        """Pairs of parts and slots of one program."""
        return self.problem.n**3 // 6 * self._runs.width.shape[1]

    def fits(self, time: int, price: float, deadline: Deadline) -> bool:
        """Whether the floorplan of all kernels at ``time`` quarters and ``price`` half tiles per tile is on the fabric.

        False where the time is up, too.
        """
        n, slots = self.problem.n, self._runs.width.shape[1]
        curves, choices = self.sizing.choices(time)
        types = self.problem.types[self.order]
        options = self._options[choices][types].astype(np.int16)
        wired = Wired(np.ascontiguousarray(curves[types]), options, self._arguments, self._near, self._between)
        self._curves, self._time, room = wired.leaves, time, np.zeros((ROWS, slots), np.int32)
        self.sums -= self.work
        step = max(1, WORK // (n * n * slots))
        for first in range(1, n + 1, step):
            if self.sums < 0 or not deadline.keep_going():
                return False
            fill(wired, self._runs, price, self._adapter, self.step, first, min(first + step, n + 1), room)
        return self.width <= self.problem.width

    @property
    def width(self) -> int:
        """Tiles of the last program's floorplan from left to right; no fabric is so wide where there is none."""
        return int(self._runs.width[-1, self.problem.height // self.step])

    @property
    def wire(self) -> float:
        """Half tiles of its wires, adapters among them."""
        return float(self._runs.wire[-1, self.problem.height // self.step])

    def solution(self) -> WaferSolution:
        """The floorplan of the last program that fits."""
        found = np.zeros((self.problem.n, 4), np.int64)
        found[self.order] = self._boxes(0, self.problem.n, self.problem.height // self.step)
        return layout(self.sizing, self._time, found)

    def _row(self, i: int, s: int) -> int:
        """Where the run of ``s`` kernels from ``i`` on stands in the tables."""
        return int(self._first[s]) + i

    def _boxes(self, i: int, s: int, slot: int) -> IntArray:
        """[s, 4] left, bottom, width and height of the kernels of a run in its rectangle of that slot."""
        height = slot * self.step
        if s == 1:
            wide = int(self._curves[i, height])
            tall = int(np.argmax(self._curves[i] <= wide))
            return np.array([[0, (height - tall) // 2, wide, tall]])
        source = int(self._runs.source[self._row(i, s), slot])
        found, wide = self._halves(i, s, abs(source))
        tall = abs(source) * self.step
        if source < 0:
            found, tall = found[:, [1, 0, 3, 2]], wide
        found[:, 1] += (height - tall) // 2
        return found

    def _halves(self, i: int, s: int, slot: int) -> tuple[IntArray, int]:
        """[s, 4] the kernels of a run in two parts side by side, mirrored as the program has them, and their width."""
        height = slot * self.step
        first = int(self._runs.cut[self._row(i, s), slot])
        left, right = self._boxes(i, first, slot), self._boxes(i + first, s - first, slot)
        a, b = self._row(i, first), self._row(i + first, s - first)
        wide, more = int(self._runs.width[a, slot]), int(self._runs.width[b, slot])
        xa, ya = self._runs.ends[a, 3:5, slot].tolist()
        xb, yb = self._runs.ends[b, :2, slot].tolist()
        if xa < wide:
            left[:, 0] = wide - left[:, 0] - left[:, 2]
        if xb > more:
            right[:, 0] = more - right[:, 0] - right[:, 2]
        if abs(ya - yb) > abs(ya + yb - 2 * height):
            right[:, 1] = height - right[:, 1] - right[:, 3]
        right[:, 0] += wide
        return np.concatenate([left, right]), wide + more


class _Times:
    """The search over times and prices; ``improved`` hears of every better floorplan."""

    def __init__(self, problem: WaferProblem, deadline: Deadline, improved: Callable[[WaferSolution], None]) -> None:
        self.problem, self.deadline, self.improved = problem, deadline, improved
        self.best: WaferSolution | None = None
        self.score, self.time, self.price = inf, 0, MIDDLE
        self.cuts: WiredCuts | None = None

    def going(self, cuts: WiredCuts) -> bool:
        """Whether there is time for more."""
        return cuts.sums > 0 and self.deadline.keep_going()

    def attempt(self, cuts: WiredCuts, time: int, price: float) -> float:
        """The score of a program's floorplan, infinite where it doesn't fit."""
        if not cuts.fits(time, price, self.deadline):
            return inf
        solution = cuts.solution()
        score = evaluate(self.problem, solution.placements).score
        if score < self.score:
            self.best, self.score, self.time, self.price, self.cuts = solution, score, time, price, cuts
            self.improved(solution)
        return score

    def at(self, cuts: WiredCuts, time: int, price: float) -> tuple[float, float]:
        """The best score found at ``time`` from ``price`` on, and about the least price at which the floorplan fits."""
        score = self.attempt(cuts, time, price)
        factor = 1 / FACTOR if score < inf else FACTOR
        while self.going(cuts) and CHEAP <= price * factor <= DEAR:
            found = self.attempt(cuts, time, price * factor)
            if (found < inf) == (factor > 1):
                score, price = min(score, found), price * max(factor, 1.0)
                break
            score, price = min(score, found), price * factor
        found = self.attempt(cuts, time, price / sqrt(FACTOR)) if score < inf and self.going(cuts) else inf
        return (score, price) if found == inf else (min(score, found), price / sqrt(FACTOR))

    def walk(self, cuts: WiredCuts, least: int) -> None:
        """From a middle time to shorter ones and to longer ones, as long as they get better."""
        longest, weight = self.problem.longest, self.problem.instance.weights.time
        first, price = self.at(cuts, int(least * (1 + SHARE)), self.price)
        for factor in (0.5, 2.0):
            share, known, at = SHARE * factor, first, price
            while self.going(cuts) and SHORTEST <= share <= LONGEST and weight * least * (1 + share) < self.score:
                score, at = self.at(cuts, min(longest, int(least * (1 + share))), at)
                if score >= known and known < inf:
                    break
                known, share = min(score, known), share * factor

    def around(self, least: int, random: np.random.Generator) -> None:
        """Times and prices round the best ones."""
        for _ in range(AROUND):
            cuts = self.cuts
            if cuts is None or not self.going(cuts):
                return
            time = int(self.time * np.exp(random.normal(0, TIMES)))
            price = self.price * float(np.exp(random.normal(0, PRICES)))
            if least <= time <= self.problem.longest:
                self.attempt(cuts, time, price)


def order_of(problem: WaferProblem) -> IntArray | None:
    """Depth first or as the instance has them, whichever makes more edges join neighbours; None where too few do."""
    ends = problem.edges

    def near(order: IntArray) -> int:
        place = np.argsort(order)[ends]
        return int((abs(place[:, 0] - place[:, 1]) == 1).sum())

    order = max((depth_first_order(problem), np.arange(problem.n)), key=near)
    return order if near(order) > ALONG * len(ends) else None


def wired_cuts(
    problem: WaferProblem,
    seed: int,
    deadline: Deadline,
    improved: Callable[[WaferSolution], None] = lambda solution: None,
    seconds: float | None = None,
) -> WaferSolution | None:
    """The best floorplan of wired cuts found until ``deadline``; ``improved`` hears of better ones.

    ``seconds``: the work of so many, and not what the deadline has left. None where no program fits, where
    wires cost nothing, where the graph isn't much of a path (:func:`order_of`), and on sides of more than
    :data:`SIDE` tiles.
    """
    order = order_of(problem)
    if order is None or problem.instance.weights.wire == 0 or max(problem.width, problem.height) > SIDE:
        return None
    sizing, random = Sizing(problem), np.random.default_rng(seed)
    times, least = _Times(problem, deadline, improved), sizing.area_time()
    if least == 0:
        return None
    times.walk(WiredCuts(sizing, order, inf if seconds is None else seconds * RATE), least)
    times.around(least, random)
    return times.best
