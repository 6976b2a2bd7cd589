"""Lower bounds on the score of a wafer instance: branch and bound over the time and the ranges of the centres.

The time T of a floorplan is a time that some kernel can have, and its centres range over some half tiles in x and in
y. For T in [low, high] and ranges within strips every floorplan costs at least w_t · low plus the least wire and
adapters of boxes sized for ``high`` within the strips (:mod:`.elimination`), as a kernel that meets T meets ``high``.
The smallest value over parts (intervals × strips) that cover everything is a bound on every floorplan. A square
fabric without holes may be transposed, so that the range in x is no less than in y. The part that
has it is split, or its multipliers are improved, again and again. Times below the first interval are excluded because
the boxes need more than the fabric (:mod:`.packing`).
"""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from math import gcd

import numpy as np

from chipmap.deadline import Deadline, Stop
from chipmap.heuristics.wafer.bounds.elimination import Elimination
from chipmap.heuristics.wafer.bounds.multipliers import ERROR, Climb
from chipmap.heuristics.wafer.bounds.packing import COUNT, Ranges, Strip
from chipmap.heuristics.wafer.bounds.states import States, Tables
from chipmap.instances.wafer.problem import TICKS, WaferProblem

#: Where the times of a part weigh less than this part of the bound, it gets its best multipliers and then strips.
NARROW = 0.003
#: Where a range of the centres is split at the latest above its low end, in half tiles per tile of the fabric's side;
#: no strip narrower than ``THIN`` is split, nor than half of that where the search has come to its end once more.
WAY, THIN = 0.4, 0.02
#: How often a part gets finer multipliers and narrower strips, where a clock ends the search.
FINEST = 3
#: A strip is split where its ends differ in wire by more than this many times what the ends of the times differ.
WIDE = 50.0
#: Steps on the multipliers at a time, on Pareto fronts and on states with arguments.
COARSE, FINE = 8, 2


class NoFloorplanError(Exception):
    """Every part is refuted: its boxes don't fit together, or its bound is above the score of any floorplan."""


@dataclass(order=True)
class Part:
    """Times low to high (quarters) in a strip, the least score in it, and the searches for multipliers."""

    bound: int
    low: int
    high: int = field(compare=False)
    ranges: Ranges = field(compare=False)
    coarse: Climb = field(compare=False, default_factory=lambda: Climb(patience=12))
    fine: Climb = field(compare=False, default_factory=lambda: Climb(patience=6))
    finer: int = field(compare=False, default=0)

    def go_finer(self, times: int = 1) -> None:
        """Go on with finer multipliers and narrower strips, so many times over."""
        self.finer += times
        for climb in (self.coarse, self.fine):
            climb.go_finer(times)


def bounds(problem: WaferProblem, upper: int | None, deadline: Deadline, report: Callable[[int, str], None]) -> int:
    """The best bound on the score (ticks) found until ``deadline``; each better one goes to ``report``.

    As :meth:`BoundSearch.go_on`, from the beginning.
    """
    return BoundSearch(problem).go_on(upper, deadline, report)


def _unheard(value: int, source: str) -> None:
    """What becomes of bounds while no search goes on."""


