"""What is in a chip's DRAM, as the checker reads the page: C6."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import accumulate

from chipmap.validation.dataflow import facts, resting, training, uneven
from chipmap.validation.dataflow.mapping import Mapping


def in_dram(mapping: Mapping, ends: tuple[int, int] = (0, 0)) -> dict[int, tuple[int, int]]:
    """For each partition the bytes that always rest in DRAM, and those of tensors made by it or before that it or later
    ones read.

    Per edge in mode ``dfmodel``, per tensor in mode ``physical``; what is saved for the backward phase rests already.
    A tensor in a layout for which a reader paid is one of its own, and what a partition uses of parameters waits beside
    those that rest.
    All forward partitions run before the backward ones, whatever their numbers. Where stages share out kernels, a
    partition's stage has its own kernels' bytes alone, and a tensor of an earlier or for a later stage is there only
    until the one reads it, or while the other makes it. ``ends`` are the most bytes that the network's first and
    last end ever have.
    """
    instance, degrees = mapping.instance, mapping.solution.degrees
    kernels, saved, again = instance.workload.kernels, facts.saved(instance), facts.recomputed(instance)
    rests: dict[int, int] = defaultdict(int)
    if instance.task.stage_layers:
        rests[0] = max(uneven.resting(mapping, stage, ends) for stage in range(degrees.pipeline))
    else:
        rests.update(_by_stage(mapping, saved))
    backward = {copy.partition for copy in mapping.copies if kernels[copy.kernel].phase == "backward"}
    order = sorted({copy.partition for copy in mapping.copies}, key=lambda p: (p in backward, p))
    rank = {p: place for place, p in enumerate(order)}
    spans: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for u, v in mapping.edges:
        made, read = mapping.copies[u].partition, mapping.copies[v].partition
        name = kernels[mapping.copies[u].kernel].name
        counts = (name in again or name not in saved) and (u, v) not in mapping.elsewhere
        if rank[made] < rank[read] and counts:
            spans[u].append((rank[made], rank[read], mapping.stage(read)))
    more = [0] * (len(order) + 1)  # bytes that wait in a place, but not in the one before
    stages = [mapping.stage(p) for p in order] if mapping.solution.stages else []
    for u, found in spans.items():
        size = math.ceil(mapping.output(u))
        for first, last in _alive(found, stages, instance.mode == "dfmodel"):
            more[first] += size
            more[last + 1] -= size
    for one in mapping.copied:
        size, users = math.ceil(one.size), [mapping.copies[v].partition for v in one.readers]
        if mapping.kernel(one.supplier).phase == "forward" and backward.intersection(users):
            rests[0] += math.ceil(size * facts.stage_layers(instance, degrees) * facts.in_flight(instance, degrees))
        else:
            more[rank[mapping.copies[one.supplier].partition]] += size
            more[max(rank[p] for p in users) + 1] -= size
    waiting = dict(zip(order, accumulate(more), strict=False))
    for i, owner in mapping.owners.items():
        if not mapping.kernel(i).update:
            beside = resting.beside(mapping.end(owner), mapping.end(i), instance, degrees)
            waiting[mapping.copies[i].partition] += beside
    return {p: (rests[mapping.stage(p)], waiting[p]) for p in order}


def _by_stage(mapping: Mapping, saved: set[str]) -> dict[int, int]:
    """Bytes that rest in each stage, each kernel's rounded up once; where updates run late, at the worst moment."""
    instance, degrees = mapping.instance, mapping.solution.degrees
    found = dict[int, int]()
    for moment in training.moments(instance, degrees):
        rests: dict[int, int] = defaultdict(int)
        for i, copy in enumerate(mapping.copies):
            held = training.resting(mapping.kernel(i), copy.scheme, instance, degrees)
            held += training.kept(mapping.kernel(i), mapping.output(i), moment, instance, saved)
            rests[mapping.stage(copy.partition)] += math.ceil(held)
        found = {stage: max(found.get(stage, 0), held) for stage, held in rests.items()}
    return found


def _alive(spans: list[tuple[int, int, int]], stages: list[int], each: bool) -> list[tuple[int, int]]:
    """From which place to which one tensor is in a chip's DRAM: from its maker's to each reader's, in the maker's place
    or the reader's stage (no ``stages``: all are in one); for ``each`` reader, or once however many read it."""
    if not stages:
        ends = [(made, read) for made, read, _ in spans]
        return ends if each else [(ends[0][0], max(read for _, read in ends))]
    found = [(p, p) for made, read, s in spans for p in range(made, read + 1) if p == made or stages[p] == s]
    return found if each else [*dict.fromkeys(found)]
