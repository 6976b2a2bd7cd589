"""A dataflow mapping taken apart for the checker, and what it holds in DRAM (page, "DRAM")."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import msgspec

from chipmap import records
from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution, Degrees
from chipmap.instances.dataflow.workload import Kernel, Scheme
from chipmap.validation.dataflow import facts, present, sums
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
