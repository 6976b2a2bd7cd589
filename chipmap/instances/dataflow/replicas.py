"""What replicas share out and exchange: optimiser state, gradients, weights; sums of gradients; the optimiser's step.

The formulas are those of ``docs/families/dataflow-training.md``, C6, T3, T6 and T8.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from chipmap.instances.dataflow.instance import DataflowInstance, Degrees, Shard
from chipmap.instances.dataflow.rates import dram_rate, number_bytes
from chipmap.instances.dataflow.sharding import Collective, collective_ns
from chipmap.instances.dataflow.system import Dimension
from chipmap.instances.dataflow.workload import Kernel

#: Bytes of optimiser state per parameter in mode ``physical``: Adam in mixed precision holds a parameter and its two
#: moments in four bytes each.
ADAM_BYTES = 12


def shared(instance: DataflowInstance, degrees: Degrees) -> Shard:
    """What the replicas share out: nothing where there is one."""
    return instance.task.sharded if degrees.data > 1 else "none"


def state_bytes(instance: DataflowInstance) -> int:
    """Bytes of optimiser state per parameter, of a training step."""
    stated = instance.task.state_per_parameter
    return (ADAM_BYTES if instance.mode == "physical" else 0) if stated is None else stated


def held_words(instance: DataflowInstance, degrees: Degrees, layers: int) -> Fraction:
    """Bytes in DRAM per byte of a layer's parameters, for all ``layers`` of the chip's stage (C6).

    A parameter, its gradient and the optimiser's state, each whole or one of D parts. Where gradients are parts, those
    of one layer are whole until they are summed; where weights are, those of the layer that runs and of the next one.
    """
    state = Fraction(state_bytes(instance)) / number_bytes(instance.workload, instance.workload.weight_format)
    if instance.mode == "dfmodel":  # the published constraint counts tensors alone
        return state * layers if instance.task.purpose == "training" else Fraction(0)
    if instance.task.purpose != "training":
        return Fraction(layers)
    what, parts = shared(instance, degrees), degrees.data
    weights, gradients = Fraction(layers), Fraction(layers)
    state *= layers
    if what != "none":
        state /= parts
    if what in ("gradients", "weights"):
        gradients = gradients / parts + 1
    if what == "weights":
        weights = weights / parts + min(2, layers)
    return weights + gradients + state


def over_replicas(instance: DataflowInstance, degrees: Degrees, collective: Collective, size: Fraction) -> Fraction:
    """Nanoseconds of a collective of ``size`` bytes over the replicas.

    In mode ``physical`` dimensions are nested, the one with the fastest links first: each scatters what the ones before
    have left to a chip, so that the next moves an n-th of it. In mode ``dfmodel`` each moves all.
    """
    dimensions = [one for one in degrees.carrying(instance.system, "data") if one.size > 1]
    if instance.mode == "dfmodel":
        factor = instance.task.all_reduce_factor
        return sum((collective_ns(collective, size, one, factor) for one in dimensions), Fraction(0))
    return _nested(collective, size, sorted(dimensions, key=lambda one: -one.bytes_per_ns))


def _nested(collective: Collective, size: Fraction, dimensions: Sequence[Dimension]) -> Fraction:
    total = Fraction(0)
    for place, one in enumerate(dimensions, start=1):
        if collective == "all_reduce" and place < len(dimensions):
            total += 2 * collective_ns("reduce_scatter", size, one, 1)  # and the gather on the way back
        else:
            total += collective_ns(collective, size, one, 2)
        size /= one.size
    return total


def summed_ns(instance: DataflowInstance, degrees: Degrees, gradient: Fraction, layers: int) -> Fraction:
    """Nanoseconds per batch to sum the ``gradient`` bytes of a weight update, after the last micro-batch (T6).

    An all-reduce of so many ``layers`` of the stage; a reduce-scatter where each replica needs a part; nothing where
    that is done in every micro-batch (:func:`scattered_ns`).
    """
    what = shared(instance, degrees)
    if what in ("gradients", "weights"):
        return Fraction(0)
    collective: Collective = "all_reduce" if what == "none" else "reduce_scatter"
    return over_replicas(instance, degrees, collective, gradient * layers)


def updated_ns(instance: DataflowInstance, degrees: Degrees, parameters: Fraction, layers: int) -> Fraction:
    """Nanoseconds per batch until every replica has all updated ``parameters`` (bytes) of a forward kernel (T6)."""
    if shared(instance, degrees) not in ("optimizer", "gradients"):
        return Fraction(0)
    return over_replicas(instance, degrees, "all_gather", parameters * layers)


def scattered_ns(
    instance: DataflowInstance, degrees: Degrees, kernel: Kernel, parameters: Fraction, output: Fraction
) -> Fraction:
    """Nanoseconds each time that a kernel runs, for what the replicas share out (T3).

    A weight update scatters the sums of its gradients; where weights are shared out, other kernels gather theirs.
    """
    what = shared(instance, degrees)
    if kernel.update:
        scatters = what in ("gradients", "weights")
        return over_replicas(instance, degrees, "reduce_scatter", output) if scatters else Fraction(0)
    return over_replicas(instance, degrees, "all_gather", parameters) if what == "weights" else Fraction(0)


def step_ns(
    instance: DataflowInstance, degrees: Degrees, kernel: Kernel, parameters: Fraction, layers: int
) -> Fraction:
    """Nanoseconds of DRAM of the optimiser's step, for a forward kernel's ``parameters`` (bytes) of a layer (T8).

    A gradient is read and a parameter written, its state read and written, by one of the replicas where they share out
    the state.
    """
    if not instance.task.optimizer_step or kernel.phase == "backward":
        return Fraction(0)
    word = number_bytes(instance.workload, instance.workload.weight_format)
    parts = degrees.data if shared(instance, degrees) != "none" else 1
    moved = parameters * layers * 2 * (1 + state_bytes(instance) / word)
    return moved / parts / dram_rate(instance.system.memory)
