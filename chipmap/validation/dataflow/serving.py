"""Serving figures of a mapping: the latency of a pass through all layers, and tokens per second."""

from __future__ import annotations

from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution
from chipmap.validation.dataflow import facts


def hop(instance: DataflowInstance, solution: DataflowSolution) -> int:
    """Picoseconds that a micro-batch takes from one stage to the next: what a layer hands on, on each chip's own link.

    Per edge to the next layer in mode ``dfmodel``, per tensor in mode ``physical``, with the latency of a step each.
    """
    pairs = zip(instance.workload.kernels, solution.schemes, strict=False)
    return sum(facts.sent(kernel, scheme, instance, solution.degrees) for kernel, scheme in pairs)


def serving_figures(
    instance: DataflowInstance, solution: DataflowSolution, layer: int, objective: int
) -> dict[str, float]:
    """``tokens_per_s`` of the whole batch, and ``ttft_us`` (prefill) or ``tpot_us`` (decode): the microseconds that a
    micro-batch takes through all layers and from stage to stage. Empty in training.

    ``layer``: T4 in picoseconds (of all layers where partitions reach across them). Where stages share out kernels, a
    micro-batch takes a step in each stage, and a batch m + PP - 1 of them.
    """
    task, degrees = instance.task, solution.degrees
    if task.purpose == "training" or not objective:
        return {}
    layers = 1 if task.across_layers else instance.workload.layers
    latency = layer * layers + (degrees.pipeline - 1) * hop(instance, solution)
    if task.stages == "kernels":
        rounds = task.batch // (degrees.data * task.micro_batch)
        latency = objective // (rounds + degrees.pipeline - 1) * degrees.pipeline
    name = "ttft_us" if task.purpose == "prefill" else "tpot_us"
    tokens = task.batch * instance.workload.tokens
    return {name: latency / 1e6, "tokens_per_s": tokens / (objective / (facts.PS * 1e9))}
