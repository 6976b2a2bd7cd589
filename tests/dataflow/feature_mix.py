"""Tiny dataflow instances with features of all kinds side by side: what :mod:`benchmarks.dataflow_mixed` compares."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from chipmap.instances.dataflow import DataflowInstance
from chipmap.instances.dataflow.instance import SHARDS
from chipmap.instances.dataflow.plans import allowed_degrees
from chipmap.records import InputError
from tests.dataflow.parallel_instances import parallel_instance
from tests.dataflow.random_instances import (
    mixed_instance,
    outside_instance,
    split_instance,
    tiny_instance,
    with_little_dram,
)
from tests.dataflow.random_machines import on_machine
from tests.dataflow.staged_instances import staged_instance

BASES: tuple[Callable[[Random], DataflowInstance], ...] = (
    mixed_instance,
    outside_instance,
    outside_instance,
    outside_instance,
    split_instance,
    tiny_instance,
    parallel_instance,
    parallel_instance,
    staged_instance,
)


def feature_mix(random: Random) -> DataflowInstance:
    """One of the other random instances with any of: a free micro-batch, an interleaved schedule, recomputation of some
    kernels or as is best, state that replicas share out, the optimiser's step, a machine of any make, little DRAM.

    What an instance can't have it doesn't get.
    """
    instance = random.choice(BASES)(random)
    for change in (_micro_batch, _interleaved, _recomputed, _shared_out):
        if random.random() < 0.5:
            instance = _checked(change(instance, random), instance)
    if random.random() < 0.5:
        instance = _checked(on_machine(instance, random, dram=False), instance)
    memory = instance.system.memory.replace(capacity_bytes=None)
    instance = instance.replace(system=instance.system.replace(memory=memory))
    if random.random() < 0.6 and (choices := allowed_degrees(instance)):
        degrees = random.choice(choices)
        instance = _checked(instance.replace(task=instance.task.replace(degrees=degrees)), instance)
    return instance


def with_its_dram(instance: DataflowInstance, random: Random) -> DataflowInstance:
    """``instance`` as it is, or with about the DRAM that some mapping takes."""
    return with_little_dram(instance, random) if random.random() < 0.45 else instance


def features(instance: DataflowInstance) -> list[str]:
    """Names of what ``instance`` has of the newer features."""
    task, chip, memory = instance.task, instance.system.chip, instance.system.memory
    kernels = instance.workload.kernels
    named = {
        "mode physical": instance.mode == "physical",
        "micro-batch free": task.micro_batch is None,
        "degrees free": task.degrees is None,
        "backward kernels": any(kernel.phase == "backward" for kernel in kernels),
        "experts divided (E)": any("E" in kernel.schemes for kernel in kernels),
        "tokens split (N)": any("N" in kernel.schemes for kernel in kernels),
        "interleaved": task.schedule == "interleaved",
        "recomputation in full": task.recompute in (True, "full"),
        "recomputation of some": task.recompute == "selective",
        "recomputation free": task.recompute is None,
        "state shared out (ZeRO)": task.shard not in (False, "none", None),
        "state shared out or not, free": task.shard is None,
        "optimiser's step": task.optimizer_step,
        "stages of kernels": task.stages == "kernels",
        "across layers": task.across_layers,
        "one kernel at a time": not instance.asked[2],
        "pins or partitions given": bool(task.together) or task.partitions is not None or bool(task.schemes),
        "no overlap": not task.overlap,
        "tiles": task.utilisation is None,
        "number formats": any(
            (instance.workload.weight_format, instance.workload.activation_format, instance.workload.cache_format)
        ),
        "peaks by format": bool(chip.peaks),
        "vector units": chip.vector_tflops is not None,
        "efficiency by size": bool(chip.efficiency),
        "launches": chip.launch_ns > 0,
        "weights that stream": chip.streams,
        "switches that reduce": any(one.reduces for one in instance.system.network),
        "DRAM limited": memory.capacity_bytes is not None,
        "several network dimensions": len(instance.system.network) > 1,
    }
    return [name for name, has in named.items() if has]


def _checked(changed: DataflowInstance, before: DataflowInstance) -> DataflowInstance:
    try:
        changed.check()
    except InputError:
        return before
    return changed if allowed_degrees(changed) else before


def _changed(instance: DataflowInstance, **fields: Any) -> DataflowInstance:
    return instance.replace(task=instance.task.replace(**fields))


def _micro_batch(instance: DataflowInstance, random: Random) -> DataflowInstance:
    return _changed(instance, micro_batch=None, batch=random.choice((instance.task.batch, 4, 6, 8)))


def _interleaved(instance: DataflowInstance, random: Random) -> DataflowInstance:
    if instance.task.across_layers or instance.task.stages == "kernels":
        return instance
    changed = instance.replace(workload=instance.workload.replace(layers=random.choice((4, 4, 8))), mode="physical")
    batch, chunks = random.choice((4, 8)), random.choice((None, None, 1, 2))
    return _changed(changed, schedule="interleaved", chunks=chunks, batch=batch)


def _recomputed(instance: DataflowInstance, random: Random) -> DataflowInstance:
    forward = [one.name for one in instance.workload.kernels if one.phase == "forward"]
    if not 0 < len(forward) < len(instance.workload.kernels):
        return instance
    some = tuple(random.sample(forward, random.randint(1, len(forward))))
    return _changed(instance, recompute=random.choice(("selective", "selective", None, "full")), selective=some)


def _shared_out(instance: DataflowInstance, random: Random) -> DataflowInstance:
    updates = any(kernel.update for kernel in instance.workload.kernels)
    if not updates or instance.task.across_layers or instance.task.stages == "kernels":
        return instance
    shard, step = random.choice((None, None, *SHARDS)), random.random() < 0.6
    return _changed(instance.replace(mode="physical"), shard=shard, optimizer_step=step, purpose="training")
