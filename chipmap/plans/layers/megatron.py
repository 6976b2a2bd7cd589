"""Format ``megatron``: the options of a plan for Megatron-LM, as its scripts have them.

Options are those of Megatron-LM's ``arguments.py`` (Megatron Core 0.15 to 0.17); the layout is :mod:`.strings`'. What
they don't say stays open when they are read: how each kernel is split (Megatron-LM does that by a rule of its own) and
what is fused.
"""

from __future__ import annotations

import shlex
from typing import Any

from chipmap.instances.dataflow.instance import DataflowInstance, Recompute, Shard
from chipmap.plans.layers import dataflow, divisible, graphs
from chipmap.plans.layers.common import adopted, comments, names_said, reason
from chipmap.plans.layers.plan import LayerPlan, chunks_of, even
from chipmap.plans.layers.strings import number, options_text, read_layout, read_options, write_layout
from chipmap.plans.plan import EmitOptions, Plan
from chipmap.records import InputError, Record

FILE = "megatron.sh"
_TENSOR, _PIPELINE = "--tensor-model-parallel-size", "--pipeline-model-parallel-size"
_CONTEXT, _EXPERT = "--context-parallel-size", "--expert-model-parallel-size"
_EXPERT_TENSOR, _LAYOUT = "--expert-tensor-parallel-size", "--pipeline-model-parallel-layout"
_SEQUENCE = "--sequence-parallel"
_VIRTUAL, _VIRTUAL_STAGES = "--num-layers-per-virtual-pipeline-stage", "--num-virtual-stages-per-pipeline-rank"
_FIRST, _LAST = "--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers"
_MICRO, _BATCH, _LAYERS = "--micro-batch-size", "--global-batch-size", "--num-layers"
_RECOMPUTE, _METHOD, _EACH = "--recompute-granularity", "--recompute-method", "--recompute-num-layers"
_DISTRIBUTED, _FSDP, _STRATEGY = (
    "--use-distributed-optimizer",
    "--use-megatron-fsdp",
    "--data-parallel-sharding-strategy",
)
#: Options of which one is in any plan.
_SAID = (_TENSOR, _PIPELINE, _LAYOUT, _CONTEXT, _EXPERT, _MICRO, _RECOMPUTE, _DISTRIBUTED, _FSDP)
#: What replicas share out -> the strategy of Megatron's FSDP.
_STRATEGIES: dict[Shard, str] = {"gradients": "optim_grads", "weights": "optim_grads_params"}
#: The kernels that ``selective`` makes again: the core of attention (Korthikanti et al., 2022).
_CORE = ("MHA1", "Softmax", "Dropout1", "MHA2")


def suits(instance: Any, solution: Any) -> str | None:
    """Why no options of Megatron-LM say the mapping; None: they do."""
    if isinstance(instance, DataflowInstance) and instance.task.purpose != "training":
        return f"Megatron-LM trains, and this task doesn't (task.purpose {instance.task.purpose})"
    return reason(instance, solution, _plan)


def emit(instance: Any, solution: Any, options: EmitOptions) -> dict[str, str | bytes]:
    """A shell's array of options, and comments."""
    plan = _plan(instance, solution)
    lines = [f"    {' '.join(shlex.quote(word) for word in words)}" for words in _words(instance, plan)]
    head = comments(instance, plan, options, "torchrun ... pretrain_gpt.py ${PLAN_ARGS[@]} ...")
    return {FILE: "\n".join([*head, "PLAN_ARGS=(", *lines, ")", ""])}


def recognise(data: bytes, where: str, instance: Record) -> bool:
    """Whether it has an option that Megatron-LM alone has."""
    return any(name.encode() in data for name in (_TENSOR, _PIPELINE, _LAYOUT))


def adopt(instance: Any, data: bytes, where: str) -> Plan:
    """The plan that options say, for ``instance``."""
    if isinstance(instance, DataflowInstance) and instance.task.purpose != "training":
        raise InputError("is a plan for training, and this task is inference", where, "Give a task that trains.")
    text = options_text(data, _SAID, where)
    return adopted(instance, read(text, where, _layers(instance)), where)


def _layers(instance: Any) -> int:
    return instance.workload.layers if isinstance(instance, DataflowInstance) else len(graphs.layers(instance).blocks)


def _plan(instance: Any, solution: Any) -> LayerPlan:
    if not isinstance(instance, DataflowInstance):
        return graphs.plan_of(instance, graphs.places_of(instance, solution))
    if instance.task.schedule == "zb-h1":
        raise InputError("runs weight updates late (zb-h1)", instance.name, "Set task.schedule to 1f1b.")
    if instance.task.schedule == "dualpipe-v":
        raise InputError("runs two passes at once (dualpipe-v)", instance.name, "Set task.schedule to interleaved.")
    if instance.task.schedule == "interleaved-lean":
        raise InputError("begins backward passes early (interleaved-lean)", instance.name, "Set it to interleaved.")
    plan = dataflow.plan_of(instance, solution)
    if plan.recompute == "selective" and not set(instance.task.selective) <= set(_CORE):
        other = next(name for name in instance.task.selective if name not in _CORE)
        what = f"makes {other!r} again, of which --recompute-granularity selective says nothing"
        raise InputError(what, instance.name, f"Name kernels of attention in task.selective: {', '.join(_CORE)}.")
    divisible.refuse(instance, plan, "Megatron-LM")
    return plan


