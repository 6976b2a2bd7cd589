"""Figures of a multimodel instance, and a schedule as a table and as a trace.

``schedule.csv`` has a line per segment. ``trace.json`` holds Chrome trace events, which Perfetto (ui.perfetto.dev) and
chrome://tracing draw: a track per chiplet, with window > segment > weights, first mini-batch > reads, layers and
transfers. The further mini-batches are one event, as they repeat the first. Arrows lead from a transfer to the segment
that receives it. Times are those of :mod:`chipmap.instances.multimodel.timeline`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import msgspec

from chipmap.instances.multimodel.frame_files import frame_files, frame_measures
from chipmap.instances.multimodel.instance import MultiInstance, MultiSolution
from chipmap.instances.multimodel.problem import MultiProblem, multi_problem
from chipmap.instances.multimodel.timeline import Range, Span, TimelineWindow, all_energies, timeline
from chipmap.instances.pinning import pin_counts
from chipmap.instances.trace_events import Event, arrow, trace, tracks
from chipmap.instances.trace_events import span as event
from chipmap.records import InputError, csv_text

_COLUMNS = ("window", "model", "first", "last", "first_layer", "last_layer", "chiplet", "start_ns", "end_ns")
_MORE = ("weights_ns", "mini_batch_ns", "every_ns", "mini_batches", "bottleneck")
_MIB = 2**20
#: The track of the windows; that of chiplet c is c + 1.
_WINDOWS = 0
#: The only process of a trace.
_PROCESS = 1


def describe(instance: MultiInstance) -> dict[str, Any]:
    """The figures of ``instance``.

    Of each model its layers, batch, weights in MiB, and by class of chiplet the seconds of compute and the joules of
    its whole batch on one chiplet, without transfers. ``layer_names`` are what pins name. ``chiplets`` counts
    those of each class.
    """
    module = instance.module
    kinds = sorted({chiplet.kind for chiplet in module.chiplets})
    return {
        "models": {
            model.name: {
                "layers": len(model.layers),
                "batch": model.batch,
                "mini_batch": model.mini_batch,
                "weights_mib": sum(layer.weight_bytes for layer in model.layers) / _MIB,
                "compute_s": {k: model.batch * sum(one.costs[k][0] for one in model.layers) / 1e9 for k in kinds},
                "compute_j": {k: model.batch * sum(one.costs[k][1] for one in model.layers) / 1e12 for k in kinds},
            }
            for model in instance.models
        },
        "layers": sum(len(model.layers) for model in instance.models),
        "layer_names": {model.name: [layer.name for layer in model.layers] for model in instance.models},
        "chiplets": dict(sorted(Counter(chiplet.kind for chiplet in module.chiplets).items())),
        "links": len(module.links),
        "most_hops": max(chiplet.hops for chiplet in module.chiplets),
        "task": msgspec.to_builtins(instance.task),
        **pin_counts(instance),
        "notes": instance.notes,
    }


def measures(instance: MultiInstance, solution: MultiSolution | None) -> dict[str, float]:
    """What a row of a sweep says of a schedule beside the checker's figures: T1, T2 and their product, T2 by what it is
    spent on, the number of segments, and the share of T1 for which a chiplet works on average."""
    if solution is None:
        return {}
    problem = multi_problem(instance)
    if instance.task.objective == "frames":
        return frame_measures(problem, solution)
    windows = timeline(problem, solution)
    time, parts = sum(window.time for window in windows), all_energies(problem, windows)
    spans = [span for window in windows for span in window.spans]
    return {
        "latency_s": time / 1e9,
        "energy_j": sum(parts.values()) / 1e12,
        **{f"{part.lower()}_j": amount / 1e12 for part, amount in parts.items()},
        "segments": float(len(spans)),
        "utilisation": sum(span.busy for span in spans) / (problem.chiplets * time) if time else 0.0,
    }


def files(instance: MultiInstance, solution: MultiSolution) -> dict[str, bytes]:
    """The files written beside a solution: ``schedule.csv`` and ``trace.json``; none where it isn't the instance's.

    With objective ``frames``: ``frames.csv`` and ``trace.json``."""
    problem = multi_problem(instance)
    if instance.task.objective == "frames":
        return frame_files(problem, solution)
    try:
        windows = timeline(problem, solution)
    except InputError:
        return {}
    return {"schedule.csv": _table(problem, windows).encode(), "trace.json": trace(events(problem, windows))}


def _table(problem: MultiProblem, windows: tuple[TimelineWindow, ...]) -> str:
    """A line per segment: from when its weights are read to the end of its last mini-batch."""
    rows = []
    for window in windows:
        for one in window.ranges:
            for span in one.spans:
                m, first, last, c = span.segment
                model = problem.instance.models[m]
                names = model.layers[first].name, model.layers[last].name
                row = (window.number, model.name, first, last, *names, problem.instance.module.chiplets[c].name)
                held = _held(window, one, span)
                rows.append((*row, span.start, span.end, span.weights, span.time, span.every, span.count, held))
    return csv_text((*_COLUMNS, *_MORE), rows)


def _held(window: TimelineWindow, one: Range, span: Span) -> str:
    """``window``: this segment sets the window's length; ``model``: that of its model in it; else nothing."""
    return "" if span is not one.slowest else "window" if one is window.slowest else "model"


