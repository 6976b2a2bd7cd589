"""The independent checker of family ``dataflow``: the constraints and terms of ``docs/families/dataflow.md``.

Plain loops over the records. It imports no cost function, model or program, so that nothing judges itself.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import cycle, pairwise

from chipmap.certificate import Certificate
from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution
from chipmap.records import counted
from chipmap.validation.certify import Finding, certify
from chipmap.validation.dataflow import ends, facts, pins, plans, present, training, unequal, uneven
from chipmap.validation.dataflow.dram import in_dram
from chipmap.validation.dataflow.figures import figures_of, headline, hop
from chipmap.validation.dataflow.mapping import Mapping, mapping_of
from chipmap.validation.dataflow.times import Times, held, inside, layer_time, longest_transfer, steps, times_of
from chipmap.validation.decimals import written


def check(instance: DataflowInstance, solution: DataflowSolution) -> Certificate:
    """The certificate of ``solution`` for a valid ``instance``; a violation of C0 leaves the objective undefined."""
    if instance.system.others:
        return unequal.check(instance, solution, check)
    broken: dict[str, Iterable[Finding]] = {"C0": list(c0_domain(instance, solution))}
    if broken["C0"]:
        return certify(instance, solution, broken, grade=instance.mode)
    mapping = mapping_of(instance, solution)
    broken |= {
        "C1": c1_order(mapping),
        "C2": c2_sram(mapping),
        "C3": c3_phases(mapping),
        "C4": c4_partitions(mapping),
        "C5": c5_together(mapping),
        "C6": c6_dram(mapping),
        "C7": c7_tiles(mapping),
        "C8": c8_stages(mapping),
    }
    times = times_of(mapping)
    terms = {
        "T1": t1_compute(times),
        "T2": t2_memory(times),
        "T3": t3_network(times),
        "T4": t4_layer(mapping, times),
        "T5": t5_transfers(mapping, times),
        "T6": t6_gradients(mapping),
        "T7": t7_stage(mapping, times),
        "T8": t8_step(mapping),
    }
    objective = batch(mapping, terms, layer_time(mapping, times))
    figures = figures_of(mapping, objective, terms)
    if instance.system.profiled:
        figures["limit_us"] = _limit(instance, solution) / 1e6
    said = {"figures": figures, "headline": headline(instance, figures)}
    return certify(instance, solution, broken, objective=objective, terms=terms, grade=instance.mode, **said)


def batch(mapping: Mapping, terms: dict[str, int], layer: Fraction) -> int:
    """The objective: picoseconds of the batch, from the terms, T4 not rounded as ``layer``.

    Stages of kernels: a step for each micro-batch. Stages of layers: their time, the pipeline's bubble, the samples.
    """
    instance, degrees = mapping.instance, mapping.solution.degrees
    if instance.task.stages == "kernels":
        return steps(mapping) * terms["T7"] + terms["T5"]
    if instance.task.stage_layers:
        passes = instance.task.batch // (degrees.data * instance.task.samples) * (instance.task.chunks or 1)
        every = (passes + degrees.pipeline - 1) * ends.longest_chunk(mapping, terms["T4"])
        return every + terms["T5"] + terms["T6"] + terms["T8"]
    stage = facts.stage_layers(instance, degrees)
    filled = rounds = Fraction(instance.task.batch, degrees.data * instance.task.samples)
    if instance.mode == "dfmodel":
        filled *= max(instance.workload.layers // degrees.pipeline - 1, 1)
    else:
        filled *= instance.task.chunks or 1
    layers = math.ceil(layer * stage * (1 + Fraction(degrees.pipeline - 1) / filled) * rounds)
    return layers - training.late(instance, degrees) + terms["T5"] + terms["T6"] + terms["T8"]


def _limit(instance: DataflowInstance, solution: DataflowSolution) -> int:
    """Picoseconds of the batch by the data sheet alone: the same mapping without any measured cost or share, at the
    whole peak."""
    task = instance.task if instance.task.utilisation is None else instance.task.replace(utilisation=1.0)
    return check(instance.replace(system=instance.system.data_sheet(), task=task), solution).objective or 0


def breakdown(instance: DataflowInstance, solution: DataflowSolution) -> dict[int, tuple[int, int, int]]:
    """Picoseconds of compute, memory and network of each partition, each time that it runs, for a ``solution`` that
    obeys C0."""
    times = times_of(mapping_of(instance, solution))
    return {p: (times.compute[p], times.memory[p], times.network[p]) for p in sorted(times.runs)}


def c0_domain(instance: DataflowInstance, solution: DataflowSolution) -> Iterator[Finding]:
    """Degrees that the network holds and that divide layers and batch; an allowed scheme and a
    partition per kernel (per layer and kernel where partitions may reach across layers)."""
    degrees, task, workload = solution.degrees, instance.task, instance.workload
    if task.degrees is not None and degrees != task.degrees:
        yield "degrees", 1, "degrees", "the degrees are not those that the task asks for"
    if len(degrees.dimensions) != len(instance.system.network):
        yield "degrees", 1, "dimensions", "each network dimension must have a parallelism"
    elif degrees.dimensions.count("pipeline") > 1:
        yield "degrees", 1, "dimensions", "the pipeline has two network dimensions"
    elif (excess := degrees.dimensions.count("tensor") - task.tensor_dimensions) > 0:
        message = f"tensor parallelism may have {counted(task.tensor_dimensions, 'network dimension')}"
        yield "degrees", excess, "dimensions", message
    else:
        for field in ("tensor", "pipeline", "data", "expert"):
            sharing = facts.uses(instance, degrees, "expert") if field == "data" else []
            held = math.prod(dimension.size for dimension in [*facts.uses(instance, degrees, field), *sharing])
            if held != getattr(degrees, field):
                message = f"{field} parallelism is {getattr(degrees, field)}, its network dimensions hold {held} chips"
                yield field, abs(held - getattr(degrees, field)), "chips", message
    if "expert" in degrees.dimensions and not any("E" in kernel.schemes for kernel in workload.kernels):
        yield "degrees", 1, "dimensions", "replicas share experts, but no kernel may be divided by them"
    layered = task.stages == "layers"
    equal = layered and task.stage_layers == ()
    if degrees.pipeline < 1 or (equal and workload.layers % max(1, degrees.pipeline)):
        message = f"{counted(degrees.pipeline, 'stage')} don't divide {counted(workload.layers, 'layer')}"
        yield "pipeline", 1, "stages", message
    if layered and task.across_layers and degrees.pipeline > 1:
        message = "a pipeline's stages are layers, but partitions reach across them"
        yield "pipeline", degrees.pipeline - 1, "stages", message
    yield from plans.wrong_micro_batch(instance, solution)
    yield from plans.wrong_chunks(instance, solution)
    yield from plans.wrong_pairs(instance, solution)
    yield from uneven.wrong_layers(instance, solution)
    if wrong := plans.wrong_recomputation(instance, solution):
        yield "recompute", 1, "kernels", wrong
    if wrong := plans.wrong_shard(instance, solution):
        yield "shard", 1, "replicas", wrong
    if wrong := present.wrong_keep(instance, solution):
        yield "keep", 1, "layouts", wrong
    layers = workload.layers if task.across_layers else 1
    if len(solution.schemes) != layers * len(workload.kernels):
        message = f"{len(solution.schemes)} schemes for {layers} x {len(workload.kernels)} kernels"
        yield "schemes", 1, "schemes", message
    for kernel, scheme in zip(cycle(workload.kernels), solution.schemes, strict=False):
        if scheme not in facts.allowed(kernel, instance.mode) or scheme != task.schemes.get(kernel.name, scheme):
            yield repr(kernel.name), 1, "schemes", f"{kernel.name!r} may not be sharded by {scheme}"
    if len(solution.partitions) != layers * len(workload.kernels):
        message = f"{len(solution.partitions)} partitions for {layers} x {len(workload.kernels)} kernels"
        yield "partitions", 1, "kernels", message
    if any(p < 0 for p in solution.partitions):
        yield "partitions", 1, "kernels", "partitions are numbered from 0"
    if wrong := _wrong_stages(instance, solution):
        yield "stages", 1, "stages", wrong


def _wrong_stages(instance: DataflowInstance, solution: DataflowSolution) -> str:
    """What of ``stages`` is no stage of a partition (C0); empty where nothing is."""
    stages, pipeline = solution.stages, solution.degrees.pipeline
    if instance.task.stages == "layers":
        return "stages are layers here, no partition has one of its own" if stages else ""
    numbers = max(solution.partitions, default=-1) + 1
    if len(stages) != numbers and (stages or pipeline > 1):
        return f"{len(stages)} stages for {numbers} numbers of partitions"
    outside = [s for s in stages if not 0 <= s < pipeline]
    return f"there is no stage {outside[0]} of {pipeline}" if outside else ""


def c1_order(mapping: Mapping) -> Iterator[Finding]:
    """No tensor goes back to an earlier partition."""
    kernels = mapping.instance.workload.kernels
    for u, v in mapping.edges:
        a, b = mapping.copies[u], mapping.copies[v]
        if a.partition > b.partition:
            names = f"{kernels[a.kernel].name!r} -> {kernels[b.kernel].name!r}"
            message = f"{names} goes from partition {a.partition} back to {b.partition}"
            yield names, a.partition - b.partition, "partitions", message


def c2_sram(mapping: Mapping) -> Iterator[Finding]:
    """What a partition holds fits a chip's SRAM."""
    limit = mapping.instance.system.chip.sram_bytes
    for partition, size in sorted(held(mapping).items()):
        if size > limit:
            message = f"partition {partition} holds {size:,} bytes; a chip's SRAM has {limit:,}"
            yield f"partition {partition}", size - limit, "bytes", message


