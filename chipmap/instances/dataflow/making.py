"""The arrays of an instance at degrees of parallelism, made once and kept with the instance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chipmap.instances.dataflow.batch import micro_batches
from chipmap.instances.dataflow.ends import ends_of
from chipmap.instances.dataflow.free_layers import shared_out_for
from chipmap.instances.dataflow.instance import INTERLEAVED, DataflowInstance, Degrees, Keep, Recompute, Shard
from chipmap.instances.dataflow.late import fullest_first, late_moments
from chipmap.instances.dataflow.options import Option, all_options, behind_ticks, filled_ticks, ticks_of
from chipmap.instances.dataflow.plans import settled, shared_by_plans, useful_plans
from chipmap.instances.dataflow.problem import LARGEST, DataflowProblem, IntArray, levels
from chipmap.instances.dataflow.uneven import End, Held, Longest, longest, stages_held
from chipmap.records import InputError, kept
from chipmap.records.decimals import exact


def dataflow_problem(
    instance: DataflowInstance,
    degrees: Degrees,
    micro_batch: int | None = None,
    chunks: int | None = None,
    recompute: Recompute | None = None,
    shard: Shard | None = None,
    keep: Keep | None = None,
    stage_layers: tuple[int, ...] | None = None,
) -> DataflowProblem:
    """The arrays of ``instance`` at ``degrees`` and by this plan (None: the task's, or the only useful one), kept
    with the instance, as instances never change. The problem's instance has this plan as the task's."""
    instance = settled(instance, micro_batch, chunks, recompute, shard, keep, stage_layers)
    task = instance.task
    unsettled = None in (task.micro_batch, task.recompute, task.shard)
    if unsettled or (task.chunks is None and task.schedule in INTERLEAVED):
        plan, *others = useful_plans(instance, degrees)
        instance = instance if others else settled(instance, *plan)
    found: dict[Degrees, DataflowProblem] = kept(instance, "_problems", lambda _: {})
    if degrees not in found:
        edges, distance = _tensors(instance)
        ends: tuple[End, End] = (End(), End())
        decide: Longest | None = None
        held: tuple[Held, ...] = ()
        if instance.task.uneven:
            ends = ends_of(instance, degrees, dataflow_problem)
            decide, held = longest(instance, degrees, ends), stages_held(instance, degrees, ends)
        else:
            held = late_moments(instance, degrees)
        options = all_options(instance, degrees, held)
        if not instance.task.uneven:
            options = fullest_first(options)
        _refuse_overflow(instance, options)
        found[degrees] = DataflowProblem(
            instance=instance,
            degrees=degrees,
            options=options,
            edges=edges,
            distance=distance,
            behind=behind_ticks(instance, degrees),
            filled=filled_ticks(instance, degrees),
            passes=_passes_ticks(instance, degrees),
            longest=decide,
            share_out=None if decide is None else shared_out_for,
            ends_after=sum(one.after for one in ends) if degrees.pipeline == 1 else max(one.after for one in ends),
        )
    return found[degrees]


def _passes_ticks(instance: DataflowInstance, degrees: Degrees) -> int:
    """T8: ``system.step_ns`` for each micro-batch of a replica, picoseconds."""
    return ticks_of(exact(instance.system.step_ns)) * int(micro_batches(instance, degrees))


def _tensors(instance: DataflowInstance) -> tuple[IntArray, IntArray]:
    """The edges of a layer, and how many levels each of them passes; found once for all plans."""
    shared = shared_by_plans(instance)
    if "tensors" not in shared:
        index = {kernel.name: i for i, kernel in enumerate(instance.workload.kernels)}
        edges = np.array([(index[u], index[v]) for u, v in instance.workload.edges], dtype=np.int64).reshape(-1, 2)
        level = levels(len(index), edges)
        shared["tensors"] = edges, level[edges[:, 1]] - level[edges[:, 0]]
    found: tuple[IntArray, IntArray] = shared["tensors"]
    return found


def _refuse_overflow(instance: DataflowInstance, options: Sequence[Sequence[Option]]) -> None:
    """Raise :class:`InputError` where a kernel takes so many picoseconds or bytes that sums could pass 64 bits."""
    for kernel, choice in zip(instance.workload.kernels, options, strict=True):
        largest = max(value for option in choice for value in (*option[1:-1], *option.kept_by))
        if largest > LARGEST:
            what = f"kernel {kernel.name!r} takes {largest:.3g} picoseconds or bytes on one chip"
            raise InputError(what, "workload.kernels", f"Numbers of a kernel must stay below {LARGEST:.3g}.")
