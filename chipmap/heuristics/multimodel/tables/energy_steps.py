"""The compiled end of the tables (:mod:`chipmap.heuristics.multimodel.tables.ranges`): where energy falls as windows
get longer.

A signature of d + 1 types has ranges of at least d + 1 layers. So what belongs to ranges that are shorter isn't
written, and isn't read.
"""

from __future__ import annotations

from typing import NamedTuple

from chipmap.heuristics.multimodel.tables.kernel import NONE, WIDE, WindowCosts
from chipmap.instances.multimodel.problem import FloatArray, IntArray
from chipmap.kernels import njit
from chipmap.kernels.arrays import float_table, integers


class _EnergyFall(NamedTuple):
    """The least energy of the ranges that end with a layer, by their start: ``best`` [WIDE, cells of windows], known in
    the cells from ``lowest`` to ``highest`` [WIDE]. ``hint`` [WIDE] is the cell where the last search ended."""

    best: FloatArray
    lowest: IntArray
    highest: IntArray
    hint: IntArray


@njit(part=True)
def _lower(end: FloatArray, h: int, j: int, v: int, base: float, window: WindowCosts, fall: _EnergyFall) -> None:
    """Let ``fall`` know of the range's energies in cell ``h``, whose Lat is ``base`` more than its time."""
    best, windows, size = fall.best, len(window.edges) - 1, end.shape[2] // WIDE
    t, lat = fall.hint[v], end[h, j, v] + base
    least = end[h, j, WIDE + v] if size > 1 else lat
    while t < windows and window.edges[t + 1] < lat:
        t += 1
    while t > 0 and window.edges[t] >= lat:
        t -= 1
    fall.hint[v] = t
    if t >= windows or best[v, t] <= least:
        return
    fall.lowest[v] = min(fall.lowest[v], t)
    while True:
        spare = window.edges[t + 1] - base
        value = least
        for w in range(size - 2):
            value = max(value, end[h, j, (2 + w) * WIDE + v] - window.rates[w] * spare)
        best[v, t] = min(best[v, t], value)
        if value <= least or t + 1 >= windows:
            break
        t += 1
    fall.highest[v] = max(fall.highest[v], t)


@njit(cache=True, nogil=True)
def steps(
    end: FloatArray,
    low: FloatArray,
    slow: FloatArray,
    stops: IntArray,
    chosen: tuple[int, int, bool],
    ends: FloatArray,
    window: WindowCosts,
    reach: tuple[FloatArray, FloatArray],
    offsets: IntArray,
    cell: IntArray,
    energy: FloatArray,
) -> int:
    """Turn ``end`` [cells, L, lanes] into steps (cell of windows, energy) of each range (last, first layer).

    They stand where energy falls below that of shorter windows, and of a signature without the last segment
    (``reach[0]`` [L, WIDE, cells of windows]); ``reach[1]`` becomes the least of both. M is at least ``low`` in its
    cell, and at least ``slow`` [L, WIDE]. With the criterion of time alone, steps hold Lat in place of energy.
    ``chosen``: the first start, segments before the last one, and whether only all layers matter. Number of steps; -1
    where there is no room.
    """
    start, depth, whole = chosen
    cells, layers = end.shape[0], end.shape[1]
    windows = len(window.edges) - 1
    best, limits, left = float_table(WIDE, windows, NONE), reach[0], reach[1]
    fall = _EnergyFall(best, integers(WIDE, windows), integers(WIDE, -1), integers(WIDE, 0))
    furthest = 0
    for h in range(cells):
        furthest = max(furthest, stops[h])
    count = 0
    for j in range(layers):
        wide = min(WIDE, j - start - depth + 1) if j < furthest else 0
        if whole:
            wide = min(wide, 1) if j == layers - 1 else 0
        for h in range(cells):
            if j >= stops[h]:
                continue
            for v in range(wide):
                if end[h, j, v] >= NONE / 2 or low[h, j, v] > ends[h + 1]:
                    continue
                base = window.weight[j + 1] - window.weight[start + v]
                if window.more > 0:
                    base += window.more * max(low[h, j, v], slow[j, v])
                _lower(end, h, j, v, base, window, fall)
        for v in range(WIDE):
            offsets[j * WIDE + v] = count
            if v >= wide:
                continue
            known, lowest, highest = NONE, fall.lowest[v], fall.highest[v]
            for t in range(min(lowest, windows)):
                left[j, v, t] = limits[j, v, t]
            for t in range(lowest, highest + 1):
                limit, value = limits[j, v, t], best[v, t]
                if value < known:
                    known = value
                    if known < limit:
                        if count >= len(cell):
                            return -1
                        cell[count], energy[count] = t, known
                        count += 1
                best[v, t] = NONE
                left[j, v, t] = limit if limit < known else known
            for t in range(max(lowest, highest + 1), windows):
                limit = limits[j, v, t]
                left[j, v, t] = limit if limit < known else known
            fall.lowest[v], fall.highest[v] = windows, -1
    offsets[layers * WIDE] = count
    return count
