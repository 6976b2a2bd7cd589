"""What a task may ask of how a batch is run: recomputation, the schedule of a pipeline, what replicas share out."""

from __future__ import annotations

from typing import Any

from chipmap.instances.dataflow.rates import missing_formats
from chipmap.instances.dataflow.system import MOST_DIMENSIONS
from chipmap.instances.optimizer import WIDTHS
from chipmap.records import InputError, counted, kept

#: A ``DataflowInstance``, whose module asks this one.
Instance = Any


def check_recompute(instance: Instance) -> None:
    """Raise :class:`InputError` where nothing can be recomputed, or not what is named."""
    task, phases = instance.task, {kernel.name: kernel.phase for kernel in instance.workload.kernels}
    if task.recompute not in (False, "none") and set(phases.values()) != {"forward", "backward"}:
        raise InputError("there is no backward phase to recompute for", "task.recompute", "Set it to false.")
    for name in task.selective:
        if phases.get(name) != "forward":
            what = f"no forward kernel is called {name!r}"
            raise InputError(what, "task.selective", "Use names of forward kernels of the workload.")
    if task.recompute == "selective" and not task.selective:
        raise InputError("is selective, but no kernels are named", "task.recompute", "Name them in task.selective.")


def check_tensor(instance: Instance) -> None:
    """Raise :class:`InputError` for a number of network dimensions of tensor parallelism that there can't be."""
    most = instance.task.tensor_dimensions
    if not 1 <= most <= MOST_DIMENSIONS:
        raise InputError(f"is {most}", "task.tensor_dimensions", f"Give 1 to {MOST_DIMENSIONS}.")
    if most > 1 and instance.mode == "dfmodel":
        what = f"is {most} in mode dfmodel, whose collectives run along one dimension"
        raise InputError(what, "task.tensor_dimensions", "Set mode to physical, or tensor_dimensions to 1.")


def check_schedule(instance: Instance) -> None:
    """Raise :class:`InputError` where chunks are given without a schedule that has them, or that can't have them, and
    where a schedule can't be."""
    task = instance.task
    if not task.schedule.startswith("interleaved") and task.chunks is not None:
        what = f"is {task.chunks}, but a stage is one part of the network in schedule {task.schedule}"
        raise InputError(what, "task.chunks", "Set task.schedule to interleaved, or leave chunks out.")
    if task.schedule == "1f1b":
        return
    if task.chunks is not None and not 1 <= task.chunks <= instance.workload.layers:
        raise InputError(f"is {task.chunks}", "task.chunks", f"Give 1 to {instance.workload.layers}, or null.")
    reasons = {
        "costs are counted in mode dfmodel": instance.mode == "dfmodel",
        "stages share out kernels": task.stages == "kernels",
        "partitions reach across layers": task.across_layers,
    }
    if task.schedule in ("zb-h1", "dualpipe-v"):
        reasons["kernels are fused, so that updates might not run by themselves"] = instance.asked[2]
        reasons["kernels share tiles (task.utilisation is null)"] = task.utilisation is None
        updates, workload = {one.name for one in instance.workload.kernels if one.update}, instance.workload
        reasons["no kernel is a weight update"] = not updates
        read = any(u in updates and v not in updates for u, v in (*workload.edges, *workload.carries))
        reasons["a kernel reads what a weight update makes, which can't be late then"] = read
    if task.schedule == "dualpipe-v":
        reasons["what partitions do overlaps (task.overlap), where only passes may"] = task.overlap
        reasons["kernels are pinned together"] = any(len(group) > 1 for group in task.together)
        reasons["sums run behind the backward pass (task.overlap_gradients)"] = task.overlap_gradients
    for reason in (reason for reason, holds in reasons.items() if holds):
        raise InputError(f"is {task.schedule}, but {reason}", "task.schedule", "Set it to 1f1b.")


