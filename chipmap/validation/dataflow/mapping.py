"""A dataflow mapping taken apart for the checker, and what it holds in DRAM (page, "DRAM")."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import msgspec

from chipmap import records
from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution, Degrees
from chipmap.instances.dataflow.workload import Scheme
from chipmap.validation.dataflow import facts, training


@dataclass(frozen=True)
class Copy:
    """A kernel of one layer (0 where all layers are alike) with its scheme and partition."""

    layer: int
    kernel: int
    partition: int
    scheme: Scheme


@dataclass(frozen=True)
class Mapping:
    """A mapping taken apart: the copies of kernels, and the edges between positions in them.

    ``handovers``: where a layer stands for all of them, the edges from it to the next whose changes of layout count.
    """

    instance: DataflowInstance
    solution: DataflowSolution
    copies: tuple[Copy, ...]
    edges: tuple[tuple[int, int], ...]
    handovers: tuple[tuple[int, int], ...] = ()

    @property
    def degrees(self) -> Degrees:
        """Its degrees of parallelism."""
        return self.solution.degrees

    def stage(self, partition: int) -> int:
        """The stage of a partition where stages share out kernels, else 0: all stages are alike."""
        return self.solution.stages[partition] if self.solution.stages else 0

    @cached_property
    def company(self) -> dict[int, set[int]]:
        """The partitions in use of each stage that has any."""
        found: dict[int, set[int]] = defaultdict(set)
        for copy in self.copies:
            found[self.stage(copy.partition)].add(copy.partition)
        return found

    @cached_property
    def dram(self) -> dict[int, tuple[int, int]]:
        """What :func:`in_dram` says, looked at once."""
        return in_dram(self)


def mapping_of(instance: DataflowInstance, solution: DataflowSolution) -> Mapping:
    """The mapping that a ``solution`` which obeys C0 states; how it runs the batch is the task's from here on."""
    stated = ((field, getattr(solution, field)) for field in ("micro_batch", "chunks", "recompute", "shard"))
    told = {field: value for field, value in stated if value is not None}
    replaced = msgspec.structs.replace
    instance = records.kept(instance, f"run as {told}", lambda one: replaced(one, task=replaced(one.task, **told)))
    workload, n = instance.workload, len(instance.workload.kernels)
    index = {kernel.name: i for i, kernel in enumerate(workload.kernels)}
    copies = [Copy(i // n, i % n, p, solution.schemes[i]) for i, p in enumerate(solution.partitions)]
    edges = [
        (layer * n + index[u], layer * n + index[v]) for layer in range(len(copies) // n) for u, v in workload.edges
    ]
    for layer in range(len(copies) // n - 1):
        for u, v in workload.carries:
            first, last = (layer + 1, layer) if workload.kernels[index[u]].phase == "backward" else (layer, layer + 1)
            edges.append((first * n + index[u], last * n + index[v]))
    handovers = []
    if instance.mode == "physical" and workload.layers > 1 and not instance.task.across_layers:
        handovers = [(index[u], index[v]) for u, v in workload.carries]
    return Mapping(instance, solution, tuple(copies), tuple(edges), tuple(handovers))


def in_dram(mapping: Mapping) -> dict[int, tuple[int, int]]:
    """For each partition the bytes that always rest in DRAM, and those of tensors made by it or before that it or later
    ones read.

    Per edge in mode ``dfmodel``, per tensor in mode ``physical``; what is saved for the backward phase rests already.
    All forward partitions run before the backward ones, whatever their numbers. Where stages share out kernels, a
    partition's stage has its own kernels' bytes alone, and a tensor of an earlier or for a later stage is there only
    until the one reads it, or while the other makes it.
    """
    instance, degrees = mapping.instance, mapping.solution.degrees
    kernels, saved, again = instance.workload.kernels, facts.saved(instance), facts.recomputed(instance)
    resting: dict[int, int] = defaultdict(int)
    for copy in mapping.copies:
        held = training.resting(kernels[copy.kernel], copy.scheme, instance, degrees, saved)
        resting[mapping.stage(copy.partition)] += held
    backward = {copy.partition for copy in mapping.copies if kernels[copy.kernel].phase == "backward"}
    order = sorted({copy.partition for copy in mapping.copies}, key=lambda p: (p in backward, p))
    rank = {p: place for place, p in enumerate(order)}
    spans: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for u, v in mapping.edges:
        made, read = mapping.copies[u].partition, mapping.copies[v].partition
        name = kernels[mapping.copies[u].kernel].name
        counts = name in again or name not in saved
        if rank[made] < rank[read] and counts:
            spans[u].append((rank[made], rank[read], mapping.stage(read)))
    more = [0] * (len(order) + 1)  # bytes that wait in a place, but not in the one before
    stages = [mapping.stage(p) for p in order] if mapping.solution.stages else []
    for u, found in spans.items():
        copy = mapping.copies[u]
        size = math.ceil(facts.local_output(kernels[copy.kernel], copy.scheme, instance, degrees))
        for first, last in _alive(found, stages, instance.mode == "dfmodel"):
            more[first] += size
            more[last + 1] -= size
    waiting = [*accumulate(more)]
    return {p: (resting[mapping.stage(p)], waiting[place]) for place, p in enumerate(order)}


def _alive(spans: list[tuple[int, int, int]], stages: list[int], each: bool) -> list[tuple[int, int]]:
    """From which place to which one tensor is in a chip's DRAM: from its maker's to each reader's, in the maker's place
    or the reader's stage (no ``stages``: all are in one); for ``each`` reader, or once however many read it."""
    if not stages:
        ends = [(made, read) for made, read, _ in spans]
        return ends if each else [(ends[0][0], max(read for _, read in ends))]
    found = [(p, p) for made, read, s in spans for p in range(made, read + 1) if p == made or stages[p] == s]
    return found if each else [*dict.fromkeys(found)]
