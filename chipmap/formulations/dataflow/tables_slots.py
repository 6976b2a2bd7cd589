"""The slots for partitions of both models: of each phase, or of each stage where stages share out kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution
from chipmap.instances.dataflow.problem import DataflowProblem
from chipmap.records import InputError

#: Models of more pairs of a copy and a slot are refused: they take half a minute and gigabytes to state.
LARGEST_MODEL = 100_000


def fused(instance: DataflowInstance) -> bool:
    """Whether kernels may share a partition."""
    return instance.task.fused and instance.system.chip.fused


def phase_slots(problem: DataflowProblem, layers: int, roomy: bool) -> tuple[range, ...]:
    """The slots of each copy: those of its phase, forward first; ``roomy``: as many as there may be without C4."""
    task, kernels = problem.instance.task, problem.instance.workload.kernels
    forward = layers * sum(kernel.phase == "forward" for kernel in kernels)
    sizes = [forward, layers * len(kernels) - forward]
    if roomy and task.exactly and task.partitions is not None:
        sizes = [max(task.partitions, size) if size else 0 for size in sizes]
    elif not roomy and fused(problem.instance) and task.partitions is not None:
        sizes = [(task.partitions if task.exactly else min(task.partitions, size)) if size else 0 for size in sizes]
    each = {"forward": range(sizes[0]), "backward": range(sizes[0], sum(sizes))}
    return tuple(each[kernel.phase] for kernel in kernels) * layers


def forward_slots(problem: DataflowProblem, phases: Sequence[range]) -> range:
    """The slots of the forward phase, the first one of those that there are."""
    ahead = any(kernel.phase == "forward" for kernel in problem.instance.workload.kernels)
    return phases[0] if ahead else range(0)


def stage_slots(problem: DataflowProblem, copies: int, fused: bool, roomy: bool) -> tuple[range, ...]:
    """The slots of each stage, as many as it may have partitions; ``roomy``: as it may have without C4."""
    task, each = problem.instance.task, copies
    if task.partitions is not None and fused:
        few = task.partitions if task.exactly else min(task.partitions, copies)
        each = max(few, copies) if roomy else few
    return tuple(range(s * each, (s + 1) * each) for s in range(problem.degrees.pipeline))


def set_places(problem: DataflowProblem, slots: Sequence[range], level: Sequence[int], roomy: bool) -> tuple[int, ...]:
    """The slot of each copy where kernels can't be fused and DRAM isn't limited (a topological order, since then it
    changes nothing), and where layouts are kept (in the order of their places: C0). Else none."""
    task, capacity = problem.instance.task, problem.instance.system.memory.capacity_bytes
    kept = task.keep not in (None, "none")
    if not kept and (fused(problem.instance) or roomy or capacity is not None):
        return ()
    copies = range(len(slots))
    order = sorted(copies, key=lambda i: (slots[i].start, problem.places[i] if kept else level[i], i))
    position = {i: c for c, i in enumerate(order)}
    return tuple(position[i] for i in copies)


def refuse_another(given: DataflowSolution, copies: int) -> None:
    """Raise :class:`InputError` for a mapping that isn't one of so many copies."""
    if {len(given.schemes), len(given.partitions)} != {copies}:
        what = f"the given mapping has {len(given.schemes)} schemes, the model {copies} kernels"
        raise InputError(what, "given", "Give one of this instance.")


def given_slots(
    problem: DataflowProblem, copies: int, given: DataflowSolution
) -> tuple[tuple[range, ...], tuple[range, ...]]:
    """The slots of each stage, no more than it has copies in a ``given`` mapping, and those of each copy."""
    refuse_another(given, copies)
    of, most = stages_of(given.partitions, given.stages), problem.instance.task.partitions
    stages: list[range] = []
    for s in range(problem.degrees.pipeline):
        first, kernels = stages[-1].stop if stages else 0, of.count(s)
        stages.append(range(first, first + (kernels if most is None else min(most, kernels))))
    return tuple(stages), tuple(stages[s] for s in of)


def stages_of(partitions: Sequence[int], stages: Sequence[int]) -> list[int]:
    """The stage of each copy from that of each partition (empty: all 0), without empty stages between."""
    of = [stages[p] if stages else 0 for p in partitions]
    used = sorted(set(of))
    return [used.index(s) for s in of]


def slots_in_stages(
    partitions: Sequence[int], stages: Sequence[int], slots: Sequence[range], place: Sequence[int]
) -> list[int] | None:
    """The slot of each copy: partitions numbered afresh within each stage, or a copy's ``place`` there.

    Empty stages come last: then no link carries more, so that the mapping is as good. None where a stage has too many
    partitions, or there are too many stages.
    """
    if stages and max(partitions) >= len(stages):
        return None
    of = stages_of(partitions, stages)
    numbers = [sorted({p for p, at in zip(partitions, of, strict=True) if at == s}) for s in range(max(of) + 1)]
    if len(numbers) > len(slots) or any(len(each) > len(slots[0]) for each in numbers):
        return None
    pairs = enumerate(zip(partitions, of, strict=True))
    return [slots[s].start + (place[i] if place else numbers[s].index(p)) for i, (p, s) in pairs]


def slots_in_phases(
    partitions: Sequence[int], slots: Sequence[range], used: Mapping[range, list[int]]
) -> list[int] | None:
    """The slot of each copy: the partitions ``used`` by each phase numbered afresh; None where it has too many."""
    if any(len(numbers) > len(phase) for phase, numbers in used.items()):
        return None
    return [own.start + used[own].index(partition) for partition, own in zip(partitions, slots, strict=True)]


def refuse_too_large(slots: Sequence[range], stages: int) -> None:
    """Raise :class:`InputError` for more than ``LARGEST_MODEL`` pairs of a copy and one of its ``slots``."""
    pairs, most = sum(map(len, slots)), max(1, LARGEST_MODEL // len(slots) // stages)
    if pairs > LARGEST_MODEL:
        raise InputError(
            f"a model would have {pairs:,} pairs of a kernel and a partition, at most {LARGEST_MODEL:,} are stated",
            "task.partitions",
            f"Ask for fewer partitions ({most}, say), or use the method dataflow/auto.",
        )
