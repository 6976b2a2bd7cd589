"""Plans of layers of family ``dataflow``: degrees, stages, how a batch is run. Schemes and partitions stay open."""

from __future__ import annotations

from typing import Any

from chipmap.instances.dataflow.instance import INTERLEAVED, DataflowInstance, DataflowSolution, Degrees
from chipmap.instances.dataflow.plans import allowed_degrees
from chipmap.instances.dataflow.sharding import schemes
from chipmap.instances.dataflow.workload import Kernel, Scheme
from chipmap.plans.layers.plan import LayerPlan, chunks_of, even
from chipmap.records import InputError, counted


def forward(instance: DataflowInstance) -> list[Kernel]:
    """The forward kernels of a layer."""
    return [kernel for kernel in instance.workload.kernels if kernel.phase == "forward"]


def why_no_layers(instance: DataflowInstance) -> str | None:
    """Why the workload isn't layers of a transformer; None: it is (a product of two activations is attention)."""
    if any(kernel.kind == "gemm" and not kernel.weights for kernel in forward(instance)):
        return None
    return f"no kernel of {instance.workload.name!r} is attention, so that its layers are none of a transformer"


def plan_of(instance: DataflowInstance, solution: DataflowSolution) -> LayerPlan:
    """The plan of layers of a mapping. Raises :class:`InputError` where no string can say it."""
    task, degrees = instance.task, solution.degrees
    chunks, parts = _chunks(instance, solution)
    tokens = _tokens(instance, solution)
    shared = solution.shard or task.sharded
    return LayerPlan(
        stages=degrees.pipeline,
        chunks=chunks,
        parts=parts,
        tensor=1 if tokens else degrees.tensor,
        context=degrees.tensor if tokens else 1,
        data=degrees.data,
        expert=_expert(instance, solution),
        micro_batch=solution.micro_batch or task.samples,
        batch=task.batch,
        recompute=solution.recompute or task.recomputed,
        shard=shared if degrees.data > 1 else "none",
        names=tuple(degrees.dimensions),
    )


def _chunks(instance: DataflowInstance, solution: DataflowSolution) -> tuple[tuple[str, ...], int]:
    """The chunks of the pipeline, and how many a stage has."""
    layers, pipeline = instance.workload.layers, solution.degrees.pipeline
    if instance.task.stages == "layers":
        parts = (solution.chunks or instance.task.chunks or 1) if instance.task.schedule in INTERLEAVED else 1
        if given := solution.stage_layers or instance.task.stage_layers:
            return chunks_of(given), parts
        return even(layers, pipeline, parts), parts
    size = len(instance.workload.kernels)
    held = [0] * pipeline
    for layer in range(layers):
        own = solution.partitions[layer * size : (layer + 1) * size]
        stages = {solution.stages[p] if solution.stages else 0 for p in own}
        if len(stages) > 1:
            what = f"layer {layer} runs on stages {min(stages)} to {max(stages)}: a plan of layers can't say so"
            remedy = "This finds one that it can: chipmap solve INSTANCE --set task.stages=layers"
            raise InputError(what, instance.name, f"{remedy} --set task.across_layers=false")
        held[stages.pop()] += 1
    return chunks_of(held), 1


def _tokens(instance: DataflowInstance, solution: DataflowSolution) -> bool:
    """Whether the chips that share a layer share its tokens (N), kernels with parameters among them.

    Raises :class:`InputError` where some kernels with parameters do and others don't.
    """
    if solution.degrees.tensor == 1:
        return False
    kernels = instance.workload.kernels
    chosen = [
        (kernels[i % len(kernels)].name, scheme)
        for i, scheme in enumerate(solution.schemes)
        if (kernel := kernels[i % len(kernels)]).phase == "forward" and kernel.has_parameters and not kernel.experts
    ]
    split = [name for name, scheme in chosen if scheme == "N"]
    if split and len(split) < len(chosen):
        other = next(name for name, scheme in chosen if scheme != "N")
        what = f"kernel {split[0]!r} is split by tokens, {other!r} by its parameters: degrees say one for all"
        pins = " ".join(f"--set task.schemes.{name}=N" for name in dict.fromkeys(name for name, _ in chosen))
        raise InputError(what, instance.name, f"This finds one that they can: chipmap solve INSTANCE {pins}")
    return bool(split)


