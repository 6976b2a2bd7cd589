"""What a mapping costs outside its partitions: bytes that stay in DRAM, transfers between stages, gradient sums.

The formulas are those of ``docs/families/dataflow.md``, C6, T5 and T6.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from typing import NamedTuple

from chipmap.instances.dataflow.instance import DataflowInstance, Degrees
from chipmap.instances.dataflow.joint import joint_ns, tensor_dimensions
from chipmap.instances.dataflow.parts import Parts, splits_tokens
from chipmap.instances.dataflow.replicas import held_words, summed_ns, updated_ns
from chipmap.instances.dataflow.sizes import fetch_bytes, table_bytes, weight_bytes
from chipmap.instances.dataflow.workload import Kernel, Scheme
from chipmap.records import kept
from chipmap.records.decimals import exact


def layers_per_stage(instance: DataflowInstance, degrees: Degrees) -> int:
    """Layers of a pipeline stage, of the one with most; 1 where partitions reach across layers, as every layer then
    counts for itself, and where stages share out kernels."""
    task = instance.task
    if task.stage_layers:
        return max(layers_of_stages(task.stage_layers, degrees.pipeline))
    if task.uneven:  # they are free: one has a mean stage's at least
        return -(-instance.workload.layers // degrees.pipeline)
    return 1 if task.across_layers or task.stages == "kernels" else instance.workload.layers // degrees.pipeline


def layers_of_stages(counts: Sequence[int], stages: int) -> list[int]:
    """Layers of each stage, of those of its chunks: stage s has the chunks s, s + PP, and so on."""
    return [sum(counts[s::stages]) for s in range(stages)]


def recomputed(instance: DataflowInstance) -> frozenset[str]:
    """The forward kernels that run twice per micro-batch."""
    if instance.task.recomputed == "selective":
        return frozenset(instance.task.selective)
    every = instance.task.recomputed == "full"
    return frozenset(one.name for one in instance.workload.kernels if every and one.phase == "forward")


def runs(instance: DataflowInstance) -> tuple[int, ...]:
    """How often each kernel runs per micro-batch: twice where it is recomputed."""
    again = recomputed(instance)
    return tuple(1 + (kernel.name in again) for kernel in instance.workload.kernels)


def forward_runs(instance: DataflowInstance) -> int:
    """How often every forward kernel runs per micro-batch at least: twice where all are recomputed."""
    return 2 if instance.task.recomputed == "full" else 1


def micro_batches(instance: DataflowInstance, degrees: Degrees) -> Fraction:
    """Micro-batches of a replica."""
    return Fraction(instance.task.batch, degrees.data * instance.task.samples)


def paired(instance: DataflowInstance, degrees: Degrees) -> bool:
    """Whether stages are two chunks each that run a forward and a backward pass at once (``dualpipe-v``)."""
    return instance.task.schedule == "dualpipe-v" and degrees.pipeline > 1


def passes_held(instance: DataflowInstance, degrees: Degrees, stage: int = 0) -> int:
    """Forward passes through a chunk whose saved tensors a stage holds, of the batch's m · v: PP - s in stage s;
    interleaved (v-1) · PP + 2 (PP-1-s) + 1, or (v-1) · PP + PP - s where backward passes begin early. As many as the
    task says of one stage of a pipeline on unequal chips."""
    chunks, behind = instance.task.parts, degrees.pipeline - 1 - stage
    twice = instance.task.schedule == "interleaved" and chunks > 1
    ahead = (chunks - 1) * degrees.pipeline + (2 * behind if twice else behind) + 1
    ahead = instance.task.in_flight or ahead
    return min(int(micro_batches(instance, degrees)) * chunks, ahead)


def in_flight(instance: DataflowInstance, degrees: Degrees) -> Fraction:
    """Micro-batches whose saved tensors the first stage holds: :func:`passes_held`, in whole stages."""
    return Fraction(passes_held(instance, degrees), instance.task.parts)


def in_turn(instance: DataflowInstance) -> bool:
    """Whether a stage waits for transfers again and again, for a forward pass after a backward one: where kernels run
    backward in mode ``physical``, unless interleaved forward passes run so far ahead that transfers overlap."""
    return kept(instance, "_in_turn", _in_turn)


def _in_turn(instance: DataflowInstance) -> bool:
    ahead = instance.task.schedule == "interleaved" and instance.task.parts > 1
    backward = any(kernel.phase == "backward" for kernel in instance.workload.kernels)
    return backward and instance.mode == "physical" and not ahead


def waited_hops(instance: DataflowInstance, degrees: Degrees) -> int:
    """Transfers, there and back counted once, that the batch waits for: over every border between chunks, PP · v - 1;
    or :func:`in_turn` PP + v - 3 + n - ceil((n-1)/PP) for n = m · v passes; PP - 1 more where these run in pairs."""
    stages, chunks = degrees.pipeline, instance.task.parts
    if stages == 1 or not in_turn(instance):
        return stages * chunks - 1
    passes = micro_batches(instance, degrees) * chunks
    more = stages - 1 if paired(instance, degrees) else 0
    return int(stages + chunks - 3 + passes) - ceil((passes - 1) / stages) + more


class Roles(NamedTuple):
    """What kernels are in their workload, by name: those whose outputs are ``kept`` for the backward phase; those that
    run ``again`` in it; how many edges lead from one to the next layer; whether gradients are ``returned`` from there;
    whether any weights are updated; the kernels that weight updates read; and those whose updates name them, so that
    what is made of gradients is compared with what rests (:mod:`chipmap.instances.dataflow.resting`); and those whose
    products a kernel adds up with others (:mod:`chipmap.instances.dataflow.added`)."""

    kept: frozenset[str]
    again: frozenset[str]
    carried: dict[str, int]
    returned: bool
    updates: bool
    updated_by: frozenset[str]
    handed: frozenset[str]
    added: frozenset[str]


def roles(instance: DataflowInstance) -> Roles:
    """The :class:`Roles` of an instance, found once and kept with it."""
    return kept(instance, "_roles", _roles)


def _roles(instance: DataflowInstance) -> Roles:
    workload, physical = instance.workload, instance.mode == "physical"
    phase = {one.name: one.phase for one in workload.kernels}
    updates = {one.name for one in workload.kernels if one.update}
    carries_back = any(phase[u] == "backward" for u, _ in workload.carries)
    return Roles(
        _kept_for_backward(instance),
        recomputed(instance),
        dict(Counter(u for u, _ in workload.carries)),
        "backward" in phase.values() and not carries_back,
        any(one.update for one in workload.kernels),
        frozenset(u for u, v in workload.edges if v in updates),
        frozenset(one.parameters_of for one in workload.kernels if one.update and one.parameters_of and physical),
        frozenset(name for one in workload.kernels if len(one.adds) > 1 and physical for name in one.adds),
    )


def kept_for_backward(instance: DataflowInstance) -> frozenset[str]:
    """The forward kernels whose outputs are kept for each micro-batch in flight (mode ``physical``).

    Those that a backward kernel reads, or one that is recomputed, but aren't recomputed themselves; and what the layer
    before hands to one that is.
    """
    return roles(instance).kept


def _kept_for_backward(instance: DataflowInstance) -> frozenset[str]:
    phase = {kernel.name: kernel.phase for kernel in instance.workload.kernels}
    if instance.mode == "dfmodel" or "backward" not in phase.values():
        return frozenset()
    again, workload = recomputed(instance), instance.workload
    if instance.task.recomputed == "full":
        return frozenset(u for u, _ in workload.carries if phase[u] == "forward")
    read = {u for u, v in workload.edges if phase[v] == "backward" or v in again}
    carried = {u for u, v in workload.carries if v in again}
    return frozenset(u for u in (read - again) | carried if phase[u] == "forward")


def kept_bytes(
    instance: DataflowInstance,
    degrees: Degrees,
    kernel: Kernel,
    scheme: Scheme,
    parameters: Fraction,
    output: Fraction,
    here: Parts,
    held: tuple[int, Fraction, Fraction] | None = None,
) -> Fraction:
    """Bytes that a kernel holds in a chip's DRAM all the time, for all layers of the chip's stage.

    ``held``: these layers, passes through one of them whose saved tensors are there, and passes of which only the
    update is left (None: the first stage's). The latter hold what updates read, saved tensors and others.

    ``parameters`` and ``output`` are those of one layer on one chip, which has the shares ``here``; parameters of
    forward kernels with what :func:`~chipmap.instances.dataflow.replicas.held_words` says. In decode steps what is
    fetched is the KV cache, of every sample of the replica.
    """
    layers = layers_per_stage(instance, degrees)
    layers, passes, late = held or (layers, layers * in_flight(instance, degrees), Fraction(0))
    total = cache_bytes(instance, degrees, kernel, here) * layers
    if kernel.name in kept_for_backward(instance):
        total += output * passes
    if late and kernel.name in roles(instance).updated_by:
        total += output * late
    if kernel.phase != "forward" or not layers:
        return total
    return total + parameters * held_words(instance, degrees.alike(scheme), layers)


def parameter_bytes(kernel: Kernel, instance: DataflowInstance, weights: Fraction, here: Parts) -> Fraction:
    """Bytes of a kernel's parameters of a layer in a chip's DRAM: its ``weights`` there, and its part of a table."""
    return weights + table_bytes(kernel, instance) * here.weights


def cache_bytes(instance: DataflowInstance, degrees: Degrees, kernel: Kernel, here: Parts) -> Fraction:
    """Bytes of a layer's KV cache on a chip: in decode steps (mode ``physical``) what a kernel fetches for every sample
    of the replica."""
    if instance.mode == "dfmodel" or instance.task.purpose != "decode":
        return Fraction(0)
    return fetch_bytes(kernel, instance) * instance.task.batch / degrees.data * here.fetch


def waits_in_dram(instance: DataflowInstance, kernel: Kernel) -> bool:
    """Whether the kernel's output counts while it waits in DRAM between partitions: unless it is kept anyway."""
    return kernel.name in roles(instance).again or kernel.name not in kept_for_backward(instance)


def hop_ns(instance: DataflowInstance, degrees: Degrees, kernel: Kernel, output: Fraction) -> Fraction:
    """Nanoseconds per micro-batch to send what the kernel carries to the next stage: S/B and the latency of a step.

    S = ``output``, the bytes on one chip; once per carried edge in mode ``dfmodel``, once in mode ``physical``. Where
    the backward kernels carry nothing themselves, the gradient of what a forward one carries comes back alike. Nothing
    where stages share out kernels: :func:`link_ns`.
    """
    if instance.task.stages == "kernels":
        return Fraction(0)
    edges = roles(instance).carried.get(kernel.name, 0)
    if instance.mode == "physical":
        edges = min(edges, 1)
    return (
        _step_ns(instance, degrees, output) * edges * (2 if roles(instance).returned else 1) if edges else Fraction(0)
    )


def link_ns(instance: DataflowInstance, degrees: Degrees, output: Fraction) -> Fraction:
    """Nanoseconds per micro-batch to send a kernel's ``output`` from a stage to the next, where stages share out
    kernels."""
    return _step_ns(instance, degrees, output) if instance.task.stages == "kernels" else Fraction(0)


def _step_ns(instance: DataflowInstance, degrees: Degrees, output: Fraction) -> Fraction:
    """S/B, the start and the latency of a step for S = ``output`` bytes on a chip in the pipeline's
    dimension; 0 without one, and where there are no bytes to send."""
    dimensions = degrees.carrying(instance.system, "pipeline") if degrees.pipeline > 1 and output else []
    late = sum((exact(d.latency_ns) + exact(d.start_ns) for d in dimensions), Fraction(0))
    return late + sum((output / d.rate for d in dimensions), Fraction(0))


def gradient_ns(
    instance: DataflowInstance, degrees: Degrees, kernel: Kernel, scheme: Scheme, parameters: Fraction, output: Fraction
) -> Fraction:
    """Nanoseconds per batch to sum the gradients of a weight update over the replicas, for all layers of the stage; or
    to gather updated weights: of a kernel whose tokens are split, and where replicas share out the optimiser's state
    (:mod:`chipmap.instances.dataflow.replicas`)."""
    layers, alike = layers_per_stage(instance, degrees), degrees.alike(scheme)
    if kernel.update:
        return Fraction(0) if instance.task.overlap_gradients else summed_ns(instance, alike, output, layers)
    gathered = _gathered_ns(instance, degrees, kernel, scheme)
    if kernel.phase == "forward":
        gathered += updated_ns(instance, alike, parameters, layers)
    return gathered


def layer_sums_ns(
    instance: DataflowInstance, degrees: Degrees, kernel: Kernel, scheme: Scheme, output: Fraction
) -> Fraction:
    """Nanoseconds to sum one layer's gradients of a weight update, where that runs behind the backward pass."""
    if not (kernel.update and instance.task.overlap_gradients):
        return Fraction(0)
    return summed_ns(instance, degrees.alike(scheme), output, 1)


def _gathered_ns(instance: DataflowInstance, degrees: Degrees, kernel: Kernel, scheme: Scheme) -> Fraction:
    """Nanoseconds per batch until every chip of a group has all updated weights of a kernel that splits tokens.

    The updates are split, while every chip needs all: an all-gather of all layers of the stage. Nothing where nothing
    is updated.
    """
    tokens = splits_tokens(kernel, scheme, instance.mode) and kernel.phase == "forward"
    if not tokens or not roles(instance).updates or kernel.name in roles(instance).handed:
        return Fraction(0)
    size = weight_bytes(kernel, instance) * layers_per_stage(instance, degrees)
    return joint_ns("all_gather", size, tensor_dimensions(instance, degrees), 1)
