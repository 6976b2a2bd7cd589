"""What the page says about training: what rests in DRAM, what replicas exchange, the optimiser's step.

``docs/families/dataflow.md``, "DRAM", and ``docs/families/dataflow-training.md``, written from these pages alone.
"""

from __future__ import annotations

from collections.abc import Set
from fractions import Fraction
from typing import NamedTuple

from chipmap.instances.dataflow.instance import DataflowInstance, Degrees
from chipmap.instances.dataflow.system import Dimension
from chipmap.instances.dataflow.workload import Kernel, Scheme
from chipmap.validation.dataflow import blocks, facts, joint, rates
from chipmap.validation.dataflow.once import once
from chipmap.validation.decimals import written

#: Schedules whose updates may run after the rest of a backward pass.
LATE = ("zb-h1", "dualpipe-v")
#: What is in parts, one per replica, by what they share out.
_IN_PARTS = {
    "none": (),
    "optimizer": ("state",),
    "gradients": ("state", "gradient"),
    "weights": ("state", "gradient", "weight"),
}


def copies(scheme: Scheme, degrees: Degrees) -> int:
    """Replicas that hold the same parameters: one of those that share experts, where these are divided."""
    return degrees.data // degrees.expert if scheme == "E" else degrees.data


def in_parts(scheme: Scheme, instance: DataflowInstance, degrees: Degrees) -> tuple[str, ...]:
    """What of a parameter each replica has a part of: its state, its gradient, the weight itself."""
    stated = instance.task.shard
    name = stated if isinstance(stated, str) else "weights" if stated else "none"
    return _IN_PARTS[name] if copies(scheme, degrees) > 1 else ()


def state(instance: DataflowInstance) -> int:
    """Bytes of the optimiser's state per parameter."""
    task, stated = instance.task, instance.task.optimizer_bytes
    if task.optimizer == "none":
        return 0
    if task.optimizer is not None:
        numbers = {"sgd": 0, "momentum": 1, "adam": 2}[task.optimizer]
        return numbers * task.state_bytes + (4 if task.master_weights else 0)
    return stated if stated is not None else 12 if instance.mode == "physical" else 0


def word(instance: DataflowInstance) -> Fraction:
    """Bytes of a parameter."""
    return Fraction(rates.bits(instance, instance.workload.weight_format), 8)


@once
def parameters(kernel: Kernel, scheme: Scheme, instance: DataflowInstance, degrees: Degrees) -> Fraction:
    """Bytes of a kernel's parameters of one layer on a chip, rows of tables among them."""
    table = rates.of_weights(instance, kernel.table_bytes)
    table *= facts.weights_share(kernel, scheme, instance, degrees)
    return facts.local_weights(kernel, scheme, instance, degrees) + table


def resting(
    kernel: Kernel, scheme: Scheme, instance: DataflowInstance, degrees: Degrees, layers: int | None = None
) -> Fraction:
    """C6: bytes that one kernel of each layer of a chip always has in DRAM, beside the outputs that are :func:`kept`.

    In training a parameter has a gradient of as many bytes, and its state; in mode ``dfmodel`` only the state counts.
    What is in parts, one per replica, is whole for one layer at a time: gradients until they are summed, weights while
    they are used, and those of the next layer meanwhile. A KV cache (what decode steps fetch, mode ``physical``) is
    there for every sample that the replica serves. ``layers``: those of a stage (None: as many as any has).
    """
    task = instance.task
    layers = facts.stage_layers(instance, degrees) if layers is None else layers
    total = Fraction(0)
    if kernel.phase == "forward" and layers > 0:
        own, apart = parameters(kernel, scheme, instance, degrees), in_parts(scheme, instance, degrees)
        held = {"state": own / word(instance) * state(instance)} if task.purpose == "training" else {}
        if instance.mode == "physical":
            held |= {"weight": own, "gradient": own} if task.purpose == "training" else {"weight": own}
        at_once = {"state": 0, "gradient": 1, "weight": min(2, layers)}
        for what, each in held.items():
            total += each * layers
            if what in apart:
                total += each * at_once[what] - each * layers * (1 - Fraction(1, copies(scheme, degrees)))
    if task.purpose == "decode" and instance.mode == "physical":
        fetched = facts.fetched(kernel, scheme, instance, degrees)
        total += layers * Fraction(task.batch, degrees.data) * fetched
    return total


