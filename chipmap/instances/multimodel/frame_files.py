"""A schedule of frames as a table and as a trace, and its figures.

``frames.csv`` has a line per segment of a frame that is run. ``trace.json`` has a track per chiplet, with times from
the start of a hyperperiod on; frames that begin late in it end in the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from chipmap.instances.multimodel.instance import MultiSolution
from chipmap.instances.multimodel.problem import MultiProblem, Segment, energy, placed, spans
from chipmap.instances.multimodel.rates import frames_of, hyperperiod
from chipmap.instances.trace_events import Event, span, trace, tracks
from chipmap.records import csv_text

_COLUMNS = ("model", "frame", "first", "last", "chiplet", "release_ns", "start_ns", "end_ns", "deadline_ns")
_PROCESS = 1


class FrameSpan(NamedTuple):
    """Segment ``segment`` of frame ``number``, from ``start`` to ``end``; ``due``: the frame's deadline, in ns."""

    number: int
    segment: Segment
    release: int
    start: int
    end: int
    due: int


def frame_spans(problem: MultiProblem, solution: MultiSolution) -> list[FrameSpan]:
    """All segments of all frames that are run; none where the solution isn't the instance's."""
    models = {model.name: m for m, model in enumerate(problem.instance.models)}
    known = {frame[:2]: frame for frame in frames_of(problem.instance)}
    try:
        mapping = sorted(segment for window in placed(problem, solution) for segment in window)
        asked = [(known[models[run.model], run.frame], run.starts) for run in solution.frames]
    except KeyError:
        return []
    found = []
    for frame, starts in asked:
        own = [segment for segment in mapping if segment[0] == frame.m]
        for segment, start, time in zip(own, starts, spans(problem, own) if own else [], strict=False):
            found.append(FrameSpan(frame.number, segment, frame.release, start, start + time, frame.due))
    return found


def frame_files(problem: MultiProblem, solution: MultiSolution) -> dict[str, bytes]:
    """``frames.csv`` and ``trace.json``."""
    models, chiplets = problem.instance.models, problem.instance.module.chiplets
    rows = []
    for one in frame_spans(problem, solution):
        m, first, last, c = one.segment
        names = models[m].name, one.number, models[m].layers[first].name, models[m].layers[last].name
        rows.append((*names, chiplets[c].name, one.release, one.start, one.end, one.due))
    return {"frames.csv": csv_text(_COLUMNS, rows).encode(), "trace.json": trace(frame_events(problem, solution))}


def frame_events(problem: MultiProblem, solution: MultiSolution) -> Iterator[Event]:
    """The events of ``trace.json``."""
    instance = problem.instance
    names = [f"{chiplet.name} ({chiplet.kind})" for chiplet in instance.module.chiplets]
    yield from tracks(_PROCESS, instance.name, enumerate(names))
    for one in frame_spans(problem, solution):
        m, first, last, c = one.segment
        what = f"{instance.models[m].name} frame {one.number}"
        facts = {"first": first, "last": last, "release_ns": one.release, "deadline_ns": one.due}
        yield span(what, "frame", (_PROCESS, c), one.start, one.end - one.start, **facts)


def frame_measures(problem: MultiProblem, solution: MultiSolution) -> dict[str, float]:
    """Frames in a hyperperiod, those that are run, their energy, segments, and the share of time a chiplet works."""
    listed, models = frame_spans(problem, solution), {one.name: m for m, one in enumerate(problem.instance.models)}
    mapping = sorted(segment for window in placed(problem, solution) for segment in window)
    each = {m: energy(problem, [one for one in mapping if one[0] == m]) for m in {one[0] for one in mapping}}
    busy = sum(one.end - one.start for one in listed)
    return {
        "frames": float(len(frames_of(problem.instance))),
        "frames_met": float(len(solution.frames)),
        "energy_j": sum(each[models[run.model]] for run in solution.frames) / 1e12,
        "segments": float(len(mapping)),
        "utilisation": busy / (problem.chiplets * hyperperiod(problem.instance)),
    }
