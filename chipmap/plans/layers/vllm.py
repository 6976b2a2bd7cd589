"""Format ``vllm``: a plan as variables and options of ``vllm serve``.

``VLLM_PP_LAYER_PARTITION`` has the layers of each stage between commas: as many numbers as ``--pipeline-parallel-size``
says, which add up to the model's layers (vLLM 0.8 to 0.11: ``vllm.envs``, ``get_pp_indices``). The embedding is on the
first stage, norm and head on the last. Without the variable stages are equal, and what is left over goes to those
before the last, the last but one first, so that the last has none. ``--enable-expert-parallel`` shares experts among
all chips of tensor and data parallelism. Stages without layers are neither written nor read: nothing says that they
run.
"""

from __future__ import annotations

import shlex
from typing import Any

from chipmap.instances.dataflow.instance import DataflowInstance
from chipmap.plans.layers import dataflow, divisible, graphs
from chipmap.plans.layers.common import adopted, comments, names_said, reason
from chipmap.plans.layers.plan import LayerPlan, chunks_of
from chipmap.plans.layers.strings import counts, number, options_text, read_options
from chipmap.plans.plan import EmitOptions, Plan
from chipmap.records import InputError, Record

FILE = "vllm.sh"
PARTITION = "VLLM_PP_LAYER_PARTITION"
_TENSOR, _PIPELINE, _DATA = "--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size"
_EXPERT, _AT_ONCE = "--enable-expert-parallel", "--max-num-seqs"
#: Short names of options.
_SHORT = {"-tp": _TENSOR, "-pp": _PIPELINE, "-dp": _DATA}


def suits(instance: Any, solution: Any) -> str | None:
    """Why vLLM can't run the mapping; None: it can."""
    if isinstance(instance, DataflowInstance) and instance.task.purpose == "training":
        return "vLLM serves, and this task trains (task.purpose)"
    return reason(instance, solution, _plan)


def emit(instance: Any, solution: Any, options: EmitOptions) -> dict[str, str | bytes]:
    """A shell script that starts the server; the model's name is its first argument."""
    plan = _plan(instance, solution)
    words = [[_TENSOR, str(plan.tensor)], [_PIPELINE, str(plan.stages)]]
    if isinstance(instance, DataflowInstance):
        words += [[_DATA, str(plan.data)], [_AT_ONCE, str(plan.micro_batch)]]
        words += [[_EXPERT]] if (plan.expert or 1) > 1 else []
    lines = " \\\n    ".join(['exec vllm serve "$@"', *(" ".join(map(shlex.quote, each)) for each in words)])
    partition = ",".join(str(chunk.count("t")) for chunk in plan.chunks)
    head = comments(instance, plan, options, f"sh {FILE} MODEL [more options]")
    return {FILE: "\n".join(["#!/bin/sh", *head, f"export {PARTITION}={partition}", lines, ""])}


def recognise(data: bytes, where: str, instance: Record) -> bool:
    """Whether it sets vLLM's variable, or has an option of its own."""
    return any(name.encode() in data for name in (PARTITION, f"{_TENSOR} ", f"{_PIPELINE} ", f"{_PIPELINE}="))


def adopt(instance: Any, data: bytes, where: str) -> Plan:
    """The plan that variables and options say, for ``instance``."""
    if isinstance(instance, DataflowInstance) and instance.task.purpose == "training":
        what = "is a plan for serving, and this task trains"
        raise InputError(what, where, "Give a task of inference: --set task.purpose=prefill")
    layers = instance.workload.layers if isinstance(instance, DataflowInstance) else len(graphs.layers(instance).blocks)
    text = options_text(data, (PARTITION, _TENSOR, _PIPELINE, _DATA, _EXPERT, _AT_ONCE, *_SHORT), where)
    return adopted(instance, read(text, where, layers), where)


def _plan(instance: Any, solution: Any) -> LayerPlan:
    if isinstance(instance, DataflowInstance):
        plan = dataflow.plan_of(instance, solution)
        shared = plan.tensor * (plan.data or 1)
        if plan.context > 1:
            what = "its chips share tokens, of which vLLM's options say nothing"
            raise InputError(what, instance.name, "Pin other schemes: --set task.schemes.NAME=M")
        if (plan.expert or 1) not in (1, shared):
            what = f"{plan.expert} chips share experts; vLLM shares them among all {shared} or none"
            raise InputError(what, instance.name, "Give other degrees: --set 'task.degrees={...}'")
        divisible.refuse(instance, plan, "vLLM")
    else:
        plan = graphs.plan_of(instance, graphs.places_of(instance, solution))
    if plan.parts > 1:
        what = f"its stages have {plan.parts} parts each; vLLM's have one"
        raise InputError(what, instance.name, f"This finds one: {_again(instance)}")
    empty = next((i for i, chunk in enumerate(plan.chunks) if "t" not in chunk), None)
    if empty is not None:
        what = f"stage {empty} has no layers, of which vLLM's documentation says nothing"
        raise InputError(what, instance.name, _with_layers(instance))
    return plan


def _with_layers(instance: Any) -> str:
    if isinstance(instance, DataflowInstance):
        return "Give fewer stages: --set 'task.degrees={...}'"
    parts = [one.operations for one in graphs.layers(instance).parts]
    ends = [(parts[0], parts[1]), (parts[-2], parts[-1])]
    return graphs.cut_command(instance, *([one[0], other[0]] for one, other in ends if one and other))


def _again(instance: Any) -> str:
    if isinstance(instance, DataflowInstance):
        return "chipmap solve INSTANCE --set task.chunks=1"
    return "chipmap solve INSTANCE --cut blocks --set task.contiguous=true"


def read(text: str, where: str, layers: int) -> LayerPlan:
    """The plan of a model of so many ``layers``."""
    options = read_options(" ".join(_SHORT.get(word, word) for word in text.split(" ")), where)
    stages = number(options, _PIPELINE, where)
    if PARTITION in options:
        each = counts(options[PARTITION][0], where, PARTITION)
        if stages not in (None, len(each)):
            what = f"has {len(each)} numbers for {stages} stages ({_PIPELINE})"
            raise InputError(what, f"{where}: {PARTITION}", "Give one per stage.")
        if 0 in each:
            raise InputError("has a stage without layers", f"{where}: {PARTITION}", "Give each stage one at least.")
    else:
        each = default(layers, stages or 1)
    tensor, data = number(options, _TENSOR, where, 1) or 1, number(options, _DATA, where)
    shares = tensor * (data or 1) if _EXPERT in options else 1
    at_once = number(options, _AT_ONCE, where)
    names = names_said(text)
    return LayerPlan(
        stages=len(each),
        chunks=chunks_of(each),
        tensor=tensor,
        data=data,
        expert=shares,
        micro_batch=at_once,
        names=names,
    )


def default(layers: int, stages: int) -> tuple[int, ...]:
    """The layers of each stage where nothing says them: equal, what is left over on those before the last one."""
    each = [layers // stages] * stages
    for i in range(2, layers % stages + 2):
        each[-i] += 1
    return tuple(each)
