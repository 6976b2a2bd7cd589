"""Mappings for frames: a greedy one, and annealing over paths of chiplets and cuts, each judged by its timetable.

A state is a mapping: of each model a path of chiplets and the cuts between its segments. Its value is the weight of
dropped frames, then how uneven chiplets would be loaded if every frame were run. Moves give one model another path or
other cuts. Dropped frames come first in a further timetable, as long as that drops less.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp
from random import Random

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.multimodel.baselines import fits
from chipmap.heuristics.multimodel.frames.timetable import Mapping, Rated, Starts, timetable
from chipmap.instances.multimodel.problem import MultiProblem, Segment, spans, sums
from chipmap.instances.multimodel.rates import frame_counts

#: Segments of a model at most; further timetables of a mapping, with dropped frames first.
MOST_SEGMENTS, AGAIN = 12, 3
#: How often cuts are the best ones for their path, and not by random shares; steps that look for them.
BEST_CUTS, HALVINGS = 0.6, 12
#: Tries to draw a model's segments that fit the chiplets.
DRAWS = 30
#: Temperatures of annealing, in frames of mean weight; moves of a round without a time limit.
HOT, COLD, MOVES = 1.0, 0.05, 400
#: What the unevenness of loads counts at most, in frames of mean weight.
EVEN = 0.5


@dataclass(frozen=True)
class State:
    """A mapping, its timetable, and its value: less is better."""

    mapping: tuple[tuple[Segment, ...], ...]
    starts: Starts
    dropped: int
    value: float


class FrameSearch:
    """The search of one problem."""

    def __init__(self, problem: MultiProblem, seed: int) -> None:
        self.problem, self.random = problem, Random(seed)
        self.rated = Rated(problem)
        self.counts = frame_counts(problem.instance)
        self.total = sum(self.rated.weights)
        frames = self.rated.frames
        self.within = [min(one.due - one.release for one in frames if one.m == m) for m in range(len(self.counts))]
        self.mean = self.total / max(1, len(self.rated.frames))
        self.before = [
            [column.tolist() for column in sums(model.time + model.weight_time[:, None]).T] for model in problem.models
        ]

    def loads(self, mapping: Mapping) -> list[int]:
        """Busy time of each chiplet in a hyperperiod if every frame is run, in ns."""
        found = [0] * self.problem.chiplets
        for m, segments in enumerate(mapping):
            for (*_, c), span in zip(segments, spans(self.problem, segments), strict=True):
                found[c] += span * self.counts[m]
        return found

    def state(self, mapping: Mapping, order: Sequence[int] = (), kept: int = 0) -> State:
        """The mapping with the best of its timetables, the first of which takes frames in this order.

        The first ``kept`` frames stay before the others in all of them (0: none do)."""
        rated = self.rated
        order = order or rated.by_deadline
        best: Starts = {}
        for first, flush in self._orders(mapping, order, kept):
            found = self._improved(mapping, first, flush)
            if rated.met(found) > rated.met(best):
                best = found
            if rated.met(best) == self.total:
                break
        dropped = self.total - rated.met(best)
        loads = [load / rated.length for load in self.loads(mapping)]
        uneven = sum(max(0.0, load - 0.9) for load in loads) + 0.1 * max(loads)
        value = dropped + EVEN * self.mean * uneven / (1 + uneven)
        return State(tuple(map(tuple, mapping)), best, dropped, value)

    def _orders(self, mapping: Mapping, order: Sequence[int], kept: int) -> Iterator[tuple[Sequence[int], bool]]:
        """The orders of frames to try, each with or without flush starts: as given, those with the longest segment
        first, and those with the least time to wait."""
        frames, times = self.rated.frames, [spans(self.problem, segments) for segments in mapping]

        def ranked(keys: list[int]) -> list[int]:
            places = sorted(range(len(order)), key=lambda i: (0 < kept <= i, keys[frames[order[i]].m]))
            return [order[i] for i in places]

        by_length = ranked([-max(own) for own in times])
        yield order, False
        yield by_length, True
        if kept:
            by_wait = ranked([self.within[m] - sum(own) for m, own in enumerate(times)])
            yield from ((by_length, False), (by_wait, False), (by_wait, True))

    def _improved(self, mapping: Mapping, order: Sequence[int], flush: bool) -> Starts:
        """A timetable in this order, and then with dropped frames first, as long as that drops less."""
        rated, best = self.rated, timetable(self.rated, mapping, order, flush)
        for _ in range(AGAIN):
            left = sorted((f for f in order if f not in best), key=lambda f: -rated.weights[f])
            if not left:
                break
            order = [*left, *(f for f in order if f in best)]
            found = timetable(rated, mapping, order, flush)
            if rated.met(found) <= rated.met(best):
                break
            best = found
        return best

    def whole(self) -> list[tuple[Segment, ...]] | None:
        """Each model whole: those with most work first, each on the chiplet that is then loaded least."""
        load, found = [0] * self.problem.chiplets, dict[int, tuple[Segment, ...]]()
        for m in sorted(range(len(self.counts)), key=lambda m: -self._work(m)):
            last = self.problem.models[m].layers - 1
            places = [(m, 0, last, c) for c in range(self.problem.chiplets) if self._allowed((m, 0, last, c))]
            if not places:
                return None
            times = [self.counts[m] * spans(self.problem, [one])[0] for one in places]
            best = min(range(len(places)), key=lambda i: (load[places[i][3]] + times[i], i))
            load[places[best][3]] += times[best]
            found[m] = (places[best],)
        return [found[m] for m in range(len(self.counts))]

    def _work(self, m: int) -> int:
        return self.counts[m] * int(self.problem.models[m].time.min(axis=1).sum())

    def _allowed(self, segment: Segment) -> bool:
        m, first, last, c = segment
        allowed = self.problem.allowed
        return fits(self.problem, segment) and (allowed is None or bool(allowed[m][first : last + 1, c].all()))

    def drawn(self, m: int, load: Sequence[float], frames: int | None = None) -> tuple[Segment, ...] | None:
        """Segments of a model on a random path, longer where its chiplets are less loaded; None where none fit.

        ``frames``: of so many frames in a hyperperiod (None: of all)."""
        frames = max(1, self.counts[m] if frames is None else frames)
        layers = self.problem.models[m].layers
        for _ in range(DRAWS):
            count = self.random.randint(1, min(MOST_SEGMENTS, layers, self.problem.chiplets))
            path = self._path(count, load)
            best = self.random.random() < BEST_CUTS
            cuts = self._best_cuts(m, path, load, frames) if best else self._cuts(m, path, load)
            made = tuple((m, a, b - 1, c) for a, b, c in zip((0, *cuts), (*cuts, layers), path, strict=True))
            if all(map(self._allowed, made)):
                return made
        return None

    def _path(self, count: int, load: Sequence[float]) -> list[int]:
        """A path of linked chiplets, ``count`` of them or as many as there are room for."""
        weights = [1 / (0.05 + one) for one in load]
        path = self.random.choices(range(self.problem.chiplets), weights)
        while len(path) < count:
            near = [c for c in self.problem.neighbours[path[-1]] if c not in path]
            if not near:
                break
            path += self.random.choices(near, [weights[c] for c in near])
        return path

    def _cuts(self, m: int, path: list[int], load: Sequence[float]) -> list[int]:
        """Where segments begin behind the first: each has as much of the work as its chiplet has room."""
        layers, found = self.problem.models[m].layers, list[int]()
        room = [max(0.05, 1.0 - load[c]) * self.random.uniform(0.7, 1.3) for c in path]
        done = np.mean([self.before[m][c] for c in path], axis=0)
        for i in range(len(path) - 1):
            share = sum(room[: i + 1]) / sum(room) * float(done[-1])
            at = int(done.searchsorted(share))
            least = found[-1] + 1 if found else 1
            found.append(min(max(at, least), layers - (len(path) - 1 - i)))
        return found

    def _best_cuts(self, m: int, path: list[int], load: Sequence[float], frames: int) -> list[int]:
        """The cuts for which the chiplet of the path that is loaded most is loaded least; transfers left out."""
        low, best = 0.0, self._cuts(m, path, load)
        high = max(load) + 2 * frames * max(float(self.before[m][c][-1]) for c in path) / self.rated.length
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            found = self._filled(m, path, [(middle - load[c]) * self.rated.length / frames for c in path])
            low, high, best = (middle, high, best) if found is None else (low, middle, found)
        return best

    def _filled(self, m: int, path: list[int], room: list[float]) -> list[int] | None:
        """Each chiplet gets as many layers as ``room`` ns let it, and at least one; None if some are left."""
        layers, found, at = self.problem.models[m].layers, list[int](), 0
        for i, c in enumerate(path):
            done = self.before[m][c]
            end = bisect_right(done, done[at] + max(0.0, room[i])) - 1
            end = min(end, layers - (len(path) - 1 - i))
            if end <= at:
                return None
            found.append(end)
            at = end
        return found[:-1] if at == layers else None

    def moved(self, state: State) -> State | None:
        """A state with another path or other cuts of one model."""
        m, mapping = self._model(state), list(state.mapping)
        if len(mapping[m]) > 1 and self.random.random() < 0.4:
            own = self.shifted(mapping[m])
        else:
            others = [segments for i, segments in enumerate(mapping) if i != m]
            load = [0.0] * self.problem.chiplets
            for segments in others:
                for (*_, c), span in zip(segments, spans(self.problem, segments), strict=True):
                    load[c] += span * self.counts[segments[0][0]] / self.rated.length
            own = self.drawn(m, load)
        if own is None or own == mapping[m]:
            return None
        mapping[m] = own
        return self.state(mapping)

    def _model(self, state: State) -> int:
        """A model, mostly one of a frame that is dropped."""
        left = [f for f in range(len(self.rated.frames)) if f not in state.starts]
        if left and self.random.random() < 0.5:
            return self.rated.frames[self.random.choice(left)].m
        return self.random.randrange(len(self.counts))

    def shifted(self, segments: tuple[Segment, ...]) -> tuple[Segment, ...] | None:
        """One cut somewhere else, not far."""
        i = self.random.randrange(len(segments) - 1)
        (m, first, middle, c), (_, _, last, d) = segments[i], segments[i + 1]
        if last - first < 2:
            return None
        reach = max(1, (last - first) // 6)
        middle = min(max(first, middle + self.random.randint(-reach, reach)), last - 1)
        made = (*segments[:i], (m, first, middle, c), (m, middle + 1, last, d), *segments[i + 2 :])
        return made if all(map(self._allowed, made)) else None

    def first(self) -> State | None:
        """Whole models, or where they don't fit, drawn segments."""
        mapping = self.whole() or self.spread()
        return self.state(mapping) if mapping is not None else None

    def spread(self) -> list[tuple[Segment, ...]] | None:
        """Drawn segments of each model; None where some fit nowhere."""
        found = [self.drawn(m, [0.0] * self.problem.chiplets) for m in range(len(self.counts))]
        known = [segments for segments in found if segments is not None]
        return known if len(known) == len(found) else None

    def run(self, state: State, deadline: Deadline, moves: int = MOVES) -> Iterator[State]:
        """Annealing from a state: each state that is better than all before."""
        best = state
        for step in range(moves):
            if best.dropped == 0 or not deadline.keep_going():
                return
            heat = self.mean * HOT * (COLD / HOT) ** (step / moves)
            other = self.moved(state)
            if other is None:
                continue
            if other.value < state.value or self.random.random() < exp((state.value - other.value) / heat):
                state = other
            if state.value < best.value:
                better, best = state.dropped < best.dropped, state
                if better:
                    yield best
