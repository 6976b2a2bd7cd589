"""How a partition's kernels share the tiles of a chip, where no utilisation is given: cycles on lane × stage tiles.

A tile is an array of W = ``chip.lanes`` times H = ``chip.stages`` multiply-adders. A kernel on l · s tiles has its rows
(of all heads) in W · l lanes and the columns of a tile of tokens in H · s stages; its K products run one after the
other. Source: DFModel, section V-B and its published model, after SCALE-Sim (Samajdar et al., 2020);
``docs/families/dataflow.md``, "Tiles".
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.instances.dataflow.instance import DataflowInstance, Degrees
from chipmap.instances.dataflow.parts import ON_GRID, grid, head_groups, parts
from chipmap.instances.dataflow.routed import routed
from chipmap.instances.dataflow.workload import Kernel, Scheme
from chipmap.records import InputError
from chipmap.records.decimals import exact

#: Rows (tiles, picoseconds), tiles rising and picoseconds falling: no other share is as small and as fast.
Shares = NDArray[np.int64]
#: Shares of one kernel that are listed at most; only kernels that state no rows and columns can have more.
MOST_SHARES = 20_000


class Shape(NamedTuple):
    """A kernel on one chip: ``rows`` blocks of W and ``columns`` blocks of H that may run side by side, and the cycles
    of one pair of them."""

    rows: int
    columns: int
    cycles: int


class Sharing(NamedTuple):
    """The shortest time in picoseconds in which kernels run side by side, and the tiles of each."""

    ticks: int
    tiles: tuple[int, ...]


def shape(kernel: Kernel, scheme: Scheme, instance: DataflowInstance, degrees: Degrees) -> Shape:
    """The blocks of ``kernel`` under ``scheme`` on one chip, for one micro-batch.

    With R = ⌈tokens / tile_tokens⌉ tiles of tokens: a gemm has ⌈rows/W⌉ blocks of rows, ⌈⌈N/R⌉/H⌉ of columns and
    R · K cycles a pair; a weight update has all its N columns at once, as its tokens are K, which E splits.
    An element-wise kernel has no columns, and N · ⌈FLOP per element / 2H⌉ cycles for a block of rows, at least N. An
    opaque kernel has a block for every cycle of one tile: it can be split at will.
    """
    chip, task = instance.system.chip, instance.task
    share = parts(kernel, scheme, instance.mode, degrees.tensor, routed(instance, degrees)).work
    samples = math.ceil(task.samples * share) if scheme == "B" else task.samples
    if kernel.kind == "opaque":
        work = (kernel.flop or 0) * task.samples * share
        return Shape(math.ceil(work / (2 * chip.lanes * chip.stages)), 1, 1)
    of_rows = share if scheme in ("OUTER", "M", "OUTER_M") else Fraction(1)
    of_rows = Fraction(1, head_groups(kernel, degrees.tensor)) if scheme == "OUTER_K" else of_rows
    if scheme in ON_GRID:
        by_rows, by_terms = grid(scheme, degrees.tensor, routed(instance, degrees).last)
        lines = -(-kernel.outer * kernel.M // (by_rows if scheme != "M_T" else degrees.tensor))
        of_rows, share = Fraction(lines, kernel.outer * kernel.M), Fraction(-(-kernel.K // by_terms), max(kernel.K, 1))
    blocks = _up(math.ceil(kernel.outer * kernel.M * of_rows), chip.lanes)
    columns = math.ceil(kernel.N * (share if scheme == "N" or (scheme == "E" and not kernel.update) else 1))
    if kernel.kind == "elementwise":
        passes = max(1, _up(kernel.flop_per_element, 2 * chip.stages))
        return Shape(blocks, 1, columns * passes * samples)
    rounds = 1 if kernel.update else _up(instance.workload.tokens, task.tile_tokens)
    inner = math.ceil(kernel.K * (share if scheme in ("K", "K_RS", "K_N") or (scheme == "E" and kernel.update) else 1))
    inner = math.ceil(kernel.K * share / of_rows) if scheme == "OUTER_K" else inner
    inner = math.ceil(kernel.K * share) if scheme in ON_GRID else inner
    return Shape(blocks, _up(_up(columns, rounds), chip.stages), rounds * inner * samples)


def shares(kernel: Kernel, scheme: Scheme, instance: DataflowInstance, degrees: Degrees) -> Shares:
    """All Pareto-minimal (tiles, picoseconds) of ``kernel``: ⌈rows/l⌉ · ⌈columns/s⌉ · cycles on l · s tiles."""
    one, chip = shape(kernel, scheme, instance, degrees), instance.system.chip
    whole = one.rows * one.columns * one.cycles
    if whole >= 2**62:
        what = f"kernel {kernel.name!r} takes {whole:.3g} cycles of a tile"
        raise InputError(what, "workload.kernels", "Numbers of a kernel must stay below 4e18.")
    listed = _listed(one, chip.tiles, exact(chip.ghz))
    if len(listed) > MOST_SHARES:
        what = f"kernel {kernel.name!r} can have more than {MOST_SHARES:,} different numbers of tiles"
        raise InputError(what, "task.utilisation", "Give a utilisation, or the kernel's rows and columns.")
    return listed


@lru_cache(maxsize=4096)
def _listed(one: Shape, tiles: int, ghz: Fraction) -> Shares:
    lanes, stages = _steps(one.rows, tiles), _steps(one.columns, tiles)
    counts = np.multiply.outer(lanes[:, 0], stages[:, 0]).ravel()
    cycles = np.multiply.outer(lanes[:, 1], stages[:, 1] * one.cycles).ravel()
    order = np.lexsort((cycles, counts))
    order = order[counts[order] <= tiles]
    before = np.minimum.accumulate(np.append(2**62, cycles[order]))[:-1]
    order = order[cycles[order] < before]
    pairs = np.stack((counts[order], cycles[order]), axis=1).tolist()
    times = [min(math.ceil(some * 1000 / ghz), 2**62) for _, some in pairs]
    falls = [(pair[0], time) for pair, time, last in zip(pairs, times, [-1, *times], strict=False) if time != last]
    return np.array(falls, dtype=np.int64)


def _up(amount: int, parts: int) -> int:
    return -(-amount // parts)


def _steps(blocks: int, most: int) -> NDArray[np.int64]:
    """Rows (ways, ⌈blocks / ways⌉) with fewest ways for each number of rounds, up to ``most`` ways."""
    steps, ways = list[tuple[int, int]](), 1
    while ways <= most:
        rounds = _up(blocks, ways)
        steps.append((ways, rounds))
        if rounds <= 1 or len(steps) > MOST_SHARES:
            break
        ways = _up(blocks, rounds - 1)
    return np.array(steps, dtype=np.int64)


def least_area(listed: Shares, tiles: int) -> int:
    """Picoseconds that a kernel takes of a chip at least, were its tile · time spread over all tiles: rounded down."""
    return min(count * time for count, time in listed.tolist()) // tiles


def thinned(listed: Sequence[Sequence[Shares]], tiles: int, copies: int) -> tuple[tuple[Shares, ...], ...]:
    """The lists [kernel][scheme] without shares that no partition needs.

    ``copies`` kernels in one partition can all have ⌊tiles / copies⌋ tiles, so that no partition's least time is above
    the longest of these; slower shares go.
    """
    each = max(1, tiles // copies)
    slowest = max(_time(one, each) for choice in listed for one in choice)
    return tuple(tuple(one[one[:, 1] <= slowest] for one in choice) for choice in listed)


def _time(listed: Shares, tiles: int) -> int:
    return int(listed[np.searchsorted(listed[:, 0], tiles, side="right") - 1, 1])


def sharing(listed: Sequence[Shares], tiles: int) -> Sharing | None:
    """The least time T with Σ (fewest tiles that take each kernel at most T) <= ``tiles``; None: more kernels than
    tiles. A search over all times in the lists."""
    times = np.unique(np.concatenate([one[:, 1] for one in listed])).tolist()

    def needed(time: int) -> list[int]:
        counts = []
        for one in listed:
            place = len(one) - np.searchsorted(one[::-1, 1], time, side="right")
            counts.append(int(one[place, 0]) if place < len(one) else tiles + 1)
        return counts

    first = bisect_left(times, -tiles, key=lambda time: -sum(needed(time)))
    return Sharing(times[first], tuple(needed(times[first]))) if first < len(times) else None
