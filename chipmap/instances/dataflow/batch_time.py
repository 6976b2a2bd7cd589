"""The time of a whole batch from that of a layer: the objective of ``docs/families/dataflow.md``, its terms T5 to T8.

Bounds that cost next to nothing stand here as well. Times are whole picoseconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from operator import add
from typing import TYPE_CHECKING

from chipmap.instances.dataflow.batch import in_turn, layers_per_stage, micro_batches, runs, waited_hops

if TYPE_CHECKING:
    from chipmap.instances.dataflow.problem import DataflowProblem

#: Columns of options that count beside T4, once per batch.
BESIDE = ("hop", "after", "summed")


def total_ticks(problem: DataflowProblem, layer: int | Fraction, chosen: Sequence[int] | None = None) -> int:
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


def batch_ticks(problem: DataflowProblem, layer: int | Fraction, hop: int, after: int, summed: int) -> int:
    """Picoseconds of the batch: T4 · :func:`batch_factor` + T5 + T6 + T8, the columns :data:`BESIDE` summed
    up, less what updates fill of the bubble.

    T5 = (PP·v-1) · hop + m · max(0, v · hop - layers per stage · T4): the first micro-batch waits for every transfer, a
    later one only where transfers take longer than a stage, with its v chunks, computes (equation 7). Where stages wait
    for transfers in turn: :func:`~chipmap.instances.dataflow.batch.waited_hops` · hop.
    """
    instance, degrees = problem.instance, problem.degrees
    slower = 0 if in_turn(instance) else max(0, instance.task.parts * hop - stage_ticks(problem, layer))
    transfers = waited_hops(instance, degrees) * hop + micro_batches(instance, degrees) * slower
    beside = after + exposed_ticks(problem, summed) - problem.filled + problem.ends_after + problem.passes
    return math.ceil(layers_ticks(problem, layer) + transfers) + beside


def stage_ticks(problem: DataflowProblem, layer: int | Fraction) -> int:
    """Picoseconds of the stage that takes longest for a micro-batch, where a layer takes ``layer``."""
    if problem.longest is None:
        return int(layers_per_stage(problem.instance, problem.degrees) * layer)
    return problem.instance.task.parts * problem.longest.ticks(int(layer))


def layers_ticks(problem: DataflowProblem, layer: int | Fraction) -> Fraction:
    """Picoseconds of the batch in its layers and ends: T4 · :func:`batch_factor`, or where stages may have unequal
    numbers of layers (m · v + PP - 1) times the longest chunk."""
    if problem.longest is None:
        return layer * batch_factor(problem)
    return chunk_factor(problem) * problem.longest.ticks(int(layer))


def chunk_factor(problem: DataflowProblem) -> Fraction:
    """How many times the longest chunk the batch takes, m · v + PP - 1, where stages may have unequal numbers of
    layers."""
    rounds = micro_batches(problem.instance, problem.degrees)
    return rounds * problem.instance.task.parts + (problem.degrees.pipeline - 1) * problem.bubble


def layer_ticks(problem: DataflowProblem, batch: float, hop: int, after: int, summed: int) -> float:
    """The least T4 with which the batch takes ``batch`` picoseconds, unrounded: :func:`batch_ticks` the other way."""
    instance, degrees, factor = problem.instance, problem.degrees, batch_factor(problem)
    layers, rounds = layers_per_stage(instance, degrees), micro_batches(instance, degrees)
    rest = (
        batch
        + problem.filled
        - problem.passes
        - after
        - exposed_ticks(problem, summed)
        - waited_hops(instance, degrees) * hop
    )
    if problem.longest is not None:
        return _layer_within(problem, rest - problem.ends_after, rounds, hop)
    longest = rest / float(factor)
    if degrees.pipeline == 1 or in_turn(instance):
        return longest
    return min(longest, (rest - float(rounds) * instance.task.parts * hop) / float(factor - rounds * layers))


def _layer_within(problem: DataflowProblem, rest: float, rounds: Fraction, hop: int) -> float:
    """:func:`layer_ticks` where stages may have unequal numbers of layers, of what is left beside the ``rest``."""
    assert problem.longest is not None
    factor, parts = float(chunk_factor(problem)), problem.instance.task.parts
    chunk = rest / factor
    if problem.degrees.pipeline > 1 and not in_turn(problem.instance):
        chunk = min(chunk, (rest - float(rounds) * parts * hop) / (factor - float(rounds) * parts))
    return min(((chunk - more) / count for count, more in problem.longest.pairs if count), default=0.0)


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
    alone = layers_per_stage(instance, problem.degrees) == 1 and len(phases) == 1 and problem.longest is None
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