class BoundSearch:
    """A search for bounds on the score of one problem that can be left at any moment and gone on with.

    ``finest``: how often a part gets finer multipliers and narrower strips where the search would end. That may take
    very long, so it is for searches that a clock ends.
    """

    def __init__(self, problem: WaferProblem, finest: int = 0):
        self.problem, self.finest = problem, finest
        self.upper: int | None = None
        self.deadline = Deadline()
        self.report: Callable[[int, str], None] = _unheard
        weights = problem.instance.weights
        self.weight, self.wire = weights.time, 2 * weights.wire
        self.unit = max(1, gcd(self.wire, TICKS * weights.adapter))
        self.tables = Tables(problem)
        self.coarse = Elimination(problem, arguments=False)
        self.fine = Elimination(problem, arguments=True) if self.tables.adapters else None
        self.whole = self.coarse.packing.whole
        self.square = problem.width == problem.height and problem.room is None
        self.best = 0
        #: No floorplan has a higher score: each edge is shorter than the fabric's sides together, with three adapters.
        edges = len(problem.edges)
        self.most = problem.score(problem.longest, 2 * (problem.width + problem.height) * edges, 3 * edges)
        self.heap: list[Part] = []
        #: The least time (quarters) that isn't excluded, once the search has begun.
        self.least = 0
        self._begun = False
        self._cached: dict[bool, tuple[int, list[States]]] = {}

    def go_on(self, upper: int | None, deadline: Deadline, report: Callable[[int, str], None]) -> int:
        """The best bound on the score (ticks) found until ``deadline``; each better one goes to ``report``.

        ``upper``: the score of a known floorplan, at most that of the call before; times and parts that can't beat it
        aren't looked at, and the bound never exceeds it. Returns ``upper`` where it is proved optimal, 0 where nothing
        was found in time. Raises :class:`NoFloorplanError` where it is proved that there is no floorplan.
        """
        self.upper, self.deadline, self.report = upper, deadline, report
        with contextlib.suppress(Stop):
            self._run()
        return self.best

    def _run(self) -> None:
        """Improve the bound until it is proved, nothing promises more, or the time is up."""
        self._begin()
        while self.heap:
            part = self.heap[0]
            self._improve(part.bound, "elimination")
            if self.upper is not None and part.bound >= self.upper:
                return
            heapq.heappop(self.heap)
            more = False
            try:
                more = self._refine(part)
            finally:  # also where the time is up, or a function isn't compiled yet: no part may be lost
                if not more:
                    heapq.heappush(self.heap, part)
            if not more:
                return
        if self.upper is None:
            raise NoFloorplanError
        self._improve(self.upper, "elimination")

    def _begin(self) -> None:
        """All times from the least one on, once."""
        if not self._begun:
            self.least = self._least_time()
            self._improve(self.weight * self.least, "packing")
            self.heap = [Part(self.weight * self.least, self.least, self.problem.longest, self.whole)]
            self._begun = True

    def begin(self, deadline: Deadline) -> int:
        """The least time (quarters) that isn't excluded. Raises :class:`Stop` where there is no time to find it."""
        self.deadline = deadline
        self._begin()
        return self.least

    def exclude(self, time: int) -> None:
        """No floorplan takes ``time`` quarters or less: somebody else has proved it, after :meth:`begin`."""
        self.least = self.tables.next_time(max(self.least, time + 1))
        parts, self.heap = self.heap, []
        for part in parts:
            if part.low < self.least <= part.high:
                part.bound += self.weight * (self.least - part.low)
                part.low = self.least
            if self.least <= part.low:
                self._push(part)

    def _improve(self, bound: int, source: str) -> None:
        bound = bound if self.upper is None else min(bound, self.upper)
        if bound > self.best:
            self.best = bound
            self.report(bound, source)

    def _refine(self, part: Part) -> bool:
        """Improve the part's multipliers or split it; False where neither helps."""
        across = self.weight * (part.high - part.low)
        narrow = across <= NARROW * part.bound
        if not part.coarse.started or (narrow and not part.coarse.rests):
            self._climb(part, part.coarse, self.coarse, COARSE)
        elif self.fine and not part.fine.started:
            part.fine.current = part.coarse.best.copy()
            self._climb(part, part.fine, self.fine, FINE if narrow else 1)
        elif not narrow:
            self._split_time(part)
        elif (at := self._widest(part, across)) >= 0:
            self._split_range(part, at)
        elif self.fine and not part.fine.rests:  # an evaluation with arguments costs about 100 without
            self._climb(part, part.fine, self.fine, FINE)
        elif part.high > part.low:
            self._split_time(part)
        elif part.finer < self.finest:
            part.go_finer()
            self._push(part)
        else:
            return False
        return True

    def _widest(self, part: Part, across: int) -> int:
        """Which range (0: x, 1: y) is to be split; -1 for none."""
        sides = (self.problem.width, self.problem.height)
        if not self.wire or not self.coarse.connected:
            return -1
        extent = [strip.high - strip.low for strip in part.ranges]
        at = 0 if extent[0] > extent[1] else 1
        if extent[at] <= 2 * THIN * 0.5**part.finer * sides[at] + 1 or self.wire * extent[at] < WIDE * across:
            return -1
        return at

    def _split_range(self, part: Part, at: int) -> None:
        low, high = part.ranges[at]
        middle = min((low + high) // 2, low + int(WAY * (self.problem.width, self.problem.height)[at]))
        for strip in (Strip(low, middle), Strip(middle, high)):
            ranges = Ranges(*(strip if i == at else other for i, other in enumerate(part.ranges)))
            if self.square:
                (left, right), (bottom, top) = ranges
                ranges = Ranges(Strip(max(left, bottom), right), Strip(bottom, min(top, right)))
            self._child(part, part.low, part.high, ranges)

    def _split_time(self, part: Part) -> None:
        low, high = part.low, part.high
        middle = int((low * high) ** 0.5) if high > 2 * low else (low + high) // 2
        later = self.tables.next_time(middle + 1)
        if self.tables.next_time(low + 1) > middle:
            middle = low
        self._child(part, low, middle, part.ranges)
        if later <= high:
            part.bound += self.weight * (later - low)
            part.low = later
            self._push(part)

    def _child(self, part: Part, low: int, high: int, ranges: Ranges) -> None:
        child = Part(part.bound, low, high, ranges)
        child.coarse.current = part.coarse.best.copy()
        if part.fine.started:
            child.fine.current = part.fine.best.copy()
        if part.finer:
            child.go_finer(part.finer)
        self._push(child)

    def _climb(self, part: Part, climb: Climb, program: Elimination, steps: int) -> None:
        states = self._states(part.high, program.arguments)
        most = self.most if self.upper is None else self.upper
        climb.climb(program, states, part.ranges, steps, self.deadline, most - self.weight * part.low)
        if climb.value < np.inf:
            rest = -(-climb.floor // self.unit) * self.unit
            part.bound = max(part.bound, self.weight * part.low + rest)
            self._push(part)

    def _push(self, part: Part) -> None:
        if part.bound <= self.most if self.upper is None else part.bound < self.upper:
            heapq.heappush(self.heap, part)

    def _states(self, time: int, arguments: bool) -> list[States]:
        if self._cached.get(arguments, (-1,))[0] != time:
            self.deadline.check()
            self._cached[arguments] = time, (self.tables.states if arguments else self.tables.fronts)(time)
        return self._cached[arguments][1]

    def _least_time(self) -> int:
        """The smallest time whose least boxes meet every packing inequality (quarters)."""
        low, high = self.tables.next_time(1), self.problem.longest
        while low < high:
            self.deadline.check()
            middle = (low + high) // 2
            if self._fits(middle):
                high = middle
            else:
                low = self.tables.next_time(middle + 1)
        return low

    def _fits(self, time: int) -> bool:
        total = np.zeros(COUNT)
        counts = np.bincount(self.problem.types)
        for front, count in zip(self.tables.fronts(time), counts.tolist(), strict=True):
            if len(front.x) == 0:
                return False
            total += count * self.coarse.packing.loads(front.x, front.y, self.whole).min(axis=1)
        return bool((total <= 1 + ERROR).all())
