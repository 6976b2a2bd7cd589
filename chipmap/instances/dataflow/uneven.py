"""Stages with unequal numbers of layers, and what the network has at its ends (page, "Uneven stages").

A chunk j of the pipeline's PP · v has some layers; the first and the last have the kernels of the network's ends
besides. A chunk that takes longest sets the pace of all: m · v + PP - 1 times its T4.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, pairwise
from math import comb
from typing import Any, NamedTuple

import msgspec

from chipmap.instances.dataflow.batch import layers_of_stages, micro_batches, passes_held
from chipmap.instances.dataflow.instance import BatchPlan, DataflowInstance, DataflowSolution, Degrees
from chipmap.instances.dataflow.workload import Kernel
from chipmap.records import kept

#: So many ways to share out layers are tried one by one.
MOST_WAYS = 200
Counts = tuple[int, ...]


class End(NamedTuple):
    """What the kernels at an end of the network take: picoseconds per micro-batch and per batch, and bytes of DRAM."""

    ticks: int = 0
    after: int = 0
    held: int = 0


class Held(NamedTuple):
    """What a stage holds: its layers, passes of a micro-batch through one layer whose saved tensors are there, bytes
    beside its layers, and passes of which only the update is left (``late``)."""

    layers: int
    passes: Fraction
    more: int = 0
    late: Fraction = Fraction(0)


class Longest(NamedTuple):
    """Chunks of which one may take longest: (layers, picoseconds beside them); where layers are free ``chunks`` of the
    pipeline, which ``layers`` in all are shared out among."""

    pairs: tuple[tuple[int, int], ...]
    chunks: int = 0
    layers: int = 0

    def ticks(self, layer: int) -> int:
        """Picoseconds of the chunk that takes longest where a layer takes ``layer``; the least possible where layers
        are free."""
        if not self.chunks:
            return max(count * layer + more for count, more in self.pairs)
        low = max(more for _, more in self.pairs)
        high = self.layers * layer + sum(more for _, more in self.pairs)
        while low < high:
            middle = (low + high) // 2
            if sum(self.most(middle, layer)) >= self.layers:
                high = middle
            else:
                low = middle + 1
        return low

    def most(self, ticks: int, layer: int) -> list[int]:
        """The layers of each chunk that fit so many picoseconds."""
        beside = [self.pairs[0][1], *[0] * (self.chunks - 2), self.pairs[-1][1]]
        return [min(self.layers, (ticks - more) // layer if layer else self.layers) for more in beside]


def longest(problem_instance: DataflowInstance, degrees: Degrees, ends: tuple[End, End]) -> Longest:
    """The chunks that decide, of a settled instance or of one whose layers are free."""
    counts, chunks = problem_instance.task.stage_layers, degrees.pipeline * problem_instance.task.parts
    if counts is None:
        pairs = ((0, ends[0].ticks), (0, ends[1].ticks))
        return Longest(pairs, chunks, problem_instance.workload.layers)
    more = [0] * len(counts)
    more[0] += ends[0].ticks
    more[-1] += ends[1].ticks
    each = set(zip(counts, more, strict=True))
    return Longest(tuple(one for one in sorted(each) if not any(_covers(other, one) for other in each)))


def _covers(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return one != other and all(a >= b for a, b in zip(one, other, strict=True))


def stages_held(instance: DataflowInstance, degrees: Degrees, ends: tuple[End, End]) -> tuple[Held, ...]:
    """What stages hold of which one needs most DRAM, the one with most saved tensors first.

    With free layers what some stage holds at least: as many layers as a mean stage, and as few passes as the last.
    """
    stages, chunks, counts = degrees.pipeline, instance.task.parts, instance.task.stage_layers
    rounds = micro_batches(instance, degrees)
    if counts is None:
        mean = -(-instance.workload.layers // stages)
        ahead = passes_held(instance, degrees, stages - 1) * -(-mean // chunks)
        return (Held(mean, min(rounds * mean, Fraction(ahead))),)
    found = list[Held]()
    for s, own in enumerate(layers_of_stages(counts, stages)):
        most = max(counts[s::stages])
        passes = min(rounds * own, Fraction(passes_held(instance, degrees, s) * most))
        found.append(Held(own, passes, ends[0].held * (s == 0) + ends[1].held * (s == stages - 1)))
    kinds = dict.fromkeys(sorted(found, key=lambda one: (-one.passes, -one.layers, -one.more)))
    return tuple(one for one in kinds if not any(_covers(other, one) for other in kinds))


def with_more(options: tuple[tuple[Any, ...], ...], held: tuple[Held, ...]) -> tuple[tuple[Any, ...], ...]:
    """The options of all kernels, where what stages hold beside their layers counts with the first kernel."""
    if not any(one.more for one in held):
        return options
    beside = [one.more for one in held]
    first = tuple(
        one._replace(
            kept=one.kept + beside[0], kept_by=tuple(a + b for a, b in zip(one.kept_by, beside[1:], strict=False))
        )
        for one in options[0]
    )
    return (first, *options[1:])


def end_instance(instance: DataflowInstance, degrees: Degrees, last: bool) -> DataflowInstance | None:
    """An instance with the kernels of the network's first or last end as its one layer, in that stage of the pipeline;
    None where there are none. They run one by one, and are never recomputed."""
    workload = instance.workload
    kernels = workload.last if last else workload.first
    if not kernels:
        return None
    names = of_ends(kernels)
    edges = tuple((u, v) for u, v in workload.end_edges if u in names and v in names)
    of: dict[str, Any] = {
        "kernels": kernels,
        "edges": edges,
        "carries": (),
        "layers": 1,
        "first": (),
        "last": (),
        "end_edges": (),
    }
    chunks = degrees.pipeline * instance.task.parts
    asked: dict[str, Any] = {"stage_layers": (1, *[0] * (chunks - 1))}
    if last:  # the backward pass of the last chunk follows its forward pass at once
        asked = {"stage_layers": (*[0] * (degrees.pipeline - 1), 1), "schedule": "1f1b", "chunks": None}
    asked |= {
        **{"fused": False, "partitions": None, "exactly": False, "together": (), "apart": (), "pins": ()},
        **{"forbidden": (), "schemes": {}, "recompute": False, "selective": (), "keep": None, "degrees": degrees},
    }
    replaced = msgspec.structs.replace
    return replaced(instance, workload=replaced(workload, **of), task=replaced(instance.task, **asked))


def end_mapping(instance: DataflowInstance, degrees: Degrees, places: tuple[int, ...]) -> DataflowSolution:
    """The one mapping of an end's kernels."""
    schemes = tuple(kernel.schemes[0] for kernel in instance.workload.kernels)
    return DataflowSolution(degrees=degrees, schemes=schemes, partitions=places)


