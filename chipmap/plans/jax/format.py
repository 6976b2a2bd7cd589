"""Format ``jax``: a layer as a program of ``shard_map``, with its collectives written out.

The program is what a group of ``degrees.tensor`` chips does for one sample. Replicas and stages of a pipeline run the
same one; sums over replicas, and what stages hand on, aren't in it.
"""

from __future__ import annotations

from typing import Any

from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution
from chipmap.instances.dataflow.workload import Scheme
from chipmap.plans.jax.meaning import meant
from chipmap.plans.jax.metadata import SCHEMA, assigned, mapping_in, table
from chipmap.plans.jax.planning import Plan as Program
from chipmap.plans.jax.planning import Policy, plan
from chipmap.plans.jax.source import source
from chipmap.plans.jax.specs import in_json, in_python, plan_of
from chipmap.plans.plan import EmitOptions, Plan
from chipmap.records import InputError, Record, counted
from chipmap.records.repeats import refuse_repeats

FILE = "layer.py"


def suits(instance: Any, solution: Any) -> str | None:
    """Why no program says the mapping; None: one does."""
    try:
        _stated(instance)
        if solution is None:
            meant(instance.workload)
        else:
            program(instance, solution)
    except InputError as error:
        return f"{error.what}. {error.remedy}".removesuffix(".")
    return None


def emit(instance: Any, solution: Any, options: EmitOptions) -> dict[str, str | bytes]:
    """The program."""
    of, partitions = program(instance, solution)
    return {FILE: source(of, _head(instance, solution, options, of), table(instance, solution), partitions)}


def recognise(data: bytes, where: str, instance: Record) -> bool:
    """Whether it is Python with a mapping or specs, or JSON with specs."""
    if f'"{SCHEMA}"'.encode() in data or b"PartitionSpec" in data:
        return True
    return data.lstrip()[:1] == b"{" and in_json(data) is not None


def adopt(instance: Any, data: bytes, where: str) -> Plan:
    """The mapping of such a program, or the layouts of parameters that a file has, for ``instance``."""
    specs = in_json(data)
    if specs is not None:
        refuse_repeats(data, where)
    else:
        values = assigned(data.decode(errors="replace"), where)
        if "MAPPING" in values:
            return Plan(solution=mapping_in(values["MAPPING"], instance, where))
        specs = in_python(values, where)
    if specs is None:
        remedy = 'Give parameter -> PartitionSpec, in JSON {"Q": ["x", null]}, or in Python {"Q": P("x", None)}.'
        raise InputError("has no table of PartitionSpecs", where, remedy)
    return plan_of(instance, specs, where)


def program(instance: DataflowInstance, solution: DataflowSolution) -> tuple[Program, dict[str, int]]:
    """The plan of a mapping's layer on the chips that share it, and the partition of each kernel where chips fuse.

    Raises :class:`InputError` for what no program says.
    """
    _stated(instance)
    _says(instance, solution)
    layer = meant(instance.workload)
    names = [kernel.name for kernel in instance.workload.kernels]
    own: dict[str, Scheme] = dict(zip(names, solution.schemes, strict=True))
    fuses = instance.task.fused and instance.system.chip.fused
    partitions = dict(zip(names, solution.partitions, strict=True)) if fuses else {}
    policy = Policy(keep=solution.keep or instance.task.keep or "none")
    of = plan(layer, own, solution.degrees.tensor, policy, partitions or None)
    return of, partitions


def _stated(instance: DataflowInstance) -> None:
    """Refuse problems of which a layer's program isn't all that a mapping says."""
    task, name = instance.task, instance.name
    if instance.mode != "physical":
        raise InputError(
            f"mode {instance.mode} counts other exchanges than a program makes", name, "Set mode=physical."
        )
    if task.across_layers:
        what = "partitions reach across layers, and a program is of one layer"
        raise InputError(what, name, "Solve it with --set task.across_layers=false")
    if task.stages == "kernels":
        what = "stages share out kernels, and a program is of a whole layer"
        raise InputError(what, name, "Solve it with --set task.stages=layers")


def _says(instance: DataflowInstance, solution: DataflowSolution) -> None:
    """Refuse mappings that do more inside a layer than its program."""
    task, degrees = instance.task, solution.degrees
    if degrees.expert > 1:
        what = f"{degrees.expert} replicas share experts, and a program is of one replica"
        raise InputError(what, instance.name, "Give degrees without: --set 'task.degrees={...}'")
    if degrees.data > 1 and (solution.shard or task.sharded) == "weights":
        what = f"{degrees.data} replicas share out weights, which each layer gathers, and a program is of one replica"
        raise InputError(what, instance.name, "Solve it with --set task.shard=gradients")
    if (solution.recompute or task.recomputed) != "none":
        what = "forward kernels run again in the backward phase, and the program keeps what they made"
        raise InputError(what, instance.name, "Solve it with --set task.recompute=false, or wrap the layer yourself")


def _head(instance: DataflowInstance, solution: DataflowSolution, options: EmitOptions, of: Program) -> str:
    """What the program is of: its first lines."""
    degrees, layers = solution.degrees, instance.workload.layers
    phases = {kernel.phase for kernel in instance.workload.kernels}
    words = "phases" if len(phases) > 1 else "forward phase"
    samples = solution.micro_batch or instance.task.micro_batch or 1
    chips, one_of = counted(of.chips, "chip"), counted(layers, "layer")
    lines = [
        f'"""{instance.workload.name}, on {chips}: the {words} of one of {one_of}.',
        "",
        f"    python {FILE}            # runs at cut sizes, and compares with one device",
        f"    python {FILE} --full     # at full sizes",
        "",
        "Needs jax and numpy. Chips that JAX lacks are devices of the host. Names say how a tensor lies on chips:",
        "_rows, _experts or _columns split (a number: in so many parts), _all on each, or _terms of a sum over chips.",
        f"Of {degrees.text}, this is what a tensor group does for a sample; a micro-batch has {samples}.",
        '"""',
        "",
        f"# {options.told.line}",
        "",
    ]
    return "\n".join(lines)
