"""How fast a chip computes and reads, and how large numbers are, from the page ("Chips") alone."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from chipmap.instances.dataflow.instance import DataflowInstance
from chipmap.instances.dataflow.system import Chip, Dimension
from chipmap.instances.dataflow.workload import Kernel
from chipmap.validation.dataflow.once import once
from chipmap.validation.decimals import written

#: Bits of a number in memory, by format.
_BITS = {"fp64": 64, "fp32": 32, "tf32": 32, "bf16": 16, "fp16": 16, "fp8": 8, "int8": 8, "fp6": 6, "fp4": 4, "int4": 4}


def bits(instance: DataflowInstance, named: str) -> int:
    """Bits of a number of a format; without one those of a word of the workload."""
    return _BITS.get(named, 8 * instance.workload.word_bytes)


@once
def stored(instance: DataflowInstance, stated: int, named: str) -> Fraction:
    """Bytes that so many stated ones take: as many words, of the format's size each."""
    return Fraction(stated * bits(instance, named), 8 * instance.workload.word_bytes)


def of_weights(instance: DataflowInstance, stated: int) -> Fraction:
    """Bytes of parameters, tables and gradients that are stated as so many."""
    return stored(instance, stated, instance.workload.weight_format)


def of_activations(instance: DataflowInstance, stated: int) -> Fraction:
    """Bytes of activations that are stated as so many."""
    return stored(instance, stated, instance.workload.activation_format)


@once
def fetched(kernel: Kernel, instance: DataflowInstance) -> Fraction:
    """Bytes that a whole kernel fetches per sample: rows of its table, which are parameters, or a KV cache."""
    workload = instance.workload
    return stored(instance, kernel.fetch_bytes, workload.weight_format if kernel.table_bytes else workload.cache_format)


@once
def peak(kernel: Kernel, instance: DataflowInstance) -> Fraction:
    """FLOP per nanosecond: of the vector units for element-wise kernels; else the one peak, or the one of the widest
    format that the kernel computes with (activations before parameters before what it fetches)."""
    chip, workload = instance.system.chip, instance.workload
    if kernel.kind == "elementwise" and chip.vector_tflops is not None:
        return 1000 * written(chip.vector_tflops)
    widest = workload.activation_format
    others = []
    if kernel.weights or kernel.weight_bytes or kernel.whole_bytes:
        others.append(workload.weight_format)
    if kernel.fetch_bytes > 0:
        others.append(workload.weight_format if kernel.table_bytes else workload.cache_format)
    for one in others:
        if bits(instance, one) > bits(instance, widest):
            widest = one
    if chip.peaks and widest:
        return 1000 * written(chip.peaks[widest])
    if chip.tflops is not None:
        return 1000 * written(chip.tflops)
    return 2 * chip.tiles * chip.lanes * chip.stages * written(chip.ghz)


@once
def reached(kernel: Kernel, instance: DataflowInstance, flop: Fraction) -> Fraction:
    """The share of the peak at so many FLOP on a chip: that of the last line with no more of them, or the first's. With
    blocks: that of the best block, of kernels that aren't computed in these."""
    share = Fraction(1)
    chip = instance.system.chip
    if attention(kernel, chip):
        return _by_amount(attention(kernel, chip), flop)
    if kernel.kind != "elementwise":
        for i, (least, part) in enumerate(instance.system.chip.efficiency):
            if i == 0 or written(least) <= flop:
                share = written(part)
        for i, (_, _, part) in enumerate(instance.system.chip.blocks):
            share = max(share, written(part)) if i else written(part)
    return share


@once
def dram(instance: DataflowInstance) -> Fraction:
    """Bytes per nanosecond between a chip and its DRAM."""
    memory = instance.system.memory
    return written(memory.bytes_per_ns) * written(memory.efficiency)


def attention(kernel: Kernel, chip: Chip) -> Sequence[tuple[float, float]]:
    """The lines that the chip has for products of two activations, by whether they read a KV cache."""
    activations = kernel.kind == "gemm" and not (kernel.weights or kernel.update)
    return (chip.attention_cached if kernel.fetch_bytes else chip.attention) if activations else ()


def link(dimension: Dimension) -> Fraction:
    """Bytes per nanosecond that transfers reach in a dimension of the network."""
    return written(dimension.bytes_per_ns) * written(dimension.efficiency)


def of_cache(kernel: Kernel, instance: DataflowInstance, fetched: Fraction) -> Fraction:
    """The share of that rate at which a kernel reads the bytes of a KV cache, by the cache's format and their number;
    all of it for rows of tables."""
    lists = instance.system.memory.fetch_efficiency
    named = instance.workload.cache_format if instance.workload.cache_format in lists else ""
    return Fraction(1) if kernel.table_bytes else _by_amount(lists.get(named, ()), fetched)


def _by_amount(lines: Sequence[tuple[float, float]], amount: Fraction) -> Fraction:
    """The share in the last of the lines that begin at ``amount`` or below, else in the first; 1 where there is
    none."""
    share = Fraction(1)
    for i, (least, part) in enumerate(lines):
        if i == 0 or written(least) <= amount:
            share = written(part)
    return share