class Moment(NamedTuple):
    """What a stage holds at some time, as passes through one layer: those whose backward pass is still to come, and
    those whose update alone is."""

    saved: Fraction
    late: Fraction = Fraction(0)


@once
def moments(instance: DataflowInstance, degrees: Degrees) -> list[Moment]:
    """C6: the moments of which one needs most DRAM; one, where updates follow the rest of their pass at once.

    Without the layer at hand, whose gradients wait while it runs: a pass that is to leave tensors for its update has
    put off all layers but one.
    """
    stages, layers = degrees.pipeline, facts.stage_layers(instance, degrees)
    if instance.task.schedule not in LATE or stages == 1:
        return [Moment(layers * facts.in_flight(instance, degrees))]
    if instance.task.schedule == "zb-h1":
        rounds = min(instance.task.batch // (degrees.data * instance.task.samples), stages)
        return [Moment(Fraction(rounds * layers)), Moment(Fraction(1), Fraction(rounds * layers - 1))]
    chunk = Fraction(layers, 2)
    found = [Moment((2 * stages + 1) * chunk)]
    for before, after in ((2 * stages - 1, 1), (stages - 2, 2), (0, stages)):
        found.append(Moment(before * chunk + 1, after * chunk - 1))
    return found


def kept(kernel: Kernel, output: Fraction, moment: Moment, instance: DataflowInstance, saved: Set[str]) -> Fraction:
    """C6: bytes of a kernel's outputs that are there for passes begun: those ``saved``
    (:func:`~chipmap.validation.dataflow.facts.saved`) until their backward pass, what updates read until these."""
    times = moment.saved if kernel.name in saved else Fraction(0)
    if facts.read_by_updates(kernel, instance):
        times += moment.late
    return times * output


@once
def replicas(scheme: Scheme, instance: DataflowInstance, degrees: Degrees) -> list[Dimension]:
    """The network dimensions between replicas with the same parameters, those with the fastest links first."""
    pairs = zip(instance.system.network, degrees.dimensions, strict=True)
    between = {"data"} if scheme == "E" else {"data", "expert"}
    found = [link for link, use in pairs if use in between and link.size > 1]
    return sorted(found, key=lambda link: link.bytes_per_ns, reverse=True)


@once
def summed(kernel: Kernel, scheme: Scheme, instance: DataflowInstance, degrees: Degrees) -> int:
    """T6: picoseconds per batch of the sum over the replicas of a weight update's output, all layers at once (of one
    layer, where sums run behind the backward pass); of the all-gathers of updated weights: where a forward kernel's
    chips have different tokens, and where each replica has updated a part."""
    layers, links = facts.stage_layers(instance, degrees), replicas(scheme, instance, degrees)
    apart = in_parts(scheme, instance, degrees)
    if kernel.update:
        layers = 1 if instance.task.overlap_gradients else layers
        size = facts.local_output(kernel, scheme, instance, degrees) * layers
        if "gradient" in apart:
            return 0
        if "state" in apart:
            return facts.up(joint.nested_scatter(size, links))
        if instance.mode == "physical":
            return facts.up(joint.nested_sum(size, links))
        factor = instance.task.all_reduce_factor
        return facts.up(sum((facts.all_reduce(size, link, factor) for link in links), Fraction(0)))
    if kernel.phase == "backward":
        return 0
    time, whole = Fraction(0), facts.whole_weights(kernel, instance) * layers
    split, kernels = whole and facts.by_tokens(kernel, scheme, instance), instance.workload.kernels
    named = split and any(one.update and one.parameters_of == kernel.name for one in kernels)
    if split and not named and any(one.update for one in kernels):
        time += joint.reduce_scatter(whole, joint.group(instance, degrees))
    if "state" in apart and "weight" not in apart:
        time += joint.nested_scatter(parameters(kernel, scheme, instance, degrees) * layers, links)
    return facts.up(time)


def left_over(sums: int, instance: DataflowInstance, degrees: Degrees) -> int:
    """T6: picoseconds by which sums of gradients that take so long in each layer end after the backward pass that they
    run behind. A layer's sums begin once its pass is through, and those of the layer before.

    Of a pass only its kernels' compute is sure, each under the scheme with least, and nothing where replicas exchange
    anything else.
    """
    kernels, passed = instance.workload.kernels, 0
    if degrees.expert == 1 and all(kernel.exchange == "none" for kernel in kernels):
        phases = ("update",) if instance.task.schedule == "zb-h1" else ("update", "backward")
        passed = sum(surely(instance, degrees, phase) for phase in phases)
    layers = facts.stage_layers(instance, degrees)
    return max(sums, layers * sums - (layers - 1) * passed)


@once
def surely(instance: DataflowInstance, degrees: Degrees, phase: str) -> int:
    """Picoseconds of compute that all kernels of a phase take, whatever their schemes; updates are one of their own."""
    total = 0
    for kernel in instance.workload.kernels:
        if ("update" if kernel.update and kernel.phase == "backward" else kernel.phase) == phase:
            total += min(computed(kernel, one, instance, degrees) for one in facts.allowed(kernel, instance.mode))
    return total


@once
def late(instance: DataflowInstance, degrees: Degrees) -> int:
    """Picoseconds of the batch in which stages would wait and run late updates instead: in the first PP - 1
    passes, and in the last ones as many as micro-batches allow, each as short as any of the three kinds of passes."""
    if instance.task.schedule not in LATE or degrees.pipeline == 1:
        return 0
    rounds = instance.task.batch // (degrees.data * instance.task.samples)
    shortest = min(surely(instance, degrees, phase) for phase in ("forward", "backward", "update"))
    passes = degrees.pipeline - 1 + min(rounds, degrees.pipeline) - 1
    return passes * facts.stage_layers(instance, degrees) * shortest


@once
def computed(kernel: Kernel, scheme: Scheme, instance: DataflowInstance, degrees: Degrees) -> int:
    """T1: picoseconds of a kernel's share of FLOP at the utilisation of what it reaches of its peak."""
    chip = instance.system.chip
    if chip.blocks and kernel.kind == "gemm" and kernel.flop is None and not rates.attention(kernel, chip):
        spent = blocks.flop(kernel, scheme, instance, degrees)
        return facts.up(spent / (written(instance.task.utilisation or 1) * rates.peak(kernel, instance)))
    flop = facts.whole_flop(kernel) * instance.task.samples * facts.share(kernel, scheme, instance, degrees)
    share = written(instance.task.utilisation or 1) * rates.reached(kernel, instance, flop)
    return facts.up(flop / (share * rates.peak(kernel, instance)))


@once
def exchanged(kernel: Kernel, scheme: Scheme, instance: DataflowInstance, degrees: Degrees) -> int:
    """T3: picoseconds, each time that a kernel runs, in which replicas scatter the sums of its gradients, or gather its
    weights, of which each has a part."""
    apart, links = in_parts(scheme, instance, degrees), replicas(scheme, instance, degrees)
    if kernel.update:
        size = facts.local_output(kernel, scheme, instance, degrees)
        return facts.up(joint.nested_scatter(size, links)) if "gradient" in apart else 0
    size = parameters(kernel, scheme, instance, degrees)
    return facts.up(joint.nested_scatter(size, links)) if "weight" in apart else 0


@once
def stepped(kernel: Kernel, scheme: Scheme, instance: DataflowInstance, degrees: Degrees) -> int:
    """T8: picoseconds per batch of the optimiser's step: of each parameter of a chip a gradient is read, a weight
    written, and its state read and written; of those whose state it has, where that is in parts."""
    if not instance.task.optimizer_step or kernel.phase == "backward":
        return 0
    count = parameters(kernel, scheme, instance, degrees) / word(instance) * facts.stage_layers(instance, degrees)
    if "state" in in_parts(scheme, instance, degrees):
        count /= copies(scheme, degrees)
    return facts.up(count * (2 * word(instance) + 2 * state(instance)) / rates.dram(instance))
