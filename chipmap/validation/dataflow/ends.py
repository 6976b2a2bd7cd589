"""The kernels of the network's ends, as the checker reads the page: each end is a network of its own in its stage.

``docs/families/dataflow-uneven.md``.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from chipmap import records
from chipmap.instances.dataflow.instance import DataflowSolution
from chipmap.validation.dataflow import exchanges, present, training
from chipmap.validation.dataflow.dram import in_dram
from chipmap.validation.dataflow.mapping import Mapping, mapping_of
from chipmap.validation.dataflow.times import times_of


class Ended(NamedTuple):
    """What one end's kernels take: picoseconds for a micro-batch, those of T6 and T8 for the batch, the most bytes."""

    ticks: int
    sums: int
    step: int
    most: int


def ended(mapping: Mapping, last: bool) -> Ended:
    """What the kernels of the network's first or ``last`` end take in their stage, one after the other."""
    key = f"end {last} {mapping.degrees}"
    found: Ended = records.kept(mapping.instance, key, lambda _: _ended(mapping, last))
    return found


def _ended(mapping: Mapping, last: bool) -> Ended:
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
    most = max(map(sum, in_dram(there).values()))
    return Ended(sum(times_of(there).together.values()), gradients(there), step(there), most)


def longest_chunk(mapping: Mapping, layer: int) -> int:
    """Picoseconds of the chunk that takes longest for a micro-batch, where a layer takes ``layer``."""
    counts = mapping.instance.task.stage_layers or ()
    each = [layers * layer for layers in counts]
    each[0] += ended(mapping, last=False).ticks
    each[-1] += ended(mapping, last=True).ticks
    return max(each)


def of_batch(mapping: Mapping, term: str) -> int:
    """Picoseconds of T6 or T8 that the ends take: of the one that takes longer in both, of both in a single stage."""
    both = [ended(mapping, last) for last in (False, True)]
    one = sum if mapping.degrees.pipeline == 1 else max
    if one is max:
        both = [max(both, key=lambda end: end.sums + end.step)]
    return sum(end.sums if term == "T6" else end.step for end in both)


def gradients(mapping: Mapping) -> int:
    """T6 without that of ends: picoseconds of the batch's sums over the replicas, or what is left of them where they
    run behind its backward pass; of updated weights until they are where they rest."""
    instance, degrees = mapping.instance, mapping.solution.degrees
    updates = [mapping.end(i) for i in range(len(mapping.copies)) if mapping.kernel(i).update]
    sums = sum(training.summed(*one, instance, degrees) for one in updates)
    gathered = sum(one.ticks for one in exchanges.after(mapping))
    return gathered + (training.left_over(sums, instance, degrees) if instance.task.overlap_gradients else sums)


def step(mapping: Mapping) -> int:
    """T8 without that of ends: picoseconds of the batch's optimiser step."""
    instance, degrees = mapping.instance, mapping.solution.degrees
    kernels = instance.workload.kernels
    return sum(training.stepped(kernels[copy.kernel], copy.scheme, instance, degrees) for copy in mapping.copies)


def most(mapping: Mapping) -> tuple[int, int]:
    """The most bytes that the first and the last end ever have; none where all stages have equally many layers."""
    if not mapping.instance.task.stage_layers:
        return 0, 0
    return ended(mapping, last=False).most, ended(mapping, last=True).most
