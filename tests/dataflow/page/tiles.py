"""How kernels share the tiles of a chip: ``docs/families/dataflow-tiles.md``, "Tiles"."""

from __future__ import annotations

import math
from fractions import Fraction

from chipmap.instances.dataflow.workload import Kernel
from tests.dataflow.page import amounts
from tests.dataflow.page.amounts import PageCase

#: (tiles, cycles) of a kernel.
Pair = tuple[int, int]


def _up(count: Fraction | int, parts: int) -> int:
    return math.ceil(Fraction(count) / parts)


def sizes(case: PageCase, kernel: Kernel, scheme: str) -> tuple[int, int, int]:
    """Rows, columns and cycles of the page's table, on one chip."""
    chip, task, workload = case.instance.system.chip, case.instance.task, case.instance.workload
    wide, high, part = chip.lanes, chip.stages, amounts.share(case, kernel, scheme)
    if kernel.kind == "opaque":
        return _up(amounts.flop(kernel) * case.b * part, 2 * wide * high), 1, 1
    b = int(case.b * part) if scheme == "B" else case.b
    rows, columns, inner = Fraction(kernel.outer * kernel.M), Fraction(kernel.N), Fraction(kernel.K)
    if scheme in ("M_K", "K_M"):
        by_rows, by_terms = amounts.on_grid(case, scheme)
        rows, inner = Fraction(math.ceil(rows / by_rows)), Fraction(math.ceil(inner / by_terms))
    if scheme in ("OUTER", "M", "OUTER_M", "M_T"):
        rows *= part
    if scheme == "OUTER_K":
        g, t = amounts.groups(case, kernel)
        rows, inner = rows / g, Fraction(math.ceil(Fraction(kernel.K, t)))
    if scheme == "N" or (scheme == "E" and not kernel.update):
        columns *= part
    if scheme in ("K", "K_RS", "K_N") or (scheme == "E" and kernel.update):
        inner *= part
    lines, n, k = _up(math.ceil(rows), wide), math.ceil(columns), math.ceil(inner)
    if kernel.kind == "elementwise":
        return lines, 1, n * b * max(1, _up(kernel.flop_per_element, 2 * high))
    if kernel.update:
        return lines, _up(n, high), k * case.b
    r = _up(workload.tokens, task.tile_tokens)
    return lines, _up(_up(n, r), high), r * k * b


def choices(case: PageCase, kernel: Kernel, scheme: str) -> list[Pair]:
    """Every way to lay a kernel on l lanes and s stages of tiles; none has more than the chip."""
    rows, columns, cycles = sizes(case, kernel, scheme)
    most, best = case.instance.system.chip.tiles, dict[int, int]()
    for s in range(1, min(max(columns, 1), most) + 1):
        for lanes in range(1, min(max(rows, 1), most // s) + 1):
            took = _up(rows, lanes) * _up(columns, s) * cycles
            best[took] = min(best.get(took, lanes * s), lanes * s)
    return sorted((tiles, took) for took, tiles in best.items())


def compute(case: PageCase, kernels: list[tuple[Kernel, str]]) -> int | None:
    """Ticks of a partition's kernels side by side; None where they are more than the tiles (C7)."""
    chip = case.instance.system.chip
    if len(kernels) > chip.tiles:
        return None
    laid = [choices(case, *one) for one in kernels]
    for limit in sorted({took for one in laid for _, took in one}):
        fewest = [min((tiles for tiles, took in one if took <= limit), default=None) for one in laid]
        if None not in fewest and sum(one or 0 for one in fewest) <= chip.tiles:
            return amounts.ticks(limit / amounts.written(chip.ghz))
    raise AssertionError("one tile each is always enough")
