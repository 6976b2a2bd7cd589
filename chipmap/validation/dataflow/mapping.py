"""A dataflow mapping taken apart for the checker, and what it holds in DRAM (page, "DRAM")."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate

import msgspec

from chipmap import records
from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution, Degrees
from chipmap.instances.dataflow.workload import Kernel, Scheme
from chipmap.validation.dataflow import facts, present, resting, sums, training, uneven
from chipmap.validation.dataflow.layouts import End, change


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

    def kernel(self, copy: int) -> Kernel:
        """The kernel of which this is a copy."""
        return self.instance.workload.kernels[self.copies[copy].kernel]

    def end(self, copy: int) -> End:
        """A copy's kernel with its scheme."""
        return self.kernel(copy), self.copies[copy].scheme

    def output(self, copy: int) -> Fraction:
        """Bytes of a micro-batch's output on a chip: all of it, where chips have parts of sums that another kernel adds
        up."""
        if copy in self.members and self.copies[copy].scheme in sums.SUMMED:
            return facts.batched_output(self.kernel(copy), self.instance)
        return facts.local_output(*self.end(copy), self.instance, self.degrees)

    @cached_property
    def running(self) -> list[tuple[bool, int, int]]:
        """What the copies run in the order of."""
        return present.running(self)

    @cached_property
    def changes(self) -> dict[tuple[int, int], int]:
        """Picoseconds of the change of layout from what a copy made to what its reader needs."""
        pairs = (*self.edges, *self.handovers)
        return {(u, v): facts.up(change(self.end(u), self.end(v), self.instance, self.degrees)) for u, v in pairs}

    @cached_property
    def suppliers(self) -> dict[tuple[int, int], int]:
        """The reader that has paid for what another one reads of a tensor."""
        return present.suppliers(self)

    @cached_property
    def copied(self) -> tuple[present.Copied, ...]:
        """What partitions read in layouts for which others paid."""
        return present.copied(self)

    @cached_property
    def elsewhere(self) -> set[tuple[int, int]]:
        """The (maker, reader) of these."""
        return {(one.maker, v) for one in self.copied for v in one.readers}

    @cached_property
    def added(self) -> list[tuple[int, tuple[int, ...]]]:
        """Who adds up whose products."""
        return sums.added(self)

    @cached_property
    def members(self) -> set[int]:
        """The makers of these products."""
        return {u for _, makers in self.added for u in makers}

    @cached_property
    def owners(self) -> dict[int, int]:
        """The copy of the forward kernel whose parameters a copy of a backward one uses, in mode ``physical``."""
        if self.instance.mode == "dfmodel":
            return {}
        at = {(copy.layer, self.kernel(i).name): i for i, copy in enumerate(self.copies)}
        named = ((i, copy.layer, self.kernel(i).parameters_of) for i, copy in enumerate(self.copies))
        return {i: at[layer, name] for i, layer, name in named if name}

    @cached_property
    def dram(self) -> dict[int, tuple[int, int]]:
        """What :func:`in_dram` says, looked at once."""
        return in_dram(self)


def mapping_of(instance: DataflowInstance, solution: DataflowSolution) -> Mapping:
    """The mapping that a ``solution`` which obeys C0 states; how it runs the batch is the task's from here on."""
    stated = (
        (field, getattr(solution, field))
        for field in ("micro_batch", "chunks", "recompute", "shard", "keep", "stage_layers")
    )
    told = {field: value for field, value in stated if value not in (None, ())}
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
    A tensor in a layout for which a reader paid is one of its own, and what a partition uses of parameters waits beside
    those that rest.
    All forward partitions run before the backward ones, whatever their numbers. Where stages share out kernels, a
    partition's stage has its own kernels' bytes alone, and a tensor of an earlier or for a later stage is there only
    until the one reads it, or while the other makes it.
    """
    instance, degrees = mapping.instance, mapping.solution.degrees
    kernels, saved, again = instance.workload.kernels, facts.saved(instance), facts.recomputed(instance)
    rests: dict[int, int] = defaultdict(int)
    if instance.task.stage_layers:
        rests[0] = max(uneven.resting(mapping, stage) for stage in range(degrees.pipeline))
    for i, copy in enumerate(mapping.copies) if not instance.task.stage_layers else ():
        held = training.resting(kernels[copy.kernel], copy.scheme, instance, degrees)
        held += training.kept(kernels[copy.kernel], mapping.output(i), instance, degrees, saved)
        rests[mapping.stage(copy.partition)] += math.ceil(held)
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


def _alive(spans: list[tuple[int, int, int]], stages: list[int], each: bool) -> list[tuple[int, int]]:
    """From which place to which one tensor is in a chip's DRAM: from its maker's to each reader's, in the maker's place
    or the reader's stage (no ``stages``: all are in one); for ``each`` reader, or once however many read it."""
    if not stages:
        ends = [(made, read) for made, read, _ in spans]
        return ends if each else [(ends[0][0], max(read for _, read in ends))]
    found = [(p, p) for made, read, s in spans for p in range(made, read + 1) if p == made or stages[p] == s]
    return found if each else [*dict.fromkeys(found)]
