"""The independent checker of family ``dataflow``: the constraints and terms of ``docs/families/dataflow.md``.

Plain loops over the records. It imports no cost function, model or program, so that nothing judges itself.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from itertools import cycle, pairwise

from chipmap.certificate import Certificate, Violation
from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution, Kernel, Scheme
from chipmap.validation.dataflow import facts, stages, tiles
from chipmap.validation.dataflow.mapping import Mapping, in_dram, mapping_of
from chipmap.validation.dataflow.serving import serving_figures


def check(instance: DataflowInstance, solution: DataflowSolution) -> Certificate:
    """The certificate of ``solution`` for a valid ``instance``; a violation of C0 leaves the objective undefined."""
    violations = list(c0_domains(instance, solution))
    terms, figures, objective = dict[str, int](), dict[str, float](), None
    if not violations:
        mapping = mapping_of(instance, solution)
        for constraint in (c1_order, c2_sram, c3_phases, c4_partitions, c5_together, c6_dram, c7_tiles, c8_stages):
            violations += constraint(mapping)
        runs, parts = _runs(mapping), (t1_compute(mapping), t2_memory(mapping), t3_network(mapping))
        terms = {f"T{k}": sum(runs[p] * times[p] for p in runs) for k, times in enumerate(parts, 1)}
        join = max if instance.task.overlap else sum
        each = {p: runs[p] * join([times[p] for times in parts]) for p in runs}
        terms["T4"] = sum(each.values())
        if instance.task.stages == "kernels":
            slowest, steps = t7_slowest(mapping, each), stages.steps(mapping)
            terms |= {"T5": steps * max(0, stages.longest_transfer(mapping) - slowest), "T6": 0}
            objective = steps * slowest + terms["T5"]
        else:
            terms |= {"T5": t5_transfers(mapping, terms["T4"]), "T6": t6_gradients(mapping)}
            objective = t4_batch(mapping, terms["T4"]) + terms["T5"] + terms["T6"]
        terms["T7"] = t7_slowest(mapping, each)
        figures = _figures(mapping, objective, len(runs))
        figures |= serving_figures(instance, solution, terms["T4"], objective)
        if instance.task.utilisation is None:
            pairs = [pair for inside in _inside(mapping).values() for pair in inside]
            figures["compute_utilisation"] = tiles.utilisation(instance, pairs, mapping.chips, terms["T1"])
    return Certificate(
        instance_hash=instance.content_hash,
        solution_hash=solution.content_hash,
        feasible=not violations,
        objective=objective,
        terms=terms,
        violations=tuple(violations),
        grade=instance.mode,
        figures=figures,
    )


def breakdown(instance: DataflowInstance, solution: DataflowSolution) -> dict[int, tuple[int, int, int]]:
    """Picoseconds of compute, memory and network of each partition, each time that it runs, for a ``solution`` that
    obeys C0."""
    mapping = mapping_of(instance, solution)
    compute, memory, network = t1_compute(mapping), t2_memory(mapping), t3_network(mapping)
    return {p: (compute[p], memory[p], network[p]) for p in sorted(compute)}


def _violation(label: str, where: str, amount: float, unit: str, message: str) -> Violation:
    return Violation(label=label, where=where, amount=float(amount), unit=unit, message=message)


def c0_domains(instance: DataflowInstance, solution: DataflowSolution) -> Iterator[Violation]:
    """Degrees that the network holds and that divide layers and batch; an allowed scheme and a
    partition per kernel (per layer and kernel where partitions may reach across layers)."""
    degrees, task, workload = solution.degrees, instance.task, instance.workload
    if task.degrees is not None and degrees != task.degrees:
        yield _violation("C0", "degrees", 1, "degrees", "the degrees are not those that the task asks for")
    if len(degrees.dimensions) != len(instance.system.network):
        yield _violation("C0", "degrees", 1, "dimensions", "each network dimension must have a parallelism")
    elif degrees.dimensions.count("tensor") > 1 or degrees.dimensions.count("pipeline") > 1:
        yield _violation("C0", "degrees", 1, "dimensions", "tensor or pipeline has two network dimensions")
    else:
        for field in ("tensor", "pipeline", "data"):
            held = math.prod(dimension.size for dimension in facts.uses(instance, degrees, field))
            if held != getattr(degrees, field):
                message = f"{field} parallelism is {getattr(degrees, field)}, its network dimensions hold {held} chips"
                yield _violation("C0", field, abs(held - getattr(degrees, field)), "chips", message)
    layered = task.stages == "layers"
    if degrees.pipeline < 1 or (layered and workload.layers % max(1, degrees.pipeline)):
        message = f"{degrees.pipeline} stages don't divide {workload.layers} layers"
        yield _violation("C0", "pipeline", 1, "stages", message)
    if layered and task.across_layers and degrees.pipeline > 1:
        message = "a pipeline's stages are layers, but partitions reach across them"
        yield _violation("C0", "pipeline", degrees.pipeline - 1, "stages", message)
    if degrees.data < 1 or task.batch % (max(1, degrees.data) * task.micro_batch):
        yield _violation("C0", "data", 1, "replicas", f"{degrees.data} replicas don't divide the batch")
    layers = workload.layers if task.across_layers else 1
    if len(solution.schemes) != layers * len(workload.kernels):
        message = f"{len(solution.schemes)} schemes for {layers} x {len(workload.kernels)} kernels"
        yield _violation("C0", "schemes", 1, "schemes", message)
    for kernel, scheme in zip(cycle(workload.kernels), solution.schemes, strict=False):
        if scheme not in facts.allowed(kernel, instance.mode) or scheme != task.schemes.get(kernel.name, scheme):
            yield _violation("C0", repr(kernel.name), 1, "schemes", f"{kernel.name!r} may not be sharded by {scheme}")
    if len(solution.partitions) != layers * len(workload.kernels):
        message = f"{len(solution.partitions)} partitions for {layers} x {len(workload.kernels)} kernels"
        yield _violation("C0", "partitions", 1, "kernels", message)
    if any(p < 0 for p in solution.partitions):
        yield _violation("C0", "partitions", 1, "kernels", "partitions are numbered from 0")
    if wrong := stages.wrong_stages(instance, solution):
        yield _violation("C0", "stages", 1, "stages", wrong)


def c1_order(mapping: Mapping) -> Iterator[Violation]:
    """No tensor goes back to an earlier partition."""
    kernels = mapping.instance.workload.kernels
    for u, v in mapping.edges:
        a, b = mapping.copies[u], mapping.copies[v]
        if a.partition > b.partition:
            names = f"{kernels[a.kernel].name!r} -> {kernels[b.kernel].name!r}"
            message = f"{names} goes from partition {a.partition} back to {b.partition}"
            yield _violation("C1", names, a.partition - b.partition, "partitions", message)


def c2_sram(mapping: Mapping) -> Iterator[Violation]:
    """What a partition holds fits a chip's SRAM."""
    limit = mapping.instance.system.chip.sram_bytes
    for partition, size in sorted(_held(mapping).items()):
        if size > limit:
            message = f"partition {partition} holds {size:,} bytes; a chip's SRAM has {limit:,}"
            yield _violation("C2", f"partition {partition}", size - limit, "bytes", message)


