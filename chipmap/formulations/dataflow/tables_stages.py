"""Slots of both models where the stages of a pipeline share out kernels (``task.stages`` ``kernels``)."""

from __future__ import annotations

from collections.abc import Sequence

from chipmap.instances.dataflow.costs import DataflowProblem


def stage_slots(problem: DataflowProblem, copies: int, fused: bool, roomy: bool) -> tuple[range, ...]:
    """The slots of each stage, as many as it may have partitions; ``roomy``: as it may have without C4."""
    task, each = problem.instance.task, copies
    if task.partitions is not None and fused:
        few = task.partitions if task.exactly else min(task.partitions, copies)
        each = max(few, copies) if roomy else few
    return tuple(range(s * each, (s + 1) * each) for s in range(problem.degrees.pipeline))


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
