"""Rings: a hub in the middle, its neighbours in strips round it, the smallest ones next to it.

In a star all wires end at one kernel, the hub. So boxes of little area belong next to it: more of them are near. The
other kernels are ordered by their least area. A program along this order keeps one rectangle for each number k of
kernels and each height h, the cheapest one by

    wires of its kernels to the hub  +  price · (kernels to come) · (its width + how far the hub lies from its middle).

It grows by a strip of the next kernels at one of its four sides, round the hub's centre as far as there is room. In a
strip each kernel has the box that is shortest along the strip. A strip that is longer than its side makes the rectangle
higher or wider. Within a strip all boxes count as equally long. All this is tried at several times and prices. It is a
heuristic, and its floorplans are slicing ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.wafer.slicing import rings_kernel as kernel
from chipmap.heuristics.wafer.slicing.rings_kernel import Rings
from chipmap.instances.wafer.instance import WaferSolution
from chipmap.instances.wafer.problem import IntArray, WaferProblem, evaluate
from chipmap.instances.wafer.shapes import Shape, place, shapes

#: The hub is joined to more than this part of the other kernels; kernels at least.
ROUND, LEAST = 0.8, 3
#: Times above the least one by area, as parts of it; what is tried round the best one, as parts of its share.
LATER = (0.08, 0.2, 0.4, 0.75, 1.3, 2.2, 0.01, 0.03, 0.055, 0.11, 0.15, 0.28, 0.55, 1.0)
NEAR = (0.85, 1.15, 0.93, 1.07)
#: The first price, and those that are tried at the best time.
PRICE, PRICES = 0.8, (0.3, 1.6, 0.5, 1.1)
#: Strips that are looked at in a second, and between two questions whether there is time left.
RATE, WORK = 50_000_000, 5_000_000
#: About so many depths of a strip give different lengths.
DEPTHS = 40


def hub_of(problem: WaferProblem) -> int | None:
    """The kernel that most others are joined to; None where there is none."""
    joined = np.zeros((problem.n, problem.n), bool)
    joined[problem.edges[:, 0], problem.edges[:, 1]] = joined[problem.edges[:, 1], problem.edges[:, 0]] = True
    count = joined.sum(axis=1)
    hub = int(count.argmax())
    return hub if problem.n >= LEAST and count[hub] > ROUND * (problem.n - 1) else None


class RingProgram:
    """The program of this module for one problem and hub, at any time and price.

    ``sums``: how many strips it may look at; beyond that, it is as if the time were up.
    """

    def __init__(self, problem: WaferProblem, hub: int, sums: float = inf) -> None:
        self.problem, self.hub, self.sums = problem, hub, sums
        self.sides = np.array([problem.width, problem.height])
        #: Tiles of wire that the program counts in the last floorplan, at a price of 0.
        self.cost = kernel.INFINITE

    def solution(self, time: int, price: float, deadline: Deadline) -> WaferSolution | None:
        """The floorplan at ``time`` quarters with ``price``; None where none is found, and where the time is up."""
        problem, found = self.problem, shapes(self.problem, time)
        if not all(map(len, found)):
            return None
        area = np.array([(boxes[:, 0] * boxes[:, 1]).min() for boxes in found])[problem.types]
        order = np.lexsort((problem.types, area))
        order = order[order != self.hub]
        least = np.full((2, len(found), int(self.sides.max()) + 1), kernel.NONE)
        for t, boxes in enumerate(found):
            for axis in (0, 1):
                np.minimum.at(least[axis, t], boxes[:, axis], boxes[:, 1 - axis])
        least, types = np.minimum.accumulate(least, axis=2), problem.types[order]
        rings = self._begin(found[int(problem.types[self.hub])], price)
        step = max(1, WORK // (kernel.RUN * DEPTHS * int(self.sides[1])))
        for begin in range(0, problem.n - 1, step):
            if self.sums <= 0 or not deadline.keep_going():
                return None
            self.sums -= kernel.fill(rings, types, least, self.sides, price, begin, min(problem.n - 1, begin + step))
        height = int(rings.cost[-1].argmin())
        self.cost = float(rings.cost[-1, height])
        if self.cost == kernel.INFINITE:
            return None
        return self._laid_out(_strips(rings, height), order, found, time)

    def _begin(self, boxes: IntArray, price: float) -> Rings:
        """Rectangles of the hub alone."""
        shape = (self.problem.n, int(self.sides[1]) + 1)
        rings = Rings(
            cost=np.full(shape, kernel.INFINITE),
            wide=np.zeros(shape, np.int64),
            hub=np.zeros((*shape, 2)),
            back=np.zeros((*shape, 4), np.int64),
        )
        for w, h in boxes[:, :2].tolist():
            if w <= self.sides[0] and h <= self.sides[1]:
                rings.cost[0, h], rings.wide[0, h], rings.hub[0, h] = (
                    price * (self.problem.n - 1) * w,
                    w,
                    (w / 2, h / 2),
                )
        return rings

    def _laid_out(
        self, strips: tuple[IntArray, int], order: IntArray, found: Sequence[IntArray], time: int
    ) -> WaferSolution:
        """The floorplan of ``strips`` from the inside, and of the hub with that height."""
        boxes = found[int(self.problem.types[self.hub])]
        first = boxes[boxes[:, 1] == strips[1]][0]
        low, high, centre = np.zeros(2, np.int64), first[:2].copy(), first[:2] / 2
        placed = {self.hub: (first, (0, 0))}
        for begin, end, side, depth in strips[0].tolist():
            axis, run = side // 2, order[begin:end].tolist()
            rows = [_shortest(found[int(self.problem.types[v])], axis, depth) for v in run]
            length, room = sum(int(row[1 - axis]) for row in rows), int(high[1 - axis] - low[1 - axis])
            way = centre[1 - axis] - low[1 - axis]
            if length > room:
                at = int(low[1 - axis]) - int(min(max(length / 2, way), length - (room - way)) - way)
                low[1 - axis], high[1 - axis] = at, at + length
            else:
                at = int(low[1 - axis]) + int(min(max(way - length / 2, 0), room - length))
            for v, row in zip(run, rows, strict=True):
                beside = int(low[axis] - row[axis] if side % 2 else high[axis])
                placed[v] = row, (beside, at) if axis == 0 else (at, beside)
                at += int(row[1 - axis])
            low[axis] -= depth * (side % 2)
            high[axis] += depth * (1 - side % 2)
        placements = []
        for v in range(self.problem.n):
            row, (x, y) = placed[v]
            placements.append(place(self.problem, v, Shape(*row.tolist()), time, x - int(low[0]), y - int(low[1])))
        return WaferSolution(instance=self.problem.instance.name, placements=tuple(placements))


def _shortest(boxes: IntArray, axis: int, depth: int) -> IntArray:
    """The box that is shortest along a strip of that depth."""
    within = boxes[boxes[:, axis] <= depth]
    row: IntArray = within[within[:, 1 - axis].argmin()]
    return row


def _strips(rings: Rings, height: int) -> tuple[IntArray, int]:
    """[strips, 4] first kernel, end, side and depth of each strip, from the inside; the hub's height."""
    strips, k = [], len(rings.cost) - 1
    while k > 0:
        before, lower, side, depth = rings.back[k, height].tolist()
        strips.append((before, k, side, depth))
        k, height = before, lower
    return np.array(strips[::-1], dtype=np.int64).reshape(-1, 4), height


