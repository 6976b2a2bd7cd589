"""How the kernels of a partition share a chip's tiles, from the page ("Tiles") alone: plain arithmetic, no lists.

A kernel that may take so many cycles needs, with s tiles side by side along its columns, so many along its rows; the
least product over all s is what it needs. The partition's cycles are found by bisection.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from chipmap.instances.dataflow.instance import DataflowInstance, Degrees
from chipmap.instances.dataflow.workload import Kernel, Scheme
from chipmap.validation.dataflow import facts, grids, grouped
from chipmap.validation.dataflow.once import once
from chipmap.validation.decimals import written

#: Blocks of rows, blocks of columns, cycles of a pair.
Blocks = tuple[int, int, int]


def compute(instance: DataflowInstance, kernels: Sequence[tuple[Kernel, Scheme]], degrees: Degrees) -> int:
    """Picoseconds of a partition's kernels side by side (one after the other where they are more than the tiles)."""
    chip = instance.system.chip
    each = [blocks(kernel, scheme, instance, degrees) for kernel, scheme in kernels]
    cycles = least_cycles(each, chip.tiles)
    if cycles is None:
        cycles = sum(least_cycles([one], chip.tiles) or 0 for one in each)
    return facts.up(cycles / written(chip.ghz))


def utilisation(
    instance: DataflowInstance, kernels: Sequence[tuple[Kernel, Scheme]], degrees: Degrees, picoseconds: int
) -> float:
    """The share of the peak that a chip reaches while it computes: FLOP of its kernels / (peak · time)."""
    chip, samples = instance.system.chip, instance.task.samples
    flop = sum(
        facts.whole_flop(kernel) * samples * facts.share(kernel, scheme, instance, degrees)
        for kernel, scheme in kernels
    )
    peak = 2 * chip.tiles * chip.lanes * chip.stages * written(chip.ghz) * picoseconds / facts.PS
    return float(flop / peak) if picoseconds else 0.0


@once
def blocks(kernel: Kernel, scheme: Scheme, instance: DataflowInstance, degrees: Degrees) -> Blocks:
    """What of a kernel can run side by side on one chip, for a micro-batch."""
    chip, task = instance.system.chip, instance.task
    lanes, stages, samples = chip.lanes, chip.stages, task.samples
    part = facts.share(kernel, scheme, instance, degrees)
    if scheme == "B" and kernel.kind != "opaque":
        samples = math.ceil(samples * part)
    if kernel.kind == "opaque":
        return math.ceil(facts.whole_flop(kernel) * samples * part / (2 * lanes * stages)), 1, 1
    rows = kernel.outer * kernel.M
    if scheme in grids.PRODUCTS:
        rows = math.ceil(rows * grids.rows(kernel, scheme, instance, degrees))
        part = grids.terms(kernel, scheme, instance, degrees)
    if scheme in {"OUTER", "M", "OUTER_M", "M_T"}:
        rows = math.ceil(rows * part)
    if scheme == "OUTER_K":
        rows, part = rows // grouped.groups(kernel, degrees), grouped.within(kernel, scheme, degrees)
    tokens = scheme == "E"  # a weight update has them in K, all else in N
    columns = math.ceil(kernel.N * part) if scheme == "N" or (tokens and not kernel.update) else kernel.N
    if kernel.kind == "elementwise":
        passes = max(_up(kernel.flop_per_element, 2 * stages), 1)
        return _up(rows, lanes), 1, columns * passes * samples
    inner = (
        math.ceil(kernel.K * part)
        if scheme in {"K", "K_RS", "K_N", "OUTER_K", "M_K", "K_M"} or (tokens and kernel.update)
        else kernel.K
    )
    pieces = 1 if kernel.update else _up(instance.workload.tokens, task.tile_tokens)
    return _up(rows, lanes), _up(_up(columns, pieces), stages), inner * pieces * samples


def _up(amount: int, parts: int) -> int:
    return (amount + parts - 1) // parts


def least_cycles(kernels: Sequence[Blocks], tiles: int) -> int | None:
    """The fewest cycles in which all run side by side on ``tiles`` tiles; None: more kernels than tiles."""
    if len(kernels) > tiles:
        return None
    widths = [_widths(columns, tiles) for _, columns, _ in kernels]
    short, enough = -1, max(rows * columns * cycles for rows, columns, cycles in kernels)
    while enough - short > 1:
        middle = (short + enough) // 2
        demand = 0
        for one, choice in zip(kernels, widths, strict=True):
            demand += _tiles(one, choice, middle, tiles)
            if demand > tiles:
                break
        if demand <= tiles:
            enough = middle
        else:
            short = middle
    return enough


def _widths(columns: int, tiles: int) -> list[tuple[int, int]]:
    """(tiles along the columns, rounds): the fewest tiles for every number of rounds."""
    found: dict[int, int] = {}
    for width in range(1, min(columns, tiles) + 1):
        found.setdefault(_up(columns, width), width)
    return [(width, rounds) for rounds, width in found.items()] or [(1, 0)]


def _tiles(one: Blocks, widths: list[tuple[int, int]], most: int, tiles: int) -> int:
    """The fewest tiles with which a kernel takes at most ``most`` cycles; more than ``tiles`` where none do."""
    rows, _, cycles = one
    least = tiles + 1
    for width, rounds in widths:
        once = rounds * cycles
        if rows * once == 0:
            return 1
        turns = most // once
        if turns:
            least = min(least, width * _up(rows, turns))
    return least