def c3_phases(mapping: Mapping) -> Iterator[Finding]:
    """Forward and backward kernels lie in different partitions, and so do those that are recomputed and others."""
    phases: dict[int, set[str]] = defaultdict(set)
    again: dict[int, set[bool]] = defaultdict(set)
    names = facts.recomputed(mapping.instance)
    for copy in mapping.copies:
        kernel = mapping.instance.workload.kernels[copy.kernel]
        phases[copy.partition].add(kernel.phase)
        again[copy.partition].add(kernel.name in names)
    for partition, found in sorted(phases.items()):
        mixed = "forward and backward kernels" if len(found) > 1 else "kernels that are recomputed and others"
        if len(found) > 1 or len(again[partition]) > 1:
            yield f"partition {partition}", 1, "phases", f"partition {partition} mixes {mixed}"


def c4_partitions(mapping: Mapping) -> Iterator[Finding]:
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
            yield "partitions", shared, "kernels", message
        return
    for phase, partitions in used.items():
        count, most = len(partitions), task.partitions
        if most is not None and (count > most or (task.exactly and count < most)):
            wanted = "exactly" if task.exactly else "at most"
            message = (
                f"{phase} has {counted(count, 'partition')}, {wanted} {most} {'is' if most == 1 else 'are'} asked for"
            )
            yield phase, abs(count - most), "partitions", message


