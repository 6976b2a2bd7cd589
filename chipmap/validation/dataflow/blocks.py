"""What the page says about blocks ("Blocks" of ``docs/families/dataflow-machines.md``), written from it alone."""

from __future__ import annotations

from fractions import Fraction

from chipmap.instances.dataflow.instance import DataflowInstance, Degrees
from chipmap.instances.dataflow.workload import Kernel, Scheme
from chipmap.validation.dataflow import facts, grids, grouped
from chipmap.validation.decimals import written


def _up(amount: Fraction | int, size: int = 1) -> int:
    """So many sizes hold the amount."""
    return int(-(-amount // size))


def flop(kernel: Kernel, scheme: Scheme, instance: DataflowInstance, degrees: Degrees) -> Fraction:
    """FLOP at the whole peak in the time of the product on a chip: the least over the blocks that the chip lists."""
    chip, (count, rows, columns, terms) = instance.system.chip, _products(kernel, scheme, instance, degrees)
    every = []
    for height, width, part in chip.blocks:
        rounds = _up(count * _up(rows, height) * _up(columns, width), chip.units)
        every.append(2 * height * width * (terms + chip.block_start) * rounds * chip.units / written(part))
    return min(every)


def _products(
    kernel: Kernel, scheme: Scheme, instance: DataflowInstance, degrees: Degrees
) -> tuple[int, int, int, int]:
    """How many products a chip has, and rows, columns and terms of each, as they are all alike."""
    share, samples = facts.share(kernel, scheme, instance, degrees), instance.task.samples
    height, width, terms = kernel.outer * kernel.M, kernel.N, kernel.K
    times = 1
    if scheme in grouped.GROUPED:
        heads, part = kernel.outer // grouped.groups(kernel, degrees), grouped.within(kernel, scheme, degrees)
        rows, terms = (_up(kernel.M * part), terms) if scheme == "OUTER_M" else (kernel.M, _up(terms * part))
        return (heads * samples, rows, width, terms) if kernel.outer > 1 else (1, rows, width * samples, terms)
    if scheme == "B":
        samples = _up(samples * share)
    if kernel.update:
        terms *= samples
    elif kernel.outer > 1:
        times = samples
    else:
        width *= samples
    if scheme in grids.PRODUCTS:
        height = _up(height * grids.rows(kernel, scheme, instance, degrees))
        terms = _up(terms * grids.terms(kernel, scheme, instance, degrees))
    match scheme:
        case "OUTER" | "M":
            height = _up(height * share)
        case "N":
            width = _up(width * share)
        case "K" | "K_RS" | "K_N":
            terms = _up(terms * share)
        case "E" if kernel.update:
            terms = _up(terms * share)
        case "E":
            width = _up(width * share)
    heads = _up(height, kernel.M)
    if kernel.experts:
        here = _up(kernel.experts * facts.own_experts(kernel, degrees)) if scheme == "E" else kernel.experts
        times *= here
        width, terms = (width, _up(terms, here)) if kernel.update else (_up(width, here), terms)
    return heads * times, _up(height, heads), width, terms
