"""Tiny dataflow instances whose kernels may be divided by experts, or by tokens, beside any other features."""

from __future__ import annotations

from random import Random
from typing import Any

from chipmap.instances.dataflow import DataflowInstance, Kernel
from chipmap.instances.dataflow.plans import allowed_degrees
from tests.dataflow.random_instances import mixed_instance, split_instance, with_little_dram


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


def tokens_instance(random: Random) -> DataflowInstance:
    """A :func:`split_instance` in mode ``physical``, whose products may scatter sums by tokens, or name an operand; a
    few kernels have divided experts as well."""
    instance = split_instance(random)
    read = {(u, v) for u, v in (*instance.workload.edges, *instance.workload.carries)}
    kernels = []
    for kernel in instance.workload.kernels:
        if kernel.kind == "gemm" and random.random() < 0.6:
            kernel = kernel.replace(schemes=(*kernel.schemes[: random.choice((0, 1, 2))], "K_N"))
        makers = sorted(u for u, v in read if v == kernel.name)
        if kernel.kind == "gemm" and not kernel.weights and not kernel.update and makers and random.random() < 0.8:
            more = ("N",) if "N" not in kernel.schemes else ()
            kernel = kernel.replace(operand=random.choice(makers), schemes=(*kernel.schemes, *more))
        if random.random() < 0.15:
            kernel = _divided(kernel, 4, 2, random)
        kernels.append(kernel)
    memory = instance.system.memory.replace(capacity_bytes=None)
    instance = instance.replace(
        workload=instance.workload.replace(kernels=kernels),
        system=instance.system.replace(memory=memory),
        task=instance.task.replace(degrees=None),
        mode="physical",
    )
    choices = [one for one in allowed_degrees(instance) if one.tensor > 1]
    if choices:
        instance = instance.replace(task=instance.task.replace(degrees=random.choice(choices)))
    return with_little_dram(instance, random) if choices and random.random() < 0.4 else instance
