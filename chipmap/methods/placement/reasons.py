"""Why an instance of family ``placement`` has no placement, in the user's words."""

from __future__ import annotations

from collections.abc import Iterator

from chipmap.instances.placement.problem import PlacementProblem
from chipmap.result import Infeasibility


def impossible(problem: PlacementProblem) -> Iterator[Infeasibility]:
    """What can be seen at once: operations larger than any memory they may use, more weights than all memories."""
    if problem.instance.task.memory == "none":
        return
    memory, names = problem.memory.tolist(), problem.names
    for v, need in enumerate(_needs(problem)):
        most = [memory[d] for d in range(problem.devices) if problem.allowed[v, d]]
        if min(most) >= 0 and need > max(most):
            message = f"operation {names[v]!r} needs {need} bytes at a time, no device that may run it has more than "
            remedy = f"a device with {need} bytes, or the operation split"
            yield _reason("memory", need, max(most), "bytes", f"{message}{max(most)}", remedy)
    resident = int(problem.weights.sum()) + int(problem.storages.bytes[problem.storages.resident].sum())
    resident += sum(size for size, _ in problem.copies)
    if problem.instance.task.memory == "static":
        resident += int(problem.storages.bytes[~problem.storages.resident].sum())
    if min(memory) >= 0 and resident > sum(memory):
        message = f"all devices together have {sum(memory)} bytes, what rests on them takes {resident} at least"
        yield _reason("memory", resident, sum(memory), "bytes", message, "more devices, or more memory")


def _needs(problem: PlacementProblem) -> list[int]:
    """The bytes that the device of each operation must have while it runs: weights, inputs and outputs."""
    storages, needs = problem.storages, problem.weights.tolist()
    for s, u in enumerate(storages.producer.tolist()):
        for v in {u, *storages.read_by(s)}:
            # what takes no time holds its output for none
            if v != u or problem.instance.task.memory == "static" or storages.resident[s] or _runs(problem, u):
                needs[v] += int(storages.bytes[s])
    for size, readers in problem.copies:
        for v in readers:
            needs[v] += size
    if problem.instance.task.memory == "live":
        for v in range(problem.operations):
            if not _runs(problem, v):
                needs[v] = int(problem.weights[v])
    return needs


def _runs(problem: PlacementProblem, v: int) -> bool:
    """Whether operation v takes time on each device that may run it."""
    return bool(problem.time[v][problem.allowed[v]].min() > 0)


def clash(problem: PlacementProblem) -> list[Infeasibility]:
    """Reasons after a proof that no placement exists, though each demand alone could be met."""
    instance, task = problem.instance, problem.instance.task
    limits = problem.memory[problem.memory >= 0]
    if task.limit_ns is not None:
        message = f"no placement takes {task.limit_ns} ns or less"
        return [_reason("limit", 1, 0, "limits", message, "raise task.limit_ns", "C0")]
    if task.memory != "none" and limits.size:
        parts = ["groups of task together"] if instance.together else []
        parts += ["blocks"] if task.contiguous else []
        parts += ["missing routes"] if (problem.network.kind < 0).sum() > problem.devices else []
        also = f", with {' and '.join(parts)}" if parts else ""
        message = f"no placement fits the devices' memories{also}"
        return [_reason("memory", 1, 0, "devices", message, "more memory, or fewer operations tied to one device")]
    message = "devices, groups and routes allow no placement"
    return [_reason("devices", 1, 0, "devices", message, "free a group or a pin, or add a route", "C1")]


def _reason(
    resource: str, demand: int, limit: int, unit: str, message: str, remedy: str, label: str = "C6"
) -> Infeasibility:
    return Infeasibility(
        label=label, resource=resource, demand=demand, limit=limit, unit=unit, message=message, remedies=(remedy,)
    )
