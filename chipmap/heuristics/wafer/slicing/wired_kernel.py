"""The compiled program of wired cuts: for every run of an order and every height one slicing floorplan, by its cost.

A floorplan of a run costs its area times a price, its wires, and what its two ends lie away from its sides. Lengths of
wires and coordinates of centres are in half tiles, from the lower left corner of the run's rectangle.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.heuristics.wafer.slicing.kernel import NONE, SideArray
from chipmap.instances.wafer.problem import IntArray
from chipmap.kernels import njit
from chipmap.kernels.arrays import float_table

FloatArray = NDArray[np.float64]
#: More than any floorplan costs.
INFINITE = 1e300
#: Half tiles of a coordinate at most.
FARTHEST = 32_000
#: Rows of the scratch tables of whole numbers: the width, then first and last kernel each with x, y and option.
WIDTH, FIRST, LAST, ROWS = 0, 1, 4, 7


class Wired(NamedTuple):
    """What the program knows of the kernels, in their order.

    ``leaves`` [n, L + 1] the least width within each height; ``option`` [n, L + 1] and ``arguments`` [options, 3] by
    which execution, as h, w and c; ``near`` [n - 1] the edges between a kernel and the next; ``between``
    [n + 1, n + 1] the number of edges from a kernel below the first index to one below the second.
    """

    leaves: SideArray
    option: NDArray[np.int16]
    arguments: IntArray
    near: IntArray
    between: IntArray


class Runs(NamedTuple):
    """One floorplan per run and slot. Row :func:`row` is the run of s kernels from i on; slot g is g · step tiles high.

    ``width`` [rows, slots] in tiles; ``wire`` [rows, slots] half tiles; ``ends`` [rows, 6, slots] x, y and option of
    the first kernel and of the last; ``cut`` [rows, slots] kernels before the cut of a floorplan in two parts side by
    side; ``source`` [rows, slots] the slot that it was cut in, negative where it is turned since.
    """

    width: SideArray
    wire: NDArray[np.float32]
    ends: NDArray[np.int16]
    cut: NDArray[np.int16]
    source: NDArray[np.int16]


@njit(part=True)
def row(n: int, i: int, s: int) -> int:
    """Where the run of ``s`` kernels from ``i`` on stands."""
    return (s - 1) * n - (s - 1) * (s - 2) // 2 + i


@njit(part=True)
def _differ(arguments: IntArray, a: int, b: int) -> int:
    """How many of h, w and c two executions have unlike."""
    count = 0
    for k in range(3):
        if arguments[a, k] != arguments[b, k]:
            count += 1
    return count


@njit(part=True)
def _near_side(x: int, y: int, width: int, height: int) -> int:
    """Half tiles from a centre to the nearest side of its rectangle."""
    return min(min(x, 2 * width - x), min(y, 2 * height - y))


@njit(part=True)
def _leaves(wired: Wired, runs: Runs, step: int) -> None:
    for i in range(len(wired.leaves)):
        for g in range(runs.width.shape[1]):
            h = g * step
            wide = wired.leaves[i, h]
            runs.width[i, g], runs.wire[i, g], runs.source[i, g] = wide, 0, g
            for end in range(0, 6, 3):
                runs.ends[i, end, g], runs.ends[i, end + 1, g] = min(wide, FARTHEST), h
                runs.ends[i, end + 2, g] = wired.option[i, h]


@njit(part=True)
def _join(
    wired: Wired,
    runs: Runs,
    run: tuple[int, int],
    prices: tuple[float, float],
    step: int,
    found: NDArray[np.int32],
    cost: FloatArray,
) -> None:
    """Into ``found`` [ROWS, slots] and ``cost`` [2, slots] (cost, wire): the best two parts side by side of each slot,
    of the kernels from run[0] to run[1] - 1."""
    i, j = run
    n, slots = len(wired.leaves), found.shape[1]
    most = (slots - 1) * step
    cut, arguments = runs.cut[row(n, i, j - i)], wired.arguments
    price = prices[0]
    begins, stops = 1.0 if i > 0 else 0.0, 1.0 if j < n else 0.0
    for m in range(i + 1, j):
        a, b, near = row(n, i, m - i), row(n, m, j - m), wired.near[m - 1]
        far = wired.between[m, j] - wired.between[i, j] - wired.between[m, m] + wired.between[i, m] - near
        adapter = near * prices[1]
        widths, others, wires, more = runs.width[a], runs.width[b], runs.wire[a], runs.wire[b]
        left, right = runs.ends[a], runs.ends[b]
        for g in range(1, slots):
            wa, wb, h = np.int64(widths[g]), np.int64(others[g]), g * step
            w = wa + wb
            if w > most:
                continue
            area, line = price * (w * h), wires[g] + more[g] + far * w
            if area + line >= cost[0, g]:
                continue
            xa, ya, xb, yb = np.int64(left[3, g]), np.int64(left[4, g]), np.int64(right[0, g]), np.int64(right[1, g])
            straight, turned = abs(ya - yb), abs(ya + yb - 2 * h)
            line += near * (min(xa, 2 * wa - xa) + min(xb, 2 * wb - xb) + min(straight, turned))
            if adapter > 0:
                line += adapter * _differ(arguments, left[5, g], right[2, g])
            xf = np.int64(left[0, g]) if xa >= wa else 2 * wa - left[0, g]
            xl = 2 * wa + (right[3, g] if xb <= wb else 2 * wb - right[3, g])
            yf, yl = np.int64(left[1, g]), np.int64(right[4, g])
            if straight > turned:
                yl = 2 * h - yl
            total = area + line + begins * _near_side(xf, yf, w, h) + stops * _near_side(xl, yl, w, h)
            if total < cost[0, g]:
                cost[0, g], cost[1, g], cut[g], found[WIDTH, g] = total, line, m - i, w
                found[FIRST, g], found[FIRST + 1, g], found[FIRST + 2, g] = xf, yf, left[2, g]
                found[LAST, g], found[LAST + 1, g], found[LAST + 2, g] = xl, yl, right[5, g]


@njit(part=True)
def _settle(runs: Runs, ours: int, price: float, step: int, found: NDArray[np.int32], cost: FloatArray) -> None:
    """The best floorplan of every slot: as it was cut, turned, or that of a lower slot."""
    slots = found.shape[1]
    width, wire, source, ends, least = runs.width[ours], runs.wire[ours], runs.source[ours], runs.ends[ours], cost[2]
    for g in range(slots):
        least[g], width[g], wire[g], source[g] = cost[0, g], found[WIDTH, g], cost[1, g], g
        for end in range(6):
            ends[end, g] = found[FIRST + end, g]
    for g in range(1, slots):
        wide = found[WIDTH, g]
        t = -(-wide // step)
        if t >= slots:
            continue
        total = cost[0, g] + price * (t * step - wide) * g * step
        if total < least[t]:
            least[t], width[t], wire[t], source[t] = total, g * step, cost[1, g], -g
            for end in range(0, 6, 3):
                ends[end, t] = found[FIRST + end + 1, g]
                ends[end + 1, t] = found[FIRST + end, g] + t * step - wide
                ends[end + 2, t] = found[FIRST + end + 2, g]
    for g in range(2, slots):
        if width[g - 1] >= NONE:
            continue
        total = least[g - 1] + price * width[g - 1] * step
        if total < least[g]:
            least[g], width[g], wire[g], source[g] = total, width[g - 1], wire[g - 1], source[g - 1]
            for end in range(6):
                ends[end, g] = ends[end, g - 1] + (step if end % 3 == 1 else 0)


@njit(cache=True, nogil=True)
def fill(
    wired: Wired, runs: Runs, price: float, adapter: float, step: int, first: int, end: int, found: NDArray[np.int32]
) -> None:
    """All runs of ``first`` to ``end`` - 1 kernels, shorter ones being there. ``price`` is half tiles of wire per tile
    of area, ``adapter`` per adapter; ``found`` [ROWS, slots] is room to work in."""
    n, slots = len(wired.leaves), runs.width.shape[1]
    if first <= 1:
        _leaves(wired, runs, step)
    cost = float_table(3, slots, INFINITE)
    for s in range(max(first, 2), end):
        for i in range(n - s + 1):
            for g in range(slots):
                cost[0, g], found[WIDTH, g] = INFINITE, NONE
            _join(wired, runs, (i, i + s), (price, adapter), step, found, cost)
            _settle(runs, row(n, i, s), price, step, found, cost)