def _held(mapping: Mapping) -> dict[int, int]:
    """Bytes of SRAM by partition: weights, and a tile's buffers of every tensor that it touches.

    A tensor inside takes (levels it waits + 1) buffers, one that crosses a border two on each side.
    """
    instance, chips = mapping.instance, mapping.chips
    held: dict[int, int] = defaultdict(int)
    for copy in mapping.copies:
        kernel, scheme = instance.workload.kernels[copy.kernel], copy.scheme
        whole = facts.whole_weights(kernel, instance.workload.word_bytes)
        held[copy.partition] += math.ceil(Fraction(whole, facts.split(scheme, chips)))
    level = facts.levels(len(mapping.copies), mapping.edges)
    crossing: dict[tuple[int, int], list[int]] = defaultdict(list)
    for u, v in mapping.edges:
        a, b = mapping.copies[u], mapping.copies[v]
        output = facts.local_output(instance.workload.kernels[a.kernel], a.scheme, instance, chips)
        samples = instance.workload.tokens * instance.task.micro_batch
        buffer = math.ceil(output * instance.task.tile_tokens / samples)
        if a.partition == b.partition:
            held[a.partition] += buffer * (level[v] - level[u] + 1)
        else:
            crossing[u, a.partition].append(buffer)
            crossing[u, b.partition].append(buffer)
    for (_, partition), buffers in crossing.items():
        held[partition] += 2 * (buffers[0] if instance.mode == "physical" else sum(buffers))
    return held


