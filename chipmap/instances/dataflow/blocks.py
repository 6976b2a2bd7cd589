"""Products in blocks, as the units of a chip compute them (``docs/families/dataflow-machines.md``, "Blocks")."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

from chipmap.instances.dataflow.parts import BY_HEADS, ON_GRID, Parts, grid, head_groups
from chipmap.instances.dataflow.rates import of_attention
from chipmap.instances.dataflow.system import Chip
from chipmap.instances.dataflow.workload import Kernel, Scheme
from chipmap.records.decimals import exact


class ProductSizes(NamedTuple):
    """Equal products on a chip: how many, and of which each has ``rows`` × ``columns`` sums of ``inner`` terms."""

    products: int
    rows: int
    columns: int
    inner: int


def in_blocks(kernel: Kernel, chip: Chip) -> bool:
    """Whether the chip computes this kernel in blocks: a product that doesn't state its FLOP itself."""
    return bool(chip.blocks) and kernel.kind == "gemm" and kernel.flop is None and not of_attention(kernel, chip)


def product_sizes(
    kernel: Kernel, scheme: Scheme, own: Parts, samples: int, chips: int = 1, last: int = 1
) -> ProductSizes:
    """The products of a micro-batch that one chip has of ``kernel``, of which it has the share ``own.work``.

    Experts are products of their own, as are samples of a kernel with ``outer`` above 1; else samples are columns, and
    terms of an update's sums.
    """
    if scheme in ON_GRID:
        by_rows, by_terms = grid(scheme, chips, last)
        rows, inner = -(-kernel.outer * kernel.M // by_rows), -(-kernel.K // by_terms)
        count = -(-rows // kernel.M)
        columns, often = (kernel.N, samples) if kernel.outer > 1 else (kernel.N * samples, 1)
        return ProductSizes(count * often, -(-rows // count), columns, inner)
    if scheme in BY_HEADS:
        return _of_groups(kernel, scheme, own.work, samples, head_groups(kernel, chips))
    rows, share = kernel.outer * kernel.M, own.work
    samples = math.ceil(samples * share) if scheme == "B" else samples
    rows = math.ceil(rows * share) if scheme in ("OUTER", "M") else rows
    count = -(-rows // kernel.M)
    heads = kernel.outer > 1 and not kernel.update
    columns = kernel.N * (1 if heads or kernel.update else samples)
    columns = math.ceil(columns * share) if scheme == "N" or (scheme == "E" and not kernel.update) else columns
    inner = kernel.K * (samples if kernel.update else 1)
    inner = math.ceil(inner * share) if scheme.startswith("K") or (scheme == "E" and kernel.update) else inner
    experts = math.ceil(kernel.experts * (own.weights if scheme == "E" else 1))
    if experts and kernel.update:
        inner = -(-inner // experts)
    elif experts:
        columns = -(-columns // experts)
    each = -(-rows // count)
    return ProductSizes(count * max(1, experts) * (samples if heads else 1), each, columns, inner)


def _of_groups(kernel: Kernel, scheme: Scheme, share: Fraction, samples: int, groups: int) -> ProductSizes:
    """The same where groups of chips share out heads, and the chips of a group rows or terms of each head."""
    rows, inner = kernel.M, kernel.K
    if scheme == "OUTER_M":
        rows = math.ceil(rows * share * groups)
    else:
        inner = math.ceil(inner * share * groups)
    if kernel.outer == 1:
        return ProductSizes(1, rows, kernel.N * samples, inner)
    return ProductSizes(kernel.outer // groups * samples, rows, kernel.N, inner)


def block_flop(chip: Chip, one: ProductSizes) -> Fraction:
    """FLOP at the whole peak that take as long as the product does in the best of the chip's blocks.

    The b = products · ⌈rows / r⌉ · ⌈columns / c⌉ blocks of r × c sums take ⌈b / units⌉ rounds, and in each round every
    unit is busy for 2 · r · c · (inner + ``block_start``) FLOP at the block's share of the peak.
    """
    times = list[Fraction]()
    for rows, columns, share in chip.blocks:
        blocks = one.products * -(-one.rows // rows) * -(-one.columns // columns)
        rounds = -(-blocks // chip.units)
        times.append(rounds * chip.units * 2 * rows * columns * (one.inner + chip.block_start) / exact(share))
    return min(times)
