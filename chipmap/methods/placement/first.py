"""The first placements of an instance, by plain code: what stands whatever becomes of the method.

Step time: human splits, one device, and devices filled within their memories; operations start in one order, each as
early as its device allows. Of these schedules the shortest that the checker accepts counts. Where memory is refused,
operations run as they are listed, then one at a time. Throughput: the same devices, and blocks of about equal time.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

import numpy as np

from chipmap.heuristics.placement.keys import by_rank
from chipmap.heuristics.placement.shared import part_bytes
from chipmap.heuristics.placement.starts import human
from chipmap.heuristics.placement.starts.apart import set_apart
from chipmap.heuristics.placement.starts.filling import filled
from chipmap.heuristics.placement.starts.in_order import Times, times_alone, times_in_order
from chipmap.heuristics.placement.starts.plain_blocks import blocks
from chipmap.instances.placement.instance import PlacementInstance, PlacementSolution
from chipmap.instances.placement.problem import IntArray, PlacementProblem, placement_problem
from chipmap.result import Termination
from chipmap.run import Run

SOURCE = "in order"
#: Operations up to which all placements are compared; beyond, the first valid one counts.
FEW = 2_500
#: Shares of its even part that a device takes before others do.
SHARES = (1.0, 1.1, inf)


def first(instance: PlacementInstance, run: Run) -> Termination:
    """Report the first placements; refused ones are forgotten."""
    problem = placement_problem(instance)
    if not problem.operations:
        _valid(run, PlacementSolution(instance=instance.name, devices={}))
    elif problem.timed:
        _schedules(problem, run)
    else:
        for device in _each_once(problem, _for_loads(problem)):
            valid = _valid(run, problem.solution(device))
            if valid and problem.operations > FEW:
                break
    return run.terminate()


def begun_only(run: Run) -> bool:
    """Whether all that is known is such a first placement: methods that need a good start make their own then."""
    return run.best is not None and run.best.source == SOURCE and run.options.warm_start is None


def _valid(run: Run, solution: PlacementSolution) -> bool:
    """Report a placement; whether it is valid."""
    if run.solution(solution, SOURCE).feasible:
        return True
    run.rejected.pop()
    return False


def _schedules(problem: PlacementProblem, run: Run) -> None:
    """Report the shortest valid schedule of a few placements, or the first one of a large instance."""
    rank, refused = by_rank(problem).tolist(), list[IntArray]()
    found = list[tuple[int, int, IntArray, Times]]()
    for device in _each_once(problem, _placements(problem)):
        times = times_in_order(problem, device, rank)
        if times is None:
            continue
        if problem.operations > FEW:
            if _valid(run, problem.solution(device, times.start, times.moves)):
                return
            refused.append(device)
        else:
            found.append((times.step, len(found), device, times))
    for _, _, device, times in sorted(found, key=lambda one: one[:2]):
        if _valid(run, problem.solution(device, times.start, times.moves)):
            return
        refused.append(device)
    listed = problem.order.tolist()
    for schedule in (times_in_order, times_alone):
        for device in reversed(refused):  # those that were filled first
            times = schedule(problem, device, listed)
            if times is not None and _valid(run, problem.solution(device, times.start, times.moves)):
                return


def _placements(problem: PlacementProblem) -> Iterator[IntArray]:
    """Devices [N] on which what rests fits: human splits, one device, then devices filled by their memories."""
    for device in (*_splits(problem), *_one_device(problem)):
        if _rests(problem, device):
            yield device
    for share in SHARES:
        found = filled(problem, problem.order.tolist(), share)
        if found is not None:
            yield found


def _for_loads(problem: PlacementProblem) -> Iterator[IntArray]:
    """The same for the throughput, and blocks; with C7 only what keeps to it."""
    yield from blocks(problem)
    yield from _one_device(problem)
    if not problem.instance.task.contiguous:
        yield from _placements(problem)


def _splits(problem: PlacementProblem) -> Iterator[IntArray]:
    if problem.devices > 1:
        made = human.layers(problem)
        for kind in human.SPLITS:
            yield human.split(problem, kind, made)


def _one_device(problem: PlacementProblem) -> Iterator[IntArray]:
    """Everything on one device, for each kind of those that may run everything, the fastest first."""
    able = np.flatnonzero(problem.allowed.all(axis=0)).tolist()
    kinds = {(problem.time[:, d].tobytes(), int(problem.gap[d]), int(problem.memory[d])): d for d in reversed(able)}
    for d in sorted(kinds.values(), key=lambda d: (int(problem.time[:, d].sum()), d)):
        yield np.full(problem.operations, d, dtype=np.int64)


def _rests(problem: PlacementProblem, device: IntArray) -> bool:
    """Whether what rests on the devices for the whole step fits their memories."""
    if problem.instance.task.memory == "none":
        return True
    return bool(
        (part_bytes(problem, device, problem.devices) <= np.where(problem.memory < 0, 2**62, problem.memory)).all()
    )


def _each_once(problem: PlacementProblem, devices: Iterator[IntArray]) -> Iterator[IntArray]:
    """Each of them once, with those apart that are to be."""
    seen = set[bytes]()
    for device in (set_apart(problem, one) for one in devices):
        if device.tobytes() not in seen:
            seen.add(device.tobytes())
            yield device
