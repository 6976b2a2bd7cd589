"""The arrays of a dataflow instance at given degrees, and the fast evaluation of a mapping.

The formulas are those of ``docs/families/dataflow.md``. The checker states them a second time, on its own. Times are
integers in picoseconds: every kernel's compute, every tensor's DRAM time and every collective is rounded up once, so
that sums of them are exact in all models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from chipmap.instances.dataflow.added import Added, added_products
from chipmap.instances.dataflow.instance import (
    BatchPlan,
    DataflowInstance,
    DataflowSolution,
    Degrees,
)
from chipmap.instances.dataflow.layouts import Changes, changes_between
from chipmap.instances.dataflow.options import Option, kinds, ticks_of
from chipmap.instances.dataflow.plans import shared_by_plans
from chipmap.instances.dataflow.present import Shared, shared_tensors
from chipmap.instances.dataflow.resting import Use, parameter_uses
from chipmap.instances.dataflow.sharding import reads_operand
from chipmap.instances.dataflow.tiles import Shares, shares, thinned
from chipmap.instances.dataflow.uneven import Longest
from chipmap.instances.dataflow.workload import Scheme
from chipmap.networks.graph import neighbours, topological
from chipmap.records import InputError
from chipmap.records.decimals import exact

#: Picoseconds and bytes of a layer stay below this, so that sums over layers fit 64 bits.
LARGEST = 2**40 * 10**3
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class DataflowProblem:
    """A dataflow instance at fixed degrees, over the n kernels of a layer in their order.

    ``options`` [n] holds what each scheme of a kernel costs on one chip; ``edges`` [m, 2] the tensors of a layer;
    ``distance`` [m] how many levels a tensor waits on chip (its consumer's level minus its producer's, levels counted
    by the longest path from a source). Sums of gradients run at least ``behind`` picoseconds of a layer's backward pass
    (0: they come after it), and updates fill ``filled`` picoseconds of the batch's bubble. Without ``bubble`` its
    pipeline is always full, which no mapping is: what the bubble costs (``chipmap explain``). Where stages may have
    unequal numbers of layers, ``longest`` says which chunks may take longest and ``share_out`` how many each has; the
    network's ends take ``ends_after`` picoseconds per batch, fixed costs of its micro-batches ``passes`` (T8).
    """

    instance: DataflowInstance
    degrees: Degrees
    options: tuple[tuple[Option, ...], ...]
    edges: IntArray
    distance: IntArray
    behind: int = 0
    filled: int = 0
    bubble: bool = True
    longest: Longest | None = None
    share_out: Callable[[DataflowProblem, tuple[Scheme, ...], Sequence[int]], tuple[int, ...]] | None = None
    ends_after: int = 0
    passes: int = 0

    @property
    def n(self) -> int:
        """Number of kernels of a layer."""
        return len(self.options)

    @property
    def sram(self) -> int:
        """Bytes of SRAM of a chip."""
        return self.instance.system.chip.sram_bytes

    @property
    def launch(self) -> int:
        """Picoseconds that go by before each partition."""
        return ticks_of(exact(self.instance.system.chip.launch_ns))

    @property
    def layers_free(self) -> bool:
        """Whether a stage's number of layers is still open: what takes least is a lower bound then."""
        return self.longest is not None and self.longest.chunks > 0

    @property
    def plan(self) -> BatchPlan:
        """How the batch is run."""
        task = self.instance.task
        again = task.recompute if isinstance(task.recompute, str) else None
        shard = task.shard if isinstance(task.shard, str) else None
        return BatchPlan(task.samples, task.chunks, again, shard, task.keep, task.stage_layers or None)

    @property
    def text(self) -> str:
        """The degrees and the plan in words."""
        return f"{self.degrees.text}, {self.plan.text}"

    def mapping(self, schemes: Iterable[Scheme], partitions: Sequence[int], stages: Sequence[int]) -> DataflowSolution:
        """The mapping at these degrees and by this plan."""
        plan, schemes = self.plan._asdict(), tuple(schemes)
        plan["stage_layers"] = plan["stage_layers"] or self._shared_out(schemes, partitions)
        return DataflowSolution(
            instance=self.instance.name,
            degrees=self.degrees,
            schemes=schemes,
            partitions=tuple(partitions),
            stages=tuple(stages),
            **plan,
        )

    def _shared_out(self, schemes: tuple[Scheme, ...], partitions: Sequence[int]) -> tuple[int, ...]:
        """Layers of each chunk that suit a mapping, where they are free; none where they are equally many."""
        return () if self.share_out is None else self.share_out(self, schemes, partitions)

    @cached_property
    def shares(self) -> tuple[tuple[Shares, ...], ...]:
        """For each option of each kernel its (tiles, picoseconds); empty where a utilisation is given."""
        instance = self.instance
        if instance.task.utilisation is not None:
            return ()
        pairs = zip(instance.workload.kernels, self.options, strict=True)
        listed = [[shares(kernel, o.scheme, instance, self.degrees) for o in choice] for kernel, choice in pairs]
        found = thinned(listed, instance.system.chip.tiles, instance.mapped_layers * self.n)
        largest = max(int(one[0, 1]) for choice in found for one in choice)
        if largest > LARGEST:
            what = f"a kernel on few tiles takes {largest:.3g} picoseconds"
            raise InputError(what, "workload.kernels", f"Numbers of a kernel must stay below {LARGEST:.3g}.")
        return found

    def converts(self, u: int, v: int, producer: int, consumer: int) -> int:
        """Picoseconds of the layout change on an edge from kernel u to v, for the numbers of their options."""
        return self.changes(u, v).rows[producer][consumer]

    def changes(self, u: int, v: int) -> Changes:
        """What :meth:`converts` says for all options of both kernels; the same object for pairs that are alike."""
        kinds, known, pairs = self._known
        if (u, v) not in pairs:
            ends = self.instance.workload.kernels[u], self.instance.workload.kernels[v]
            schemes = self._schemes[u], self._schemes[v]
            key = kinds[u], kinds[v], schemes, reads_operand(ends[1], ends[0])
            if key not in known:
                known[key] = changes_between(self.instance, self.degrees, ends, schemes)
            pairs[u, v] = known[key]
        return pairs[u, v]

    @cached_property
    def uses(self) -> tuple[Use, ...]:
        """What backward kernels take of parameters that rest as forward kernels have them (mode ``physical``)."""
        return parameter_uses(self.instance, self.degrees, self._schemes)

    @cached_property
    def added(self) -> tuple[Added, ...]:
        """The kernels whose products another one adds up, so that their sums over chips are made together."""
        return added_products(self.instance, self.degrees, self._schemes)

    @cached_property
    def shared(self) -> tuple[Shared, ...]:
        """The tensors of a layer of which one reader may use what another paid for (mode ``physical``)."""
        if self.instance.mode == "dfmodel" or self.degrees.tensor == self.degrees.expert == 1:
            return ()
        ordered = [sorted(own, key=self.places.__getitem__) for own in neighbours(self.n, self.edges.tolist())]
        return shared_tensors(self.instance, self.degrees, ordered, self._schemes, self.changes)

    @cached_property
    def places(self) -> tuple[int, ...]:
        """The place of each mapped kernel in the list that always takes next the first one whose makers are listed,
        forward kernels before backward ones."""
        layers = self.instance.mapped_layers
        phases = [kernel.phase == "backward" for kernel in self.instance.workload.kernels] * layers
        order = topological(neighbours(self.n * layers, wires(self, layers)), phases.__getitem__)
        place = {v: i for i, v in enumerate(order)}
        return tuple(place[v] for v in range(self.n * layers))

    @cached_property
    def _schemes(self) -> list[tuple[Scheme, ...]]:
        return [tuple(option.scheme for option in options) for options in self.options]

    @cached_property
    def _known(self) -> tuple[list[int], dict[object, Changes], dict[tuple[int, int], Changes]]:
        """Kernels that differ in nothing but their names have equal numbers; changes of layout between them so far."""
        changes = shared_by_plans(self.instance).setdefault("changes", {})
        return kinds(self.instance), changes.setdefault((self.instance.task.samples, self.degrees), {}), {}


def levels(n: int, edges: IntArray) -> IntArray:
    """For each kernel the most edges of a path to it."""
    level, readers = np.zeros(n, dtype=np.int64), neighbours(n, edges.tolist())
    for u in topological(readers):
        for v in readers[u]:
            level[v] = max(level[v], level[u] + 1)
    return level


def wires(problem: DataflowProblem, layers: int) -> list[tuple[int, int]]:
    """(producer, consumer) of every tensor of ``layers`` layers in a row, numbered layer by layer: those of ``edges``
    for each layer, then those that are carried to the next layer, by backward kernels to the one before."""
    workload, n = problem.instance.workload, problem.n
    found = [(k * n + u, k * n + v) for k in range(layers) for u, v in problem.edges.tolist()]
    index = {kernel.name: i for i, kernel in enumerate(workload.kernels)}
    for u, v in ((index[u], index[v]) for u, v in workload.carries):
        back = workload.kernels[u].phase == "backward"
        found += [((k + back) * n + u, (k + 1 - back) * n + v) for k in range(layers - 1)]
    return found
