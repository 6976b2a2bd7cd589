"""Tiny random instances for the page's own brute force: features of all kinds side by side, and the small end of each.

Latencies and rates differ between dimensions, tensors and parameters may have no bytes, and sums run behind the
backward pass, or updates late.
"""

from __future__ import annotations

from itertools import islice
from random import Random
from typing import Any

from chipmap.instances.dataflow import DataflowInstance
from chipmap.records import InputError
from tests.dataflow.feature_mix import feature_mix
from tests.dataflow.page.cost import judged
from tests.dataflow.page.mappings import mappings
from tests.dataflow.parallel_instances import tokens_instance
from tests.dataflow.present_instances import present_instance
from tests.dataflow.random_machines import on_machine
from tests.dataflow.rule_instances import with_exchanges


def page_instance(random: Random) -> DataflowInstance:
    """A random instance; what it can't have it doesn't get. DRAM, where limited, is that of some mapping, or a byte
    less."""
    kinds = (feature_mix, feature_mix, tokens_instance, present_instance, present_instance, present_instance)
    instance = random.choice(kinds)(random)
    instance = _if_valid(_plain_network(instance, random), instance)
    for change, often in ((_nothing, 0.5), (_behind, 0.6), (_late, 0.3), (_state, 0.4)):
        if random.random() < often:
            instance = _if_valid(change(instance, random), instance)
    if random.random() < 0.4:
        instance = _if_valid(with_exchanges(instance, random), instance)
    if random.random() < 0.3:
        instance = _if_valid(on_machine(instance, random, dram=False), instance)
    some = [*islice(mappings(instance), 60)]
    capacity = None
    if some and random.random() < 0.4:
        capacity = max(1, judged(instance, random.choice(some)).dram - random.choice((0, 0, 1)))
    memory = instance.system.memory.replace(capacity_bytes=capacity)
    return instance.replace(system=instance.system.replace(memory=memory))


def _if_valid(changed: DataflowInstance, before: DataflowInstance) -> DataflowInstance:
    try:
        changed.check()
    except InputError:
        return before
    return changed


def _plain_network(instance: DataflowInstance, random: Random) -> DataflowInstance:
    """Dimensions with rates and latencies of their own, and any DRAM."""
    network = [
        one.replace(
            bytes_per_ns=one.bytes_per_ns * random.choice((1, 2, 4)), latency_ns=random.choice((0.0, 50.0, 3e3))
        )
        for one in instance.system.network
    ]
    memory = instance.system.memory.replace(capacity_bytes=None)
    return instance.replace(system=instance.system.replace(network=network, memory=memory))


def _nothing(instance: DataflowInstance, random: Random) -> DataflowInstance:
    """Some kernels without output, some without parameters, some that fetch nothing."""
    nothing: tuple[dict[str, Any], ...] = (
        {"output_bytes": 0},
        {"weight_bytes": 0, "whole_bytes": 0, "table_bytes": 0},
        {"fetch_bytes": 0, "table_bytes": 0, "fetch_outer": 0},
        {"flop": 0},
    )
    kernels = [
        one.replace(**random.choice(nothing)) if random.random() < 0.4 else one for one in instance.workload.kernels
    ]
    return instance.replace(workload=instance.workload.replace(kernels=kernels))


def _behind(instance: DataflowInstance, random: Random) -> DataflowInstance:
    task = instance.task.replace(purpose="training", overlap_gradients=True, optimizer_step=random.random() < 0.5)
    return instance.replace(task=task, mode="physical")


def _late(instance: DataflowInstance, random: Random) -> DataflowInstance:
    task = instance.task.replace(schedule="zb-h1", chunks=None, fused=False)
    updates = {one.name for one in instance.workload.kernels if one.update}
    workload = instance.workload
    read = {field: [one for one in getattr(workload, field) if one[0] not in updates] for field in ("edges", "carries")}
    return instance.replace(task=task, mode="physical", workload=workload.replace(**read))


def _state(instance: DataflowInstance, random: Random) -> DataflowInstance:
    task = instance.task.replace(optimizer_bytes=random.choice((0, 4, 7)), expert_load=random.choice((1.0, 1.25)))
    return instance.replace(task=task)