def _expert(instance: DataflowInstance, solution: DataflowSolution) -> int:
    """Chips that share experts (scheme E): 1 where each has a part of every expert."""
    kernels = instance.workload.kernels
    used = {solution.schemes[i] for i, kernel in enumerate(kernels) if kernel.experts and kernel.phase == "forward"}
    if "E" not in used:
        return 1
    if len(used) > 1:
        what = "some kernels with experts are divided by experts, others not"
        raise InputError(what, instance.name, "Pin their schemes: --set task.schemes.NAME=E for each.")
    return solution.degrees.expert * solution.degrees.tensor


def pinned(instance: DataflowInstance, plan: LayerPlan, where: str) -> tuple[DataflowInstance, tuple[str, ...]]:
    """The instance whose mappings are those that ``plan`` admits, and what was assumed, as sentences.

    Raises :class:`InputError` where the instance has no such mapping.
    """
    task, notes = instance.task, list[str]()
    if plan.batch is not None and plan.batch != task.batch:
        what = f"has a batch of {plan.batch:,}, the instance one of {task.batch:,}"
        raise InputError(what, where, f"Judge it at its batch: --set task.batch={plan.batch}")
    _even(instance, plan, where)
    changes: dict[str, Any] = {}
    for field, value in (("micro_batch", plan.micro_batch), ("recompute", plan.recompute), ("shard", plan.shard)):
        is_open = getattr(task, field) is None
        if is_open and value is None:
            notes.append(f"the plan doesn't say {field}: the best is taken")
        elif is_open:
            changes[field] = value
        elif value is not None and _chosen(task, field) != value:
            what = f"says {field} {value}, the instance {_chosen(task, field)}"
            raise InputError(what, where, f"Leave it to the plan: --set task.{field}=null")
    changes |= _parts(instance, plan, where) | _unequal(instance, plan, where)
    degrees, more = _degrees(instance, plan, where)
    notes += more
    changes["degrees"] = degrees
    if plan.context > 1:
        changes["schemes"] = {**task.schemes, **dict.fromkeys(_splitting(instance, where), "N")}
    elif (plan.expert or 1) > 1:
        named: Scheme = "E"
        divided = [kernel.name for kernel in instance.workload.kernels if "E" in kernel.schemes]
        changes["schemes"] = {**task.schemes, **dict.fromkeys(divided, named)}
    made = instance.replace(task=task.replace(**changes))
    made.check()
    return made, tuple(notes)


def lifted(solution: DataflowSolution, of: DataflowInstance) -> DataflowSolution:
    """A mapping of the pinned instance ``of`` as one of the instance that leaves these choices open."""
    task, plan = of.task, solution.plan
    return solution.replace(
        micro_batch=plan.micro_batch or task.micro_batch,
        chunks=plan.chunks or (task.chunks if task.schedule in INTERLEAVED else None),
        recompute=plan.recompute or (task.recomputed if task.recompute is not None else None),
        shard=plan.shard or (task.sharded if task.shard is not None else None),
        stage_layers=plan.stage_layers or task.stage_layers or (),
    )


def _chosen(task: Any, field: str) -> Any:
    return {"recompute": lambda: task.recomputed, "shard": lambda: task.sharded}.get(field, lambda: task.micro_batch)()


