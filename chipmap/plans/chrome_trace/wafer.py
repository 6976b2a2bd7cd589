"""A floorplan in time, as events of a Chrome trace: the period on all kernels, and samples on their way through them.

In the period each kernel works for one sample, its convolutions side by side on parts of its box; the slowest one is
T1. Samples follow each other a period apart: a kernel takes a sample in the period after its last producer, as adapters
and wire take no time in this problem. A step of the fabric is drawn as a nanosecond.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chipmap.instances.trace_events import Event
from chipmap.instances.wafer.instance import WaferInstance, WaferSolution
from chipmap.instances.wafer.problem import TICKS, WaferProblem, conv_time, in_order, wafer_problem
from chipmap.networks.graph import neighbours, topological
from chipmap.plans.chrome_trace.queues import Piece, Queues

#: The processes of the trace, and how many samples it follows.
PERIOD, CONVOLUTIONS, KERNELS = 1, 2, 3
SAMPLES = 3


def events(instance: WaferInstance, solution: WaferSolution) -> Iterator[Event]:
    """All events of a valid floorplan."""
    problem = wafer_problem(instance)
    times = _times(problem, solution)
    period = max(max(some) for some in times)
    whole = Queues(PERIOD, f"{instance.name}: period", ["period"], TICKS)
    yield from whole.named()
    yield whole.at(0, 0, Piece("period", "period", period))
    yield from _convolutions(problem, times)
    yield from _samples(problem, times, period)


def _times(problem: WaferProblem, solution: WaferSolution) -> list[list[int]]:
    """The ticks of the convolutions of each kernel."""
    found = list[list[int]]()
    for p, convs in zip(in_order(problem, solution), problem.convs, strict=True):
        if not convs:
            found.append([problem.time_of(len(found), p)])
            continue
        parts = zip(np.array(convs, dtype=np.int64), p.c, p.k, strict=True)
        found.append([int(conv_time(conv, p.h, p.w, c, k)) for conv, c, k in parts])
    return found


def _convolutions(problem: WaferProblem, times: list[list[int]]) -> Iterator[Event]:
    """A track per convolution: what it takes of the period."""
    named = [
        (name if len(some) == 1 else f"{name}, convolution {i + 1}", name, time)
        for name, some in zip(problem.names, times, strict=True)
        for i, time in enumerate(some)
    ]
    queues = Queues(CONVOLUTIONS, "convolutions in a period", [title for title, _, _ in named], TICKS)
    yield from queues.named()
    for track, (title, name, time) in enumerate(named):
        yield from queues.put(track, [Piece(title, "compute", time, {"kernel": name})])


def _samples(problem: WaferProblem, times: list[list[int]], period: int) -> Iterator[Event]:
    """A track per kernel: the first samples, each a period after the one before, with arrows along the edges."""
    edges = [(u, v) for u, v in problem.edges.tolist()]
    depth, readers = [0] * problem.n, neighbours(problem.n, edges)
    for u in topological(readers):
        for v in readers[u]:
            depth[v] = max(depth[v], depth[u] + 1)
    queues = Queues(KERNELS, f"{SAMPLES} samples", list(problem.names), TICKS)
    yield from queues.named()
    for s in range(SAMPLES):
        for v, name in enumerate(problem.names):
            piece = Piece(f"sample {s}", "compute", max(times[v]), {"kernel": name})
            yield queues.at(v, (depth[v] + s) * period, piece)
        for i, (u, v) in enumerate(dict.fromkeys(edges)):
            yield from queues.flow("data", f"s{s}e{i}", (u, (depth[u] + s) * period), (v, (depth[v] + s) * period))
