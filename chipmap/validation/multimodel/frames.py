"""Frames of a hyperperiod as ``docs/families/multimodel-frames.md`` has them: what the checker knows of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import floor, lcm

from chipmap.instances.multimodel.instance import Model, MultiInstance, MultiSolution
from chipmap.validation.certify import Finding
from chipmap.validation.decimals import written


@dataclass(frozen=True)
class Run:
    """A segment of frame ``frame`` of model ``m`` (position) on ``chiplet``, from ``start`` on for ``time`` ns."""

    m: int
    frame: int
    chiplet: str
    start: int
    time: int

    @property
    def end(self) -> int:
        """When it is done."""
        return self.start + self.time


#: For each frame that is run, (model, number) -> its runs, in the order of the model's segments.
Runs = dict[tuple[int, int], list[Run]]


def period(instance: MultiInstance) -> tuple[int, list[int]]:
    """(H in ns, frames of each model in it): the shortest time with whole numbers of frames of all models."""
    rates = [written(model.frames_per_s or 1) for model in instance.models]
    # n frames of a model take n / rate seconds: the least common multiple of all 1 / rate
    bottom = lcm(*(rate.numerator for rate in rates))
    shares = [bottom * rate.denominator // rate.numerator for rate in rates]  # 1 / rate, in units of 1 / bottom seconds
    length = Fraction(lcm(*shares), bottom)
    return floor(length * 10**9), [int(length * rate) for rate in rates]


def release(instance: MultiInstance, m: int, number: int) -> int:
    """When a frame may begin."""
    length, counts = period(instance)
    return floor(Fraction(number * length, counts[m])) + instance.models[m].release_ns


def due(instance: MultiInstance, m: int, number: int) -> int:
    """When a frame must be done."""
    length, counts = period(instance)
    model: Model = instance.models[m]
    return release(instance, m, number) + (
        floor(Fraction(length, counts[m])) if model.deadline_ns is None else model.deadline_ns
    )


def wrong_frames(instance: MultiInstance, solution: MultiSolution) -> Iterator[Finding]:
    """What of the frames is outside their domain: one window; each frame exists, once, with a start per segment."""
    used = [window for window in solution.windows if window]
    if len(used) > 1:
        yield "windows", len(used) - 1, "windows", f"{len(used)} windows, where frames have one mapping"
    names = [model.name for model in instance.models]
    _, counts = period(instance)
    seen: set[tuple[str, int]] = set()
    for i, one in enumerate(solution.frames):
        here = f"frames[{i}]"
        if one.model not in names:
            yield here, 1, "frames", f"no model is called {one.model!r}"
            continue
        if not 0 <= one.frame < counts[names.index(one.model)]:
            many = counts[names.index(one.model)]
            yield here, 1, "frames", f"{one.model!r} has frames 0 to {many - 1}, not {one.frame}"
        if (one.model, one.frame) in seen:
            yield here, 1, "frames", f"frame {one.frame} of {one.model!r} is run twice"
        seen.add((one.model, one.frame))
        segments = sum(piece.model == one.model for window in used for piece in window)
        if len(one.starts) != segments:
            what = f"{len(one.starts)} starts for the {segments} segments of {one.model!r}"
            yield here, abs(len(one.starts) - segments), "starts", what
        if any(start < 0 for start in one.starts):
            yield here, 1, "starts", f"frame {one.frame} of {one.model!r} begins before 0"


def overlaps(instance: MultiInstance, runs: Runs) -> Iterator[Finding]:
    """Runs on a chiplet that have a moment in common, where each is repeated after every hyperperiod."""
    length, _ = period(instance)
    on: dict[str, list[Run]] = {}
    for run in (run for several in runs.values() for run in several):
        on.setdefault(run.chiplet, []).append(run)
        if run.time > length:
            yield _where(instance, run), run.time - length, "ns", f"a segment takes {run.time} ns, H is {length} ns"
    for chiplet, several in on.items():
        order = sorted(several, key=lambda run: run.start % length)
        for i, run in enumerate(order[:-1]):
            following = order[i + 1]
            over = run.start % length + run.time - following.start % length
            if over > 0:
                yield _where(instance, following), over, "ns", f"{chiplet!r} still runs {_where(instance, run)}"
        over = order[-1].start % length + order[-1].time - (order[0].start % length + length)
        if over > 0 and len(order) > 1:
            yield _where(instance, order[0]), over, "ns", f"{chiplet!r} still runs {_where(instance, order[-1])}"


def _where(instance: MultiInstance, run: Run) -> str:
    return f"frame {run.frame} of {instance.models[run.m].name}"


def late(instance: MultiInstance, runs: Runs) -> Iterator[Finding]:
    """Frames that end after their deadline."""
    for (m, number), several in runs.items():
        over = several[-1].end - due(instance, m, number)
        if over > 0:
            where = _where(instance, several[-1])
            yield where, over, "ns", f"{where} is done {over} ns late"


def early(instance: MultiInstance, runs: Runs) -> Iterator[Finding]:
    """Segments that begin before their frame's release, or before the segment before them ends."""
    for (m, number), several in runs.items():
        least = release(instance, m, number)
        for run in several:
            if run.start < least:
                where = _where(instance, run)
                yield where, least - run.start, "ns", f"{where} begins on {run.chiplet!r} {least - run.start} ns early"
            least = run.end


def not_followed(instance: MultiInstance, runs: Runs) -> Iterator[Finding]:
    """Frames that are run without the frame that they follow, or before it ends."""
    names = [model.name for model in instance.models]
    for (m, number), several in runs.items():
        after = instance.models[m].after
        if after is None:
            continue
        where, before = _where(instance, several[0]), runs.get((names.index(after), number))
        if before is None:
            yield where, 1, "frames", f"{where} is run, and frame {number} of {after} isn't"
        elif several[0].start < before[-1].end:
            short = before[-1].end - several[0].start
            yield where, short, "ns", f"{where} begins {short} ns before that of {after} ends"
