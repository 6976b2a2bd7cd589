"""Schedules by simulated annealing: segments change cuts and chiplets, are split and joined, ranges change windows.

Every state obeys C0 to C3 and C5. A move changes one or two windows, whose latencies and energies are counted anew from
sums over prefixes of layers. Limits (C4) are a penalty: what is above them counts :data:`PENALTY` times.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from random import Random

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.multimodel.baselines import fits
from chipmap.instances.multimodel.problem import MultiProblem, Segment

#: How many times a share above a limit counts.
PENALTY = 10.0
#: Temperatures as shares of the objective, from first to last; tuned on scenarios 8 to 10 and the four models.
HOT, COLD = 0.03, 1e-4
#: Moves between two looks at the clock.
CHUNK = 200

Windows = list[list[Segment]]


class Annealing:
    """A search from a start; :meth:`run` yields each schedule that is better than all before."""

    def __init__(self, problem: MultiProblem, windows: Sequence[Sequence[Segment]], seed: int) -> None:
        self.problem, self.random = problem, Random(seed)
        self.sums = [_sums(model.time) for model in problem.models]
        self.energies = [_sums(model.energy + model.weight_energy) for model in problem.models]
        self.weights = [_sums(model.weight_time[:, None])[0] for model in problem.models]
        self.windows: Windows = [sorted(window) for window in windows]
        self.windows += [[] for _ in range(problem.windows - len(self.windows))]
        self.terms = [self._terms(window) for window in self.windows]
        self.value = self._value()

    def run(self, moves: int, deadline: Deadline) -> Iterator[Windows]:
        """Anneal for so many moves, or until the deadline."""
        best = self.value
        for i in range(moves):
            if i % CHUNK == 0 and not deadline.keep_going():
                return
            temperature = self.value * HOT * (COLD / HOT) ** (i / moves)
            if self._step(temperature) and self.value < best * (1 - 1e-12):
                best = self.value
                yield [list(window) for window in self.windows]

    def _step(self, temperature: float) -> bool:
        changed = self.random.choices(_MOVES, _SHARES)[0](self)
        if changed is None:
            return False
        before = {w: (self.windows[w], self.terms[w]) for w in changed}
        value = self.value
        for w, window in changed.items():
            self.windows[w], self.terms[w] = sorted(window), self._terms(sorted(window))
        self.value = self._value()
        rise = self.value - value
        if rise <= 0 or self.random.random() < math.exp(-rise / max(temperature, 1e-300)):
            return rise < 0
        for w, (window, terms) in before.items():
            self.windows[w], self.terms[w] = window, terms
        self.value = value
        return False

    def _value(self) -> float:
        task = self.problem.instance.task
        time, energy = sum(t for t, _, _ in self.terms), sum(e for _, e, _ in self.terms)
        value = float(self.problem.objective(time, energy))
        over = [
            amount / limit - 1
            for amount, limit in ((time, task.latency_limit_ns), (energy, task.energy_limit_pj))
            if limit and amount > limit
        ]
        elapsed, done = 0, dict[int, int]()
        for longest, _, own in self.terms:
            done |= {m: elapsed + latency for m, latency in own.items()}
            elapsed += longest
        for m, model in enumerate(self.problem.instance.models):
            if model.deadline_ns and done.get(m, 0) > model.deadline_ns:
                over.append(done[m] / model.deadline_ns - 1)
        return value * (1 + PENALTY * sum(over))

    def _terms(self, window: list[Segment]) -> tuple[int, int, dict[int, int]]:
        """(T, energy, Lat by model) of a window in order."""
        latencies: dict[int, int] = {}
        energy, i = 0, 0
        while i < len(window):
            j = i
            while j < len(window) and window[j][0] == window[i][0]:
                j += 1
            latencies[window[i][0]], own = self._range(window[i:j])
            energy += own
            i = j
        return max(latencies.values(), default=0), energy, latencies

    def _range(self, segments: list[Segment]) -> tuple[int, int]:
        """(Lat, energy) of a model's segments in a window."""
        m, last = segments[0][0], len(segments) - 1
        model, sums, energies = self.problem.models[m], self.sums[m], self.energies[m]
        total = longest = energy = 0
        for i, (_, a, b, c) in enumerate(segments):
            time = sums[c][b + 1] - sums[c][a]
            energy += energies[c][b + 1] - energies[c][a]
            if i == 0:
                time += int(model.read_time[a, c])
                energy += int(model.read_energy[a, c])
            elif self.problem.both_ends:
                time += int(model.send_time[a - 1])
            if i == last:
                time += int(model.write_time[b, c])
                energy += int(model.write_energy[b, c])
            else:
                time += int(model.send_time[b])
                energy += int(model.send_energy[b])
            total += time
            longest = max(longest, time)
        weights = self.weights[m][segments[-1][2] + 1] - self.weights[m][segments[0][1]]
        return total + weights + (model.q - 1) * longest, energy

    def _pick(self) -> tuple[int, list[Segment], int] | None:
        """(window, the segments of a model in it, one of these)."""
        w = self.random.randrange(len(self.windows))
        if not self.windows[w]:
            return None
        m = self.random.choice(self.windows[w])[0]
        run = [segment for segment in self.windows[w] if segment[0] == m]
        return w, run, self.random.randrange(len(run))

    def _replaced(self, w: int, run: list[Segment], new: list[Segment]) -> dict[int, list[Segment]] | None:
        """The window with ``new`` in place of ``run``, if C2, C3 and C5 hold."""
        rest = [segment for segment in self.windows[w] if segment not in run]
        taken = [segment[3] for segment in (*rest, *new)]
        if len(set(taken)) < len(taken) or not self._path(new) or not all(fits(self.problem, one) for one in new):
            return None
        return {w: rest + new}

    def _path(self, run: list[Segment]) -> bool:
        return all(b[3] in self.problem.neighbours[a[3]] for a, b in pairwise(run))

    def _cut(self) -> dict[int, list[Segment]] | None:
        """Move the cut between two segments of a range."""
        if (picked := self._pick()) is None or picked[2] == 0:
            return None
        w, run, i = picked
        (m, a, _, c), (_, _, d, e) = run[i - 1], run[i]
        if d == a:
            return None
        if self.random.random() < 0.5:
            at = min(d, max(a + 1, run[i][1] + self.random.choice((-3, -2, -1, 1, 2, 3))))
        else:
            at = self.random.randint(a + 1, d)
        return self._replaced(w, run, [*run[: i - 1], (m, a, at - 1, c), (m, at, d, e), *run[i + 1 :]])

    def _split(self) -> dict[int, list[Segment]] | None:
        """Give a part of a segment to a chiplet beside it."""
        if (picked := self._pick()) is None:
            return None
        w, run, i = picked
        m, a, b, c = run[i]
        if a == b or not self.problem.neighbours[c]:
            return None
        at, other = self.random.randint(a + 1, b), self.random.choice(self.problem.neighbours[c])
        ends = (c, other) if self.random.random() < 0.5 else (other, c)
        return self._replaced(w, run, [*run[:i], (m, a, at - 1, ends[0]), (m, at, b, ends[1]), *run[i + 1 :]])

    def _join(self) -> dict[int, list[Segment]] | None:
        """Join two segments on one of their chiplets."""
        if (picked := self._pick()) is None or picked[2] == 0:
            return None
        w, run, i = picked
        (m, a, _, c), (_, _, b, d) = run[i - 1], run[i]
        return self._replaced(w, run, [*run[: i - 1], (m, a, b, self.random.choice((c, d))), *run[i + 1 :]])

    def _place(self) -> dict[int, list[Segment]] | None:
        """Put a segment on another chiplet, or exchange two segments' chiplets."""
        if (picked := self._pick()) is None:
            return None
        w, run, i = picked
        m, a, b, c = run[i]
        to = self.random.randrange(self.problem.chiplets)
        if to == c:
            return None
        other = next((segment for segment in self.windows[w] if segment[3] == to), None)
        swap = {run[i]: (m, a, b, to)} | ({other: (*other[:3], c)} if other is not None else {})
        window = [swap.get(segment, segment) for segment in self.windows[w]]
        for n in {m} | ({other[0]} if other is not None else set()):
            if not self._path(sorted(segment for segment in window if segment[0] == n)):
                return None
        return {w: window} if all(fits(self.problem, one) for one in swap.values()) else None

    def _shift(self) -> dict[int, list[Segment]] | None:
        """Give layers of a model's range, or all of it, to the window before or behind."""
        if (picked := self._pick()) is None:
            return None
        w, run, _ = picked
        forward = self.random.random() < 0.5
        v = w + 1 if forward else w - 1
        if not 0 <= v < len(self.windows):
            return None
        m, low, high = run[0][0], run[0][1], run[-1][2]
        other = [segment for segment in self.windows[v] if segment[0] == m]
        if self.random.random() < 0.3 and not other:
            kept, given = [], list(run)
        else:
            at = self.random.randint(low, high)
            kept = _within(run, low, at - 1) if forward else _within(run, at + 1, high)
            given = _within(run, at, high) if forward else _within(run, low, at)
        if other:  # they go to the segment at that end
            span = (given[0][1], other[0][2]) if forward else (other[-1][1], given[-1][2])
            new = [(m, *span, other[0][3]), *other[1:]] if forward else [*other[:-1], (m, *span, other[-1][3])]
        else:
            new = given
        there = self._replaced(v, other, new)
        rest = [segment for segment in self.windows[w] if segment not in run]
        return None if there is None else there | {w: rest + kept}


def _within(run: list[Segment], low: int, high: int) -> list[Segment]:
    """The parts of segments with layers from ``low`` to ``high``."""
    return [(m, max(a, low), min(b, high), c) for m, a, b, c in run if a <= high and b >= low]


def _sums(amounts: np.ndarray) -> list[list[int]]:
    """By chiplet the sums over the first 0, 1, 2, … layers."""
    zero = np.zeros((1, amounts.shape[1]), dtype=np.int64)
    found: list[list[int]] = np.concatenate([zero, np.cumsum(amounts, axis=0)]).T.tolist()
    return found


_MOVES = (Annealing._cut, Annealing._split, Annealing._join, Annealing._place, Annealing._shift)
_SHARES = (0.4, 0.2, 0.12, 0.18, 0.1)
