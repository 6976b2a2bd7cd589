"""Why no schedule is shorter: for a bound on T1, what each simple argument gives by itself, and who is behind it.

| kind | what takes that long |
|---|---|
| work | all operations, shared out evenly over the devices |
| group | operations that share a device (C1), one after the other |
| path | an operation, with what must come before and behind it |
| interval | operations that can start late only and must end early: shared out over the devices |
| uncut | operations that can't be on different devices in a shorter schedule |
| memory | likewise, and these don't fit on the devices |

A proof by a solver (CP-SAT) has no such reason; it is named as what it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from chipmap.heuristics.placement.bounds import price_bound
from chipmap.heuristics.placement.bounds import simple as lower
from chipmap.heuristics.placement.bounds.packing import NONE, needed
from chipmap.heuristics.placement.bounds.simple import HeadsAndTails
from chipmap.heuristics.placement.keys import latest
from chipmap.heuristics.placement.shared import part_bytes
from chipmap.instances.placement.problem import PlacementProblem
from chipmap.records import counted, listed
from chipmap.records.quantities import duration, size


class Reason(NamedTuple):
    """An argument that T1 (or T2) is at least ``value`` ns: its ``kind``, in words, and its figures."""

    kind: str
    value: int
    message: str
    figures: dict[str, Any]


def reasons(problem: PlacementProblem, w: HeadsAndTails | None, low: int) -> list[Reason]:
    """The arguments for the bound ``low``, the strongest first; those by windows only where there are windows ``w``."""
    found = [_work(problem), *_group(problem, w)]
    if w is not None and problem.timed and problem.operations:
        found += [_path(problem, w), *_interval(problem, w)]
        if low > max(one.value for one in found):
            found += [*_uncut(problem, w, low), *_memory(problem, w, low)]
    return sorted(found, key=lambda one: -one.value)


def _work(problem: PlacementProblem) -> Reason:
    total, value = int(lower.least_times(problem).sum()), price_bound.work(problem)
    text = f"All operations take {duration(total)} at least"
    text += f"; {_shared(problem)} that is {duration(value)}" if problem.devices > 1 else ""
    return Reason("work", value, text, {"work_ns": total, "devices": problem.devices})


def _shared(problem: PlacementProblem) -> str:
    devices = counted(problem.devices, "device")
    if price_bound.alike(problem):
        return f"shared out evenly over {devices}"
    return f"shared out over {devices} by what each of them can do"


def _group(problem: PlacementProblem, w: HeadsAndTails | None) -> Iterator[Reason]:
    best: tuple[int, int, list[int]] | None = None
    for members in problem.groups:
        times = problem.time[members].sum(axis=0)[problem.allowed[members].all(axis=0)]
        if len(members) > 1 and times.size:
            around = 0 if w is None else int(w.head[members].min() + w.tail[members].min())
            if best is None or around + int(times.min()) > best[0]:
                best = around + int(times.min()), int(times.min()), members
    if best is not None:
        value, work, members = best
        text = f"{listed(_names(problem, members))} share a device (C1) and take {duration(work)} there"
        text += f"; before and behind them {duration(value - work)} pass at least" if value > work else ""
        yield Reason("group", value, text, {"work_ns": work, "operations": len(members)})


def _path(problem: PlacementProblem, w: HeadsAndTails) -> Reason:
    v = int((w.head + w.time + w.tail).argmax())
    before, own, behind = int(w.head[v]), int(w.time[v]), int(w.tail[v])
    plain = int(latest(problem, w.time, np.zeros(len(problem.storages), dtype=np.int64)).max())
    text = f"Operation {problem.names[v]!r} can't start before {duration(before)}, takes {duration(own)} and has "
    text += f"{duration(behind)} behind it at least"
    more = before + own + behind - plain
    text += f". The longest path of operations takes {duration(plain)} of computing alone"
    if more > 0:
        text += f"; the other {duration(more)} are transfers, or work that has to share a device to be spared them"
    figures = {"operation": problem.names[v], "before_ns": before, "own_ns": own, "behind_ns": behind}
    return Reason("path", before + own + behind, text, {**figures, "computing_ns": plain})


def _interval(problem: PlacementProblem, w: HeadsAndTails) -> Iterator[Reason]:
    value, members = price_bound.interval_with(problem, w)
    if not value:
        return
    head, tail, work = int(w.head[members].min()), int(w.tail[members].min()), int(w.time[members].sum())
    text = f"{counted(len(members), 'operation')} ({duration(work)} of work)"
    parts = [f" can't start before {duration(head)}"] if head else []
    parts += [f" have {duration(tail)} behind them at least"] if tail else []
    text += f"{' and'.join(parts)}; " if parts else ", "
    text += f"{_shared(problem)} they take {duration(value - head - tail)}"
    figures = {"work_ns": work, "before_ns": head, "behind_ns": tail, "operations": len(members)}
    yield Reason("interval", value, text, figures)


def _uncut(problem: PlacementProblem, w: HeadsAndTails, low: int) -> Iterator[Reason]:
    """What can't be cut below ``low`` doesn't fit on one device, or not on all of them."""
    part = lower.parts(problem, w, low - 1)
    work, tail = np.zeros(len(part), np.int64), np.full(len(part), lower.NO_WAY, np.int64)
    best, members = (0, 0, 0), list[int]()
    for v in np.argsort(-w.head, kind="stable").tolist():
        a = part[v]
        work[a] += w.time[v]
        tail[a] = min(tail[a], w.tail[v])
        value = int(w.head[v] + work[a] + tail[a])
        if value > best[0]:
            best = value, int(work[a]), v
    largest = np.sort(work)[::-1]
    if best[0] >= low:
        value, done, v = best
        members = [u for u in np.flatnonzero(part == part[v]).tolist() if w.head[u] >= w.head[v]]
        text = f"In a schedule of less than {duration(low)} nothing that {counted(len(members), 'operation')} "
        text += (
            f"({listed(_names(problem, members))}) hand to each other has time for a transfer. So they share a device, "
        )
        text += f"take {duration(done)} there, and {duration(value - done)} must pass before and behind them"
        yield Reason("uncut", low, text, {"work_ns": done, "operations": len(members)})
    elif len(largest) > problem.devices and int(largest[problem.devices - 1] + largest[problem.devices]) >= low:
        count = problem.devices + 1
        text = (
            f"In a schedule of less than {duration(low)} there are {count} sets of operations that can't be cut, and "
        )
        text += f"two of them share a device: at least {duration(int(largest[count - 2] + largest[count - 1]))} of work"
        yield Reason("uncut", low, text, {"work_ns": int(largest[count - 2] + largest[count - 1]), "sets": count})


def _memory(problem: PlacementProblem, w: HeadsAndTails, low: int) -> Iterator[Reason]:
    """What can't be cut below ``low`` needs more devices of the largest memory than there are."""
    if problem.instance.task.memory == "none" or problem.memory.min(initial=0) < 0:
        return
    memory = int(problem.memory.max())
    part = lower.parts(problem, w, low - 1)
    sizes, bins = part_bytes(problem, part), needed(problem, part, memory)
    if bins > problem.devices:
        largest = size(int(sizes.max()))
        text = (
            f"In a schedule of less than {duration(low)} some operations can't be cut, and the bytes that these hold "
        )
        text += f"together (at most {largest}) " + (
            f"are more than the largest memory, {size(memory)}" if bins == NONE
            else f"fill {counted(bins, 'device')} of {size(memory)}; there are {problem.devices}"
        )  # fmt: skip
        yield Reason("memory", low, text, {"largest_bytes": int(sizes.max()), "memory_bytes": memory})


def _names(problem: PlacementProblem, members: list[int]) -> list[str]:
    return [repr(problem.names[v]) for v in members]