def _even(instance: DataflowInstance, plan: LayerPlan, where: str) -> None:
    """Refuse layers that aren't those of the instance, and stages that it can't state."""
    if not plan.chunks:
        return
    if "m" in "".join(plan.chunks):
        raise InputError("has layers of multi-token prediction", where, "Adopt it for a graph of the network (ring).")
    if plan.layers != instance.workload.layers:
        what = f"has {counted(plan.layers, 'layer')}, the instance {instance.workload.layers:,}"
        raise InputError(what, where, f"Judge it at its layers: --set workload.layers={plan.layers}")
    each = sorted({chunk.count("t") for chunk in plan.chunks})
    ends = plan.chunks[0][:1] == "E" and plan.chunks[-1][-1:] == "L"
    if (len(each) > 1 and not instance.task.uneven) or not ends:
        what = f"has stages of {each[0]} to {each[-1]} layers: stages of layers have equally many here (C0)"
        remedy = "Judge it so: --set task.stage_layers=null. Or adopt it for a graph of the network (ring, placement)."
        raise InputError(what, where, remedy)
    if instance.task.stages == "kernels" and plan.stages > 1:
        what = "says the stages of layers, which can't be pinned where stages share out kernels"
        raise InputError(what, where, "Set task.stages to layers and task.across_layers to false.")


def _unequal(instance: DataflowInstance, plan: LayerPlan, where: str) -> dict[str, Any]:
    """The layers of each chunk where they may be unequal, as a change of the task."""
    given = instance.task.stage_layers
    if not instance.task.uneven or not plan.chunks:
        return {}
    counts = tuple(chunk.count("t") for chunk in plan.chunks)
    if given not in (None, counts):
        what = f"has chunks of {', '.join(map(str, counts))} layers, the instance others"
        raise InputError(what, where, "Leave it to the plan: --set task.stage_layers=null")
    return {"stage_layers": counts}


def _parts(instance: DataflowInstance, plan: LayerPlan, where: str) -> dict[str, Any]:
    """The chunks of a stage, as a change of the task."""
    task = instance.task
    if task.schedule not in INTERLEAVED:
        if plan.parts > 1:
            what = f"has {plan.parts} parts of each stage, but schedule {task.schedule} has one"
            raise InputError(what, where, "Judge it so: --set task.schedule=interleaved")
        return {}
    if task.chunks not in (None, plan.parts):
        what = f"has {counted(plan.parts, 'part')} of each stage, the instance {task.chunks}"
        raise InputError(what, where, "Leave it to the plan: --set task.chunks=null")
    return {"chunks": plan.parts}


def _degrees(instance: DataflowInstance, plan: LayerPlan, where: str) -> tuple[Degrees, list[str]]:
    """The degrees that the plan says, of all that the network holds; several: those along the dimensions that it
    names, else the first."""
    if plan.tensor > 1 and plan.context > 1:
        what = f"shares a layer by rows ({plan.tensor}) and by tokens ({plan.context}): a group of chips does one here"
        raise InputError(what, where, "Give a plan where one of the two is 1.")
    tensor = plan.tensor * plan.context
    shared = plan.expert or 1
    allowed = allowed_degrees(instance)
    fit = [
        one
        for one in allowed
        if (one.tensor, one.pipeline) == (tensor, plan.stages)
        and plan.data in (None, one.data)
        and (one.expert * one.tensor == shared if shared > 1 else one.expert == 1)
    ]
    if not fit:
        shape = " x ".join(str(one.size) for one in instance.system.network)
        said = f"tensor {tensor}, pipeline {plan.stages}" + (f", data {plan.data}" if plan.data is not None else "")
        said += f", {shared} chips that share experts" if shared > 1 else ""
        what = f"says {said}, which the network ({shape} chips) can't be here"
        known = "; ".join(dict.fromkeys(one.text for one in allowed[:40]))
        raise InputError(what, where, f"It can be: {known or 'nothing'}.")
    exact = [one for one in fit if tuple(one.dimensions) == plan.names]
    if exact or len(fit) == 1:
        return (exact or fit)[0], []
    said = ", ".join(fit[0].dimensions)
    return fit[0], [f"the plan doesn't say along which dimensions of the network: taken as {said}"]


def _splitting(instance: DataflowInstance, where: str) -> list[str]:
    """The forward kernels, all of which split tokens."""
    found = []
    for kernel in forward(instance):
        if "N" in schemes(kernel, instance.mode):
            found.append(kernel.name)
        elif kernel.has_parameters and not kernel.experts:
            what = f"splits tokens, but kernel {kernel.name!r} has no scheme N here"
            raise InputError(what, where, "Add N to its schemes (mode physical).")
    return found
