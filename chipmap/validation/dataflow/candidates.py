"""All mappings of a tiny instance of family ``dataflow``, for brute force.

Every choice of degrees that the network holds, of a micro-batch, of a scheme for every kernel, and of partitions. Two
things are left out. Partitions that send a tensor back break C1, whatever else they do. And the numbers of partitions
mean nothing but their order, so that 0, 1, … are all in use. Without a DRAM capacity, or stages of kernels, mappings
with the same kernels side by side cost the same, so that of each such set one order is tried: one for each partition
in which the last of products that are added up can be. Layouts are kept for other partitions in one order, and only
where another reader could use one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement, product
from math import prod
from typing import NamedTuple

from chipmap.instances.dataflow.instance import (
    DataflowInstance,
    DataflowSolution,
    Degrees,
    Keep,
    Parallelism,
    Recompute,
    Shard,
)
from chipmap.instances.dataflow.workload import Scheme
from chipmap.validation.dataflow import present, unequal
from chipmap.validation.dataflow.facts import allowed, in_pairs

#: More kernels (of all layers that partitions reach across) are not taken apart.
MOST_KERNELS = 6
#: What :func:`count` says then.
TOO_MANY = 10**12


def count(instance: DataflowInstance) -> int:
    """The number of candidates."""
    if instance.system.others:
        return unequal.count(instance, count)
    if instance.mapped_layers * len(instance.workload.kernels) > MOST_KERNELS:
        return TOO_MANY
    sharded, partitions = prod(len(options) for options in _schemes(instance)), _partitions(instance)
    staged = 0
    for degrees in _degrees(instance):
        plans = _plans(instance, degrees)
        ordered = sum(_kept(instance, plan.keep) != "none" for plan in plans)
        numbered = sum(1 for one in partitions for _ in _stages(instance, degrees, one)) if ordered < len(plans) else 0
        staged += numbered * (len(plans) - ordered) + ordered
    return sharded * staged


def candidates(instance: DataflowInstance) -> Iterator[DataflowSolution]:
    """Every mapping in the domain C0, but for those that the module's docstring leaves out."""
    if instance.system.others:
        yield from unequal.candidates(instance, candidates)
        return
    partitions, in_order = _partitions(instance), [_in_order(instance)]
    for degrees in _degrees(instance):
        for plan, schemes in product(_plans(instance, degrees), product(*_schemes(instance))):
            each, chunks, again, shard, keep, layers = plan
            for numbers in partitions if _kept(instance, keep) == "none" else in_order:
                for stages in _stages(instance, degrees, numbers):
                    yield DataflowSolution(
                        instance=instance.name,
                        degrees=degrees,
                        schemes=schemes,
                        partitions=numbers,
                        stages=stages,
                        micro_batch=each,
                        chunks=chunks,
                        recompute=again,
                        shard=shard,
                        keep=keep,
                        stage_layers=layers,
                    )


def _micro_batches(instance: DataflowInstance, degrees: Degrees) -> list[int]:
    """Every number of samples that divides a replica's, or the task's."""
    task = instance.task
    wanted = range(1, task.batch + 1) if task.micro_batch is None else [task.micro_batch]
    least = 2 * degrees.pipeline if in_pairs(instance, degrees) else 0
    return [
        each for each in wanted if task.batch % (degrees.data * each) == 0 and task.batch >= least * degrees.data * each
    ]


class _Plan(NamedTuple):
    """How the batch is run; None: as the task has it."""

    micro_batch: int
    chunks: int | None
    recompute: Recompute | None
    shard: Shard | None
    keep: Keep | None
    layers: tuple[int, ...] = ()


def _plans(instance: DataflowInstance, degrees: Degrees) -> list[_Plan]:
    """Every micro-batch with every number of chunks that stages and micro-batches allow, whatever may be recomputed,
    all that replicas may share out, and as long as layouts may be kept, or those of the task."""
    task, found = instance.task, list[tuple[int, int | None]]()
    kinds: list[Recompute | None] = [None]
    if task.recompute is None:
        kinds = ["none", "selective", "full"] if task.selective else ["none", "full"]
    for each in _micro_batches(instance, degrees):
        if not task.schedule.startswith("interleaved"):
            found.append((each, None))
            continue
        rounds, wanted = task.batch // (degrees.data * each), range(1, instance.workload.layers + 1)
        for chunks in wanted if task.chunks is None else [task.chunks]:
            shared = instance.workload.layers % (degrees.pipeline * chunks) == 0
            if task.stage_layers != ():
                shared = (chunks - 1) * degrees.pipeline < instance.workload.layers
            if shared and (chunks == 1 or rounds % degrees.pipeline == 0):
                found.append((each, chunks))
    apart: list[Shard | None] = ["none", "optimizer", "gradients", "weights"] if task.shard is None else [None]
    return [
        _Plan(*one, kind, shard, keep, layers)
        for one in found
        for layers in _layers(instance, degrees.pipeline * (one[1] or 1))
        for kind in kinds
        for shard in apart
        for keep in _keeps(instance, degrees, kind)
    ]


def _layers(instance: DataflowInstance, chunks: int) -> list[tuple[int, ...]]:
    """The layers of so many chunks: those of the task, all there are, or nothing where they are equally many."""
    given, layers = instance.task.stage_layers, instance.workload.layers
    if given is not None:
        return [given] if len(given) in (0, chunks) else []
    return [one for one in product(range(layers + 1), repeat=chunks) if sum(one) == layers]


