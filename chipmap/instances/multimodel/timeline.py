"""A schedule in time: when each segment of each window works, and what its time and its energy are made of.

The formulas of ``docs/families/multimodel.md`` give each range its latency, Lat = weights + Σ t + (q − 1) · max t. This
is the timetable with that latency in which nothing waits for more than it must:

- the weights of the range are read from DRAM, one segment's after the other's;
- then its first mini-batch goes through the segments, without a pause;
- a further mini-batch starts every max t, so that a segment works for t of each max t, and the slowest one always.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from chipmap.instances.multimodel.instance import MultiSolution
from chipmap.instances.multimodel.problem import MultiProblem, Segment, latency, placed
from chipmap.records import InputError

#: What the time of a mini-batch is made of: reads and writes of DRAM, transfers over links, layers.
KINDS = ("read", "receive", "layer", "send", "write")
#: What energy is made of. ``DRAM``: reads and writes of activations, the hops to the interface included; ``weights``:
#: those of weights, hops included.
PARTS = ("compute", "NoP", "DRAM", "weights")


@dataclass(frozen=True)
class Part:
    """A part of a mini-batch's time on a chiplet: one of :data:`KINDS`, its layer (position) and its ns."""

    kind: str
    layer: int
    time: int


@dataclass(frozen=True)
class Span:
    """A segment in time. Model, layers and chiplet are positions; times are in ns, starts from that of the schedule.

    From ``start`` on its weights are read, for ``weights``. Its first mini-batch begins at ``begins`` and takes t =
    ``time``, the sum of ``parts``. ``count`` mini-batches begin one every ``every`` ns (max t of its range).
    """

    segment: Segment
    start: int
    weights: int
    begins: int
    parts: tuple[Part, ...]
    every: int
    count: int

    @property
    def time(self) -> int:
        """t."""
        return sum(part.time for part in self.parts)

    @property
    def end(self) -> int:
        """When its last mini-batch is done."""
        return self.begins + (self.count - 1) * self.every + self.time

    @property
    def busy(self) -> int:
        """How long it works: on weights and on all mini-batches."""
        return self.weights + self.count * self.time


@dataclass(frozen=True)
class Range:
    """What a model does in a window: its segments in the order of the chain, and Lat."""

    model: int
    spans: tuple[Span, ...]
    latency: int

    @property
    def slowest(self) -> Span:
        """The segment that sets the pace: the first of those with the longest t."""
        return max(self.spans, key=lambda span: span.time)


@dataclass(frozen=True)
class TimelineWindow:
    """A window: its number, when it starts, what each model in it does, and V, the time that its chiplets share."""

    number: int
    start: int
    ranges: tuple[Range, ...]
    shared: int = 0

    @property
    def slowest(self) -> Range:
        """The first of the models with the longest Lat."""
        return max(self.ranges, key=lambda one: one.latency)

    @property
    def time(self) -> int:
        """T_w, the length of the window."""
        return max(self.shared, self.slowest.latency)

    @property
    def spans(self) -> Iterator[Span]:
        """All segments."""
        return (span for one in self.ranges for span in one.spans)


def timeline(problem: MultiProblem, solution: MultiSolution) -> tuple[TimelineWindow, ...]:
    """The used windows of ``solution`` in time.

    Raises :class:`InputError` where the solution names what the instance doesn't have, and with objective ``frames``.
    """
    if problem.instance.task.objective == "frames":
        raise InputError("frames don't run in windows", "task.objective", "Their times stand in frames.csv of a run.")
    windows: list[TimelineWindow] = []
    start = 0
    for number, segments in enumerate(_placed(problem, solution)):
        runs: dict[int, list[Segment]] = {}
        for segment in segments:
            runs.setdefault(segment[0], []).append(segment)
        shared = problem.sharing.time(segments) if problem.sharing is not None else 0
        ranges = tuple(_range(problem, run, start) for run in runs.values())
        windows.append(TimelineWindow(number, start, ranges, shared))
        start += windows[-1].time
    return tuple(windows)


def _placed(problem: MultiProblem, solution: MultiSolution) -> list[list[Segment]]:
    try:
        windows = [window for window in placed(problem, solution) if window]
        fits = all(0 <= a <= b < problem.models[m].layers for window in windows for m, a, b, _ in window)
    except KeyError as error:
        fits, what = False, f"names {error.args[0]!r}, which the instance doesn't have"
    else:
        what = "names layers that the instance doesn't have"
    if not fits:
        raise InputError(what, "solution.windows", "Take a solution of this very instance.")
    return windows


def _range(problem: MultiProblem, segments: list[Segment], start: int) -> Range:
    costs = problem.models[segments[0][0]]
    parts = [_parts(problem, segments, i) for i in range(len(segments))]
    times = [sum(part.time for part in own) for own in parts]
    weights = [int(costs.weight_time[first : last + 1].sum()) for _, first, last, _ in segments]
    reads, begins, spans = start, start + sum(weights), []
    for segment, own, time, weight in zip(segments, parts, times, weights, strict=True):
        spans.append(Span(segment, reads, weight, begins, own, max(times), costs.q))
        reads, begins = reads + weight, begins + time
    return Range(segments[0][0], tuple(spans), latency(problem, segments))


def _parts(problem: MultiProblem, segments: list[Segment], i: int) -> tuple[Part, ...]:
    """What the time of a mini-batch on segment ``i`` of a range is made of, in order."""
    m, first, last, c = segments[i]
    costs, found = problem.models[m], []
    if i == 0:
        found.append(Part("read", first, int(costs.read_time[first, c])))
    elif problem.both_ends:
        found.append(Part("receive", first - 1, int(costs.send_time[first - 1])))
    found += [Part("layer", k, int(costs.time[k, c])) for k in range(first, last + 1)]
    if i == len(segments) - 1:
        found.append(Part("write", last, int(costs.write_time[last, c])))
    else:
        found.append(Part("send", last, int(costs.send_time[last])))
    return tuple(found)


def energies(problem: MultiProblem, one: Range) -> dict[str, int]:
    """The energy of a range in pJ by :data:`PARTS`."""
    costs, found = problem.models[one.model], dict.fromkeys(PARTS, 0)
    for i, span in enumerate(one.spans):
        _, first, last, c = span.segment
        run = slice(first, last + 1)
        found["compute"] += int(costs.energy[run, c].sum())
        found["weights"] += int(costs.weight_energy[run, c].sum())
        found["DRAM"] += int(costs.read_energy[first, c]) if i == 0 else 0
        if i == len(one.spans) - 1:
            found["DRAM"] += int(costs.write_energy[last, c])
        else:
            found["NoP"] += int(costs.send_energy[last])
    return found


def all_energies(problem: MultiProblem, windows: tuple[TimelineWindow, ...]) -> dict[str, int]:
    """T2 in pJ by :data:`PARTS`, and where there is static energy that as well."""
    total = dict.fromkeys(PARTS, 0)
    for one in (one for window in windows for one in window.ranges):
        for part, amount in energies(problem, one).items():
            total[part] += amount
    static = problem.powered(sum(window.time for window in windows), 0)
    return total | ({"static": static} if static else {})
