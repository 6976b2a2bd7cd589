"""Sizes that a runtime has to share out evenly among the chips of a plan of family ``dataflow``.

The family pads what chips can't share out. Runtimes refuse it when they start: Megatron Core (``TransformerConfig``,
``arguments.py``) and vLLM (``verify_with_parallel_config``, its models' attention and parallel linear layers).
"""

from __future__ import annotations

from typing import Literal

from chipmap.instances.dataflow.instance import DataflowInstance
from chipmap.instances.dataflow.workload import Kernel
from chipmap.plans.layers.plan import LayerPlan
from chipmap.records import InputError

Runtime = Literal["Megatron-LM", "vLLM"]
_DEGREES = "Give other degrees: --set 'task.degrees={...}'"


def refuse(instance: DataflowInstance, plan: LayerPlan, runtime: Runtime) -> None:
    """Raise :class:`InputError` where ``runtime`` would refuse the degrees of ``plan`` for the network's sizes."""
    kernels = [kernel for kernel in instance.workload.kernels if kernel.phase == "forward"]
    for heads in sorted(_attention_heads(kernels)):
        _whole(instance, f"{heads:,} attention heads", heads, plan.tensor, runtime)
    for heads in sorted(_key_heads(kernels)):
        if heads % plan.tensor and plan.tensor % heads:
            what = f"{heads:,} heads of keys and values on {plan.tensor:,} chips"
            raise InputError(f"{runtime} refuses {what}: neither divides the other", instance.name, _DEGREES)
    for width in sorted(_widths(kernels, whole_experts=(plan.expert or 1) > 1)):
        _whole(instance, f"{width:,} rows of a feed-forward layer", width, plan.tensor, runtime)
    if runtime == "Megatron-LM":
        _of_megatron(instance, plan, kernels)


def _of_megatron(instance: DataflowInstance, plan: LayerPlan, kernels: list[Kernel]) -> None:
    """Experts and tokens, which vLLM shares out unevenly as well, and micro-batches of interleaved stages."""
    tokens, runtime = instance.workload.tokens, "Megatron-LM"
    if (plan.expert or 1) > 1:
        for experts in sorted({kernel.experts for kernel in kernels if kernel.experts}):
            _whole(instance, f"{experts:,} experts", experts, plan.expert or 1, runtime)
        _whole(instance, f"{tokens:,} tokens", tokens, plan.tensor, runtime)
    if plan.context > 1:  # each chip has an early and a late piece
        _whole(instance, f"{tokens:,} tokens in two pieces a chip", tokens, 2 * plan.context, runtime, "pieces")
    if plan.parts > 1 and plan.batch and plan.micro_batch and plan.data:
        passes = plan.batch // (plan.micro_batch * plan.data)
        _whole(instance, f"{passes:,} micro-batches of interleaved stages", passes, plan.stages, runtime, "stages")


def _whole(instance: DataflowInstance, what: str, size: int, parts: int, runtime: str, of: str = "chips") -> None:
    if size % parts:
        what = f"{runtime} refuses {what} on {parts:,} {of}, which don't divide them"
        raise InputError(what, instance.name, _DEGREES)


def _attention_heads(kernels: list[Kernel]) -> set[int]:
    """Heads of a sample of products of two activations."""
    products = [kernel for kernel in kernels if kernel.kind == "gemm" and not kernel.weights and kernel.outer > 1]
    return {kernel.heads or kernel.outer for kernel in products}


def _key_heads(kernels: list[Kernel]) -> set[int]:
    """Heads of a KV cache, and of products with parameters that are made head by head."""
    cached = {kernel.fetch_outer for kernel in kernels if kernel.kind == "gemm" and kernel.fetch_outer}
    return cached | {kernel.outer for kernel in kernels if kernel.weights and kernel.outer > 1}


def _widths(kernels: list[Kernel], whole_experts: bool) -> set[int]:
    """Rows of a product with parameters that a later one brings back to the width of what the first one reads; not of
    experts that chips have whole."""
    found, seen = set[int](), list[Kernel]()
    for kernel in kernels:
        if kernel.weights and kernel.outer == 1 and not (kernel.experts and whole_experts):
            if any((one.M, one.K) == (kernel.K, kernel.M) for one in seen):
                found.add(kernel.K)
            seen.append(kernel)
    return found
