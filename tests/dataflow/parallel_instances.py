"""Tiny dataflow instances whose kernels may be divided by experts, beside any other features."""

from __future__ import annotations

from random import Random
from typing import Any

from chipmap.instances.dataflow import DataflowInstance, Kernel
from chipmap.instances.dataflow.plans import allowed_degrees
from tests.dataflow.random_instances import mixed_instance, with_little_dram


def parallel_instance(random: Random) -> DataflowInstance:
    """A :func:`mixed_instance` in mode ``physical``, of whose kernels some may be divided by experts."""
    instance = mixed_instance(random)
    experts, active = random.choice(((2, 1), (3, 1), (4, 2), (8, 2), (5, 5)))
    kernels = [_divided(kernel, experts, active, random) for kernel in instance.workload.kernels]
    memory = instance.system.memory.replace(capacity_bytes=None)
    load = random.choice((1.0, 1.0, 1.25, 3.0))
    task = instance.task.replace(schemes={}, degrees=None, expert_load=load)
    instance = instance.replace(
        workload=instance.workload.replace(kernels=kernels),
        system=instance.system.replace(memory=memory),
        task=task,
        mode="physical",
    )
    if random.random() < 0.3:
        instance = instance.replace(task=instance.task.replace(micro_batch=None))
    updates = any(kernel.update for kernel in instance.workload.kernels)
    if updates and task.purpose == "training" and not task.across_layers:
        shard = random.choice((False, None, "optimizer", "gradients", "weights"))
        instance = instance.replace(task=instance.task.replace(shard=shard, optimizer_step=random.random() < 0.5))
    choices = allowed_degrees(instance)
    if choices and random.random() < 0.5:
        shared = [one for one in choices if one.expert > 1]
        degrees = random.choice(shared or choices)
        instance = instance.replace(task=instance.task.replace(degrees=degrees))
    return with_little_dram(instance, random) if choices and random.random() < 0.4 else instance


def _divided(kernel: Kernel, experts: int, active: int, random: Random) -> Kernel:
    """``kernel`` with a choice of schemes, E among them more often than not."""
    known = ["M", "N", "NONE"] + (["K", "K_RS"] if kernel.kind == "gemm" and kernel.weights else [])
    schemes = random.sample(known, random.choice((1, 1, 2)))
    fields: dict[str, Any] = {}
    if random.random() < 0.7:
        fields = {"experts": random.choice((experts, experts, experts + 1)), "active": active}
        fields |= {"fetch_bytes": 0, "table_bytes": 0, "fetch_outer": 0}
        schemes = [*schemes[:-1], "E"] if random.random() < 0.4 else [*schemes, "E"]
    return kernel.replace(schemes=schemes, **fields)
