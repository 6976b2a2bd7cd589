"""What each partition of a mapping holds in SRAM and how long it takes; the transfers and steps of a pipeline.

From the pages alone: "How a mapping is costed", and for stages of kernels ``docs/families/dataflow-stages.md``.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from graphlib import TopologicalSorter

from chipmap.instances.dataflow.workload import Kernel, Scheme
from chipmap.validation.dataflow import exchanges, facts, rates, tiles, training
from chipmap.validation.dataflow.mapping import Mapping
from chipmap.validation.decimals import written


@dataclass(frozen=True)
class Times:
    """Picoseconds of each partition, each time that it runs; how often it ``runs`` per micro-batch.

    ``together``: of all its runs, the longest of compute, memory and network, or their sum without overlap, and the
    launch before each.
    """

    runs: dict[int, int]
    compute: dict[int, int]
    memory: dict[int, int]
    network: dict[int, int]
    together: dict[int, int]


def levels(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """For each of ``count`` nodes the most edges of a path to it."""
    makers: dict[int, set[int]] = {v: set() for v in range(count)}
    for u, v in edges:
        makers[v].add(u)
    level = [0] * count
    for v in TopologicalSorter(makers).static_order():
        level[v] = max((level[u] + 1 for u in makers[v]), default=0)
    return level


def times_of(mapping: Mapping) -> Times:
    """The times of every partition in use."""
    runs, kinds = _runs(mapping), (compute(mapping), memory(mapping), network(mapping))
    join = max if mapping.instance.task.overlap else sum
    launch = facts.up(written(mapping.instance.system.chip.launch_ns))
    return Times(runs, *kinds, {p: runs[p] * (launch + join([times[p] for times in kinds])) for p in runs})


def _runs(mapping: Mapping) -> dict[int, int]:
    """How often each partition runs per micro-batch: twice where it has kernels that are recomputed."""
    kernels, names = mapping.instance.workload.kernels, facts.recomputed(mapping.instance)
    again = {copy.partition for copy in mapping.copies if kernels[copy.kernel].name in names}
    return {copy.partition: 1 + (copy.partition in again) for copy in mapping.copies}


def inside(mapping: Mapping) -> dict[int, list[tuple[Kernel, Scheme]]]:
    """The kernels of each partition, with their schemes."""
    found: dict[int, list[tuple[Kernel, Scheme]]] = defaultdict(list)
    for copy in mapping.copies:
        found[copy.partition].append((mapping.instance.workload.kernels[copy.kernel], copy.scheme))
    return found


def held(mapping: Mapping) -> dict[int, int]:
    """Bytes of SRAM by partition: weights, where these don't stream through it, and a tile's buffers of every tensor
    that it touches.

    A tensor inside takes (levels it waits + 1) buffers. One that crosses a border takes two on each side, and so does
    one in a layout for which a reader paid.
    """
    instance, degrees = mapping.instance, mapping.solution.degrees
    held: dict[int, int] = defaultdict(int)
    for copy in mapping.copies:
        kernel, scheme = instance.workload.kernels[copy.kernel], copy.scheme
        if not instance.system.chip.streams:
            held[copy.partition] += math.ceil(facts.local_weights(kernel, scheme, instance, degrees))
    level = levels(len(mapping.copies), mapping.edges)
    crossing: dict[tuple[int, int], list[int]] = defaultdict(list)
    tile = Fraction(instance.task.tile_tokens, instance.workload.tokens * instance.task.samples)
    for u, v in mapping.edges:
        a, b = mapping.copies[u], mapping.copies[v]
        buffer = math.ceil(mapping.output(u) * tile)
        if (u, v) in mapping.elsewhere:
            continue
        if a.partition == b.partition:
            held[a.partition] += buffer * (level[v] - level[u] + 1)
        else:
            crossing[u, a.partition].append(buffer)
            crossing[u, b.partition].append(buffer)
    for (_, partition), buffers in crossing.items():
        held[partition] += 2 * (buffers[0] if instance.mode == "physical" else sum(buffers))
    for one in mapping.copied:
        for i in (one.supplier, *one.readers):
            held[mapping.copies[i].partition] += 2 * math.ceil(one.size * tile)
    return held


def compute(mapping: Mapping) -> dict[int, int]:
    """Picoseconds of compute per partition: each kernel's share of FLOP / (utilisation · what it reaches of its peak),
    rounded up, and their sum; without a utilisation the fewest cycles in which its kernels run side by side, each on
    tiles of its own (one after the other where they are more than the tiles).
    """
    instance = mapping.instance
    times: dict[int, int] = defaultdict(int)
    if instance.task.utilisation is None:
        return {p: tiles.compute(instance, inside, mapping.degrees) for p, inside in inside(mapping).items()}
    for copy in mapping.copies:
        kernel = instance.workload.kernels[copy.kernel]
        times[copy.partition] += training.computed(kernel, copy.scheme, instance, mapping.degrees)
    return dict(times)


def memory(mapping: Mapping) -> dict[int, int]:
    """Picoseconds of DRAM per partition: every tensor that crosses a border, written there and read here.

    In mode ``dfmodel`` once per edge; in mode ``physical`` a tensor is written once and read once per partition, and
    weights are read unless they stay in SRAM; then the KV cache of decode steps stays too, if it fits. What a reader
    paid for is written by it, and read by others in place of the tensor.
    """
    instance = mapping.instance
    rate = rates.dram(instance)
    times = {copy.partition: 0 for copy in mapping.copies}
    crossing: dict[tuple[int, int], int] = defaultdict(int)
    for u, v in mapping.edges:
        a, b = mapping.copies[u], mapping.copies[v]
        if a.partition != b.partition and (u, v) not in mapping.elsewhere:
            crossing[u, a.partition] += 1
            crossing[u, b.partition] += 1
    moved = {u: facts.up(mapping.output(u) / rate) for u, _ in crossing}
    for (u, partition), edges in crossing.items():
        times[partition] += moved[u] * (1 if instance.mode == "physical" else edges)
    for one in mapping.copied:
        for i in (one.supplier, *one.readers):
            times[mapping.copies[i].partition] += facts.up(one.size / rate)
    physical, decode = instance.mode == "physical", instance.task.purpose == "decode"
    layered = instance.task.stages == "layers"
    stays = physical and decode and layered and all(_resident(mapping, copy.partition) for copy in mapping.copies)
    fetched = not (stays and _cached(mapping))
    for copy in mapping.copies:
        kernel = instance.workload.kernels[copy.kernel]
        if not _resident(mapping, copy.partition) if physical else decode:
            times[copy.partition] += facts.up(facts.weights_read(kernel, copy.scheme, instance, mapping.degrees) / rate)
        if fetched:
            each = facts.fetched(kernel, copy.scheme, instance, mapping.degrees) * instance.task.samples
            times[copy.partition] += facts.up(each / (rate * rates.of_cache(kernel, instance, each)))
    return times


def _resident(mapping: Mapping, partition: int) -> bool:
    """Whether a chip runs nothing but this partition, whose weights then stay in its SRAM, if it holds any there."""
    if mapping.instance.system.chip.streams or mapping.instance.task.stage_layers:
        return False
    alone = len(mapping.company[mapping.stage(partition)]) == 1
    return alone and facts.stage_layers(mapping.instance, mapping.degrees) == 1


def _cached(mapping: Mapping) -> bool:
    """Whether the KV cache of a chip's one partition, of all samples of its replica, fits SRAM beside what it holds."""
    instance, degrees = mapping.instance, mapping.solution.degrees
    kernels = instance.workload.kernels
    caches = sum(facts.cache(kernels[copy.kernel], copy.scheme, instance, degrees) for copy in mapping.copies)
    return caches + max(held(mapping).values()) <= instance.system.chip.sram_bytes


