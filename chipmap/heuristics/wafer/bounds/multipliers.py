"""Search for the multipliers that give the best bound at one time and within one strip (cutting planes in a box)."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil

import numpy as np
from scipy.optimize import linprog

from chipmap.deadline import Deadline
from chipmap.heuristics.wafer.bounds.elimination import SIZE, Elimination
from chipmap.heuristics.wafer.bounds.packing import FloatArray, Ranges
from chipmap.heuristics.wafer.bounds.states import States

#: Relative rounding error allowed for in sums of floating-point numbers.
ERROR = 1e-9
#: The search rests where the model promises less than this part of the value, or after ``patience`` steps without gain.
PROMISE = 2e-5
#: What a finer search divides the promise by, and multiplies the patience by.
FINER, LONGER = 10.0, 2
#: The box round the best multipliers: its first and its least radius as shares of the value, and the factors by which
#: it grows with success and shrinks without.
FIRST, LEAST, GROWTH, SHRINK = 0.1, 0.02, 2.0, 0.6


@dataclass(eq=False)
class Climb:
    """The state of one search: the best ``value`` (ticks) with its multipliers, and the cuts seen so far.

    The value as a function of the multipliers is the minimum of linear functions, one per choice of states. Each
    evaluation gives one of them, which lies above the value everywhere. The next multipliers are the best of the
    minimum of those seen, in a box round the best so far, which grows with success and shrinks without.
    """

    patience: int
    promise: float = PROMISE
    current: FloatArray = field(default_factory=lambda: np.zeros(SIZE))
    best: FloatArray = field(default_factory=lambda: np.zeros(SIZE))
    value: float = -np.inf
    rests: bool = False
    _cuts: list[tuple[FloatArray, float]] = field(default_factory=list)
    _radius: float = 0.0
    _idle: int = 0

    @property
    def started(self) -> bool:
        """Whether anything was evaluated."""
        return self.value > -np.inf

    @property
    def floor(self) -> int:
        """The value rounded down by more than its rounding error, then up: costs are whole ticks."""
        return max(0, ceil(self.value - ERROR * (1 + abs(self.value) + float(self.best.sum()))))

    def go_finer(self, times: int = 1) -> None:
        """Rest no more, until the model promises less and after more steps without gain, so many times over."""
        self.promise, self.patience = self.promise / FINER**times, self.patience * LONGER**times
        self.rests, self._idle = False, 0
        if self.started:
            self._radius = max(self._radius, LEAST * abs(self.value))

    def climb(
        self,
        program: Elimination,
        states: list[States],
        ranges: Ranges,
        steps: int,
        deadline: Deadline,
        enough: float = np.inf,
    ) -> None:
        """So many evaluations more, fewer where the search comes to rest or the value is above ``enough``."""
        for _ in range(steps):
            relaxed = program.evaluate(states, ranges, self.current, deadline)
            if relaxed.value == np.inf:
                self.value, self.rests = np.inf, True
                return
            self._cuts.append((relaxed.slope, relaxed.value - float(relaxed.slope @ self.current)))
            self._move(relaxed.value)
            if self.floor > enough:
                self.rests = True
                return
            self._next(program.caps(ranges))
            if self.rests:
                return

    def _move(self, value: float) -> None:
        """Go to the current multipliers if they are better."""
        if value > self.value + self.promise * abs(value):
            self._radius = max(GROWTH * self._radius, LEAST * abs(value)) if self.started else FIRST * abs(value) + 1
            self._idle = 0
        else:
            self._radius *= SHRINK
            self._idle += 1
        if value > self.value:
            self.value, self.best = value, self.current.copy()

    def _next(self, caps: FloatArray) -> None:
        """The multipliers that the model likes best: max z, z <= slope · m + constant for every cut, m in the box."""
        slopes = np.array([slope for slope, _ in self._cuts])
        limits = np.array([constant for _, constant in self._cuts])
        low = np.maximum(0, self.best - self._radius)
        high = np.minimum(caps, self.best + self._radius)
        low = np.minimum(low, high)
        result = linprog(
            np.append(np.zeros(SIZE), -1.0),
            A_ub=np.column_stack([-slopes, np.ones(len(slopes))]),
            b_ub=limits,
            bounds=[*zip(low, high, strict=True), (None, None)],
            method="highs",
        )
        promise = -result.fun - self.value if result.success else 0.0
        self.rests = promise <= self.promise * abs(self.value) or self._idle >= self.patience
        if not self.rests:
            self.current = np.maximum(0, result.x[:-1])