def events(problem: MultiProblem, windows: tuple[TimelineWindow, ...]) -> Iterator[Event]:
    """The events of ``trace.json``."""
    instance = problem.instance
    names = ["windows", *(f"{chiplet.name} ({chiplet.kind})" for chiplet in instance.module.chiplets)]
    yield from tracks(_PROCESS, instance.name, enumerate(names))
    for window in windows:
        slowest = instance.models[window.slowest.model].name
        for track in sorted({_WINDOWS, *(span.segment[3] + 1 for span in window.spans)}):
            more = {"window": window.number, "slowest_model": slowest}
            yield event(f"window {window.number}", "window", (_PROCESS, track), window.start, window.time, **more)
        for one in window.ranges:
            for span in one.spans:
                yield from _segment(problem, window, one, span)
            for before, after in pairwise(one.spans):
                yield from _arrow(before, after, f"{window.number}.{one.model}.{after.segment[1]}")


def _segment(problem: MultiProblem, window: TimelineWindow, one: Range, span: Span) -> Iterator[Event]:
    """A segment's events: itself, its weights, its first mini-batch in parts, and the other mini-batches in one."""
    m, first, last, c = span.segment
    model, track = problem.instance.models[m], (_PROCESS, c + 1)
    name = f"{model.name} {first}" + (f" to {last}" if last > first else "")
    facts = {"model": model.name, "first": first, "last": last, "busy_ns": span.busy, "mini_batches": span.count}
    facts |= {"sets": held} if (held := _held(window, one, span)) else {}
    yield event(name, "segment", track, span.start, span.end - span.start, **facts)
    if span.weights:
        yield event("weights", "weights", track, span.start, span.weights)
    yield event(f"mini-batch 1 of {span.count}", "mini-batch", track, span.begins, span.time)
    at = span.begins
    for part in span.parts:
        layer = model.layers[part.layer].name
        yield event(layer if part.kind == "layer" else f"{part.kind} {layer}", part.kind, track, at, part.time)
        at += part.time
    if span.count > 1:
        rest, begins = span.count - 1, span.begins + span.every
        what = "mini-batch 2" if rest == 1 else f"mini-batches 2 to {span.count}"
        busy = {"busy_ns": rest * span.time, "every_ns": span.every, "each_ns": span.time}
        yield event(what, "mini-batches", track, begins, span.end - begins, **busy)


def _arrow(before: Span, after: Span, key: str) -> Iterator[Event]:
    """From the first mini-batch's transfer to where it goes on."""
    sends = after.begins - before.parts[-1].time
    yield from arrow(
        "transfer", key, (_PROCESS, before.segment[3] + 1, sends), (_PROCESS, after.segment[3] + 1, after.begins)
    )