def c3_phases(mapping: Mapping) -> Iterator[Violation]:
    """Forward and backward kernels lie in different partitions."""
    phases: dict[int, set[str]] = defaultdict(set)
    for copy in mapping.copies:
        phases[copy.partition].add(mapping.instance.workload.kernels[copy.kernel].phase)
    for partition, found in sorted(phases.items()):
        if len(found) > 1:
            message = f"partition {partition} mixes forward and backward kernels"
            yield _violation("C3", f"partition {partition}", 1, "phases", message)


def c4_partitions(mapping: Mapping) -> Iterator[Violation]:
    """At most (or exactly) so many partitions per phase (per stage where these share out kernels); every kernel its own
    where kernels can't be fused."""
    task, kernels = mapping.instance.task, mapping.instance.workload.kernels
    used: dict[str, set[int]] = defaultdict(set)
    for copy in mapping.copies:
        used[kernels[copy.kernel].phase].add(copy.partition)
    if task.stages == "kernels":
        used = {f"stage {s}": mapping.company.get(s, set()) for s in range(mapping.solution.degrees.pipeline)}
    if not (task.fused and mapping.instance.system.chip.fused):
        shared = len(mapping.copies) - len({copy.partition for copy in mapping.copies})
        if shared:
            message = f"{shared} kernels share a partition on a chip that runs kernel by kernel"
            yield _violation("C4", "partitions", shared, "kernels", message)
        return
    for phase, partitions in used.items():
        count, most = len(partitions), task.partitions
        if most is not None and (count > most or (task.exactly and count < most)):
            wanted = "exactly" if task.exactly else "at most"
            message = f"{phase} has {count} partitions, {wanted} {most} are asked for"
            yield _violation("C4", phase, abs(count - most), "partitions", message)


def c5_together(mapping: Mapping) -> Iterator[Violation]:
    """Kernels pinned together lie in one partition, which holds no kernel of another such group."""
    names = [kernel.name for kernel in mapping.instance.workload.kernels]
    of = {name: g for g, group in enumerate(mapping.instance.task.together) for name in group}
    layers = {copy.layer for copy in mapping.copies}
    for g, group in enumerate(mapping.instance.task.together):
        for layer in layers:
            where = {c.partition for c in mapping.copies if c.layer == layer and of.get(names[c.kernel]) == g}
            if len(where) > 1:
                message = f"{', '.join(group)} lie in partitions {', '.join(map(str, sorted(where)))}"
                yield _violation("C5", group[0], len(where) - 1, "partitions", message)
    holds: dict[int, set[tuple[int, int]]] = defaultdict(set)
    for copy in mapping.copies:
        if names[copy.kernel] in of:
            holds[copy.partition].add((copy.layer, of[names[copy.kernel]]))
    for partition, groups in sorted(holds.items()):
        if len(groups) > 1:
            message = f"partition {partition} holds kernels of {len(groups)} groups"
            yield _violation("C5", f"partition {partition}", len(groups) - 1, "groups", message)


def c6_dram(mapping: Mapping) -> Iterator[Violation]:
    """While each partition runs, a chip's DRAM holds what always rests there and the tensors that wait."""
    limit = mapping.instance.system.memory.capacity_bytes
    for partition, (resting, size) in sorted(in_dram(mapping).items()):
        if limit is not None and resting + size > limit:
            message = (
                f"while partition {partition} runs, DRAM holds {resting + size:,} bytes ({resting:,} of parameters and "
                f"what is kept for the backward phase); it has {limit:,}"
            )
            yield _violation("C6", f"partition {partition}", resting + size - limit, "bytes", message)


def _runs(mapping: Mapping) -> dict[int, int]:
    """How often each partition runs per micro-batch: forward ones twice where they are recomputed."""
    kernels, recompute = mapping.instance.workload.kernels, mapping.instance.task.recompute
    forward = {copy.partition for copy in mapping.copies if kernels[copy.kernel].phase == "forward"}
    return {copy.partition: 2 if recompute and copy.partition in forward else 1 for copy in mapping.copies}


def c7_tiles(mapping: Mapping) -> Iterator[Violation]:
    """Where kernels share tiles (no utilisation is given), each of a partition has one at least."""
    limit = mapping.instance.system.chip.tiles
    if mapping.instance.task.utilisation is not None:
        return
    for partition, inside in sorted(_inside(mapping).items()):
        size = len(inside)
        if size > limit:
            message = f"partition {partition} has {size} kernels; a chip has {limit} tiles"
            yield _violation("C7", f"partition {partition}", size - limit, "tiles", message)


