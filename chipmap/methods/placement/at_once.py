"""What is known of a placement instance at next to no cost: two bounds or plain reasons that there is no placement.

None of it needs compiled code, which takes a second to load.
"""

from __future__ import annotations

import numpy as np

from chipmap.heuristics.placement.keys import latest
from chipmap.instances.placement.instance import PlacementInstance
from chipmap.instances.placement.problem import placement_problem
from chipmap.methods.placement.reasons import impossible
from chipmap.run import Run


def at_once(instance: PlacementInstance, run: Run) -> None:
    """Report what no placement can do, or else two bounds: all work shared out evenly, and the longest chain."""
    problem = placement_problem(instance)
    if reasons := list(impossible(problem)):
        run.infeasible(*reasons)
        return
    if not problem.operations:
        return
    least = np.where(problem.allowed, problem.time, problem.time.max()).min(axis=1)
    run.bound(-(-int(least.sum()) // problem.devices), "work")
    if problem.timed:
        run.bound(int(latest(problem, least, np.zeros(len(problem.storages), dtype=np.int64)).max()), "longest chain")