def c5_together(mapping: Mapping) -> Iterator[Finding]:
    """Kernels pinned together lie in one partition, which holds no kernel of another such group; those apart in
    several; pinned ones in their partition, and none in one that is forbidden."""
    yield from pins.groups(mapping)
    yield from pins.apart(mapping)
    yield from pins.misplaced(mapping)


def c6_dram(mapping: Mapping) -> Iterator[Finding]:
    """While each partition runs, a chip's DRAM holds what always rests there and the tensors that wait."""
    limit = mapping.instance.system.memory.capacity_bytes
    for partition, (rests, size) in sorted(in_dram(mapping, ends.most(mapping)).items()):
        if limit is not None and rests + size > limit:
            message = (
                f"while partition {partition} runs, DRAM holds {rests + size:,} bytes ({rests:,} of parameters and "
                f"what is kept for the backward phase); it has {limit:,}"
            )
            yield f"partition {partition}", rests + size - limit, "bytes", message


def c7_tiles(mapping: Mapping) -> Iterator[Finding]:
    """Where kernels share tiles (no utilisation is given), each of a partition has one at least."""
    limit = mapping.instance.system.chip.tiles
    if mapping.instance.task.utilisation is not None:
        return
    for partition, kernels in sorted(inside(mapping).items()):
        size = len(kernels)
        if size > limit:
            message = f"partition {partition} has {counted(size, 'kernel')}; a chip has {counted(limit, 'tile')}"
            yield f"partition {partition}", size - limit, "tiles", message