def check_uneven(instance: Instance) -> None:
    """Raise :class:`InputError` where stages can't have unequal numbers of layers, or not those that are given."""
    task, workload = instance.task, instance.workload
    if not task.uneven:
        if workload.first or workload.last:
            what = "has kernels, but stages have equally many layers"
            raise InputError(what, "workload.first" if workload.first else "workload.last", UNEVEN)
        return
    reasons = _why_even(instance)
    if task.stage_layers and (min(task.stage_layers) < 0 or sum(task.stage_layers) != workload.layers):
        what = f"are {sum(task.stage_layers)} layers of {workload.layers}"
        raise InputError(what, "task.stage_layers", "Give the layers of each chunk, or null.")
    for reason in reasons:
        raise InputError(f"is given, but {reason}", "task.stage_layers", "Leave it out.")


UNEVEN = "Set task.stage_layers to null."


def _why_even(instance: Instance) -> list[str]:
    """Why the stages of a pipeline must have equally many layers; nothing where they needn't."""
    task = instance.task
    reasons = {
        "costs are counted in mode dfmodel": instance.mode == "dfmodel",
        "stages share out kernels": task.stages == "kernels",
        "partitions reach across layers": task.across_layers,
        f"updates run late (task.schedule {task.schedule})": task.schedule in ("zb-h1", "dualpipe-v"),
        "kernels share tiles (task.utilisation is null)": task.utilisation is None,
        "sums run behind the backward pass (task.overlap_gradients)": task.overlap_gradients,
        "layouts are kept (task.keep)": task.keep not in (None, "none"),
    }
    return [reason for reason, holds in reasons.items() if holds]


