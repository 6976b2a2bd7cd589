"""What is known of a wafer instance at once, by numpy and plain code: two bounds, a first floorplan.

The bounds are those of each kernel alone and of the area. The floorplan is the greedy row packer's
(:mod:`chipmap.heuristics.wafer.rows.greedy`) at a few target times, from the shortest one at which rows fit on. Where
they never do, sequences are packed (:mod:`.sequences`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isqrt
from typing import NamedTuple

import numpy as np

from chipmap.heuristics.wafer.obstructed import longest
from chipmap.heuristics.wafer.rows.greedy import TARGETS, Sized, narrowest, rows, score
from chipmap.instances.wafer.instance import Placement, WaferInstance, WaferSolution, special
from chipmap.instances.wafer.problem import IntArray, WaferProblem, depth_first_order, wafer_problem
from chipmap.instances.wafer.shapes import front
from chipmap.instances.wafer.vectors import arguments, least_time, least_widths
from chipmap.methods.wafer.sequences import Sequences, anneal
from chipmap.run import Run

SOURCE, SEQUENCES, ONE_BY_ONE = "rows at once", "sequences at once", "one by one"
#: Rows of equal height that are tried, and target times above the least at which rows fit.
ROWS, ABOVE = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32), (0, 1, 2, 4, 7)
#: Types of kernels, and convolutions times arguments, up to which all arguments are tried.
MANY, CELLS = 200, 2_000_000
#: The bound by the area is searched up to this ratio of times.
NEAR = 1.03
#: Boxes that are placed while sequences are annealed at the longest time.
BOXES = 6000


class Floorplan(NamedTuple):
    """A score in ticks, the corners [n, 2] and the executions of types that give it."""

    score: int
    corners: IntArray
    sized: Sized


def at_once(instance: WaferInstance, run: Run) -> None:
    """Report the least time of the slowest kernel alone, each of its convolutions with all of the width."""
    problem = wafer_problem(instance)
    some = [convs for convs in problem.type_arrays if len(convs)]
    some = some[:: 1 + len(some) // MANY]
    every = arguments(max(problem.width, problem.height))
    tabled = [int(table[:, 2].min()) for table in problem.tables if table is not None]
    slowest = max((*tabled, *(least_time(problem, convs, every) for convs in some)), default=0)
    run.bound(problem.score(slowest, 0, 0), "kernels alone")


def first(instance: WaferInstance, run: Run) -> None:
    """Report a row packing at the longest time, then the best of a few, or sequences; refused ones are forgotten.

    Then the bound by the area, as far as :meth:`_Packer.time_by_area` finds it."""
    if special(instance):
        for placements in longest(wafer_problem(instance), run.deadline):
            _report(run, placements, ONE_BY_ONE)
        return
    packer = _Packer(wafer_problem(instance))
    if packer.at(len(packer.targets) - 1) is None:
        for placements in packer.sequenced():
            _report(run, placements, SEQUENCES)
    else:
        _report_rows(packer, run)
    run.bound(packer.problem.score(packer.time_by_area(), 0, 0), "area")


def _report_rows(packer: _Packer, run: Run) -> None:
    for found in packer.found():
        if run.upper is None or found.score < run.upper:
            sized, names = found.sized, zip(packer.problem.types.tolist(), packer.problem.names, strict=True)
            corners = found.corners.tolist()
            _report(
                run,
                [
                    sized.placements[t].replace(kernel=name, x=x, y=y)
                    for (t, name), (x, y) in zip(names, corners, strict=True)
                ],
            )


def _report(run: Run, placements: Sequence[Placement], source: str = SOURCE) -> None:
    solution = WaferSolution(instance=str(getattr(run.instance, "name", "")), placements=tuple(placements))
    if not run.solution(solution, source).feasible:
        run.rejected.pop()


class _Packer:
    """Row packings of a problem at target times in equal ratios, each tried once."""

    def __init__(self, problem: WaferProblem) -> None:
        self.problem, self.order = problem, depth_first_order(problem).tolist()
        every = arguments(max(problem.width, problem.height))
        cells = sum(len(convs) for convs in problem.type_arrays) * len(every.h)
        self.arguments = every if cells <= CELLS else every.thinned(1 + cells // CELLS)
        low = max(1, max(least_time(problem, convs, self.arguments) for convs in problem.type_arrays))
        ratio = max(problem.longest, low) / low
        self.targets = sorted({round(low * ratio ** (step / (TARGETS - 1))) for step in range(TARGETS)})
        self.known: dict[int, Floorplan | None] = {}
        self.counts = np.bincount(self.problem.types)
        #: The longest time seen at which the kernels' least boxes have more tiles than the fabric, and the shortest one
        #: seen at which they fit.
        self.too_short, self.long_enough = 0, self.problem.longest

    def found(self) -> Iterator[Floorplan]:
        """A packing at the longest time, then the best one from the least target on at which rows fit."""
        low, high = 0, len(self.targets) - 1
        if (longest := self.at(high)) is not None:
            yield longest
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.at(middle) is not None else (middle + 1, high)
        steps = (low + more for more in ABOVE if low + more < len(self.targets))
        some = [found for step in steps if (found := self.at(step)) is not None]
        yield from sorted(some, key=lambda one: one.score)[:1]

    def at(self, step: int) -> Floorplan | None:
        """The best packing at a target, over the heights of rows; None where none fits."""
        if step not in self.known:
            tau, found = self.targets[step], list[Floorplan]()
            limit = max(self.problem.width, self.problem.height)
            fronts = self._fronts(tau, limit)
            heights = {self.problem.height // count for count in ROWS if count <= self.problem.height}
            for height in sorted(heights, reverse=True):
                sized = narrowest(self.problem, fronts, tau, height)
                corners = None if sized is None else rows(self.problem, self.order, sized)
                if sized is not None and corners is not None:
                    found.append(Floorplan(score(self.problem, sized, corners), corners, sized))
            self.known[step] = min(found, key=lambda one: one.score, default=None)
        return self.known[step]

    def time_by_area(self) -> int:
        """A lower bound on the time in quarters: at all times below it, the least boxes have too many tiles.

        It is within :data:`NEAR` of the least such bound. 0 where not all arguments are tried."""
        if len(self.arguments.h) < len(arguments(max(self.problem.width, self.problem.height)).h):
            return 0
        self.too_short = max(self.too_short, self.targets[0] - 1)
        while self.long_enough > max(self.too_short + 1, NEAR * self.too_short):
            middle = max(isqrt(self.too_short * self.long_enough), self.too_short + 1)
            self._fronts(middle, max(self.problem.width, self.problem.height))
        return self.too_short + 1

    def sequenced(self) -> Iterator[list[Placement]]:
        """Sequences at the longest time, then at the least target at which they are found."""
        low, high = 0, len(self.targets) - 1
        found = self._sequence(high, BOXES)
        if found is not None:
            yield found
        better = None
        while found is not None and low < high:
            middle = (low + high) // 2
            shorter = self._sequence(middle, 0)
            better = shorter or better
            low, high = (low, middle) if shorter is not None else (middle + 1, high)
        if better is not None:
            yield better

    def _sequence(self, step: int, boxes: int) -> list[Placement] | None:
        tau = self.targets[step]
        fronts = self._fronts(tau, max(self.problem.width, self.problem.height))
        if not all(len(front) for front in fronts):
            return None
        return anneal(Sequences(self.problem, fronts, tau), 0, boxes // self.problem.n)

    def _fronts(self, tau: int, limit: int) -> Sequence[IntArray]:
        """The Pareto-minimal boxes of every type at ``tau`` quarters; what their area says of the time is kept."""
        problem = self.problem
        fronts = [
            front(problem, *least_widths(convs, tau, problem.memory, limit, self.arguments))
            for convs in problem.type_arrays
        ]
        least = [int((boxes[:, 0] * boxes[:, 1]).min()) if len(boxes) else problem.free_tiles + 1 for boxes in fronts]
        if sum(least[t] * count for t, count in enumerate(self.counts.tolist())) > problem.free_tiles:
            self.too_short = max(self.too_short, tau)
        else:
            self.long_enough = min(self.long_enough, tau)
        return fronts