def network(mapping: Mapping) -> dict[int, int]:
    """Picoseconds of collectives and exchanges per partition."""
    times = {copy.partition: 0 for copy in mapping.copies}
    for one in exchanges.each_run(mapping):
        times[mapping.copies[one.payer].partition] += one.ticks
    return times


def longest_transfer(mapping: Mapping) -> int:
    """Picoseconds of the transfer from a stage to the next that takes most.

    What a stage or one before it made is sent for as long as a later one reads it: each time that it is read in mode
    ``dfmodel``, once in mode ``physical``.
    """
    instance, degrees = mapping.instance, mapping.solution.degrees
    longest = 0
    for s in range(degrees.pipeline - 1):
        readers: dict[int, int] = defaultdict(int)
        for u, v in mapping.edges:
            ends = [mapping.stage(mapping.copies[i].partition) for i in (u, v)]
            if ends[0] <= s < ends[1]:
                readers[u] += 1
        total = 0
        for u, edges in readers.items():
            once = facts.up(facts.sending(mapping.output(u), instance, degrees))
            total += once * (edges if instance.mode == "dfmodel" else 1)
        longest = max(longest, total)
    return longest


def steps(mapping: Mapping) -> int:
    """Steps of the batch: a micro-batch leaves the last stage in each, once the first has got there."""
    task, degrees = mapping.instance.task, mapping.solution.degrees
    return task.batch // (degrees.data * task.samples) + degrees.pipeline - 1


def layer_time(mapping: Mapping, times: Times) -> Fraction:
    """Picoseconds of the layer, whose partitions run one after the other. Where a stage runs a forward and a backward
    pass side by side: what of both takes longest, or one of them by itself, in the share of passes that run so."""
    instance, degrees = mapping.instance, mapping.solution.degrees
    whole = sum(times.together.values())
    if not facts.in_pairs(instance, degrees):
        return Fraction(whole)
    forward = {copy.partition for i, copy in enumerate(mapping.copies) if mapping.kernel(i).phase == "forward"}
    there = sum(times.together[p] // times.runs[p] for p in forward)
    network = sum(times.runs[p] * ticks for p, ticks in times.network.items())
    longest = max(network, whole - network, there, whole - there)
    rounds, stages = instance.task.batch // (degrees.data * instance.task.samples), degrees.pipeline
    return Fraction((2 * rounds - stages - 2) * longest + 3 * stages * whole, 2 * (rounds + stages - 1))
