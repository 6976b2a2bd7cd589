"""Mappings for given numbers of frames, by loads alone: annealing until no chiplet has more work than it has time.

Timetables are left out, so that a move takes little. Where deadlines are loose, frames of such a mapping mostly find
their times. The excess of a mapping is the load of chiplets above ``room`` · H, in hyperperiods, and by how much the
segments of a frame take longer than its deadline allows.
"""

from __future__ import annotations

from math import exp
from random import Random

from chipmap.deadline import Deadline
from chipmap.heuristics.multimodel.frames.search import FrameSearch
from chipmap.instances.multimodel.problem import Segment, spans

#: Temperatures of annealing, in hyperperiods.
WARM, COOL = 0.1, 0.002


class Packing:
    """The annealing for ``counts`` frames of each model, from a mapping on."""

    def __init__(
        self, search: FrameSearch, counts: list[int], room: float, mapping: list[tuple[Segment, ...]], seed: int
    ) -> None:
        self.search, self.counts, self.room = search, counts, room
        self.mapping, self.random = list(mapping), Random(seed)
        problem, length = search.problem, search.rated.length
        frames = search.rated.frames
        self.within = [min(one.due - one.release for one in frames if one.m == m) / length for m in range(len(counts))]
        self.loads = [[0.0] * problem.chiplets for _ in counts]
        self.late = [0.0] * len(counts)
        for m, segments in enumerate(self.mapping):
            self.loads[m], self.late[m] = self.of(m, segments)

    def of(self, m: int, segments: tuple[Segment, ...]) -> tuple[list[float], float]:
        """Loads of the chiplets by a model, and by how much its frames are late, both in hyperperiods."""
        found, length, times = [0.0] * self.search.problem.chiplets, self.search.rated.length, 0.0
        for (*_, c), span in zip(segments, spans(self.search.problem, segments), strict=True):
            found[c] += span * self.counts[m] / length
            times += span / length
        return found, max(0.0, times - self.within[m]) if self.counts[m] else 0.0

    def total(self) -> list[float]:
        """Load of each chiplet."""
        return [sum(column) for column in zip(*self.loads, strict=True)]

    def excess(self, total: list[float], late: float) -> float:
        """What is too much."""
        return sum(max(0.0, one - self.room) for one in total) + late

    def run(self, moves: int, deadline: Deadline) -> bool:
        """Whether the mapping has no excess after so many moves."""
        total, late = self.total(), sum(self.late)
        value = self.excess(total, late)
        for step in range(moves):
            if value <= 1e-9 or not deadline.keep_going():
                break
            heat = WARM * (COOL / WARM) ** (step / moves)
            m = self.random.randrange(len(self.counts))
            others = [one - own for one, own in zip(total, self.loads[m], strict=True)]
            if len(self.mapping[m]) > 1 and self.random.random() < 0.5:
                segments = self.search.shifted(self.mapping[m])
            else:
                segments = self.search.drawn(m, others, self.counts[m])
            if segments is None:
                continue
            loads, over = self.of(m, segments)
            changed = [one + own for one, own in zip(others, loads, strict=True)]
            new = self.excess(changed, late - self.late[m] + over)
            if new <= value or self.random.random() < exp((value - new) / heat):
                late += over - self.late[m]
                self.mapping[m], self.loads[m], self.late[m] = segments, loads, over
                total, value = changed, new
        return value <= 1e-9

    def order(self) -> list[int]:
        """Frames by their deadlines: first as many of each model as are counted, spread evenly, then the others."""
        rated = self.search.rated
        kept = set[int]()
        for m, count in enumerate(self.counts):
            own = [f for f, frame in enumerate(rated.frames) if frame.m == m]
            kept |= {own[i * len(own) // count] for i in range(count)}
        return sorted(rated.by_deadline, key=lambda f: f not in kept)