def c8_stages(mapping: Mapping) -> Iterator[Violation]:
    """Stages rise with the numbers of partitions: none runs on a stage before that of an earlier one."""
    order = mapping.solution.stages
    for p, (here, after) in enumerate(pairwise(order)):
        if after < here:
            message = f"partition {p + 1} runs on stage {after}, partition {p} before it on stage {here}"
            yield _violation("C8", f"partition {p + 1}", here - after, "stages", message)


def t1_compute(mapping: Mapping) -> dict[int, int]:
    """Picoseconds of compute per partition: each kernel's share of FLOP / (utilisation · peak), rounded up, and their
    sum; without a utilisation the fewest cycles in which its kernels run side by side, each on tiles of its own (one
    after the other where they are more than the tiles)."""
    instance = mapping.instance
    times: dict[int, int] = defaultdict(int)
    if instance.task.utilisation is None:
        return {p: tiles.compute(instance, inside, mapping.chips) for p, inside in _inside(mapping).items()}
    rate = Fraction(instance.task.utilisation) * Fraction(instance.system.chip.flop_per_ns)
    for copy in mapping.copies:
        kernel, scheme = instance.workload.kernels[copy.kernel], copy.scheme
        flop = Fraction(facts.whole_flop(kernel) * instance.task.micro_batch, facts.split(scheme, mapping.chips))
        times[copy.partition] += facts.up(flop / rate)
    return dict(times)


def _inside(mapping: Mapping) -> dict[int, list[tuple[Kernel, Scheme]]]:
    """The kernels of each partition, with their schemes."""
    found: dict[int, list[tuple[Kernel, Scheme]]] = defaultdict(list)
    for copy in mapping.copies:
        found[copy.partition].append((mapping.instance.workload.kernels[copy.kernel], copy.scheme))
    return found


def t2_memory(mapping: Mapping) -> dict[int, int]:
    """Picoseconds of DRAM per partition: every tensor that crosses a border, written there and read here.

    In mode ``dfmodel`` once per edge; in mode ``physical`` a tensor is written once and read once per partition, and
    weights are read unless they stay in SRAM; then the KV cache of decode steps stays too, if it fits.
    """
    instance = mapping.instance
    rate = Fraction(instance.system.memory.bytes_per_ns)
    times = {copy.partition: 0 for copy in mapping.copies}
    crossing: dict[tuple[int, int], int] = defaultdict(int)
    for u, v in mapping.edges:
        a, b = mapping.copies[u], mapping.copies[v]
        if a.partition != b.partition:
            crossing[u, a.partition] += 1
            crossing[u, b.partition] += 1
    for (u, partition), edges in crossing.items():
        copy = mapping.copies[u]
        kernel, scheme = instance.workload.kernels[copy.kernel], copy.scheme
        time = facts.up(facts.local_output(kernel, scheme, instance, mapping.chips) / rate)
        times[partition] += time * (1 if instance.mode == "physical" else edges)
    physical, decode = instance.mode == "physical", instance.task.purpose == "decode"
    layered = instance.task.stages == "layers"
    stays = physical and decode and layered and all(_resident(mapping, copy.partition) for copy in mapping.copies)
    fetched = not (stays and _cached(mapping))
    for copy in mapping.copies:
        kernel, parts = instance.workload.kernels[copy.kernel], facts.split(copy.scheme, mapping.chips)
        if not _resident(mapping, copy.partition) if physical else decode:
            whole = Fraction(facts.whole_weights(kernel, instance.workload.word_bytes))
            times[copy.partition] += facts.up(whole / parts / rate)
        if fetched:
            times[copy.partition] += facts.up(Fraction(kernel.fetch_bytes * instance.task.micro_batch) / parts / rate)
    return times


def _resident(mapping: Mapping, partition: int) -> bool:
    """Whether a chip runs nothing but this partition, whose weights then stay in its SRAM."""
    alone = len(mapping.company[mapping.stage(partition)]) == 1
    return alone and facts.stage_layers(mapping.instance, mapping.solution.degrees) == 1


def _cached(mapping: Mapping) -> bool:
    """Whether the KV cache of a chip's one partition, of all samples of its replica, fits SRAM beside what it holds."""
    instance, degrees = mapping.instance, mapping.solution.degrees
    kernels = instance.workload.kernels
    caches = sum(facts.cache(kernels[copy.kernel], copy.scheme, instance, degrees) for copy in mapping.copies)
    return caches + max(_held(mapping).values()) <= instance.system.chip.sram_bytes