def ways(instance: DataflowInstance, degrees: Degrees) -> int:
    """In how many ways layers can be shared out among the chunks."""
    chunks = degrees.pipeline * instance.task.parts
    return comb(instance.workload.layers + chunks - 1, chunks - 1)


def each_way(instance: DataflowInstance, degrees: Degrees) -> Iterator[Counts]:
    """Every way to share out layers among the chunks."""
    layers, chunks = instance.workload.layers, degrees.pipeline * instance.task.parts
    for bars in combinations(range(layers + chunks - 1), chunks - 1):
        ends = (-1, *bars, layers + chunks - 1)
        yield tuple(b - a - 1 for a, b in pairwise(ends))


def with_layers(instance: DataflowInstance, degrees: Degrees, plan: BatchPlan, counts: Counts) -> BatchPlan:
    """``plan`` with these layers of chunks if they may be so."""
    chunks = degrees.pipeline * (plan.chunks or 1)
    fits = len(counts) == chunks and min(counts) >= 0 and sum(counts) == instance.workload.layers
    return plan._replace(stage_layers=counts) if fits and instance.task.stage_layers is None else plan


def even_layers(instance: DataflowInstance, degrees: Degrees, plan: BatchPlan) -> Counts:
    """Equally many layers in each chunk, or one more in the last ones."""
    chunks, layers = degrees.pipeline * (plan.chunks or 1), instance.workload.layers
    return tuple((layers + j) // chunks for j in range(chunks))


def shared_out(longest: Longest, stages: int, layer: int, saved: Fraction, ahead: list[int]) -> Counts:
    """Layers of each chunk with which none takes longer than it must.

    What could be left out is left out where most is held: a stage's layers · (1 + ``saved`` · the passes that it
    holds), ``saved`` being what a pass leaves in a layer over what rests there.
    """
    counts = longest.most(longest.ticks(layer), layer)
    weight = [1 + float(saved) * passes for passes in ahead]
    for _ in range(sum(counts) - longest.layers):
        held = [sum(counts[s::stages]) * weight[s] for s in range(stages)]
        worst = max((s for s in range(stages) if sum(counts[s::stages])), key=lambda s: held[s])
        counts[max(range(worst, len(counts), stages), key=lambda j: counts[j])] -= 1
    return tuple(counts)


def of_ends(kernels: tuple[Kernel, ...]) -> set[str]:
    """Their names."""
    return {one.name for one in kernels}


def cached_ends(instance: DataflowInstance) -> dict[Degrees, tuple[End, End]]:
    """What is known of the ends of a settled instance, by degrees."""
    return kept(instance, "_ends", lambda _: {})
