"""Stages with unequal numbers of layers, and the kernels of the network's ends, as the checker reads the page.

``docs/families/dataflow-uneven.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from chipmap import records
from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution, Degrees
from chipmap.validation.certify import Finding
from chipmap.validation.dataflow import facts, present, training

if TYPE_CHECKING:
    from chipmap.validation.dataflow.mapping import Mapping


class Ended(NamedTuple):
    """What one end's kernels take: picoseconds for a micro-batch, those of T6 and T8 for the batch, the most bytes."""

    ticks: int
    sums: int
    step: int
    most: int


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


def ended(mapping: Mapping, last: bool) -> Ended:
    """What the kernels of the network's first or ``last`` end take in their stage, one after the other."""
    key = f"end {last} {mapping.degrees}"
    found: Ended = records.kept(mapping.instance, key, lambda _: _ended(mapping, last))
    return found


def _ended(mapping: Mapping, last: bool) -> Ended:
    from chipmap.validation.dataflow.checker import t4_layer, t6_gradients, t8_step
    from chipmap.validation.dataflow.mapping import mapping_of
    from chipmap.validation.dataflow.times import times_of

    whole, degrees = mapping.instance, mapping.degrees
    kernels = whole.workload.last if last else whole.workload.first
    if not kernels:
        return Ended(0, 0, 0, 0)
    place = {kernel.name: i for i, kernel in enumerate(kernels)}
    edges = [(u, v) for u, v in whole.workload.end_edges if u in place and v in place]
    numbers = present.places([one.phase == "backward" for one in kernels], [(place[u], place[v]) for u, v in edges])
    alone = [0] * degrees.pipeline
    alone[-1 if last else 0] = 1
    schedule, chunks = ("1f1b", None) if last else (whole.task.schedule, whole.task.chunks)
    if not last:
        alone += [0] * (degrees.pipeline * ((chunks or 1) - 1))
    replaced = msgspec.structs.replace
    graph = replaced(whole.workload, kernels=kernels, edges=tuple(edges), carries=(), layers=1, first=(), last=())
    task = replaced(whole.task, stage_layers=tuple(alone), schedule=schedule, chunks=chunks, recompute=False, keep=None)
    task = replaced(task, selective=(), schemes={}, together=(), apart=(), pins=(), forbidden=(), fused=False)
    own = replaced(whole, workload=graph, task=task)
    schemes = tuple(kernel.schemes[0] for kernel in kernels)
    there = mapping_of(own, DataflowSolution(degrees=degrees, schemes=schemes, partitions=tuple(numbers)))
    most = max(map(sum, there.dram.values()))
    return Ended(t4_layer(times_of(there)), t6_gradients(there), t8_step(there), most)


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


def longest_chunk(mapping: Mapping, layer: int) -> int:
    """Picoseconds of the chunk that takes longest for a micro-batch, where a layer takes ``layer``."""
    counts = mapping.instance.task.stage_layers or ()
    each = [layers * layer for layers in counts]
    each[0] += ended(mapping, last=False).ticks
    each[-1] += ended(mapping, last=True).ticks
    return max(each)


def resting(mapping: Mapping, stage: int) -> int:
    """C6: bytes that are always there in a stage: of its layers what rests and what is saved, each kernel's rounded up
    once, and the most that its end of the network ever has."""
    instance, degrees = mapping.instance, mapping.degrees
    layers, times = by_stage(instance, degrees)[stage], passes(instance, degrees, stage)
    saved, total = facts.saved(instance), 0
    for i, copy in enumerate(mapping.copies):
        kernel = mapping.kernel(i)
        held = training.resting(kernel, copy.scheme, instance, degrees, layers)
        total += math.ceil(held + (times * mapping.output(i) if kernel.name in saved else 0))
    if stage == 0:
        total += ended(mapping, last=False).most
    if stage == degrees.pipeline - 1:
        total += ended(mapping, last=True).most
    return total


def of_batch(mapping: Mapping, term: str) -> int:
    """Picoseconds of T6 or T8 that the ends take: of the one that takes longer in both, of both in a single stage."""
    both = [ended(mapping, last) for last in (False, True)]
    one = sum if mapping.degrees.pipeline == 1 else max
    if one is max:
        both = [max(both, key=lambda end: end.sums + end.step)]
    return sum(end.sums if term == "T6" else end.step for end in both)
