"""What a row of a sweep says of a placement beside the checker's figures: where its time goes, what devices hold."""

from __future__ import annotations

from chipmap.explaining.placement.spent import StepTimeSpent, path_of_data, spent
from chipmap.instances.placement.instance import PlacementInstance, PlacementSolution
from chipmap.instances.placement.loads import loads
from chipmap.instances.placement.problem import placement_problem
from chipmap.instances.placement.timeline import timeline
from chipmap.validation.placement.facts import Facts
from chipmap.validation.placement.memory import Placed

_MS, _GIB = 1e6, 2**30


def measures(instance: PlacementInstance, solution: PlacementSolution | None) -> dict[str, float]:
    """The columns of ``docs/sweeps.md``. Step time: the path of data, whose parts add up to T1. Throughput: the device
    that sets the pace (with ``overlap`` of its transfers only what exceeds its computing). Both: the share of the time
    for which a device computes on average, and the largest peak."""
    if solution is None:
        return {}
    problem = placement_problem(instance)
    if problem.timed:
        line = timeline(problem, solution)
        sums, total, work = spent(path_of_data(line)), line.total, sum(line.busy)
    else:
        found = loads(problem, solution)
        most = max(found, key=lambda one: one.total)
        total, work = most.total, sum(one.work for one in found)
        sums = StepTimeSpent(compute=most.work, transfer=total - most.work)
    return {
        "computing_ms": sums.compute / _MS,
        "transfers_ms": sums.transfer / _MS,
        "device_wait_ms": sums.device / _MS,
        "channel_wait_ms": sums.channel / _MS,
        "other_wait_ms": (sums.rest + sums.idle) / _MS,
        "computing_share": sums.compute / total if total else 0.0,
        "transfers_share": sums.transfer / total if total else 0.0,
        "waiting_share": sums.waiting / total if total else 0.0,
        "utilisation": work / (problem.devices * total) if total else 0.0,
        "peak_gib": max(peak.bytes for peak in Placed(Facts(instance), solution).peaks.values()) / _GIB,
    }