def _keeps(instance: DataflowInstance, degrees: Degrees, again: Recompute | None) -> list[Keep | None]:
    """How long layouts may be kept, or as the task has it, where another reader could use one at all."""
    task, makers = instance.task, [u for u, _ in instance.workload.edges]
    free = (
        instance.mode == "physical" and task.stages == "layers" and not (task.across_layers or present.fuses(instance))
    )
    recomputed = (again or task.recompute) not in (False, "none")
    free = free and task.schedule not in ("zb-h1", "dualpipe-v") and not recomputed and task.stage_layers == ()
    alone = degrees.tensor == degrees.expert == 1 or len(set(makers)) == len(makers)
    if task.keep is not None or not free or alone:
        return [None]
    backward = any(kernel.phase == "backward" for kernel in instance.workload.kernels)
    return ["none", "phase", "step"] if backward else ["none", "phase"]


def _kept(instance: DataflowInstance, keep: Keep | None) -> Keep:
    return keep or instance.task.keep or "none"


def _in_order(instance: DataflowInstance) -> tuple[int, ...]:
    """A partition for each kernel, in the order of places."""
    kernels = instance.workload.kernels
    index = {kernel.name: i for i, kernel in enumerate(kernels)}
    edges = [(index[u], index[v]) for u, v in instance.workload.edges]
    return tuple(present.places([kernel.phase == "backward" for kernel in kernels], edges))


def _stages(instance: DataflowInstance, degrees: Degrees, numbers: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Every way to share out partitions over stages in their order; one without any where stages are layers."""
    if instance.task.stages == "layers":
        return iter([()])
    return combinations_with_replacement(range(degrees.pipeline), max(numbers) + 1)


def _degrees(instance: DataflowInstance) -> Iterator[Degrees]:
    """Every way to give each dimension of the network a parallelism, the pipeline at most once, the latter where some
    kernel may be divided by experts, so that stages and replicas divide."""
    sizes, task = [dimension.size for dimension in instance.system.network], instance.task
    kinds: tuple[Parallelism, ...] = ("tensor", "pipeline", "data")
    if any("E" in kernel.schemes for kernel in instance.workload.kernels):
        kinds = (*kinds, "expert")
    for uses in product(kinds, repeat=len(sizes)):
        if uses.count("tensor") > task.tensor_dimensions or uses.count("pipeline") > 1:
            continue
        held = {kind: prod(size for size, use in zip(sizes, uses, strict=True) if use == kind) for kind in kinds}
        held["data"] *= held.get("expert", 1)  # replicas that share experts are replicas
        degrees = Degrees(**held, dimensions=uses)
        if task.degrees is not None and degrees != task.degrees:
            continue
        equal = task.stage_layers == ()
        if in_pairs(instance, degrees) and instance.workload.layers % (2 * degrees.pipeline):
            continue
        stages = (not equal or instance.workload.layers % degrees.pipeline == 0) and not (
            task.across_layers and degrees.pipeline > 1
        )
        if (stages or task.stages == "kernels") and _plans(instance, degrees):
            yield degrees


def _schemes(instance: DataflowInstance) -> list[list[Scheme]]:
    pins = instance.task.schemes
    layer = [
        [pins[kernel.name]] if kernel.name in pins else sorted(allowed(kernel, instance.mode))
        for kernel in instance.workload.kernels
    ]
    return layer * instance.mapped_layers


def _partitions(instance: DataflowInstance) -> list[tuple[int, ...]]:
    """One numbering (all, with a DRAM capacity or pins to partitions) for every way to put kernels side by side with no
    tensor going back."""
    workload = instance.workload
    n, layers = len(workload.kernels), instance.mapped_layers
    index = {kernel.name: i for i, kernel in enumerate(workload.kernels)}
    edges = [(k * n + index[u], k * n + index[v]) for k in range(layers) for u, v in workload.edges]
    back = {index[kernel.name] for kernel in workload.kernels if kernel.phase == "backward"}
    groups = [one.adds for one in workload.kernels if len(one.adds) > 1 and instance.mode == "physical"]
    added = [[k * n + index[name] for name in names] for k in range(layers) for names in groups]
    for u, v in ((index[u], index[v]) for u, v in workload.carries):
        steps = [(k + 1, k) if u in back else (k, k + 1) for k in range(layers - 1)]
        edges += [(here * n + u, there * n + v) for here, there in steps]
    found: dict[tuple[int, ...], tuple[int, ...]] = {}
    for numbers in _orders(layers * n, edges, ()):
        if len(set(numbers)) == max(numbers) + 1:
            first = {p: numbers.index(p) for p in set(numbers)}
            limited = instance.system.memory.capacity_bytes is not None or instance.task.stages == "kernels"
            limited = limited or bool(instance.task.pins or instance.task.forbidden)
            last = tuple(first[max((i % n in back, numbers[i]) for i in makers)[1]] for makers in added)
            last = last if present.fuses(instance) else ()
            found.setdefault(numbers if limited else (*(first[p] for p in numbers), *last), numbers)
    return list(found.values())


def _orders(copies: int, edges: list[tuple[int, int]], chosen: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Every number of a partition per kernel that sends nothing back, beginning with ``chosen``."""
    if len(chosen) == copies:
        yield chosen
        return
    here = len(chosen)
    least = max((chosen[u] for u, v in edges if v == here and u < here), default=0)
    most = min((chosen[v] for u, v in edges if u == here and v < here), default=copies - 1)
    for number in range(least, most + 1):
        yield from _orders(copies, edges, (*chosen, number))
