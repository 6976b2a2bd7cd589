"""Weights that live on the host (``task.fetch_bytes_per_ns``), as ordinary instances without this choice.

Once the fetched operations are known, an instance of the family is left: these hold no weights, take longer, and with
memory rule ``live`` make a tensor without readers, which is held while they run. Its schedules are those of the
instance itself. With rule ``static`` each memory is smaller by the largest fetched weights.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import numpy as np

from chipmap.instances.placement.exact import exact_times
from chipmap.instances.placement.instance import PlacementInstance, PlacementSolution
from chipmap.instances.placement.problem import MAX_TOTAL, IntArray, PlacementProblem, placement_problem
from chipmap.networks.graph import Tensor
from chipmap.records import InputError, kept
from chipmap.records.decimals import exact


def fetch_times(problem: PlacementProblem) -> IntArray:
    """⌈q/ρ⌉ of each operation in ns [N]; 0 where nothing can be fetched.

    Raises :class:`InputError` where they are too long together.
    """
    rate = problem.instance.task.fetch_bytes_per_ns
    if rate is None:
        return np.zeros(problem.operations, dtype=np.int64)
    times = [math.ceil(size / exact(rate)) for size in problem.weights.tolist()]
    if sum(times) + problem.horizon > MAX_TOTAL:
        raise InputError("all times together exceed 64 bits", "task.fetch_bytes_per_ns", "Give a higher rate.")
    return np.array(times, dtype=np.int64)


def with_fetched(
    instance: PlacementInstance, names: Collection[str], buffers: Mapping[str, int] | None = None
) -> PlacementInstance:
    """The instance in which just these operations fetch their weights, without the choice.

    ``buffers``: with rule ``static`` the bytes by which each device's memory is smaller, by its name (None: the largest
    weights fetched, on each of them).
    """
    problem, fetched = placement_problem(instance), set(names)
    times = zip(problem.position.tolist(), fetch_times(problem).tolist(), strict=True)
    operations = instance.graph.operations
    longer = {v: (time, 0) for v, time in times if operations[v].name in fetched}
    changed = _without_weights(instance, longer)
    if instance.task.memory != "static":
        return changed
    if buffers is None:
        largest = max((operations[v].weight_bytes for v in longer), default=0)
        buffers = {one.name: largest for one in instance.system.devices}
    return _with_less(changed, buffers)


def relaxed(instance: PlacementInstance) -> PlacementInstance:
    """The instance with plain times in which no weights rest on a device: all its bounds and proofs hold.

    With rule ``live`` a device still holds an operation's weights while it runs, as it does in either case.
    """
    problem = placement_problem(instance)
    return _without_weights(instance, dict.fromkeys(problem.position[fetch_times(problem) > 0].tolist(), (0, 0)))


def in_part(instance: PlacementInstance, part: float) -> PlacementInstance:
    """Each operation keeps this ``part`` of its weights on its device and fetches the rest: no instance of the family,
    but its placements share out bytes and fetching evenly."""
    problem, longer = placement_problem(instance), dict[int, tuple[int, int]]()
    times, sizes = fetch_times(problem).tolist(), problem.weights.tolist()
    for v, time, size in zip(problem.position.tolist(), times, sizes, strict=True):
        if time:
            longer[v] = math.ceil((1 - part) * time), int(part * size)
    return _without_weights(instance, longer)


def loosest(problem: PlacementProblem) -> PlacementProblem:
    """The arrays of :func:`relaxed`; the problem itself where nothing may be fetched."""
    if problem.instance.task.fetch_bytes_per_ns is None:
        return problem
    return placement_problem(kept(problem.instance, "_relaxed", relaxed))


def plain(instance: PlacementInstance, solution: PlacementSolution) -> tuple[PlacementInstance, PlacementSolution]:
    """The instance without the choice of this solution, and the solution there: the same times, devices and bytes.

    Raises :class:`InputError` for a solution of something else.
    """
    if instance.task.fetch_bytes_per_ns is None:
        return instance, solution
    problem = placement_problem(instance)
    size = dict(zip(problem.names, problem.weights.tolist(), strict=True))
    buffers = {one.name: 0 for one in instance.system.devices}
    for name in solution.fetched:
        if not size.get(name) or solution.devices.get(name) not in buffers:
            remedy = "Take a solution of this very instance; `chipmap check` says more."
            raise InputError(f"operation {name!r} has no weights to fetch, or no device", "solution.fetched", remedy)
        home = solution.devices[name]
        buffers[home] = max(buffers[home], size[name])
    return with_fetched(instance, solution.fetched, buffers), solution.replace(fetched=())


def as_placed(problem: PlacementProblem, solution: PlacementSolution) -> tuple[PlacementProblem, PlacementSolution]:
    """:func:`plain`, by the arrays: for what takes a placement apart, whose operations all have plain times then."""
    if not solution.fetched:
        return problem, solution
    instance, changed = plain(problem.instance, solution)
    return placement_problem(instance), changed


def _with_less(instance: PlacementInstance, bytes_less: Mapping[str, int]) -> PlacementInstance:
    """Each device with so much less memory, but 0 at least."""
    devices = [
        one if one.memory_bytes is None else one.replace(memory_bytes=max(0, one.memory_bytes - bytes_less[one.name]))
        for one in instance.system.devices
    ]
    return instance.replace(system=instance.system.replace(devices=tuple(devices)))


def _without_weights(instance: PlacementInstance, longer: Mapping[int, tuple[int, int]]) -> PlacementInstance:
    """These operations longer by so many ns, and with so many bytes of weights; with rule ``live`` each makes a tensor
    of its other weights that nobody reads."""
    graph, operations, tensors = instance.graph, list(instance.graph.operations), list(instance.graph.tensors)
    times, chosen = dict(instance.time_ns), list(longer)
    for one in instance.system.classes if chosen else ():
        known = list(times.get(one.name) or [None] * len(operations))
        for v, exactly in zip(chosen, exact_times(instance, one, chosen), strict=True):
            known[v] = float(math.ceil(exactly) + longer[v][0])
        times[one.name] = tuple(known)
    for v, (_, stays) in longer.items():
        if instance.task.memory == "live":
            tensors.append(Tensor(producer=v, readers=(), bytes=operations[v].weight_bytes - stays))
        operations[v] = operations[v].replace(weight_bytes=stays)
    moves = (*instance.transfer_ns, *[None] * (len(tensors) - len(graph.tensors))) if instance.transfer_ns else ()
    return instance.replace(
        task=instance.task.replace(fetch_bytes_per_ns=None),
        graph=graph.replace(operations=tuple(operations), tensors=tuple(tensors)),
        transfer_ns=moves,
        time_ns=times,
    )
