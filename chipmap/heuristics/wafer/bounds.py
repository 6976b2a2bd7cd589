"""Lower bounds on the score of a wafer instance: branch and bound over the slowest kernel's time.

The time T of a floorplan is a time that some kernel can have. For an interval of such times [low, high] every
floorplan with T in it costs at least w_t · low plus the least wire and adapters of boxes sized for ``high``
(:mod:`bounds_elimination`): a kernel that meets T meets ``high``. The smallest value over intervals that cover all
times is a bound on every floorplan; the interval that has it is split, or its multipliers are improved, again and
again. Times below the first interval are excluded because the boxes need more than the fabric
(:mod:`bounds_packing`).
"""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil, gcd

import numpy as np

from chipmap.heuristics.wafer.bounds_elimination import Elimination
from chipmap.heuristics.wafer.bounds_packing import COUNT, FloatArray, loads
from chipmap.heuristics.wafer.bounds_states import States, Tables
from chipmap.instances.wafer.costs import TICKS, WaferProblem

#: Relative rounding error allowed for in sums of floating-point numbers.
ERROR = 1e-9
#: An interval narrower than this part of the bound gets better multipliers before it is split.
NARROW = 0.004
#: Steps on the multipliers at a time, steps without progress before they rest, and progress that counts.
STEPS, PATIENCE, PROGRESS = 4, 12, 1e-4


class _StoppedError(Exception):
    """``keep_going`` said no."""


@dataclass(eq=False)
class Point:
    """What is known at one time: the best value with its multipliers, and the step length of the search for better."""

    time: int
    value: float = -np.inf
    multipliers: FloatArray = field(default_factory=lambda: np.zeros(COUNT))
    current: FloatArray = field(default_factory=lambda: np.zeros(COUNT))
    step: float = 1.0
    idle: int = 0

    @property
    def rests(self) -> bool:
        """Whether further steps promise little."""
        return self.idle >= PATIENCE or np.isinf(self.value)


@dataclass(order=True)
class Interval:
    """Times low to high (quarters) and the least score in them; ``point`` is that of ``high``."""

    bound: int
    low: int
    high: int = field(compare=False)
    point: Point = field(compare=False)


def bounds(
    problem: WaferProblem,
    upper: int | None,
    keep_going: Callable[[], bool],
    report: Callable[[int, str], None],
) -> int:
    """The best bound on the score (ticks) found while ``keep_going()``; each better one goes to ``report``.

    ``upper``: the score of a known floorplan; times and intervals that can't beat it aren't looked at, and the bound
    never exceeds it. Returns ``upper`` where it is proved optimal, 0 where nothing was found in time.
    """
    search = _Search(problem, upper, keep_going, report)
    with contextlib.suppress(_StoppedError):
        search.run()
    return search.best


class _Search:
    def __init__(
        self,
        problem: WaferProblem,
        upper: int | None,
        keep_going: Callable[[], bool],
        report: Callable[[int, str], None],
    ):
        self.problem, self.upper, self.keep_going, self.report = problem, upper, keep_going, report
        weights = problem.instance.weights
        self.weight = weights.time
        self.unit = max(1, gcd(2 * weights.wire, TICKS * weights.adapter))
        self.tables = Tables(problem)
        self.elimination = Elimination(problem, self.tables)
        self.best = 0
        self.heap: list[Interval] = []
        self._cached: tuple[int, list[States]] = (-1, [])

    def run(self) -> None:
        """Improve the bound until it is proved, nothing promises more, or the time is up."""
        first = self._least_time()
        self._improve(self.weight * first, "area")
        self._push(first, self.tables.longest, self._point(self.tables.longest, np.zeros(COUNT)))
        while self.heap:
            interval = self.heap[0]
            self._improve(interval.bound, "elimination")
            if self.upper is not None and interval.bound >= self.upper:
                return
            if not self._refine(interval):
                return
        if self.upper is not None:
            self._improve(self.upper, "elimination")

    def _check(self) -> None:
        if not self.keep_going():
            raise _StoppedError

    def _improve(self, bound: int, source: str) -> None:
        bound = bound if self.upper is None else min(bound, self.upper)
        if bound > self.best:
            self.best = bound
            self.report(bound, source)

    def _push(self, low: int, high: int, point: Point) -> None:
        """Add an interval unless it is empty, impossible or no better than the known floorplan."""
        if low > high or np.isinf(point.value):
            return
        rest = max(0, ceil(point.value - ERROR * (1 + abs(point.value) + point.multipliers.sum())))
        bound = self.weight * low + -(-rest // self.unit) * self.unit
        if self.upper is None or bound < self.upper:
            heapq.heappush(self.heap, Interval(bound, low, high, point))

    def _refine(self, interval: Interval) -> bool:
        """Split the interval or improve its multipliers; False where neither helps."""
        heapq.heappop(self.heap)
        low, high, point = interval.low, interval.high, interval.point
        narrow = self.weight * (high - low) < NARROW * interval.bound
        if not point.rests and (narrow or low == high):
            self._climb(point, interval)
            self._push(low, high, point)
            return True
        if low == high:
            heapq.heappush(self.heap, interval)
            return False
        middle = int((low * high) ** 0.5) if high > 2 * low else (low + high) // 2
        later = self.tables.next_time(middle + 1)
        earlier = self._point(middle, point.multipliers)
        if self.tables.next_time(low + 1) > middle:
            middle = low
        self._push(low, middle, earlier)
        self._push(later, high, point)
        return True

    def _point(self, time: int, multipliers: FloatArray) -> Point:
        """Evaluate a time with multipliers that served nearby."""
        point = Point(time, current=multipliers.copy())
        self._evaluate(point)
        return point

    def _evaluate(self, point: Point) -> FloatArray:
        """Evaluate the current multipliers and keep the better value; returns the loads above 1."""
        self._check()
        if self._cached[0] != point.time:
            self._cached = point.time, self.tables.states(point.time)
        relaxed = self.elimination.evaluate(self._cached[1], point.current, self._check)
        gain = relaxed.value - point.value
        point.idle = 0 if gain > PROGRESS * abs(relaxed.value) else point.idle + 1
        if gain > 0:
            point.value, point.multipliers = relaxed.value, point.current.copy()
        else:
            point.step *= 0.8
        return relaxed.load - 1

    def _climb(self, point: Point, interval: Interval) -> None:
        """A few subgradient steps of Polyak's length towards the known floorplan's score."""
        goal = 1.05 * interval.bound if self.upper is None else self.upper
        target = max(goal - self.weight * interval.low, 1.01 * point.value + 1)
        for _ in range(STEPS):
            excess = self._evaluate(point)
            if np.isinf(point.value):
                return
            excess[(excess < 0) & (point.current <= 0)] = 0
            length = float(excess @ excess)
            if length < 1e-12 or point.rests:
                point.idle = PATIENCE
                return
            point.current = np.maximum(0, point.current + point.step * (target - point.value) / length * excess)

    def _least_time(self) -> int:
        """The smallest time whose least boxes meet every packing inequality (quarters)."""
        low, high = self.tables.next_time(1), self.tables.longest
        while low < high:
            self._check()
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
            if len(front) == 0:
                return False
            total += count * loads(front[:, 0], front[:, 1], self.problem.width, self.problem.height).min(axis=0)
        return bool((total <= 1 + ERROR).all())