def _words(instance: Any, plan: LayerPlan) -> list[list[str]]:
    """The options with their values."""
    words = [[_LAYERS, str(plan.layers)], [_TENSOR, str(plan.tensor)], [_PIPELINE, str(plan.stages)]]
    if len(plan.chunks) > 1:
        words.append([_LAYOUT, write_layout(plan.chunks)])
    if plan.context > 1:
        words.append([_CONTEXT, str(plan.context)])
    if (plan.expert or 1) > 1:
        words += [[_EXPERT, str(plan.expert)], [_EXPERT_TENSOR, "1"]]
        words += [[_SEQUENCE]] if plan.tensor > 1 else []  # Megatron Core shares experts out by tokens alone
    if not isinstance(instance, DataflowInstance):
        return words
    words += [[_MICRO, str(plan.micro_batch)], [_BATCH, str(plan.batch)]]
    if plan.shard == "optimizer":
        words.append([_DISTRIBUTED])
    elif plan.shard in _STRATEGIES:
        words += [[_DISTRIBUTED], [_FSDP], [_STRATEGY, _STRATEGIES[plan.shard]]]
    if plan.recompute == "full":
        words += [[_RECOMPUTE, "full"], [_METHOD, "uniform"], [_EACH, "1"]]
    elif plan.recompute == "selective":
        words.append([_RECOMPUTE, "selective"])
    return words


def read(text: str, where: str, layers: int) -> LayerPlan:
    """The plan that options say, of a network of so many ``layers`` where they don't say that."""
    options = read_options(text, where)
    stages = number(options, _PIPELINE, where, 1) or 1
    count = number(options, _LAYERS, where, layers) or layers
    tensor = number(options, _TENSOR, where, 1) or 1
    expert = number(options, _EXPERT, where)
    if (expert or 1) > 1 and (number(options, _EXPERT_TENSOR, where, tensor) or 1) > 1:
        what = f"divides experts over {expert} chips and each of them over others"
        raise InputError(what, f"{where}: {_EXPERT_TENSOR}", f"Only {_EXPERT_TENSOR} 1 can be stated here.")
    chunks = _stages(options, where, stages, count)
    return LayerPlan(
        stages=stages,
        chunks=chunks,
        parts=len(chunks) // stages,
        tensor=tensor,
        context=number(options, _CONTEXT, where, 1) or 1,
        expert=expert,
        micro_batch=number(options, _MICRO, where),
        batch=number(options, _BATCH, where),
        recompute=_recompute(options, where),
        shard=_shard(options, where),
        names=names_said(text),
    )


def _stages(options: dict[str, list[str]], where: str, stages: int, layers: int) -> tuple[str, ...]:
    """The chunks: those of the layout, or equal ones but for the first and last stage."""
    if _LAYOUT in options:
        chunks = read_layout(" ".join(options[_LAYOUT]), f"{where}: {_LAYOUT}")
        if len(chunks) % stages:
            what = f"has {len(chunks)} stages, which {stages} chips ({_PIPELINE}) can't share out evenly"
            raise InputError(what, f"{where}: {_LAYOUT}", "Give a multiple of them.")
        return chunks
    first, last = number(options, _FIRST, where), number(options, _LAST, where)
    if first is not None or last is not None:
        return _uneven(first, last, where, stages, layers)
    parts = number(options, _VIRTUAL_STAGES, where, 1) or 1
    if (each := number(options, _VIRTUAL, where)) is not None:
        parts = layers // (stages * each)
    if not parts or layers % (stages * parts):
        what = f"{layers:,} layers in {stages} stages" + (f" of {parts} parts" if parts > 1 else "") + " aren't whole"
        raise InputError(what, where, f"Give a layout ({_LAYOUT}), or the first and last stage's layers.")
    return even(layers, stages, parts)


def _uneven(first: int | None, last: int | None, where: str, stages: int, layers: int) -> tuple[str, ...]:
    """Stages between the first and the last one have equally many of the layers that these leave."""
    middle = stages - (first is not None) - (last is not None)
    left = layers - (first or 0) - (last or 0)
    if middle < 0 or left < 0 or (left % middle if middle else left):
        what = f"leave {left} layers for {middle} stages"
        raise InputError(what, f"{where}: {_FIRST}, {_LAST}", "Give numbers that leave equal stages between them.")
    between = [left // middle] * middle if middle else []
    return chunks_of([*([] if first is None else [first]), *between, *([] if last is None else [last])])


def _recompute(options: dict[str, list[str]], where: str) -> Recompute | None:
    """Which forward kernels run again; nothing where no option says so."""
    if "--recompute-activations" in options:
        return "selective"
    if _RECOMPUTE not in options:
        return "none"
    granularity = " ".join(options[_RECOMPUTE])
    if granularity not in ("full", "selective"):
        raise InputError(f"is {granularity!r}", f"{where}: {_RECOMPUTE}", "Choose from full and selective.")
    method, each = options.get(_METHOD, ["uniform"]), number(options, _EACH, where, 1)
    if granularity == "full" and (method != ["uniform"] or each != 1):
        what = f"makes {each} layers at a time again ({' '.join(method)})"
        raise InputError(what, f"{where}: {_METHOD}", f"Only {_METHOD} uniform with {_EACH} 1 can be stated here.")
    return "full" if granularity == "full" else "selective"


def _shard(options: dict[str, list[str]], where: str) -> Shard | None:
    """What replicas share out; nothing where no option says so."""
    strategy = " ".join(options.get(_STRATEGY, []))
    known: dict[str, Shard] = {"no_shard": "none", "optim": "optimizer"}
    known |= {text: shard for shard, text in _STRATEGIES.items()}
    if _FSDP in options and strategy:
        if strategy not in known:
            raise InputError(f"is {strategy!r}", f"{where}: {_STRATEGY}", f"Choose from {', '.join(known)}.")
        return known[strategy]
    if "--use-torch-fsdp2" in options:
        return "weights"
    return "optimizer" if _DISTRIBUTED in options else "none"
