"""The degrees and the plans of a batch that a task allows, and those of them that are worth trying."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import msgspec

from chipmap.instances.dataflow.batch import paired
from chipmap.instances.dataflow.instance import (
    INTERLEAVED,
    LATE,
    PARALLELISMS,
    SHARDS,
    BatchPlan,
    DataflowInstance,
    Degrees,
    Keep,
    Recompute,
    Shard,
    check_degrees,
    divides_experts,
    divisors,
)
from chipmap.records import InputError, kept


def allowed_degrees(instance: DataflowInstance) -> list[Degrees]:
    """The task's degrees, or all that the network holds: the pipeline on one network dimension at most, tensor on
    as many as the task allows, data (or, where kernels name E, expert) on the others; stages divide the layers (unless
    they share out kernels), replicas the batch. Raises :class:`InputError` where chips are unequal."""
    if instance.system.others:
        what = "has groups of unequal chips, for which this isn't there"
        raise InputError(what, "system.others", "Use the methods dataflow/auto, mip, cpsat or bounds.")
    if instance.task.degrees is not None:
        return [instance.task.degrees]
    found = []
    for degrees in held_degrees(instance):
        try:
            check_degrees(instance, degrees)
        except InputError:
            continue
        found.append(degrees)
    return found


def held_degrees(instance: DataflowInstance) -> Iterator[Degrees]:
    """Every way to give each network dimension a parallelism, whether it divides layers and batch or not."""
    sizes = [dimension.size for dimension in instance.system.network]
    kinds = PARALLELISMS if divides_experts(instance) else tuple(one for one in PARALLELISMS if one != "expert")
    for uses in product(kinds, repeat=len(sizes)):
        if uses.count("tensor") <= instance.task.tensor_dimensions and uses.count("pipeline") <= 1:
            yield Degrees(**Degrees.held(sizes, uses), dimensions=uses)


def allowed_micro_batches(instance: DataflowInstance, degrees: Degrees) -> tuple[int, ...]:
    """The task's micro-batch, or all that divide a replica's samples, the least first; interleaved with given chunks
    those of which a replica has a multiple of its stages; in pairs of passes two or more for each stage."""
    task = instance.task
    if task.micro_batch is not None:
        return (task.micro_batch,)
    found = divisors(task.batch // degrees.data)
    if paired(instance, degrees):
        return tuple(one for one in found if task.batch // (degrees.data * one) >= 2 * degrees.pipeline)
    if (task.chunks or 1) == 1:
        return found
    return tuple(one for one in found if task.batch // (degrees.data * one) % degrees.pipeline == 0)


def allowed_plans(instance: DataflowInstance, degrees: Degrees) -> list[BatchPlan]:
    """Every plan that the task allows, the least micro-batches first.

    Interleaved, a replica has a multiple of its stages of micro-batches, unless a stage is one chunk. Where nothing is
    interleaved, or recomputation, what replicas share out or how long layouts are kept isn't to be chosen, that stays
    None.
    """
    task, stage = instance.task, max(1, instance.workload.layers // degrees.pipeline)
    chunks: tuple[int | None, ...] = (task.chunks,)
    if task.schedule in INTERLEAVED and task.chunks is None:
        most = -(-instance.workload.layers // degrees.pipeline)
        chunks = divisors(stage) if not task.uneven else tuple(range(1, most + 1))
    if task.stage_layers:
        chunks = tuple(one for one in chunks if (one or 1) * degrees.pipeline == len(task.stage_layers))
    layers = (instance.workload.layers,) if task.stage_layers is None and degrees.pipeline == 1 else None
    again: tuple[Recompute | None, ...] = (None,)
    if task.recompute is None:
        again = ("none", "selective", "full") if task.selective else ("none", "full")
    shared: tuple[Shard | None, ...] = (None,)
    if task.shard is None:
        shared = SHARDS if degrees.data > 1 else ("none",)
    keeps: tuple[Keep | None, ...] = (None,)
    if task.keep is None and (degrees.tensor > 1 or degrees.expert > 1):
        keeps = offered_keeps(instance)
    return [
        BatchPlan(each, parts, which, what, how_long, layers if (parts or 1) == 1 else None)
        for each in allowed_micro_batches(instance, degrees)
        for parts in chunks
        if parts in (None, 1) or task.batch // (degrees.data * each) % degrees.pipeline == 0
        for which in again
        for what in shared
        for how_long in keeps
        if how_long in (None, "none") or (which or task.recomputed) == "none"
    ]


def offered_keeps(instance: DataflowInstance) -> tuple[Keep | None, ...]:
    """How long layouts may be kept that a reader paid for, where that makes any difference; else None alone.

    It makes none in mode ``dfmodel`` and where no tensor has two readers. Chips that fuse kernels, stages of kernels,
    partitions across layers and late updates keep a layout for its partition alone (page, "Exchanges").
    """
    return kept(instance, "_keeps", _offered_keeps)


def _offered_keeps(instance: DataflowInstance) -> tuple[Keep | None, ...]:
    task, workload = instance.task, instance.workload
    fixed = instance.mode == "dfmodel" or instance.asked[2] or task.stages == "kernels" or task.across_layers
    fixed = fixed or task.schedule in LATE or task.uneven
    phase = {kernel.name: kernel.phase for kernel in workload.kernels}
    read: dict[str, list[str]] = {}
    for u, v in workload.edges:
        read.setdefault(u, []).append(phase[v])
    several = [phases for phases in read.values() if len(phases) > 1]
    if fixed or not several:
        return (None,)
    both = any(len(set(phases)) > 1 for phases in several)
    return ("none", "phase", "step") if both else ("none", "phase")


def useful_plans(instance: DataflowInstance, degrees: Degrees) -> list[BatchPlan]:
    """Those of :func:`allowed_plans` of which one is the best.

    Without a limit on DRAM nothing need be recomputed: a kernel that is gathers its parameters once more, and spares
    one backward kernel as much. Without a pipeline to fill the number of chunks changes nothing: one. Without both the
    largest micro-batch costs nothing (page, "Micro-batches"), unless chips may have whole samples of it.
    """
    allowed = allowed_plans(instance, degrees)
    if instance.system.memory.capacity_bytes is None and not _spares_gathers(instance):
        allowed = [one for one in allowed if one.recompute in (None, "none")]
    if degrees.pipeline > 1:
        return allowed
    allowed = [one for one in allowed if one.chunks == allowed[0].chunks]
    by_samples = degrees.tensor > 1 and any("B" in kernel.schemes for kernel in instance.workload.kernels)
    if instance.system.memory.capacity_bytes is not None or by_samples:
        return allowed
    return [one for one in allowed if one.micro_batch == allowed[-1].micro_batch]


def _spares_gathers(instance: DataflowInstance) -> bool:
    """Whether recomputing a kernel may spare several backward kernels the gather of its parameters."""
    users = [one.parameters_of for one in instance.workload.kernels if one.parameters_of and not one.update]
    return instance.task.shard not in (False, "none", "optimizer", "gradients") and len(users) > len({*users})


def settled(
    instance: DataflowInstance,
    micro_batch: int | None,
    chunks: int | None = None,
    recompute: Recompute | None = None,
    shard: Shard | None = None,
    keep: Keep | None = None,
    stage_layers: tuple[int, ...] | None = None,
) -> DataflowInstance:
    """``instance`` with this plan as the task's (None: the task's own); kept with it.

    Raises :class:`InputError` where a micro-batch or a stage would be empty. Nothing else of the plan is checked.
    """
    for field, value in (("micro_batch", micro_batch), ("chunks", chunks)):
        if value is not None and value < 1:
            raise InputError(f"is {value}", field, "Give a whole number from 1 on.")
    task, plan = instance.task, BatchPlan(micro_batch, chunks, recompute, shard, keep, stage_layers)
    changes: dict[str, object] = plan._asdict()
    changes = {field: value for field, value in changes.items() if value not in (None, getattr(task, field))}
    if not changes:
        return instance
    found: dict[BatchPlan, DataflowInstance] = kept(instance, "_settled", lambda _: {})
    if plan not in found:
        task = msgspec.structs.replace(task, **changes)
        found[plan] = msgspec.structs.replace(instance, task=task)
        kept(found[plan], "_shared", lambda _: shared_by_plans(instance))
    return found[plan]


def shared_by_plans(instance: DataflowInstance) -> dict[str, Any]:
    """What is kept with an instance and all its settled copies: numbers that no plan but the micro-batch changes."""
    return kept(instance, "_shared", lambda _: {})
