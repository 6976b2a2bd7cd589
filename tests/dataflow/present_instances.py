"""Tiny dataflow instances in which exchanges depend on other kernels.

Tensors have several readers, backward kernels and updates name parameters, and a kernel adds up products.
"""

from __future__ import annotations

from random import Random
from typing import Any

from chipmap.instances.dataflow import DataflowInstance, Kernel
from chipmap.instances.dataflow.plans import allowed_degrees
from chipmap.records import InputError
from tests.dataflow.parallel_instances import parallel_instance, tokens_instance
from tests.dataflow.random_instances import split_instance


def present_instance(random: Random) -> DataflowInstance:
    """An instance in mode ``physical`` with what it can have of the three, on chips that mostly don't fuse."""
    instance = random.choice((split_instance, tokens_instance, tokens_instance, parallel_instance))(random)
    memory = instance.system.memory.replace(capacity_bytes=None)
    instance = instance.replace(mode="physical", system=instance.system.replace(memory=memory))
    changes = (_one_by_one, 0.7), (_both_phases, 0.7), (_shared, 0.8), (_added, 0.5), (_parameters, 0.9)
    for change, often in (*changes, (_trained, 0.6), (_kept, 0.6)):
        if random.random() < often:
            instance = valid(change(instance, random), instance)
    choices = [one for one in allowed_degrees(instance) if one.tensor * one.expert > 1]
    if choices and random.random() < 0.8:
        degrees = random.choice(choices)
        instance = valid(instance.replace(task=instance.task.replace(degrees=degrees)), instance)
    return instance


def valid(changed: DataflowInstance, before: DataflowInstance) -> DataflowInstance:
    """``changed``, or ``before`` where the records refuse it."""
    try:
        changed.check()
    except InputError:
        return before
    return changed


def _with(instance: DataflowInstance, **fields: Any) -> DataflowInstance:
    return instance.replace(workload=instance.workload.replace(**fields))


def _one_by_one(instance: DataflowInstance, random: Random) -> DataflowInstance:
    """No fusing, so that layouts can be kept for other partitions."""
    task = instance.task.replace(
        fused=False, recompute=False, selective=(), stages="layers", across_layers=False, together=(), partitions=None
    )
    sram = random.choice((10**5, 10**6, 10**7))
    system = instance.system.replace(chip=instance.system.chip.replace(sram_bytes=sram))
    return instance.replace(task=task.replace(exactly=False, degrees=None), system=system)


def _both_phases(instance: DataflowInstance, random: Random) -> DataflowInstance:
    """Some kernels in the backward phase, products and updates among them."""
    kernels, carries = list(instance.workload.kernels), instance.workload.carries
    first = random.randint(1, max(1, len(kernels) - 1))
    sizes = {
        "outer": 1,
        "M": random.choice((3, 64, 301)),
        "K": random.choice((3, 32, 201)),
        "N": random.choice((1, 64)),
    }
    for i, kernel in enumerate(kernels):
        fields: dict[str, Any] = {"phase": "backward", "update": random.random() < 0.4} if i >= first else {}
        if random.random() < 0.6:
            schemes = random.sample(("K", "K_RS", "K_N", "M", "N", "NONE", "OUTER"), random.choice((1, 2)))
            fields |= {"kind": "gemm", "flop": None, "flop_per_element": 0, "output_bytes": None, "fetch_outer": 0}
            fields |= {**sizes, "weights": not fields.get("update"), "schemes": schemes, "weight_bytes": None}
            fields |= {"M": sizes["K"], "K": sizes["M"]} if i >= first else {}
        kernels[i] = kernel.replace(**fields) if fields else kernel
    late = {kernel.name for kernel in kernels[first:]}
    carries = tuple((u, v) for u, v in carries if (u in late) == (v in late))
    return _with(instance, kernels=kernels, carries=carries)


def _shared(instance: DataflowInstance, random: Random) -> DataflowInstance:
    """A tensor with several readers, of which each may have other schemes."""
    names = [kernel.name for kernel in instance.workload.kernels]
    u = random.randrange(max(1, len(names) - 1))
    more = [(names[u], v) for v in names[u + 1 :] if random.random() < 0.8]
    return _with(instance, edges=[*dict.fromkeys((*instance.workload.edges, *more))])


def _added(instance: DataflowInstance, random: Random) -> DataflowInstance:
    """Two or three products of one size that the last kernel alone reads and adds up."""
    *kernels, adder = instance.workload.kernels
    some = [kernel.name for kernel in kernels if not kernel.update]
    if len(some) < 2:
        return instance
    makers = random.sample(some, min(len(some), random.choice((2, 2, 3))))
    first = {"outer": 1, "M": random.choice((3, 64, 301)), "N": random.choice((1, 5, 64)), "output_bytes": None}
    sums = {"kind": "gemm", "weights": True, "K": random.choice((3, 32, 201)), "fetch_outer": 0, "flop_per_element": 0}
    found: list[Kernel] = []
    for kernel in kernels:
        if kernel.name in makers:
            schemes = random.sample(("K", "K", "K_RS", "K_N", "M", "N", "NONE"), random.choice((1, 2)))
            kernel = kernel.replace(**first, **sums, schemes=[*dict.fromkeys(schemes)], operand="", flop=None)
        found.append(kernel)
    workload = instance.workload
    edges = [(u, v) for u, v in workload.edges if u not in makers] + [(u, adder.name) for u in makers]
    carries = [(u, v) for u, v in workload.carries if u not in makers]
    adds = adder.replace(adds=makers, operand="" if adder.operand in makers else adder.operand)
    return _with(instance, kernels=[*found, adds], edges=edges, carries=carries)


def _parameters(instance: DataflowInstance, random: Random) -> DataflowInstance:
    """Backward kernels and updates that name forward kernels with parameters."""
    kernels = instance.workload.kernels
    owners = [kernel.name for kernel in kernels if kernel.phase == "forward" and kernel.has_parameters]
    found = []
    for kernel in kernels:
        if kernel.phase == "backward" and owners and random.random() < 0.85:
            kernel = kernel.replace(parameters_of=random.choice(owners))
        found.append(kernel)
    return _with(instance, kernels=found)


def _trained(instance: DataflowInstance, random: Random) -> DataflowInstance:
    """Replicas that share out state, gradients or weights."""
    shard = random.choice((None, "optimizer", "gradients", "weights", "weights"))
    task = instance.task.replace(purpose="training", shard=shard, optimizer_step=random.random() < 0.3)
    return instance.replace(task=task)


def _kept(instance: DataflowInstance, random: Random) -> DataflowInstance:
    """Layouts kept as long as the task says."""
    return instance.replace(task=instance.task.replace(keep=random.choice(("none", "phase", "step", "step"))))
