"""At which rate a chip computes a kernel, and how many bytes numbers take (``docs/families/dataflow-machines.md``)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from chipmap.instances.dataflow.formats import BITS, Format
from chipmap.instances.dataflow.system import Chip, Memory
from chipmap.instances.dataflow.workload import Kernel, Workload
from chipmap.records.decimals import exact


def number_bytes(workload: Workload, named: Format) -> Fraction:
    """Bytes of a number of this format; those of the workload's words where none is named."""
    return Fraction(BITS[named], 8) if named else Fraction(workload.word_bytes)


def scaled(workload: Workload, named: Format) -> Fraction:
    """How many bytes stand for each byte that the workload states: bytes of the format over those of its words."""
    return number_bytes(workload, named) / workload.word_bytes


def fetched_format(kernel: Kernel, workload: Workload) -> Format:
    """The format of what a kernel fetches: rows of its table, or else a KV cache."""
    return workload.weight_format if kernel.table_bytes else workload.cache_format


def output_format(kernel: Kernel, workload: Workload) -> Format:
    """The format of a kernel's output: gradients of weights are stored as these."""
    return workload.weight_format if kernel.update else workload.activation_format


def computing_format(kernel: Kernel, workload: Workload) -> Format:
    """The widest format of what a kernel computes with: activations, its parameters, what it fetches; of equally wide
    ones the first of these."""
    formats = [workload.activation_format]
    if kernel.weights or kernel.weight_bytes or kernel.whole_bytes:
        formats.append(workload.weight_format)
    if kernel.fetch_bytes:
        formats.append(fetched_format(kernel, workload))
    return max(formats, key=lambda one: number_bytes(workload, one))


def peak_rate(chip: Chip) -> Fraction:
    """FLOP per nanosecond of the chip's one peak, exactly as it is written."""
    if chip.tflops is not None:
        return 1000 * exact(chip.tflops)
    return 2 * chip.tiles * chip.lanes * chip.stages * exact(chip.ghz)


def dram_rate(memory: Memory) -> Fraction:
    """Bytes per nanosecond that transfers from and to DRAM reach, exactly as it is written."""
    return exact(memory.bytes_per_ns) * exact(memory.efficiency)


def peak(kernel: Kernel, workload: Workload, chip: Chip) -> Fraction:
    """FLOP per nanosecond at which ``chip`` computes the kernel at best.

    Those of its vector units for element-wise kernels, where it has any; else the peak of the format in which the
    kernel computes, if the chip states peaks by format; else its one peak. An instance's check has seen to it that the
    chip has the format.
    """
    if kernel.kind == "elementwise" and chip.vector_tflops is not None:
        return 1000 * exact(chip.vector_tflops)
    named = computing_format(kernel, workload) if chip.peaks else ""
    return 1000 * exact(chip.peaks[named]) if named else peak_rate(chip)


def of_attention(kernel: Kernel, chip: Chip) -> Sequence[tuple[float, float]]:
    """The chip's lines for a product of two activations, those with a KV cache or others; none for other kernels."""
    if kernel.kind != "gemm" or kernel.weights or kernel.update:
        return ()
    return chip.attention_cached if kernel.fetch_bytes else chip.attention


def share_at(table: Sequence[tuple[float, float]], amount: Fraction) -> Fraction:
    """The share of the last line that asks for no more than ``amount``, or else of the first; 1 without lines."""
    reached = [share for least, share in table if exact(least) <= amount]
    return exact(reached[-1] if reached else table[0][1]) if table else Fraction(1)


def efficiency(kernel: Kernel, chip: Chip, flop: Fraction) -> Fraction:
    """The share of the peak that a kernel of so many FLOP on a chip reaches: the last line of ``chip.efficiency`` that
    asks for no more FLOP, or else the first (of products of two activations that of the chip's own lines); of a
    kernel that isn't computed in the chip's blocks that of the best block."""
    if kernel.kind == "elementwise":
        return Fraction(1)
    if lines := of_attention(kernel, chip):
        return share_at(lines, flop)
    return best_block(chip) if chip.blocks else share_at(chip.efficiency, flop)


def fetch_rate(kernel: Kernel, workload: Workload, memory: Memory, fetched: Fraction) -> Fraction:
    """Bytes per nanosecond at which a kernel reads so many bytes that it fetches: of a KV cache by
    ``memory.fetch_efficiency`` of its format, or else of any other; rows of tables as all transfers."""
    tables = {} if kernel.table_bytes else memory.fetch_efficiency
    return dram_rate(memory) * share_at(tables.get(workload.cache_format, tables.get("", ())), fetched)


def best_rate(kernel: Kernel, workload: Workload, chip: Chip) -> Fraction:
    """FLOP per nanosecond that no share of the kernel exceeds."""
    shares = [share for _, share in chip.efficiency] or [share for *_, share in chip.blocks]
    shares = [share for _, share in of_attention(kernel, chip)] or shares
    most = max(map(exact, shares)) if shares and kernel.kind != "elementwise" else Fraction(1)
    return peak(kernel, workload, chip) * most


def best_block(chip: Chip) -> Fraction:
    """The largest share of the peak that one of the chip's blocks reaches."""
    return max(exact(share) for _, _, share in chip.blocks)


def missing_formats(kernels: Iterable[Kernel], workload: Workload, chip: Chip) -> list[tuple[str, Format]]:
    """(name of a kernel, format) for each format in which kernels compute and of which ``chip`` states no peak."""
    found: dict[Format, str] = {}
    for kernel in kernels if chip.peaks else ():
        named = computing_format(kernel, workload)
        vector = kernel.kind == "elementwise" and chip.vector_tflops is not None
        if named and named not in chip.peaks and not vector:
            found.setdefault(named, kernel.name)
    return [(name, named) for named, name in found.items()]
