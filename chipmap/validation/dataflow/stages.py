"""Stages of kernels, from the page (``docs/families/dataflow-stages.md``) alone: which partition runs where, how long
a step takes."""

from __future__ import annotations

from collections import defaultdict

from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution
from chipmap.validation.dataflow import facts
from chipmap.validation.dataflow.mapping import Mapping


def wrong_stages(instance: DataflowInstance, solution: DataflowSolution) -> str:
    """What of ``stages`` is no stage of a partition (C0); empty where nothing is."""
    stages, pipeline = solution.stages, solution.degrees.pipeline
    if instance.task.stages == "layers":
        return "stages are layers here, no partition has one of its own" if stages else ""
    numbers = max(solution.partitions, default=-1) + 1
    if len(stages) != numbers and (stages or pipeline > 1):
        return f"{len(stages)} stages for {numbers} numbers of partitions"
    outside = [s for s in stages if not 0 <= s < pipeline]
    return f"there is no stage {outside[0]} of {pipeline}" if outside else ""


def longest_transfer(mapping: Mapping) -> int:
    """Picoseconds of the transfer from a stage to the next that takes most.

    What a stage or one before it made is sent for as long as a later one reads it: each time that it is read in mode
    ``dfmodel``, once in mode ``physical``.
    """
    instance, degrees = mapping.instance, mapping.solution.degrees
    longest = 0
    for s in range(degrees.pipeline - 1):
        readers: dict[int, int] = defaultdict(int)
        for u, v in mapping.edges:
            ends = [mapping.stage(mapping.copies[i].partition) for i in (u, v)]
            readers[u] += ends[0] <= s < ends[1]
        total = 0
        for u, edges in readers.items():
            copy = mapping.copies[u]
            once = facts.passed_on(instance.workload.kernels[copy.kernel], copy.scheme, instance, degrees)
            total += once * (edges if instance.mode == "dfmodel" else min(edges, 1))
        longest = max(longest, total)
    return longest


def steps(mapping: Mapping) -> int:
    """Steps of the batch: a micro-batch leaves the last stage in each, once the first has got there."""
    task, degrees = mapping.instance.task, mapping.solution.degrees
    return task.batch // (degrees.data * task.micro_batch) + degrees.pipeline - 1
