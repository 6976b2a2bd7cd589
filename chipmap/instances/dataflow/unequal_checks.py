"""What an instance with groups of unequal chips may be (page, "Unequal chips")."""

from __future__ import annotations

from typing import Any

from chipmap.instances.dataflow.batch_checks import check_peaks
from chipmap.instances.dataflow.system import Group, System, in_range
from chipmap.records import InputError, choices, counted

#: A ``DataflowInstance``, whose module asks this one.
Instance = Any


def check_unequal(instance: Instance) -> None:
    """Raise :class:`InputError` for groups, links between them, or stages on them that there can't be."""
    system, task = instance.system, instance.task
    if task.in_flight is not None:
        _check_alone(instance)
    if not system.others:
        for field, given in (("task.stage_groups", task.stage_groups), ("system.between", system.between)):
            if given:
                raise InputError("is given, but all chips are equal", field, "Leave it out, or give system.others.")
        return
    for reason, field in _refused(instance):
        raise InputError(f"{reason}, with groups of unequal chips", field, "Set it back, or leave system.others out.")
    if system.between is None:
        what = "isn't given, but there are groups of unequal chips"
        raise InputError(what, "system.between", "Give bytes_per_ns of what a chip sends to another group.")
    in_range(system.between.bytes_per_ns, "system.between.bytes_per_ns", 1e-9, 1e12)
    in_range(system.between.latency_ns, "system.between.latency_ns", 0, 1e12)
    names = [group.name for group in system.groups]
    for name in names:
        if names.count(name) > 1:
            what = f"names two groups {name!r}"
            raise InputError(what, "system.others", "Give each a name of its own, other than system.name.")
    for i, group in enumerate(system.others):
        _check_group(instance, group, f"system.others[{i}]")
    check_asked(instance)


def _check_group(instance: Instance, group: Group, where: str) -> None:
    alone = System(name=group.name, chip=group.chip, memory=group.memory, network=(group.network,))
    try:
        alone.check()
        check_peaks(instance.replace(system=alone))
    except InputError as error:
        what = f"({group.name!r}) isn't a group: {error}"
        raise InputError(what, where, "Correct it there.") from error


def _check_alone(instance: Instance) -> None:
    """Raise :class:`InputError` where the chips can't be one stage of a pipeline in training."""
    task = instance.task
    reasons = {
        "costs are counted in mode dfmodel": instance.mode == "dfmodel",
        f"purpose is {task.purpose}": task.purpose != "training",
        "task.degrees isn't tensor parallelism alone": task.degrees is None
        or (task.degrees.pipeline, task.degrees.data, task.degrees.expert) != (1, 1, 1),
        "stages share out kernels": task.stages == "kernels",
        "partitions reach across layers": task.across_layers,
        "the schedule isn't 1f1b": task.schedule != "1f1b",
        "layers of chunks are given or free": task.stage_layers != (),
        "the optimiser's step counts": task.optimizer_step,
        "gradients are summed behind the backward pass": task.overlap_gradients,
    }
    for reason in (reason for reason, holds in reasons.items() if holds):
        raise InputError(f"is {task.in_flight}, but {reason}", "task.in_flight", "Leave it out.")
    if not 1 <= task.in_flight <= 10**9:
        raise InputError(f"is {task.in_flight}", "task.in_flight", f"Give 1 to {10**9:,}, or leave it out.")


def _without_update(workload: Any) -> str:
    """A kernel whose weights are updated by none that names them, though some are updated; empty: there is none."""
    updated = {one.parameters_of for one in workload.kernels if one.update}
    held = [one.name for one in workload.kernels if one.phase == "forward" and (one.weights or one.weight_bytes)]
    return next((name for name in held if name not in updated), "") if updated else ""


