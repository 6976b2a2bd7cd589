"""The first schedules of a multimodel instance, by plain code: what stands whatever becomes of the method.

Whole models go where they raise the objective, the latency or the energy least; in a single window models share out the
chiplets and are cut into segments of about equal time; where models are too large for an SRAM, chiplets are filled.
Limits (C4) are left to the checker: of all these schedules the best that it accepts counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

import msgspec

from chipmap.heuristics.multimodel.baselines import fits, provide, whole_models
from chipmap.heuristics.multimodel.frames.search import FrameSearch
from chipmap.heuristics.multimodel.frames.timetable import solution, timetable
from chipmap.heuristics.multimodel.starts import packed
from chipmap.instances.multimodel.instance import MAX_TOTAL, MultiInstance, Objective
from chipmap.instances.multimodel.pinned import drawn_chips, narrowed, pinned, restricted
from chipmap.instances.multimodel.problem import IntArray, MultiProblem, Segment, multi_problem, schedule, sums
from chipmap.methods.multimodel.frames import rated
from chipmap.run import Run

#: Paths of chiplets that are looked at for a model's segments; layers · chiplets above which one schedule is enough.
PATHS, LARGE = 500, 200_000
#: Ways to fill chiplets that are tried until the checker accepts one.
FILLINGS = 8
#: What whole models may aim at beside the objective: what limits (C4) ask for.
AIMS: tuple[Objective, ...] = ("latency", "energy")


def first(instance: MultiInstance, run: Run) -> None:
    """Report the first schedules; refused ones are forgotten."""
    problem = narrowed(multi_problem(instance))
    if rated(instance):
        return first_of_frames(problem, run)
    asked = pinned(problem)
    for seed in range(FILLINGS if asked is not None and asked.grouped else 1):
        if asked is not None and asked.grouped:  # groups share chiplets, or don't: their layers get one each
            if (chips := drawn_chips(problem, Random(seed))) is None:
                return
            problem = restricted(problem, chips)
        _first(problem, run)


def first_of_frames(problem: MultiProblem, run: Run) -> None:
    """Whole models or drawn segments, a few times where the checker refuses them; frames by their deadlines."""
    for seed in range(FILLINGS):
        search = FrameSearch(problem, seed)
        mapping = search.whole() if seed == 0 else search.spread()
        if mapping is None:
            continue
        starts = timetable(search.rated, mapping, search.rated.by_deadline)
        if run.solution(solution(search.rated, mapping, starts), "earliest deadline first").feasible:
            return
        run.rejected.pop()


def _first(problem: MultiProblem, run: Run) -> None:
    large = sum(model.layers for model in problem.models) * problem.chiplets > LARGE
    for source, windows in schedules(problem):
        if _valid(run, problem, windows, source) and large:
            return
    for seed in range(1 if large else FILLINGS):
        if run.best is not None or (full := packed(problem, seed)) is None:
            return
        _valid(run, problem, full, "full chiplets")


def _valid(run: Run, problem: MultiProblem, windows: list[list[Segment]], source: str) -> bool:
    """Report a schedule; whether it is valid."""
    if run.solution(schedule(problem, windows), source).feasible:
        return True
    run.rejected.pop()
    return False


def schedules(problem: MultiProblem) -> Iterator[tuple[str, list[list[Segment]]]]:
    """Schedules with their sources, each once."""
    seen = list[list[list[Segment]]]()
    task = problem.instance.task
    for aim in dict.fromkeys((task.objective, *AIMS)):
        changed = msgspec.structs.replace(task, objective=aim)
        aimed = replace(problem, instance=msgspec.structs.replace(problem.instance, task=changed))
        whole = whole_models(aimed)
        for windows in () if whole is None else (whole, _by_deadline(problem, whole)):
            if windows not in seen:
                seen.append(windows)
                yield "whole models", windows
    side_by_side = shared_out(problem)
    if side_by_side is not None and side_by_side not in seen:
        yield "models side by side", side_by_side


def _by_deadline(problem: MultiProblem, windows: list[list[Segment]]) -> list[list[Segment]]:
    """Windows of whole models, those with the earliest deadline first: no other cost depends on their order."""
    deadlines = [MAX_TOTAL if one.deadline_ns is None else one.deadline_ns for one in problem.instance.models]
    return sorted(windows, key=lambda window: min(deadlines[m] for m, *_ in window))


def shared_out(problem: MultiProblem) -> list[list[Segment]] | None:
    """A single window in which each model has a path of as many chiplets as its share of the work; None where models
    outnumber the chiplets or their layers fit no such path."""
    if len(problem.models) > problem.chiplets:
        return None
    work = [model.q * int(model.time.min(axis=1).sum()) for model in problem.models]
    shares = [min(n, model.layers) for n, model in zip(provide(work, problem.chiplets), problem.models, strict=True)]
    free, window = set(range(problem.chiplets)), list[Segment]()
    todo = sorted(range(len(problem.models)), key=lambda m: -work[m])
    for number, m in enumerate(todo):
        spare = len(free) - (len(todo) - number - 1)  # each model that follows needs one
        segments = next(
            (found for n in range(min(shares[m], spare), 0, -1) if (found := _on_path(problem, m, n, free))), None
        )
        if segments is None:
            return None
        window += segments
        free -= {c for _, _, _, c in segments}
    return [window]


def _on_path(problem: MultiProblem, m: int, count: int, free: set[int]) -> list[Segment] | None:
    """Model ``m`` on a path of ``count`` free chiplets, the fastest first; None where none is found."""
    speed = problem.models[m].time.sum(axis=0).tolist()
    stack, looked = [[c] for c in sorted(free, key=lambda c: -speed[c])], 0
    while stack and looked < PATHS:
        path, looked = stack.pop(), looked + 1
        if len(path) == count:
            if (segments := _cut(problem, m, path)) is not None:
                return segments
            continue
        near = [c for c in problem.neighbours[path[-1]] if c in free and c not in path]
        stack += [[*path, c] for c in sorted(near, key=lambda c: -speed[c])]
    return None


def _cut(problem: MultiProblem, m: int, path: Sequence[int]) -> list[Segment] | None:
    """Segments of the model along the path, a chiplet each, the longest as short as can be (transfers left out)."""
    before = sums(problem.models[m].time)
    low, high = 0, int(before[-1].max())
    best = _filled(problem, m, path, before, high)
    while best is not None and low < high:
        middle = (low + high) // 2
        found = _filled(problem, m, path, before, middle)
        low, high, best = (low, middle, found) if found is not None else (middle + 1, high, best)
    return best


def _filled(problem: MultiProblem, m: int, path: Sequence[int], before: IntArray, limit: int) -> list[Segment] | None:
    """Each chiplet takes what ``limit`` ns and its SRAM (C5) let it and leaves a layer for each later one; None if some
    are left."""
    layers, first, segments = problem.models[m].layers, 0, list[Segment]()
    for i, c in enumerate(path):
        end = int(before[:, c].searchsorted(before[first, c] + limit, side="right")) - 1
        end = min(end, layers - (len(path) - 1 - i))
        while end > first and not fits(problem, (m, first, end - 1, c)):
            end = first + (end - first) // 2  # halved, as a part of what fits does so as well
        if end <= first:
            return None
        segments.append((m, first, end - 1, c))
        first = end
    return segments if first == layers else None
