"""Stages with unequal numbers of layers, as the checker reads the page.

``docs/families/dataflow-uneven.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution, Degrees
from chipmap.validation.certify import Finding
from chipmap.validation.dataflow import facts, training

if TYPE_CHECKING:
    from chipmap.validation.dataflow.mapping import Mapping


def wrong_layers(instance: DataflowInstance, solution: DataflowSolution) -> Iterator[Finding]:
    """C0: a mapping states the layers of each chunk where they may be unequal; they are the network's, and the task's
    if it gives them."""
    task, stated = instance.task, solution.stage_layers
    if task.stage_layers == ():
        if stated:
            yield "stage_layers", len(stated), "chunks", "stages have equally many layers here, no numbers of their own"
        return
    chunks = solution.degrees.pipeline * (task.chunks or solution.chunks or 1)
    given = stated or task.stage_layers or ()
    if task.stage_layers not in (None, given):
        yield "stage_layers", 1, "chunks", "the layers of chunks are not those that the task asks for"
    elif len(given) != chunks:
        yield "stage_layers", abs(len(given) - chunks), "chunks", f"{len(given)} numbers of layers for {chunks} chunks"
    elif min(given) < 0 or sum(given) != instance.workload.layers:
        message = f"the chunks have {sum(given)} layers, the network has {instance.workload.layers}"
        yield "stage_layers", max(1, abs(sum(given) - instance.workload.layers)), "layers", message


def by_stage(instance: DataflowInstance, degrees: Degrees) -> list[int]:
    """Layers of each stage where they are unequal: its chunks are as many stages apart."""
    counts = instance.task.stage_layers or ()
    found = [0] * degrees.pipeline
    for chunk, layers in enumerate(counts):
        found[chunk % degrees.pipeline] += layers
    return found


def passes(instance: DataflowInstance, degrees: Degrees, stage: int) -> Fraction:
    """Passes of a micro-batch through one layer of a stage of which it holds what is saved: of all micro-batches at
    most, and of the chunks that it has begun by then, each as the stage's largest."""
    counts, chunks = instance.task.stage_layers or (), instance.task.chunks or 1
    rounds = Fraction(instance.task.batch, degrees.data * instance.task.samples)
    later = degrees.pipeline - 1 - stage
    if chunks > 1 and instance.task.schedule == "interleaved":
        later *= 2
    begun = min(rounds * chunks, Fraction((chunks - 1) * degrees.pipeline + later + 1))
    own = [layers for chunk, layers in enumerate(counts) if chunk % degrees.pipeline == stage]
    return min(rounds * sum(own), begun * max(own))


def resting(mapping: Mapping, stage: int, ends: tuple[int, int]) -> int:
    """C6: bytes that are always there in a stage: of its layers what rests and what is saved, each kernel's rounded up
    once, and the most that its end of the network ever has (``ends``: those of the first and the last)."""
    instance, degrees = mapping.instance, mapping.degrees
    layers, times = by_stage(instance, degrees)[stage], passes(instance, degrees, stage)
    saved, total = facts.saved(instance), 0
    for i, copy in enumerate(mapping.copies):
        kernel = mapping.kernel(i)
        held = training.resting(kernel, copy.scheme, instance, degrees, layers)
        total += math.ceil(held + (times * mapping.output(i) if kernel.name in saved else 0))
    return total + ends[0] * (stage == 0) + ends[1] * (stage == degrees.pipeline - 1)