@dataclass
class _Times:
    """The search over times and prices."""

    program: RingProgram
    deadline: Deadline
    improved: Callable[[WaferSolution], None]
    best: WaferSolution | None = None
    score: float = inf
    time: int = 0
    price: float = PRICE
    #: One floorplan for each time, with its score: the best.
    found: dict[int, tuple[int, WaferSolution]] = field(default_factory=dict)

    def attempt(self, time: int, price: float) -> None:
        """One floorplan, unless its time alone costs too much."""
        problem = self.program.problem
        over = problem.instance.weights.time * time >= self.score
        if over or time > problem.longest or self.program.sums <= 0 or not self.deadline.keep_going():
            return
        solution = self.program.solution(time, price, self.deadline)
        if solution is None:
            return
        parts = evaluate(problem, solution.placements)
        if parts.time not in self.found or parts.score < self.found[parts.time][0]:
            self.found[parts.time] = parts.score, solution
        if parts.score < self.score:
            self.best, self.score, self.time, self.price = solution, parts.score, time, price
            self.improved(solution)


def rings(
    problem: WaferProblem,
    deadline: Deadline,
    improved: Callable[[WaferSolution], None] = lambda solution: None,
    seconds: float | None = None,
    every: Callable[[list[WaferSolution]], None] = lambda solutions: None,
) -> WaferSolution | None:
    """The best floorplan of rings found until ``deadline``; ``improved`` hears of better ones.

    ``seconds``: the work of so many, and not what the deadline has left. ``every`` gets the best one of each time. None
    where there is no hub (:func:`hub_of`), where wires cost nothing, and where no time gives a floorplan.
    """
    from chipmap.heuristics.wafer.slicing.sizing import Sizing

    hub = hub_of(problem)
    if hub is None or problem.instance.weights.wire == 0 or not (least := Sizing(problem).area_time()):
        return None
    program = RingProgram(problem, hub, inf if seconds is None else seconds * RATE)
    times = _Times(program, deadline, improved)
    for share in LATER:
        times.attempt(int(least * (1 + share)), PRICE)
    for factor in (1.0, *NEAR):
        time = int(least + factor * (times.time - least))
        for price in PRICES if factor == 1.0 else (times.price,):
            times.attempt(time, price)
    every([solution for _, solution in times.found.values()])
    return times.best
