"""What is known of a placement instance at next to no cost: two bounds or plain reasons that there is no placement, and
on large instances a first schedule.

None of it needs compiled code, which takes a second to load.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chipmap.heuristics.placement import human
from chipmap.heuristics.placement.in_order import in_order
from chipmap.heuristics.placement.keys import latest
from chipmap.instances.placement.instance import PlacementInstance
from chipmap.instances.placement.problem import IntArray, PlacementProblem, placement_problem
from chipmap.methods.placement.reasons import beyond_limit, impossible
from chipmap.result import Termination
from chipmap.run import Run

#: Operations from which a run starts with :func:`first`: below, its method finds one as soon.
LARGE = 10_000


def at_once(instance: PlacementInstance, run: Run) -> None:
    """Report what no placement can do, or else two bounds: all work shared out evenly, and the longest chain."""
    problem = placement_problem(instance)
    if reasons := list(impossible(problem)):
        run.infeasible(*reasons)
        return
    if not problem.operations:
        return
    least = np.where(problem.allowed, problem.time, problem.time.max()).min(axis=1)
    work, limit = -(-int(least.sum()) // problem.devices), instance.task.limit_ns
    run.bound(work, "work")
    if problem.timed:
        chain = int(latest(problem, least, np.zeros(len(problem.storages), dtype=np.int64)).max())
        run.bound(chain, "longest chain")
        if limit is not None and max(work, chain) > limit:
            labels = ("C0", "C4") if work > limit else ("C0", "C2", "C3")
            run.infeasible(beyond_limit(max(work, chain), limit, labels))


def first(instance: PlacementInstance, run: Run) -> Termination:
    """The first valid one of a few schedules that any person would write down, where that saves time."""
    problem = placement_problem(instance)
    wanted = run.options.warm_start is not None or problem.operations >= LARGE
    for device in candidates(problem) if wanted and problem.timed else ():
        solution = in_order(problem, device)
        if solution is None:
            continue
        if run.solution(solution, "in order").feasible:
            break
        run.rejected.pop()
    return run.terminate()


def candidates(problem: PlacementProblem) -> Iterator[IntArray]:
    """Human splits, then one device."""
    if problem.devices > 1:
        made = human.layers(problem)
        for kind in human.SPLITS:
            yield human.split(problem, kind, made)
    for d in np.flatnonzero(problem.allowed.all(axis=0))[:1].tolist():
        yield np.full(problem.operations, d, dtype=np.int64)