def check_asked(instance: Instance) -> None:
    """Raise :class:`InputError` for stages on unknown groups, of degrees that don't divide the heads, with more chips
    than a group has, or with other layers than the network's."""
    groups = {group.name: group for group in instance.system.groups}
    used, task = dict.fromkeys(groups, 0), instance.task
    for i, stage in enumerate(task.stage_groups):
        where = f"task.stage_groups[{i}]"
        if stage.group not in groups:
            raise InputError(f"no group is called {stage.group!r}", f"{where}.group", choices(stage.group, groups))
        chips = groups[stage.group].network.size
        if stage.tensor is not None and not 1 <= stage.tensor <= chips:
            what = f"is {stage.tensor}, group {stage.group!r} has {counted(chips, 'chip')}"
            raise InputError(what, f"{where}.tensor", f"Give 1 to {chips}.")
        if stage.tensor is not None and (heads := undivided(instance, stage.tensor)):
            what = f"is {stage.tensor}, which doesn't divide {heads} heads, nor they it"
            raise InputError(what, f"{where}.tensor", "Give a divisor of the heads.")
        if stage.layers is not None and not 1 <= stage.layers <= instance.workload.layers:
            what = f"is {stage.layers}, the network has {counted(instance.workload.layers, 'layer')}"
            raise InputError(what, f"{where}.layers", f"Give 1 to {instance.workload.layers}.")
        used[stage.group] += stage.tensor or 1
        if used[stage.group] > chips:
            what = f"take {used[stage.group]} chips or more of group {stage.group!r}, which has {chips}"
            raise InputError(what, "task.stage_groups", "Give fewer stages, or smaller tensor.")
    given = [stage.layers for stage in task.stage_groups]
    least, most = sum(one or 1 for one in given), instance.workload.layers
    if given and (least > most or (None not in given and least != most)):
        what = f"have {counted(least, 'layer')}, the network has {most}"
        raise InputError(what, "task.stage_groups", "Let their layers add up to it, or be null.")


def undivided(instance: Instance, tensor: int) -> int:
    """The heads (``outer``) of a kernel that ``tensor`` chips don't divide, and that don't divide them; 0: none."""
    heads = [one.outer for one in instance.workload.kernels if one.outer > 1]
    return next((one for one in heads if one % tensor and tensor % one), 0)


def _refused(instance: Instance) -> list[tuple[str, str]]:
    """What can't be, and where it is said."""
    task, workload = instance.task, instance.workload
    backward = any(one.phase == "backward" or one.update for one in workload.kernels)
    unnamed = _without_update(workload)
    reasons = {
        ("costs are counted in mode dfmodel", "mode"): instance.mode == "dfmodel",
        ("only forward kernels are trained", "task.purpose"): task.purpose == "training" and not backward,
        ("the optimiser's step counts", "task.optimizer_step"): task.optimizer_step,
        ("gradients are summed", "task.overlap_gradients"): task.overlap_gradients,
        ("all layers are one stage", "task.in_flight"): task.in_flight is not None,
        ("stages share out kernels", "task.stages"): task.stages == "kernels",
        ("partitions reach across layers", "task.across_layers"): task.across_layers,
        ("the schedule isn't 1f1b", "task.schedule"): task.schedule != "1f1b",
        ("layers of chunks are given or free", "task.stage_layers"): task.stage_layers != (),
        ("degrees are given", "task.degrees"): task.degrees is not None,
        ("tensor parallelism may have several dimensions", "task.tensor_dimensions"): task.tensor_dimensions > 1,
        ("replicas share something out", "task.shard"): task.shard not in (False, "none"),
        ("the network's ends have kernels", "workload.first"): bool(workload.first or workload.last),
        ("kernels run backward or update weights", "workload.kernels"): backward and task.purpose != "training",
        (f"no update names the weights of {unnamed!r} (parameters_of)", "workload.kernels"): bool(unnamed),
        ("the own chips have several network dimensions", "system.network"): len(instance.system.network) > 1,
    }
    return [reason for reason, holds in reasons.items() if holds]
