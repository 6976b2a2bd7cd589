"""What a whole kernel computes, makes and holds, before it is sharded."""

from __future__ import annotations

from fractions import Fraction

from chipmap.instances.dataflow.instance import DataflowInstance
from chipmap.instances.dataflow.rates import fetched_format, output_format, scaled
from chipmap.instances.dataflow.workload import Kernel


def flop(kernel: Kernel) -> int:
    """FLOP of the whole kernel: 2 · outer · M · K · N, or so many per element."""
    if kernel.flop is not None:
        return kernel.flop
    if kernel.kind == "gemm":
        return 2 * kernel.outer * kernel.M * kernel.K * kernel.N
    return kernel.outer * kernel.M * kernel.N * kernel.flop_per_element


def output_bytes(kernel: Kernel, instance: DataflowInstance) -> Fraction:
    """Bytes of a micro-batch's whole output: outer · M · N words per sample (weight updates: once)."""
    workload, stated = instance.workload, kernel.output_bytes
    if stated is None:
        stated = kernel.outer * kernel.M * kernel.N * workload.word_bytes
    samples = 1 if kernel.update else instance.task.samples
    return stated * samples * scaled(workload, output_format(kernel, workload))


def statistics_bytes(kernel: Kernel, instance: DataflowInstance) -> Fraction:
    """Bytes of a micro-batch's sums over the rows of each column: statistics · outer · N words per sample."""
    words = kernel.statistics * kernel.outer * kernel.N * instance.workload.word_bytes
    return words * instance.task.samples * scaled(instance.workload, instance.workload.activation_format)


def weight_bytes(kernel: Kernel, instance: DataflowInstance) -> Fraction:
    """Bytes of the kernel's parameters that a scheme divides, outer · M · K words of a gemm with weights."""
    workload, stated = instance.workload, kernel.weight_bytes
    if stated is None:
        stated = kernel.outer * kernel.M * kernel.K * workload.word_bytes if kernel.weights else 0
    return stated * scaled(workload, workload.weight_format)


def whole_bytes(kernel: Kernel, instance: DataflowInstance) -> Fraction:
    """Bytes of the kernel's parameters that every chip needs."""
    return kernel.whole_bytes * scaled(instance.workload, instance.workload.weight_format)


def table_bytes(kernel: Kernel, instance: DataflowInstance) -> Fraction:
    """Bytes of the table of which the kernel fetches rows."""
    return kernel.table_bytes * scaled(instance.workload, instance.workload.weight_format)


def fetch_bytes(kernel: Kernel, instance: DataflowInstance) -> Fraction:
    """Bytes per sample that the kernel fetches beside weights and tensors, a KV cache or rows of its table."""
    return kernel.fetch_bytes * scaled(instance.workload, fetched_format(kernel, instance.workload))


def exchange_bytes(kernel: Kernel, instance: DataflowInstance) -> Fraction:
    """Bytes per sample that the kernel sends to all chips of its stage: activations."""
    return kernel.exchange_bytes * scaled(instance.workload, instance.workload.activation_format)


def chip_weights(kernel: Kernel, instance: DataflowInstance, share: Fraction) -> Fraction:
    """Bytes of the kernel's parameters on a chip that has this share of those that a scheme divides."""
    return weight_bytes(kernel, instance) * share + whole_bytes(kernel, instance)


def touched(kernel: Kernel, instance: DataflowInstance, replicas: int = 1) -> Fraction:
    """The part of the experts' weights that the micro-batches of so many replicas, t tokens in all, are expected to
    use, rounded up to 10⁻⁹.

    Each token chooses ``active`` = k of ``experts`` = E, all alike likely: 1 - (1 - k/E)ᵗ (page, "Routing").
    """
    if not kernel.experts:
        return Fraction(1)
    tokens, idle = instance.workload.tokens * instance.task.samples * replicas, kernel.experts - kernel.active
    if tokens * kernel.active > 21 * kernel.experts:  # (1 - k/E)ᵗ < exp(-tk/E) < 10⁻⁹
        return Fraction(1)
    billion = 10**9
    return Fraction(billion - billion * idle**tokens // kernel.experts**tokens, billion)


def read_weights(kernel: Kernel, instance: DataflowInstance, share: Fraction, replicas: int = 1) -> Fraction:
    """Bytes of parameters that a chip with this share reads per micro-batch (of each of ``replicas`` that it computes
    for): of experts those that tokens use."""
    used = weight_bytes(kernel, instance) * share * touched(kernel, instance, replicas)
    return used + whole_bytes(kernel, instance)


def parameter_bytes(kernel: Kernel, instance: DataflowInstance) -> Fraction:
    """Bytes of all parameters of the kernel, tables included."""
    return weight_bytes(kernel, instance) + whole_bytes(kernel, instance) + table_bytes(kernel, instance)
