"""Stages on groups of unequal chips: what each is by itself, and what passes between them (page, "Unequal chips")."""

from __future__ import annotations

from typing import NamedTuple

from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution, Degrees
from chipmap.instances.dataflow.options import ticks_of
from chipmap.instances.dataflow.sharding import collective_ns
from chipmap.instances.dataflow.sizes import output_bytes
from chipmap.instances.dataflow.stage_groups import GroupStage
from chipmap.instances.dataflow.system import Dimension, Group, System
from chipmap.instances.dataflow.unequal_checks import undivided
from chipmap.records.decimals import exact


class Kind(NamedTuple):
    """A kind of stage: so many chips of a group (its place in ``system.groups``)."""

    group: int
    tensor: int


def kinds(instance: DataflowInstance) -> list[Kind]:
    """The kinds of stages that there can be: as many chips as a group has, of degrees that divide the heads."""
    groups = instance.system.groups
    each = ((g, n) for g, group in enumerate(groups) for n in range(1, group.network.size + 1))
    return [Kind(g, n) for g, n in each if not undivided(instance, n)]


def over(group: Group, tensor: int) -> Dimension:
    """The network of so many chips of a group."""
    return group.network.replace(size=tensor)


def most_stages(instance: DataflowInstance) -> int:
    """The most stages that a pipeline can have."""
    chips = sum(group.network.size for group in instance.system.groups)
    return len(instance.task.stage_groups) or min(instance.workload.layers, chips)


def most_in_flight(instance: DataflowInstance, samples: int) -> int:
    """The most micro-batches whose saved tensors a stage holds in training: as many as there are stages, or all; else
    1, as nothing is saved."""
    training = instance.task.purpose == "training"
    return min(most_stages(instance), instance.task.batch // samples) if training else 1


def stage_instance(
    instance: DataflowInstance, kind: Kind, layers: int, samples: int, in_flight: int = 1
) -> DataflowInstance:
    """The stage as a problem of its own: these layers, all samples, micro-batches of ``samples``, no pipeline; in
    training it holds the saved tensors of ``in_flight`` of them."""
    group = instance.system.groups[kind.group]
    alone = System(name=group.name, chip=group.chip, memory=group.memory, network=(over(group, kind.tensor),))
    degrees = Degrees(tensor=kind.tensor, dimensions=("tensor",))
    held = in_flight if instance.task.purpose == "training" else None
    task = instance.task.replace(degrees=degrees, micro_batch=samples, stage_groups=(), in_flight=held)
    workload = instance.workload.replace(layers=layers)
    return instance.replace(system=alone, task=task, workload=workload)


def group_stage(instance: DataflowInstance, kind: Kind, layers: int, mapping: DataflowSolution) -> GroupStage:
    """The stage that a mapping of :func:`stage_instance` stands for."""
    return GroupStage(
        group=instance.system.groups[kind.group].name,
        tensor=kind.tensor,
        layers=layers,
        schemes=mapping.schemes,
        partitions=mapping.partitions,
        keep=mapping.keep,
        recompute=mapping.recompute,
    )


def hop_ticks(instance: DataflowInstance, earlier: Kind, later: Kind, samples: int) -> int:
    """Picoseconds of a micro-batch's transfers between a stage and the next: each carried tensor crosses in as many
    parts as the smaller stage has chips, and the receivers gather it. What backward kernels carry goes to the earlier
    stage; if they carry nothing, gradients of what forward ones carry do."""
    system, named = instance.system, {u for u, _ in instance.workload.carries}
    task = instance.replace(task=instance.task.replace(micro_batch=samples))
    there, back = (over(system.groups[one.group], one.tensor) for one in (later, earlier))
    if earlier.group == later.group:
        rate, wait = there.rate, exact(there.latency_ns) + exact(there.start_ns)
    else:
        assert system.between is not None
        rate, wait = exact(system.between.bytes_per_ns), exact(system.between.latency_ns)
    total, kernels = 0, instance.workload.kernels
    phases = {kernel.name: kernel.phase for kernel in kernels}
    returned = "backward" in phases.values() and all(phases[name] == "forward" for name in named)
    for kernel in kernels:
        size = output_bytes(kernel, task)
        if size and kernel.name in named:
            crossed = size / (min(earlier.tensor, later.tensor) * rate) + wait
            ways = (there, back) if returned else (back,) if kernel.phase == "backward" else (there,)
            total += sum(ticks_of(crossed + collective_ns("all_gather", size, own, 1)) for own in ways)
    return total


def unequal_mapping(instance: DataflowInstance, samples: int, stages: list[GroupStage]) -> DataflowSolution:
    """The mapping of these stages."""
    return DataflowSolution(
        instance=instance.name,
        degrees=Degrees(pipeline=len(stages)),
        schemes=(),
        partitions=(),
        micro_batch=samples,
        stage_groups=tuple(stages),
    )
