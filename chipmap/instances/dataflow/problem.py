"""The arrays of a dataflow instance at given degrees, and the fast evaluation of a mapping.

The formulas are those of ``docs/families/dataflow.md``. The checker states them a second time, on its own. Times are
integers in picoseconds: every kernel's compute, every tensor's DRAM time and every collective is rounded up once, so
that sums of them are exact in all models.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from operator import add

import numpy as np
from numpy.typing import NDArray

from chipmap.instances.dataflow.added import Added, added_products
from chipmap.instances.dataflow.batch import (
    layers_per_stage,
    micro_batches,
    runs,
    waited_hops,
)
from chipmap.instances.dataflow.instance import (
    BatchPlan,
    DataflowInstance,
    DataflowSolution,
    Degrees,
    Keep,
    Recompute,
    Shard,
)
from chipmap.instances.dataflow.layouts import Changes, changes_between
from chipmap.instances.dataflow.options import Option, all_options, behind_ticks, filled_ticks, kinds, ticks_of
from chipmap.instances.dataflow.plans import settled, shared_by_plans, useful_plans
from chipmap.instances.dataflow.present import Shared, shared_tensors
from chipmap.instances.dataflow.resting import Use, parameter_uses
from chipmap.instances.dataflow.sharding import reads_operand
from chipmap.instances.dataflow.system import Dimension
from chipmap.instances.dataflow.tiles import Shares, shares, thinned
from chipmap.instances.dataflow.workload import Scheme
from chipmap.networks.graph import neighbours, topological
from chipmap.records import InputError, kept
from chipmap.records.decimals import exact

#: Picoseconds and bytes of a layer stay below this, so that sums over layers fit 64 bits.
LARGEST = 2**40 * 10**3
#: Columns of options that count beside T4, once per batch.
BESIDE = ("hop", "after", "summed")
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class DataflowProblem:
    """A dataflow instance at fixed degrees, over the n kernels of a layer in their order.

    ``options`` [n] holds what each scheme of a kernel costs on one chip; ``edges`` [m, 2] the tensors of a layer;
    ``distance`` [m] how many levels a tensor waits on chip (its consumer's level minus its producer's, levels counted
    by the longest path from a source). Sums of gradients run at least ``behind`` picoseconds of a layer's backward pass
    (0: they come after it), and updates fill ``filled`` picoseconds of the batch's bubble. Without ``bubble`` its
    pipeline is always full, which no mapping is: what the bubble costs (``chipmap explain``).
    """

    instance: DataflowInstance
    degrees: Degrees
    options: tuple[tuple[Option, ...], ...]
    edges: IntArray
    distance: IntArray
    behind: int = 0
    filled: int = 0
    bubble: bool = True

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
    def plan(self) -> BatchPlan:
        """How the batch is run."""
        task = self.instance.task
        again = task.recompute if isinstance(task.recompute, str) else None
        shard = task.shard if isinstance(task.shard, str) else None
        return BatchPlan(task.samples, task.chunks, again, shard, task.keep)

    def mapping(self, schemes: Iterable[Scheme], partitions: Sequence[int], stages: Sequence[int]) -> DataflowSolution:
        """The mapping at these degrees and by this plan."""
        return DataflowSolution(
            instance=self.instance.name,
            degrees=self.degrees,
            schemes=tuple(schemes),
            partitions=tuple(partitions),
            stages=tuple(stages),
            **self.plan._asdict(),
        )

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

    @cached_property
    def tensor_dimension(self) -> Dimension | None:
        """The network dimension that tensor parallelism uses (None for degree 1)."""
        return next((one for one in self.degrees.carrying(self.instance.system, "tensor") if one.size > 1), None)

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
        if self.instance.mode == "dfmodel" or (self.tensor_dimension is None and self.degrees.expert == 1):
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


def dataflow_problem(
    instance: DataflowInstance,
    degrees: Degrees,
    micro_batch: int | None = None,
    chunks: int | None = None,
    recompute: Recompute | None = None,
    shard: Shard | None = None,
    keep: Keep | None = None,
) -> DataflowProblem:
    """The arrays of ``instance`` at ``degrees`` and by this plan (None: the task's, or the only useful one), kept
    with the instance, as instances never change. The problem's instance has this plan as the task's."""
    instance = settled(instance, micro_batch, chunks, recompute, shard, keep)
    task = instance.task
    unsettled = None in (task.micro_batch, task.recompute, task.shard)
    if unsettled or (task.chunks is None and task.schedule == "interleaved"):
        plan, *others = useful_plans(instance, degrees)
        instance = instance if others else settled(instance, *plan)
    found: dict[Degrees, DataflowProblem] = kept(instance, "_problems", lambda _: {})
    if degrees not in found:
        edges, distance = _tensors(instance)
        options = all_options(instance, degrees)
        _refuse_overflow(instance, options)
        found[degrees] = DataflowProblem(
            instance=instance,
            degrees=degrees,
            options=options,
            edges=edges,
            distance=distance,
            behind=behind_ticks(instance, degrees),
            filled=filled_ticks(instance, degrees),
        )
    return found[degrees]


def _tensors(instance: DataflowInstance) -> tuple[IntArray, IntArray]:
    """The edges of a layer, and how many levels each of them passes; found once for all plans."""
    shared = shared_by_plans(instance)
    if "tensors" not in shared:
        index = {kernel.name: i for i, kernel in enumerate(instance.workload.kernels)}
        edges = np.array([(index[u], index[v]) for u, v in instance.workload.edges], dtype=np.int64).reshape(-1, 2)
        level = levels(len(index), edges)
        shared["tensors"] = edges, level[edges[:, 1]] - level[edges[:, 0]]
    found: tuple[IntArray, IntArray] = shared["tensors"]
    return found


def _refuse_overflow(instance: DataflowInstance, options: Sequence[Sequence[Option]]) -> None:
    """Raise :class:`InputError` where a kernel takes so many picoseconds or bytes that sums could pass 64 bits."""
    for kernel, choice in zip(instance.workload.kernels, options, strict=True):
        largest = max(value for option in choice for value in option[1:])
        if largest > LARGEST:
            what = f"kernel {kernel.name!r} takes {largest:.3g} picoseconds or bytes on one chip"
            raise InputError(what, "workload.kernels", f"Numbers of a kernel must stay below {LARGEST:.3g}.")


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


def total_ticks(problem: DataflowProblem, layer: int, chosen: Sequence[int] | None = None) -> int:
    """The time of the whole batch from that of one layer (of all layers where partitions reach across), picoseconds.

    ``chosen`` are the numbers of the kernels' options (all layers' in a row where partitions reach across). Without
    them T5, T6 and T8 are the least that options allow: exact where there is nothing to choose, else a lower bound.
    """
    return batch_ticks(problem, layer, *(outside(problem, field, chosen) for field in BESIDE))


def outside(problem: DataflowProblem, field: str, chosen: Sequence[int] | None = None) -> int:
    """Σ of a column of options over all kernels of a layer (of all layers where partitions reach across); ``after``
    with what parameters take until they rest (:attr:`DataflowProblem.uses`)."""
    layers = problem.instance.mapped_layers
    columns = [[getattr(option, field) for option in options] for options in problem.options]
    uses = problem.uses if field == "after" else ()
    if chosen is None:
        return layers * (sum(map(min, columns)) + sum(int(one.after.min()) for one in uses))
    own = sum(column[o] for column, o in zip(columns * layers, chosen, strict=True))
    at = [chosen[k * problem.n : (k + 1) * problem.n] for k in range(layers)] if uses else []
    return own + sum(int(one.after[copy[one.owner], copy[one.user]]) for copy in at for one in uses)


def sums_outside(problem: DataflowProblem, most: int = 1000) -> set[tuple[int, ...]] | None:
    """Every sum of the columns :data:`BESIDE` that mappings have; None for more than ``most`` of them."""
    layers, nothing = problem.instance.mapped_layers, (0,) * len(BESIDE)
    sums = {nothing}
    for options in problem.options * layers:
        own = {tuple(getattr(option, field) for field in BESIDE) for option in options}
        if own != {nothing}:
            sums = {tuple(map(add, one, other)) for one in sums for other in own}
        if len(sums) > most:
            return None
    for use in problem.uses * layers:
        more = {int(x) for x in use.after.flat}
        sums = {tuple(x + y * (f == "after") for f, x in zip(BESIDE, one, strict=True)) for one in sums for y in more}
        if len(sums) > most:
            return None
    return sums


def exposed_ticks(problem: DataflowProblem, summed: int) -> int:
    """Picoseconds by which sums of gradients make the batch longer, ``summed`` = g of each of a stage's L layers, the
    first L - 1 of them behind a backward pass of b: g + (L-1) · max(0, g - b)."""
    layers = layers_per_stage(problem.instance, problem.degrees)
    return summed + (layers - 1) * max(0, summed - problem.behind)


def batch_ticks(problem: DataflowProblem, layer: int, hop: int, after: int, summed: int) -> int:
    """Picoseconds of the batch: T4 · :func:`batch_factor` + T5 + T6 + T8, the columns :data:`BESIDE` summed up, less
    what updates fill of the bubble.

    T5 = (PP·v-1) · hop + m · max(0, v · hop - layers per stage · T4): the first micro-batch waits for every transfer, a
    later one only where transfers take longer than a stage, with its v chunks, computes (equation 7).
    """
    instance, degrees = problem.instance, problem.degrees
    slower = max(0, instance.task.parts * hop - layers_per_stage(instance, degrees) * layer)
    transfers = waited_hops(instance, degrees) * hop + micro_batches(instance, degrees) * slower
    beside = after + exposed_ticks(problem, summed) - problem.filled
    return math.ceil(layer * batch_factor(problem) + transfers) + beside


def layer_ticks(problem: DataflowProblem, batch: float, hop: int, after: int, summed: int) -> float:
    """The least T4 with which the batch takes ``batch`` picoseconds, unrounded: :func:`batch_ticks` the other way."""
    instance, degrees, factor = problem.instance, problem.degrees, batch_factor(problem)
    layers, rounds = layers_per_stage(instance, degrees), micro_batches(instance, degrees)
    rest = batch + problem.filled - after - exposed_ticks(problem, summed) - waited_hops(instance, degrees) * hop
    longest = rest / float(factor)
    if degrees.pipeline == 1:
        return longest
    return min(longest, (rest - float(rounds) * instance.task.parts * hop) / float(factor - rounds * layers))


def first_layer(problem: DataflowProblem, ticks: int) -> int:
    """The least time of a layer, in picoseconds, with which the whole batch takes ``ticks`` or more."""
    low, high = 0, ticks + 1
    while low < high:
        middle = (low + high) // 2
        if total_ticks(problem, middle) >= ticks:
            high = middle
        else:
            low = middle + 1
    return low


def compute_ticks(problem: DataflowProblem) -> int:
    """A lower bound in ticks: every kernel's least compute, one after the other, and what no choice avoids.

    Where stages share out kernels: the longest kernel, or an equal share of all, for each step.
    """
    instance = problem.instance
    layers = instance.mapped_layers
    if instance.task.stages == "kernels":
        each = [min(option.compute for option in options) for options in problem.options]
        return steps(problem) * max(*each, -(-layers * sum(each) // problem.degrees.pipeline), 0)
    pairs = zip(runs(instance), problem.options, strict=True)
    least = sum(again * min(option.compute for option in options) for again, options in pairs)
    return total_ticks(problem, layers * least)


def resident(problem: DataflowProblem) -> bool:
    """Whether a chip could run nothing but one partition, so that weights might stay in SRAM (mode ``physical``)."""
    instance = problem.instance
    phases = {kernel.phase for kernel in instance.workload.kernels}
    alone = layers_per_stage(instance, problem.degrees) == 1 and len(phases) == 1
    return alone and instance.mode == "physical" and not instance.system.chip.streams


def caching(problem: DataflowProblem) -> bool:
    """Whether a KV cache might stay in SRAM besides: where it could fit with the weights; not in stages of kernels."""
    if problem.instance.task.stages == "kernels":
        return False
    layers = problem.instance.mapped_layers
    least = layers * sum(min(option.weights + option.cache for option in options) for options in problem.options)
    caches = any(option.cache for options in problem.options for option in options)
    return caches and least <= problem.sram and resident(problem)


def batch_factor(problem: DataflowProblem) -> Fraction:
    """How many times a layer's time the whole batch takes.

    Layers per stage · (1 + (PP-1) / (m · max(layers per stage - 1, 1))) · m in mode ``dfmodel``, with m micro-batches
    per replica; the bubble is (PP-1)/(v · m) in mode ``physical``, v chunks per stage.
    """
    instance, degrees = problem.instance, problem.degrees
    rounds = micro_batches(instance, degrees)
    published = max(instance.workload.layers // degrees.pipeline - 1, 1)
    spread = published if instance.mode == "dfmodel" else instance.task.parts
    bubble = 1 + Fraction((degrees.pipeline - 1) * problem.bubble) / (rounds * spread)
    return layers_per_stage(instance, degrees) * bubble * rounds


def steps(problem: DataflowProblem) -> int:
    """Steps of a batch where stages share out kernels: one for each micro-batch, and PP - 1 until the last stage has
    the first one."""
    return int(micro_batches(problem.instance, problem.degrees)) + (problem.degrees.pipeline - 1) * problem.bubble
