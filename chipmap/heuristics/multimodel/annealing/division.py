"""Schedules of every number of windows, improved a few windows at a time.

At the temperatures at which annealing finds its way it also merges windows, as each window more reads weights and fills
a pipeline once more. Colder it never divides one. So a few schedules of each number of windows are kept, and all take
turns. In a turn one of three things happens:

- a window is divided: each model's range is cut at a share of its layers that is near the same for all models;
- two or three windows side by side are annealed, the others stay as they are;
- so are two, then three windows around a division.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.multimodel.annealing.search import Annealing, Windows
from chipmap.instances.multimodel.problem import MultiProblem, Segment

#: Schedules kept of each number of windows, no worse than the best one by more than this share.
EACH, WORSE = 3, 0.01
#: Moves for each window of a turn after the first, and for a window alone after a division.
MOVES, ALONE = 100_000, 10_000
#: First temperatures of a turn, after a division, and of a window alone; the last temperatures, shares of the value.
HOT, DIVIDED, LOOSE, COLD, FIRM = (0.002, 0.005, 0.01, 0.02), (0.001, 0.002, 0.005), 0.02, 1e-6, 1e-5
#: The share of its layers that a model does before a division is at least LEAST or at most 1 - LEAST. It differs from
#: the others' by a factor of e^±SPREAD or so. With a probability of NONE each it is 0 or 1.
LEAST, SPREAD, NONE = 0.02, 0.5, 0.15
#: Values as near as this share are of the same schedule.
SAME = 1e-8


class Divisions:
    """A pool of schedules for one problem; :meth:`run` improves them."""

    def __init__(self, problem: MultiProblem, seed: int) -> None:
        self.problem, self.count = problem, problem.windows
        self.random = np.random.default_rng(seed)
        self.pool: list[tuple[float, Windows]] = []
        self.done = 0

    @property
    def best(self) -> float:
        """The least value in the pool."""
        return self.pool[0][0] if self.pool else float("inf")

    def take(self, value: float, windows: Windows) -> None:
        """A schedule and its value for the pool, if there is no better one in its place."""
        used = [window for window in windows if window]
        if any(abs(value - other) <= SAME * abs(other) for other, _ in self.pool):
            return
        self.pool.append((value, [*used, *([] for _ in range(self.count - len(used)))]))
        self.pool.sort(key=lambda one: one[0])
        kept, of_size = list[tuple[float, Windows]](), dict[int, int]()
        for one in self.pool:
            size = used_windows(one[1])
            of_size[size] = of_size.get(size, 0) + 1
            if of_size[size] <= EACH and one[0] <= self.best * (1 + WORSE):
                kept.append(one)
        self.pool = kept

    def run(self, moves: int, deadline: Deadline) -> Iterator[Windows]:
        """About so many moves, or until the deadline; each schedule that is better than all in the pool."""
        end = self.done + moves
        while self.pool and self.done < end and deadline.keep_going():
            known = self.best
            value, windows = self._turn(self.pool[self._below(len(self.pool))][1], deadline)
            self.take(value, windows)
            if value < known:
                yield windows

    def _turn(self, windows: Windows, deadline: Deadline) -> tuple[float, Windows]:
        used = used_windows(windows)
        if used == self.count or (used > 1 and self.random.random() < 0.5):
            width = 2 if self.count == 2 or self.random.random() < 0.6 else 3
            low = self._below(max(1, used - width + 1))
            return self._annealed(windows, (low, low + width), MOVES * (width - 1), self._one_of(HOT), deadline)
        w = self._below(used)
        windows = divided(windows, w, self.random)
        for x in (w, w + 1):
            _, windows = self._annealed(windows, (x, x + 1), ALONE, LOOSE, deadline, FIRM)
        value, windows = self._annealed(windows, (w, w + 2), MOVES, self._one_of(DIVIDED), deadline)
        if self.count > 2:
            low = min(max(0, w - 1), self.count - 3)
            value, windows = self._annealed(windows, (low, low + 3), MOVES, DIVIDED[1], deadline)
        return value, windows

    def _annealed(
        self, windows: Windows, part: tuple[int, int], moves: int, hot: float, deadline: Deadline, cold: float = COLD
    ) -> tuple[float, Windows]:
        """The best of annealing the windows from the first of ``part`` to below the second, with its value."""
        search = Annealing(self.problem, windows, self._below(1 << 30))
        search.room.focus[:] = part[0], min(part[1], self.count)
        for found in search.run(moves, deadline, hot, cold):
            windows = found
        self.done += moves
        return float(search.best.value[0]), windows

    def _below(self, count: int) -> int:
        return int(self.random.integers(count))

    def _one_of(self, values: tuple[float, ...]) -> float:
        return values[self._below(len(values))]


def used_windows(windows: Windows) -> int:
    """How many aren't empty."""
    return sum(1 for window in windows if window)


def divided(windows: Windows, w: int, random: np.random.Generator) -> Windows:
    """Window ``w`` as two, in which its segments keep their chiplets; the last window, an empty one, goes."""
    share = float(np.exp(random.uniform(np.log(LEAST), np.log(1 - LEAST))))
    if random.random() < 0.5:
        share = 1 - share
    before, behind = list[Segment](), list[Segment]()
    for _, group in groupby(sorted(windows[w]), key=lambda segment: segment[0]):
        own = list(group)
        low, high = own[0][1], own[-1][2] + 1
        factor, kind = float(np.exp(SPREAD * random.normal())), random.random()
        done = 0.0 if kind < NONE else 1.0 if kind < 2 * NONE else min(1.0, share * factor)
        at = low + round(done * (high - low))
        before += [(m, first, min(last, at - 1), c) for m, first, last, c in own if first < at]
        behind += [(m, max(first, at), last, c) for m, first, last, c in own if last >= at]
    return [*windows[:w], before, behind, *windows[w + 1 : -1]]