def t3_network(mapping: Mapping) -> dict[int, int]:
    """Picoseconds of collectives per partition: all-reduces where they are made, layout changes where they are read
    (of what the layer before hands on too, in mode ``physical``)."""
    instance, solution = mapping.instance, mapping.solution
    times = {copy.partition: 0 for copy in mapping.copies}
    dimensions = facts.uses(instance, solution.degrees, "tensor")
    for copy in mapping.copies:
        kernel = instance.workload.kernels[copy.kernel]
        size = Fraction(facts.batched_output(kernel, instance))
        if copy.scheme == "K":
            factor = 2 if instance.mode == "physical" else instance.task.all_reduce_factor
            times[copy.partition] += facts.up(sum((facts.all_reduce(size, d, factor) for d in dimensions), Fraction(0)))
        if copy.scheme == "K_RS":
            times[copy.partition] += facts.up(sum((facts.reduce_scatter(size, d) for d in dimensions), Fraction(0)))
        times[copy.partition] += facts.up(
            facts.own_exchange(instance.workload.kernels[copy.kernel], instance, solution.degrees)
        )
    for u, v in (*mapping.edges, *mapping.handed):
        a, b = mapping.copies[u], mapping.copies[v]
        producer, consumer = instance.workload.kernels[a.kernel], instance.workload.kernels[b.kernel]
        before = facts.made(a.scheme)
        after = facts.taken(consumer, b.scheme, instance.mode)
        size = Fraction(facts.batched_output(producer, instance))
        change = sum((facts.change(before, after, size, d) for d in dimensions[:1]), Fraction(0))
        times[b.partition] += facts.up(change)
    return times


def t4_batch(mapping: Mapping, layer: int) -> int:
    """Picoseconds of the batch's layers: their time, the layers of a stage, the pipeline's bubble, the samples."""
    instance, degrees = mapping.instance, mapping.solution.degrees
    stage = facts.stage_layers(instance, degrees)
    filled = rounds = Fraction(instance.task.batch, degrees.data * instance.task.micro_batch)
    if instance.mode == "dfmodel":
        filled *= max(instance.workload.layers // degrees.pipeline - 1, 1)
    return math.ceil(layer * stage * (1 + Fraction(degrees.pipeline - 1) / filled) * rounds)


def t5_transfers(mapping: Mapping, layer: int) -> int:
    """Picoseconds of the batch that transfers between stages add: the first micro-batch waits for all of them, each
    micro-batch for what a transfer takes longer than a stage."""
    instance, degrees = mapping.instance, mapping.solution.degrees
    kernels = instance.workload.kernels
    sent = sum(facts.sent(kernels[copy.kernel], copy.scheme, instance, degrees) for copy in mapping.copies)
    rounds = instance.task.batch // (degrees.data * instance.task.micro_batch)
    return (degrees.pipeline - 1) * sent + rounds * max(0, sent - facts.stage_layers(instance, degrees) * layer)


def t6_gradients(mapping: Mapping) -> int:
    """Picoseconds of the batch's sums of gradients over the replicas, after its last micro-batch."""
    instance, degrees = mapping.instance, mapping.solution.degrees
    kernels = instance.workload.kernels
    return sum(facts.summed(kernels[copy.kernel], copy.scheme, instance, degrees) for copy in mapping.copies)


def t7_slowest(mapping: Mapping, times: dict[int, int]) -> int:
    """Picoseconds of the stage whose partitions' ``times`` add up to most, for all layers of a stage."""
    layers = facts.stage_layers(mapping.instance, mapping.solution.degrees)
    return layers * max(sum(times[p] for p in inside) for inside in mapping.company.values())


def _figures(mapping: Mapping, objective: int, partitions: int) -> dict[str, float]:
    instance = mapping.instance
    flop = sum(facts.whole_flop(kernel) for kernel in instance.workload.kernels)
    whole = flop * instance.workload.layers * instance.task.batch
    peak = instance.system.chip.flop_per_ns * instance.system.chips
    return {
        "dram_bytes": float(max(map(sum, in_dram(mapping).values()))),
        "partitions": float(partitions),
        "utilisation": whole / (peak * objective / facts.PS) if objective else 0.0,
        "samples_per_s": instance.task.batch / (objective / (facts.PS * 1e9)) if objective else 0.0,
    }
