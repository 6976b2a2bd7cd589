"""What is known of a placement instance at next to no cost: two bounds or plain reasons that there is no placement.

None of it needs compiled code, which takes a second to load.
"""

from __future__ import annotations

import numpy as np

from chipmap.heuristics.placement.keys import latest
from chipmap.instances.placement.instance import PlacementInstance
from chipmap.instances.placement.offload import loosest
from chipmap.instances.placement.problem import placement_problem
from chipmap.instances.placement.system import routes_of
from chipmap.methods.placement.reasons import beyond_limit, impossible
from chipmap.run import Run


def at_once(instance: PlacementInstance, run: Run) -> None:
    """Report proofs that no placement fits, or else two bounds: all work shared out evenly, and the longest chain."""
    problem = loosest(placement_problem(instance))
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


def advice(instance: PlacementInstance, run: Run) -> None:
    """Where no device can send to any other one: a note that says so, and how devices are joined."""
    if len(instance.system.devices) > 1 and not routes_of(instance.system):
        text = (
            "no device can send to another one: the system has neither links nor routes, so that all operations that "
            "exchange tensors share a device. To join all devices, give links (ns, bytes/ns), such as "
            """--set 'system.links={"latency_ns": 2000, "bytes_per_ns": 10}'"""
        )
        run.note("advice", text)