def c8_stages(mapping: Mapping) -> Iterator[Finding]:
    """Stages rise with the numbers of partitions: none runs on a stage before that of an earlier one."""
    order = mapping.solution.stages
    for p, (here, after) in enumerate(pairwise(order)):
        if after < here:
            message = f"partition {p + 1} runs on stage {after}, partition {p} before it on stage {here}"
            yield f"partition {p + 1}", here - after, "stages", message


def t1_compute(times: Times) -> int:
    """Picoseconds of compute, over all partitions."""
    return sum(times.runs[p] * ticks for p, ticks in times.compute.items())


def t2_memory(times: Times) -> int:
    """Picoseconds of DRAM, over all partitions."""
    return sum(times.runs[p] * ticks for p, ticks in times.memory.items())


def t3_network(times: Times) -> int:
    """Picoseconds of collectives and exchanges, over all partitions."""
    return sum(times.runs[p] * ticks for p, ticks in times.network.items())


def t4_layer(mapping: Mapping, times: Times) -> int:
    """Picoseconds of the layer, whose partitions run one after the other, but for passes that run side by side
    (:func:`~chipmap.validation.dataflow.times.layer_time`)."""
    return math.ceil(layer_time(mapping, times))


def t5_transfers(mapping: Mapping, times: Times) -> int:
    """Picoseconds of the batch that transfers between stages add.

    Stages of layers: the first micro-batch waits for all of them, between one chunk and the next, each micro-batch for
    what its transfers take longer than a stage. Where each forward pass follows a backward pass that it waits for, the
    longest path through both has so many transfers, whatever they take. Stages of kernels: each step waits for what the
    longest transfer takes longer than the slowest stage.
    """
    instance, degrees = mapping.instance, mapping.solution.degrees
    slowest = _slowest(mapping, times)
    if instance.task.stages == "kernels":
        return steps(mapping) * max(0, longest_transfer(mapping) - slowest)
    sent, rounds = hop(mapping), instance.task.batch // (degrees.data * instance.task.samples)
    chunks, stages = instance.task.chunks or 1, degrees.pipeline
    backward = any(kernel.phase == "backward" for kernel in instance.workload.kernels)
    ahead = instance.task.schedule == "interleaved" and chunks > 1
    if stages > 1 and backward and instance.mode == "physical" and not ahead:
        passes = rounds * chunks
        waits = stages + chunks - 3 + passes - -(-(passes - 1) // stages)
        return (waits + (stages - 1 if facts.in_pairs(instance, degrees) else 0)) * sent
    return (stages * chunks - 1) * sent + rounds * max(0, chunks * sent - slowest)


def t6_gradients(mapping: Mapping) -> int:
    """Picoseconds of the batch's sums of gradients over the replicas, after its last micro-batch, or what is left of
    them where they run behind its backward pass; of updated weights until they are where they rest."""
    return ends.gradients(mapping) + (ends.of_batch(mapping, "T6") if mapping.instance.task.stage_layers else 0)


def t7_stage(mapping: Mapping, times: Times) -> int:
    """Picoseconds of the stage whose partitions' times add up to most, for all layers of a stage."""
    return _slowest(mapping, times)


def t8_step(mapping: Mapping) -> int:
    """Picoseconds of the batch's optimiser step, after all sums, and of what every micro-batch of a replica takes
    whatever its layers take."""
    task = mapping.instance.task
    each = facts.up(written(mapping.instance.system.step_ns))
    fixed = each * (task.batch // (mapping.solution.degrees.data * task.samples))
    return fixed + ends.step(mapping) + (ends.of_batch(mapping, "T8") if task.stage_layers else 0)


def _slowest(mapping: Mapping, times: Times) -> int:
    if mapping.instance.task.stage_layers:
        return (mapping.instance.task.chunks or 1) * ends.longest_chunk(mapping, sum(times.together.values()))
    layers = facts.stage_layers(mapping.instance, mapping.solution.degrees)
    return layers * max(sum(times.together[p] for p in stage) for stage in mapping.company.values())
