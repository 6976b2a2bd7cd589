"""Why an instance of family ``placement`` has no placement, in the user's words."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from chipmap.family import get_family
from chipmap.heuristics.placement.bounds.at_once import at_once, crowded
from chipmap.heuristics.placement.shared import common_devices, part_bytes
from chipmap.instances.placement.instance import PlacementInstance
from chipmap.instances.placement.problem import IntArray, PlacementProblem
from chipmap.methods.clashes import clashing, labels_of, not_known
from chipmap.records import counted
from chipmap.result import Infeasibility
from chipmap.run import Run

#: The labels of a contradiction, the one that says most first.
TOLD = ("C0", "C6", "C7", "C3", "C5", "C4", "C2", "C1")
#: What may help where a label takes part in a contradiction.
REMEDIES = {
    "C0": "raise task.limit_ns, or free a pin or a forbidden device",
    "C1": "a smaller group in together or apart",
    "C3": "a route more, or faster routes",
    "C4": "a device more, or a faster one",
    "C5": "routes with channels of their own",
    "C6": "more memory, or fewer operations tied to one device",
    "C7": "task.contiguous=false",
}


def impossible(problem: PlacementProblem) -> Iterator[Infeasibility]:
    """What can be seen at once: readers that no route reaches, and what is larger than the memories it may use; where
    there is nothing of it, what all devices hold at a time."""
    found = [*_one_by_one(problem)]
    yield from found or _too_much_at_once(problem)


def _one_by_one(problem: PlacementProblem) -> Iterator[Infeasibility]:
    """What needs no order of the operations."""
    yield from _unreached(problem)
    if problem.instance.task.memory == "none" or not problem.operations:
        return
    memory = problem.memory
    yield from _too_large(problem, _needs(problem))
    yield from _too_tied(problem)
    resident = int(problem.weights.sum()) + int(problem.storages.bytes[problem.storages.resident].sum())
    resident += sum(size for size, _ in problem.copies)
    if problem.instance.task.memory == "static":
        resident += int(problem.storages.bytes[~problem.storages.resident].sum())
    if memory.min() >= 0 and resident > memory.sum():
        have = counted(int(memory.sum()), "byte")
        message = f"all devices together have {have}, what rests on them takes {resident:,} at least"
        yield Infeasibility.of(
            "C6",
            "memory",
            (resident, int(memory.sum()), "bytes"),
            message,
            "more devices, or more memory",
            labels=("C6",),
        )


def _too_much_at_once(problem: PlacementProblem) -> Iterator[Infeasibility]:
    """What all devices together hold while an operation runs, in any schedule, where it is more than they have."""
    live, limit = problem.timed and problem.instance.task.memory == "live", int(problem.memory.sum())
    if not live or not problem.operations or problem.memory.min() < 0:
        return
    if int(problem.weights.sum() + problem.storages.bytes.sum()) + sum(size for size, _ in problem.copies) <= limit:
        return
    for v in crowded(problem, limit):
        need, before, after = at_once(problem, v)
        if need > limit:
            message = f"while operation {problem.names[v]!r} runs, all devices together hold {need:,} bytes at least:"
            message = f"{message} what {counted(before, 'operation')} before it made for {after:,} after it, and what"
            message = f"{message} rests; the memories have {counted(limit, 'byte')}"
            labels = ("C2", "C3", "C6") if problem.devices > 1 else ("C2", "C6")
            remedies = "more devices, or more memory", "a smaller batch, or fewer steps"
            yield Infeasibility.of("C6", "memory", (need, limit, "bytes"), message, *remedies, labels=labels)
            return


def _too_large(problem: PlacementProblem, needs: IntArray) -> Iterator[Infeasibility]:
    """The operation that lacks the most bytes on the largest device that may run it."""
    most = _largest_memory(problem, problem.allowed)
    lacks = np.where(most >= 0, needs - most, 0)
    v, count = int(lacks.argmax()), int((lacks > 0).sum())
    if count:
        need, limit = int(needs[v]), int(most[v])
        message = (
            f"operation {problem.names[v]!r} needs {need:,} bytes at a time, no device that may run it has more than "
        )
        more = (
            f" (there {'is' if count == 2 else 'are'} {counted(count - 1, 'more such operation')})" if count > 1 else ""
        )
        remedy = f"a device with at least {need:,} bytes, or the operation split"
        held = int(_needs(problem, inputs=False)[v])
        labels = ("C6",) if held > limit or not problem.timed else ("C2", "C3", "C6")
        yield Infeasibility.of(
            "C6", "memory", (need, limit, "bytes"), f"{message}{limit:,}{more}", remedy, labels=labels
        )


def _too_tied(problem: PlacementProblem) -> Iterator[Infeasibility]:
    """Groups larger than any memory that they may use; a device too small for all that no other one may run."""
    together, size = common_devices(problem), np.bincount(problem.group, minlength=problem.operations)
    held, most = part_bytes(problem, problem.group), _largest_memory(problem, together)
    lacks = np.where((most >= 0) & (size > 1), held - most, 0)
    g = int(lacks.argmax())
    if lacks[g] > 0:
        need, limit = int(held[g]), int(most[g])
        message = (
            f"{counted(int(size[g]), 'operation')} that share a device, {problem.names[g]!r} the first, hold {need:,}"
        )
        message = f"{message} bytes for the whole step, no device that may run them has more than {limit:,}"
        remedy = f"a device with at least {need:,} bytes, or a smaller group"
        yield Infeasibility.of("C1", "memory", (need, limit, "bytes"), message, remedy, labels=("C1", "C6"))
    for d, limit in enumerate(problem.memory.tolist()):
        tied = np.flatnonzero(together[:, d] & (together.sum(axis=1) == 1))
        if limit < 0 or len(set(problem.group[tied].tolist())) < 2:
            continue
        part = problem.group.copy()
        part[tied] = tied[0]
        need = int(part_bytes(problem, part)[tied[0]])
        if need > limit:
            name = problem.device_names[d]
            message = f"device {name!r} has {counted(limit, 'byte')}, what may run nowhere else holds {need:,}"
            remedy = f"at least {need:,} bytes for it, or another device allowed to some of it"
            labels = ("C1", "C6") if problem.groups else ("C6",)
            yield Infeasibility.of("C6", "memory", (need, limit, "bytes"), message, remedy, labels=labels)


def _largest_memory(problem: PlacementProblem, allowed: NDArray[np.bool_]) -> IntArray:
    """The largest memory of the ``allowed`` devices [N, D] of each operation; -1 where one of them has no limit."""
    most: IntArray = np.where(allowed, problem.memory[None, :], -1).max(axis=1)
    most[(allowed & (problem.memory[None, :] < 0)).any(axis=1)] = -1
    return most


def _unreached(problem: PlacementProblem) -> Iterator[Infeasibility]:
    """A reader that can't get its input: on no pair of their devices, nor on one device, by whatever came before.

    Devices from which no reader's device is reached are struck off, and the reverse, until nothing changes.
    """
    reach = (problem.network.kind >= 0) | np.eye(problem.devices, dtype=bool)
    if reach.all() or not problem.timed or not problem.operations:
        return
    u, v = problem.storages.sources, problem.storages.readers
    allowed, before = common_devices(problem), -1
    labels = ("C1", "C3") if problem.groups else ("C3",)
    while allowed.sum() != before:
        before = int(allowed.sum())
        for one, other, ways in ((u, v, reach.T), (v, u, reach)):
            kept = allowed.copy()
            np.logical_and.at(kept, one, allowed[other] @ ways)
            lost = np.flatnonzero(~kept[one].any(axis=1))
            if lost.size:
                yield _no_route(problem, int(u[lost[0]]), int(v[lost[0]]), allowed, labels)
                return
            np.logical_and.at(allowed, problem.group, kept)
            allowed = allowed[problem.group]
            gone = np.flatnonzero(~allowed.any(axis=1))
            if gone.size:
                name = problem.names[int(gone[0])]
                message = f"no device of the group of {name!r} has routes to all that it reads and to all that read it"
                yield Infeasibility.of(
                    "C3", "routes", (1, 0, "routes"), message, "a route more, or a smaller group", labels=labels
                )
                return


def _no_route(
    problem: PlacementProblem, u: int, v: int, allowed: NDArray[np.bool_], labels: tuple[str, ...]
) -> Infeasibility:
    sides = [
        " or ".join(repr(problem.device_names[d]) for d in np.flatnonzero(allowed[one])[:4].tolist()) for one in (u, v)
    ]
    message = f"{problem.names[v]!r} reads {problem.names[u]!r}, but no route leads from {sides[0]} to {sides[1]}"
    return Infeasibility.of(
        "C3", "routes", (1, 0, "routes"), message, "a route there, or a pin, a ban or a group less", labels=labels
    )


def _needs(problem: PlacementProblem, inputs: bool = True) -> IntArray:
    """The bytes that the device of each operation must have while it runs: weights, inputs and outputs [N].

    Without ``inputs``: those that depend on no transfer and no order."""
    storages, needs, task = problem.storages, problem.weights.copy(), problem.instance.task
    # whether an operation takes time on each device that may run it: what takes none holds its output for none
    runs = np.where(problem.allowed, problem.time, 1).min(axis=1) > 0
    rests = runs[storages.producer] | storages.resident | (task.memory == "static")
    np.add.at(needs, storages.producer[rests], storages.bytes[rests])
    other = storages.readers != storages.sources
    if inputs or task.memory == "static":
        np.add.at(needs, storages.readers[other], storages.bytes[storages.read[other]])
    for size, readers in problem.copies:
        needs[list(readers)] += size
    return np.where(runs, needs, problem.weights) if task.memory == "live" else needs


def clash(problem: PlacementProblem, run: Run) -> list[Infeasibility]:
    """The reason after a proof that no placement exists, though each demand alone could be met: the labels that CP-SAT
    proves to contradict each other. None where that isn't found; the run's notes say so."""
    names = _names(problem.instance, run)
    if not names:
        not_known(run, "placement")
        return []
    labels = labels_of(names)
    label = next((one for one in TOLD if one in labels), labels[0])
    known = get_family("placement").words
    words = [f"{one} {known[one]}" for one in labels if one != "C0" or len(labels) == 1]
    limit = problem.instance.task.limit_ns
    if label == "C0" and limit is not None:
        also = f" that keeps {' and '.join(words)}" if "C0" not in words[0] else ""
        message = f"no placement{also} ends within {limit:,} ns"
        resource, demand, most, unit = "limit", 1, 0, "limits"
        if run.lower is not None and run.lower.value > limit:
            demand, most, unit = run.lower.value, limit, "ns"
            message = f"{message}: the step takes {demand:,} ns at least"
    else:
        message = f"no placement keeps {' and '.join(words)} at a time, on the devices that are allowed"
        resource, demand, most, unit = "devices", 1, 0, "placements"
    remedies = [REMEDIES[one] for one in labels if one in REMEDIES]
    return [Infeasibility.of(label, resource, (demand, most, unit), message, *remedies, labels=labels)]


def beyond_limit(least: int, limit: int, labels: tuple[str, ...]) -> Infeasibility:
    """C0: a bound on the step, which rests on ``labels``, is above its limit; both in ns."""
    message = f"no placement ends within {limit:,} ns: the step takes {least:,} ns at least"
    remedy = f"a limit of at least {least:,} ns (task.limit_ns), maybe more"
    return Infeasibility.of("C0", "limit", (least, limit, "ns"), message, remedy, labels=labels)


def against_limit(problem: PlacementProblem, run: Run) -> list[Infeasibility]:
    """The reason where the best bound is above the limit on the step; none where it isn't.

    The labels that contradict each other are asked for; where they aren't found, all those in force are named."""
    limit = problem.instance.task.limit_ns
    if not problem.timed or limit is None or run.lower is None or run.lower.value <= limit or run.best is not None:
        return []
    names = _names(problem.instance, run)
    labels = labels_of(names) if "c0_domain" in names else ("C0", "C1", "C2", "C3", "C4", "C5", "C6")
    return [beyond_limit(run.lower.value, limit, labels)]


def _names(instance: PlacementInstance, run: Run) -> tuple[str, ...]:
    """The constraints that clash, C0 among them only where the limit on T1 takes part (it is the model's horizon)."""
    from chipmap.formulations.placement.cpsat import build
    from chipmap.formulations.placement.cpsat_builder import PlacementCpChoices

    choices = PlacementCpChoices(labels="assume")
    free = instance.replace(task=instance.task.replace(limit_ns=None))
    names = clashing(run, lambda: build(free, choices))
    names = tuple(name for name in names if name != "c0_domain" or len(names) == 1)
    if names or instance.task.limit_ns is None:
        return names
    names = clashing(run, lambda: build(instance, choices))
    return tuple(sorted({"c0_domain", *names})) if names else ()
