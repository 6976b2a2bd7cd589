"""Lower bounds of a choice of degrees and micro-batch that cost next to nothing: what every kernel takes at least."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import floor
from operator import attrgetter

import numpy as np

from chipmap.instances.dataflow.batch import paired, runs
from chipmap.instances.dataflow.batch_time import (
    batch_factor,
    caching,
    chunk_factor,
    compute_ticks,
    resident,
    steps,
    total_ticks,
)
from chipmap.instances.dataflow.instance import BatchPlan, DataflowInstance, Degrees
from chipmap.instances.dataflow.options import Option, filled_ticks
from chipmap.instances.dataflow.pairs import Arm, arms, shares
from chipmap.instances.dataflow.plans import settled
from chipmap.instances.dataflow.problem import DataflowProblem
from chipmap.instances.dataflow.rates import best_rate
from chipmap.instances.dataflow.sizes import flop
from chipmap.records import kept
from chipmap.records.decimals import exact


def first_ticks(problem: DataflowProblem) -> int:
    """A lower bound in ticks of the batch: kernels one after the other, each resource by itself.

    A partition takes the longest of compute, DRAM and network, so that all of them take no less than each of the
    three sums Σ over kernels of the least compute, the least bytes read (weights that may stay in SRAM aren't), the
    least collective. Without overlap the three add up. Where stages share out kernels, a step takes the longest kernel
    at least, or an equal share of all kernels. The fewest launches come on top.
    """
    instance = problem.instance
    reading = _reading(problem)
    if paired(instance, problem.degrees):
        return max(compute_ticks(problem), *(total_ticks(problem, _least_of(problem, arm)) for arm in arms(problem)))
    kinds: list[Callable[[Option], int]] = [attrgetter("compute"), reading, attrgetter("collective")]
    if not instance.task.overlap:
        kinds = [lambda o: o.compute + reading(o) + o.collective]
    best, launches = compute_ticks(problem), launch_ticks(problem)
    for kind in kinds:
        least = [min(map(kind, options)) for options in problem.options]
        if instance.task.stages == "kernels":
            whole = -(-instance.mapped_layers * sum(least) // problem.degrees.pipeline)
            best = max(best, steps(problem) * (max(*least, whole) + problem.launch))
        else:
            layer = sum(again * ticks for again, ticks in zip(runs(instance), least, strict=True))
            best = max(best, total_ticks(problem, instance.mapped_layers * layer + launches))
    return best


def _least_of(problem: DataflowProblem, arm: Arm) -> Fraction:
    """T4 that no mapping is below: each kernel with the option that takes least at the weights of an arm."""
    total = 0
    for own, network, options in zip(*arm, problem.options, strict=True):
        total += min(own * (problem.launch + one.compute + one.stream) + network * one.collective for one in options)
    return Fraction(total, shares(problem.instance, problem.degrees).all)


def launch_ticks(problem: DataflowProblem) -> int:
    """Picoseconds per micro-batch of the fewest launches that any mapping has: one per phase and how often kernels
    run, or per kernel where kernels aren't fused."""
    instance, often = problem.instance, runs(problem.instance)
    kinds = {(kernel.phase, again) for kernel, again in zip(instance.workload.kernels, often, strict=True)}
    once = [again for _, again in kinds] if instance.asked[2] else often * instance.mapped_layers
    return problem.launch * sum(once)


def _reading(problem: DataflowProblem) -> Callable[[Option], int]:
    """Picoseconds of DRAM that a kernel takes in any partition, by its option."""
    if not resident(problem):
        return attrgetter("stream")
    return (lambda option: 0) if caching(problem) else attrgetter("fetch")


def least_sram(problem: DataflowProblem) -> list[int]:
    """Bytes of SRAM that each kernel needs in any partition at least: its weights and two buffers of each tensor.

    A tensor takes two buffers where it crosses a border and at least two inside. So other kernels in the partition
    never save any.
    """
    small = [min(option.buffer for option in choice) for choice in problem.options]
    read, readers = [0] * problem.n, [0] * problem.n
    for u, v in problem.edges.tolist():
        read[v] += small[u]
        readers[u] += 1
    once = problem.instance.mode == "physical"
    return [
        min(option.weights for option in choice)
        + 2 * (read[v] + small[v] * (min(1, readers[v]) if once else readers[v]))
        for v, choice in enumerate(problem.options)
    ]


def lacks_sram(problem: DataflowProblem) -> bool:
    """Whether some kernel fits in no partition (C2)."""
    return max(least_sram(problem), default=0) > problem.sram


def plain_floor(instance: DataflowInstance, degrees: Degrees, plan: BatchPlan, bubble: bool = True) -> int:
    """A lower bound in ticks of the batch that holds whatever the numbers of kernels come to: all FLOP, an equal share
    on each chip of a group, at the given utilisation, or the peak; without ``bubble`` in a pipeline that is always
    full."""
    at, task = settled(instance, *plan), instance.task
    nothing = DataflowProblem(at, degrees, (), np.zeros((0, 2), np.int64), np.zeros(0, np.int64), bubble=bubble)
    layer = kept(at, "_peak_ns", _peak_ns) * at.task.samples * 1000 * instance.mapped_layers
    layer /= exact(task.utilisation or 1) * degrees.tensor
    if task.stages == "kernels":
        return floor(steps(nothing) * layer / degrees.pipeline)
    if at.task.uneven:
        return floor(chunk_factor(nothing) * _even_chunk(at, degrees, layer))
    return floor(layer * batch_factor(nothing)) - (filled_ticks(at, degrees) if bubble else 0)


def _even_chunk(instance: DataflowInstance, degrees: Degrees, layer: Fraction) -> Fraction:
    """Picoseconds that some chunk's layers take at least."""
    counts = instance.task.stage_layers or [-(-instance.workload.layers // (degrees.pipeline * instance.task.parts))]
    return layer * max(counts)


def _peak_ns(instance: DataflowInstance) -> Fraction:
    """Nanoseconds that a layer's FLOP of a sample take at the best rate of each kernel.

    On tiles only an opaque kernel has the FLOP that are stated: of the others the shape counts."""
    at = dict[Fraction, int]()
    for again, kernel in zip(runs(instance), instance.workload.kernels, strict=True):
        rate = best_rate(kernel, instance.workload, instance.system.chip)
        shaped = instance.task.utilisation is None and kernel.kind != "opaque"
        at[rate] = at.get(rate, 0) + again * flop(kernel.replace(flop=None) if shaped else kernel)
    return sum((Fraction(some) / rate for rate, some in at.items()), Fraction(0))