def check_divided(instance: Instance, degrees: Any, where: str) -> None:
    """Raise :class:`InputError` unless stages, and their chunks, divide the layers, or may have unequal numbers of them
    and no more chunks than a mean stage has layers."""
    task, layers, stages = instance.task, instance.workload.layers, degrees.pipeline
    said, chunks, most = counted(stages, "stage"), task.chunks or 1, -(-layers // stages)
    if task.uneven:
        if task.stage_layers and len(task.stage_layers) % stages:
            what = f"names {counted(len(task.stage_layers), 'chunk')}, no multiple of {said}"
            raise InputError(what, "task.stage_layers", "Give the layers of each chunk of each stage.")
        if chunks > most:
            what = f"{said} of {chunks} chunks are too many for {counted(layers, 'layer')}"
            raise InputError(what, f"{where}.pipeline", f"Set task.chunks to null, or to at most {most}.")
        return
    if task.stages == "layers" and layers % stages:
        divisors = ", ".join(str(d) for d in range(1, layers + 1) if layers % d == 0)
        other = f", or {free}" if (free := unequal(instance)) else ""
        remedy = (
            f"Divisors: {divisors}. Or set workload.layers to {most * stages}{other}, or take a network with as many"
        )
        remedy += " chips."
        raise InputError(f"{said} don't divide {counted(layers, 'layer')}", f"{where}.pipeline", remedy)
    if task.schedule == "dualpipe-v" and stages > 1 and layers % (2 * stages):
        what = f"{said} of two chunks don't divide {counted(layers, 'layer')}"
        raise InputError(
            what, f"{where}.pipeline", "Give an even number of layers for each stage, or another schedule."
        )
    if chunks > 1 and layers % (stages * chunks):
        what = f"{said} of {chunks} chunks don't divide {counted(layers, 'layer')}"
        raise InputError(what, f"{where}.pipeline", "Set task.chunks to null, or to a divisor of a stage's layers.")


def check_rounds(task: Any, degrees: Any, where: str) -> None:
    """Raise :class:`InputError` where a replica has fewer micro-batches than its stages have chunks, though passes are
    to run in pairs (``dualpipe-v``)."""
    rounds, least = task.batch // (degrees.data * (task.micro_batch or 1)), 2 * degrees.pipeline
    if task.schedule == "dualpipe-v" and degrees.pipeline > 1 and rounds < least:
        what = f"has {counted(rounds, 'micro-batch', 'micro-batches')} of a replica in schedule dualpipe-v"
        raise InputError(what, f"{where}.data", f"Give {least} at least, two for each stage, or another schedule.")


def unequal(instance: Instance) -> str:
    """The remedies where stages don't divide the layers, as ``task.stage_layers to null``; empty where none helps."""
    kernels = stages_of_kernels(instance)
    free = "" if _why_even(instance) else "task.stage_layers to null"
    return ", or ".join(one for one in (free, kernels) if one)


def check_optimizer(instance: Instance) -> None:
    """Raise :class:`InputError` where the optimiser's state is stated twice, by halves, or can't be."""
    task = instance.task
    if task.state_bytes not in WIDTHS:
        raise InputError(f"is {task.state_bytes}", "task.state_bytes", f"Give one of {', '.join(map(str, WIDTHS))}.")
    if task.optimizer is None:
        beside = {"state_bytes": task.state_bytes != WIDTHS[-1], "master_weights": not task.master_weights}
        for field in (field for field, changed in beside.items() if changed):
            what = "says how task.optimizer keeps its state, which isn't given"
            raise InputError(what, f"task.{field}", "Give task.optimizer, adam perhaps, or leave it out.")
    elif task.optimizer_bytes is not None:
        what = f"is {task.optimizer_bytes}, but task.optimizer is {task.optimizer}, whose bytes follow from it"
        raise InputError(what, "task.optimizer_bytes", "Leave out one of the two.")
    elif task.optimizer == "none" and task.optimizer_step:
        what = "is true, but task.optimizer is none: there is no step"
        raise InputError(what, "task.optimizer_step", "Leave it out, or name an optimizer.")


def check_keep(instance: Instance) -> None:
    """Raise :class:`InputError` where layouts can't be kept as long as the task says."""
    task, phases = instance.task, {kernel.phase for kernel in instance.workload.kernels}
    if task.keep in (None, "none"):
        return
    reasons = {
        "costs are counted in mode dfmodel": instance.mode == "dfmodel",
        "chips fuse kernels": instance.asked[2],
        "stages share out kernels": task.stages == "kernels",
        "partitions reach across layers": task.across_layers,
        f"updates run late (task.schedule {task.schedule})": task.schedule in ("zb-h1", "dualpipe-v"),
        "kernels are recomputed": task.recompute not in (None, False, "none"),
        "there is no backward phase": task.keep == "step" and "backward" not in phases,
    }
    for reason in (reason for reason, holds in reasons.items() if holds):
        raise InputError(f"is {task.keep}, but {reason}", "task.keep", "Set it to none, or leave it out.")


def check_shard(instance: Instance) -> None:
    """Raise :class:`InputError` where there is no optimiser whose state replicas could share out, or whose step could
    count."""
    task = instance.task
    asked = {"shard": task.shard not in (False, "none"), "optimizer_step": task.optimizer_step}
    asked["overlap_gradients"] = task.overlap_gradients
    reasons = {
        "costs are counted in mode dfmodel": instance.mode == "dfmodel",
        f"purpose is {task.purpose}": task.purpose != "training",
        "stages share out kernels": task.stages == "kernels",
        "partitions reach across layers": task.across_layers,
        "no kernel is a weight update": not any(kernel.update for kernel in instance.workload.kernels),
    }
    for field in (field for field, wanted in asked.items() if wanted):
        for reason in (reason for reason, holds in reasons.items() if holds):
            given = f"is {_word(task.shard)}" if field == "shard" else "is true"
            raise InputError(f"{given}, but {reason}", f"task.{field}", "Leave it out.")
    if task.overlap_gradients and task.utilisation is None:
        what = "is true, but kernels share tiles, so that no kernel by itself takes a known time"
        raise InputError(what, "task.overlap_gradients", "Give task.utilisation, or leave it out.")


def _word(value: object) -> str:
    return "null" if value is None else str(value).lower()


def check_stages(instance: Instance) -> None:
    """Raise :class:`InputError` where the stages of a pipeline can't be any kernels."""
    workload = instance.workload
    if instance.system.step_ns:
        what = f"is {instance.system.step_ns:g}, but stages share out kernels"
        raise InputError(what, "system.step_ns", "Set task.stages to layers, or step_ns to 0.")
    if not (instance.task.across_layers or workload.layers == 1):
        what = f"is kernels, but partitions end with each of {workload.layers} layers"
        across = "" if _bound_to_weights(instance) else "Set task.across_layers to true, or "
        raise InputError(what, "task.stages", f"{across or 'Set '}task.stages to layers.")
    for kernel in _bound_to_weights(instance):
        kind = "a weight update" if kernel.update else "a backward kernel"
        what = f"is kernels, but {kernel.name!r} is {kind}, which belongs on the chips that hold its weights"
        layers = "task.stages to layers" + (" with task.across_layers to false" if instance.task.across_layers else "")
        raise InputError(what, "task.stages", f"Set {layers}, or leave out backward kernels and updates.")


def _bound_to_weights(instance: Instance) -> list[Any]:
    """The kernels that can't be shared out among stages: those of a training step that belong with their weights."""
    return [kernel for kernel in instance.workload.kernels if kernel.phase == "backward" or kernel.update]


def stages_of_kernels(instance: Instance) -> str:
    """The remedy to share out kernels among stages, as ``task.stages to kernels``; empty where that is refused."""
    if _bound_to_weights(instance):
        return ""
    whole = instance.task.across_layers or instance.workload.layers == 1
    return "task.stages to kernels" + ("" if whole else " with task.across_layers to true")


def check_peaks(instance: Instance) -> None:
    """Raise :class:`InputError` where kernels compute in a format of which the chip states no peak, where they would
    share tiles by cycles but the chip states its speed otherwise, and for switches that reduce in mode ``dfmodel``."""
    workload, system = instance.workload, instance.system
    for name, named in missing_formats(workload.kernels, workload, system.chip)[:1]:
        what = f"has no {named}, in which kernel {name!r} computes: it has {', '.join(system.chip.peaks)}"
        raise InputError(what, "system.chip.peaks", "Add it, or name other formats in workload.")
    if instance.task.utilisation is None and not system.chip.counts_cycles:
        what = "is null, so that kernels share tiles by cycles, but the chip states TFLOP/s or shares of its peak"
        remedy = "Give a share, such as 0.9, or a chip with tiles, lanes, stages and ghz alone."
        raise InputError(what, "task.utilisation", remedy)
    if instance.mode == "dfmodel" and divides_experts(instance):
        what = "names E, which divides experts, in mode dfmodel"
        raise InputError(what, "workload.kernels.schemes", "Set mode to physical, or leave E out.")
    rows, sums = ("OUTER_M", "splits rows of each head"), ("OUTER_K", "splits sums of each head")
    for scheme, does in (("K_N", "scatters sums by columns"), ("B", "splits samples"), rows, sums):
        if instance.mode == "dfmodel" and any(scheme in kernel.schemes for kernel in workload.kernels):
            what = f"names {scheme}, which {does}, in mode dfmodel"
            raise InputError(what, "workload.kernels.schemes", f"Set mode to physical, or leave {scheme} out.")
    on_grid = [one.name for one in workload.kernels if {"M_K", "K_M", "M_T"} & set(one.schemes)]
    others = any(one.phase == "backward" or one.experts for one in workload.kernels)
    if on_grid and (instance.mode == "dfmodel" or others):
        what = f"of {on_grid[0]!r} names a grid of chips, in mode dfmodel or beside backward kernels or experts"
        raise InputError(what, "workload.kernels.schemes", "Leave M_K, K_M and M_T out.")
    if instance.mode == "dfmodel" and any(one.reduces for one in system.network):
        what = "is true in mode dfmodel, which counts an all-reduce by task.all_reduce_factor"
        raise InputError(what, "system.network.reduces", "Set mode to physical, or reduces to false.")


def divides_experts(instance: Instance) -> bool:
    """Whether any kernel may have scheme E; kept with the instance."""
    return kept(instance, "_divides_experts", lambda one: any("E" in kernel.schemes for kernel in one.workload.kernels))
