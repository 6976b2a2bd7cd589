"""Frames of a mapping put on chiplets one after the other, modulo the hyperperiod H: list scheduling with drops.

A frame's segments begin as early as they can, each in the first gap of its chiplet that is long enough. Where it ends
too late, it is dropped. Frames come by their deadlines (earliest deadline first), or in another order.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from chipmap.instances.multimodel.instance import FrameRun, MultiSolution
from chipmap.instances.multimodel.problem import MultiProblem, Segment, energy, schedule, spans
from chipmap.instances.multimodel.rates import Frame, ahead_of, frames_of, hyperperiod

#: Of each model its segments, in the order of the chain.
Mapping = Sequence[Sequence[Segment]]
#: Busy times of a chiplet in a hyperperiod: (start, ns), in order.
Busy = list[tuple[int, int]]
#: The start from a time on of a run of so many ns beside busy times, modulo H.
Finder = Callable[[Busy, int, int, int], int | None]
#: Of each frame (number) that is run: the starts of its segments in ns.
Starts = dict[int, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class Rated:
    """The frames of a problem: by number of frame its frame, and of each model the one that it comes after."""

    problem: MultiProblem

    @cached_property
    def frames(self) -> tuple[Frame, ...]:
        """All frames of a hyperperiod."""
        return frames_of(self.problem.instance)

    @cached_property
    def length(self) -> int:
        """H in ns."""
        return hyperperiod(self.problem.instance)

    @cached_property
    def weights(self) -> list[int]:
        """Weight of each frame."""
        models = self.problem.instance.models
        return [models[frame.m].frame_weight for frame in self.frames]

    @cached_property
    def before(self) -> list[int | None]:
        """The frame that each one follows."""
        at, ahead = {frame[:2]: f for f, frame in enumerate(self.frames)}, ahead_of(self.problem.instance)
        models = [(ahead[frame.m], frame.number) for frame in self.frames]
        return [None if m is None else at[m, number] for m, number in models]

    @cached_property
    def by_deadline(self) -> list[int]:
        """Frames by their deadlines, those that others follow first."""
        depth: list[int] = []
        for frame in self.frames:
            m, steps = ahead_of(self.problem.instance)[frame.m], 0
            while m is not None:
                m, steps = ahead_of(self.problem.instance)[m], steps + 1
            depth.append(steps)
        return sorted(range(len(self.frames)), key=lambda f: (self.frames[f].due, depth[f], f))

    def met(self, starts: Starts) -> int:
        """The weight of the frames that are run."""
        return sum(self.weights[f] for f in starts)


def timetable(rated: Rated, mapping: Mapping, order: Sequence[int], flush: bool = False) -> Starts:
    """The frames that fit, in this order. Frames that come before the one that they follow are put behind it.

    ``flush``: segments begin right behind or end right before what is there, if their frame then still ends in time, so
    that gaps stay long."""
    problem, length, limit = rated.problem, rated.length, rated.problem.instance.task.energy_limit_pj
    own = [spans(problem, segments) for segments in mapping]
    chips = [[c for *_, c in segments] for segments in mapping]
    takes = [0 if limit is None else energy(problem, segments) for segments in mapping]
    ends: dict[int, int] = {}
    found: Starts = {}
    busy: list[Busy] = [[] for _ in range(problem.chiplets)]
    queue, done, spent = list(order), set[int](), 0
    while queue:
        waiting = []
        for f in queue:
            before, frame = rated.before[f], rated.frames[f]
            if before is not None and before not in done:
                waiting.append(f)
                continue
            done.add(f)
            m = frame.m
            if (before is not None and before not in found) or (limit is not None and spent + takes[m] > limit):
                continue
            begin = frame.release if before is None else max(frame.release, ends[before])
            runs = list(zip(chips[m], own[m], strict=True))
            placed = _placed(busy, runs, begin, frame.due, length, flush_gap) if flush else None
            placed = placed or _placed(busy, runs, begin, frame.due, length, gap)
            if placed is not None:
                found[f], ends[f] = placed, placed[-1] + own[m][-1]
                spent += takes[m]
        queue = waiting
    return found


def _placed(
    busy: list[Busy], runs: list[tuple[int, int]], begin: int, due: int, length: int, find: Finder
) -> tuple[int, ...] | None:
    """Starts of runs (chiplet, ns) one after the other from ``begin`` on, then made busy; None if they end late."""
    if begin + sum(span for _, span in runs) > due:
        return None
    starts, at = [], begin
    for c, span in runs:
        start = find(busy[c], at, span, length)
        if start is None or start + span > due:
            return None
        starts.append(start)
        at = start + span
    for start, (c, span) in zip(starts, runs, strict=True):
        insort(busy[c], (start % length, span))
    return tuple(starts)


def flush_gap(busy: Busy, begin: int, span: int, length: int) -> int | None:
    """The earliest start from ``begin`` on of a run that touches another one, modulo ``length``."""
    if not busy:
        return begin if span <= length else None
    found = None
    for i, (start, took) in enumerate(busy):
        following = busy[i + 1][0] if i + 1 < len(busy) else busy[0][0] + length
        if following - start - took >= span:
            for at in (start + took, following - span):
                at = begin + (at - begin) % length
                found = at if found is None else min(found, at)
    return found


def gap(busy: Busy, begin: int, span: int, length: int) -> int | None:
    """The earliest start from ``begin`` on of a run of ``span`` ns beside the busy times, modulo ``length``."""
    if span > length:
        return None
    at = begin
    while at - begin <= length:
        if not busy:
            return at
        within = at % length
        i = bisect_right(busy, (within, length + 1))
        first, took = busy[i - 1] if i else (busy[-1][0] - length, busy[-1][1])
        if first + took > within:
            at += first + took - within
            continue
        following, takes = busy[i] if i < len(busy) else (busy[0][0] + length, busy[0][1])
        if within + span <= following:
            return at
        at += following + takes - within
    return None


def solution(rated: Rated, mapping: Mapping, starts: Starts) -> MultiSolution:
    """The record of a timetable."""
    models = rated.problem.instance.models
    made = schedule(rated.problem, [[segment for segments in mapping for segment in segments]])
    listed = (
        FrameRun(model=models[rated.frames[f].m].name, frame=rated.frames[f].number, starts=one)
        for f, one in sorted(starts.items())
    )
    return made.replace(frames=tuple(listed))
