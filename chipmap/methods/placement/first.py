"""The first placements of an instance, by plain code: what stands whatever becomes of the method.

Step time: human splits, one device, and devices filled within their memories; operations start in one order, each as
early as its device allows. Of these schedules the shortest that the checker accepts counts. Where memory is refused,
operations run in an order that holds little, or as they are listed, side by side or one at a time. Throughput: the same
devices, and blocks of about equal time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from math import inf

import numpy as np

from chipmap.heuristics.placement.keys import by_rank
from chipmap.heuristics.placement.shared import part_bytes
from chipmap.heuristics.placement.starts import human
from chipmap.heuristics.placement.starts.apart import set_apart
from chipmap.heuristics.placement.starts.filling import filled
from chipmap.heuristics.placement.starts.frugal import frugal_order, held_static, peaks_at_least, peaks_of
from chipmap.heuristics.placement.starts.in_order import Times, times_alone, times_in_order
from chipmap.heuristics.placement.starts.plain_blocks import blocks
from chipmap.instances.placement.instance import PlacementInstance, PlacementSolution
from chipmap.instances.placement.problem import IntArray, PlacementProblem, placement_problem
from chipmap.methods.placement import offload
from chipmap.result import Termination
from chipmap.run import Run

SOURCE = "in order"
#: Operations up to which all placements are compared; beyond, the first valid one counts.
FEW = 2_500
#: Shares of its even part that a device takes before others do.
SHARES = (1.0, 1.1, inf)


def first(instance: PlacementInstance, run: Run) -> Termination:
    """Report the first placements; refused ones are forgotten."""
    if instance.task.fetch_bytes_per_ns is not None:
        return offload.first(instance, run, first)
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
    rank = by_rank(problem).tolist()
    if problem.operations > FEW:
        _first_schedule(problem, run, rank)
        return
    devices = [*_each_once(problem, chain(_plain(problem), _filled(problem, problem.order.tolist())))]
    if not _shortest(problem, run, devices, rank):
        _frugal_schedules(problem, run, devices, _frugal(problem))


def _first_schedule(problem: PlacementProblem, run: Run, rank: list[int]) -> None:
    """Report the first valid schedule, the quickest ones to make first."""
    plain = [*_each_once(problem, _plain(problem))]
    for device in plain:
        if _shortest(problem, run, [device], rank):
            return
    order = _frugal(problem)
    if order and (_shortest(problem, run, plain, order) or _shortest_filled(problem, run, order)):
        return
    listed = [*_each_once(problem, _filled(problem, problem.order.tolist()))]
    for device in listed:
        if _shortest(problem, run, [device], rank):
            return
    _frugal_schedules(problem, run, [*plain, *listed], order)


def _shortest_filled(problem: PlacementProblem, run: Run, order: list[int]) -> bool:
    """Report the first valid schedule of devices filled in this order; whether there is one."""
    tried = list[IntArray]()
    for device in _each_once(problem, _filled(problem, order)):
        if _shortest(problem, run, [device], order):
            return True
        tried.append(device)
    return _shortest(problem, run, tried, order, times_alone)


def _frugal(problem: PlacementProblem) -> list[int]:
    """An order that holds little; empty where the memory rule doesn't look at orders."""
    return frugal_order(problem) if problem.instance.task.memory == "live" else []


def _frugal_schedules(problem: PlacementProblem, run: Run, refused: list[IntArray], frugal: list[int]) -> None:
    """Report the shortest valid schedule of these devices and of more, in orders that hold less."""
    devices = refused[::-1]  # those that were filled first
    if frugal:
        devices = [*_each_once(problem, chain(devices, _filled(problem, frugal)))]
    for order in filter(None, (frugal, problem.order.tolist())):
        for schedule in (times_in_order, times_alone):
            if _shortest(problem, run, devices, order, schedule):
                return


def _shortest(
    problem: PlacementProblem,
    run: Run,
    devices: Iterable[IntArray],
    order: list[int],
    schedule: Callable[[PlacementProblem, IntArray, list[int]], Times | None] = times_in_order,
) -> bool:
    """Report the shortest valid schedule on these ``devices``; whether there is one."""
    able = (device for device in devices if _may_fit(problem, device, order))
    made = [(device, times) for device in able if (times := schedule(problem, device, order)) is not None]
    fitting = [(device, times) for device, times in made if _fits(problem, device, times)]
    return any(
        _valid(run, problem.solution(device, times.start, times.moves))
        for device, times in sorted(fitting, key=lambda one: one[1].step)
    )


def _may_fit(problem: PlacementProblem, device: IntArray, order: list[int]) -> bool:
    """Whether a schedule on these devices in this order may fit the memories (C6): known before it is made."""
    rule = problem.instance.task.memory
    if rule == "none":
        return True
    return not _over(
        problem, peaks_at_least(problem, device, order) if rule == "live" else held_static(problem, device)
    )


def _fits(problem: PlacementProblem, device: IntArray, times: Times) -> bool:
    """Whether a schedule of devices that may fit does so (C6)."""
    return problem.instance.task.memory != "live" or not _over(problem, peaks_of(problem, device, times))


def _plain(problem: PlacementProblem) -> Iterator[IntArray]:
    """Devices [N] on which what rests fits: human splits, and one device."""
    for device in (*_splits(problem), *_one_device(problem)):
        if _rests(problem, device):
            yield device


def _filled(problem: PlacementProblem, order: list[int]) -> Iterator[IntArray]:
    """Devices [N] filled by their memories, one operation after the other."""
    for share in SHARES:
        found = filled(problem, order, share)
        if found is not None:
            yield found


def _for_loads(problem: PlacementProblem) -> Iterator[IntArray]:
    """The same for the throughput, and blocks; with C7 only what keeps to it."""
    yield from blocks(problem)
    yield from _one_device(problem)
    if not problem.instance.task.contiguous:
        yield from _plain(problem)
        yield from _filled(problem, problem.order.tolist())


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


def _over(problem: PlacementProblem, held: IntArray) -> bool:
    """Whether these bytes on the devices [D] are more than their memories."""
    return bool((held > np.where(problem.memory < 0, 2**62, problem.memory)).any())


def _rests(problem: PlacementProblem, device: IntArray) -> bool:
    """Whether what rests on the devices for the whole step fits their memories."""
    if problem.instance.task.memory == "none":
        return True
    return not _over(problem, part_bytes(problem, device, problem.devices))


def _each_once(problem: PlacementProblem, devices: Iterator[IntArray]) -> Iterator[IntArray]:
    """Each of them once, with those apart that are to be."""
    seen = set[bytes]()
    for device in (set_apart(problem, one) for one in devices):
        if device.tobytes() not in seen:
            seen.add(device.tobytes())
            yield device
