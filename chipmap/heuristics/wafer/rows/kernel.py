"""Compiled parts of the row program: messages over execution arguments (h, w, c) along a chain of kernels.

A message is an array [2, grid]: the least cost (ticks) so far for each parity of a kernel's vertical extent and each
(h, w, c) that the next edge sees. Parity matters because centres lie on half tiles: two kernels centred on one line are
half a tile apart where one extent is odd and the other even.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chipmap.instances.wafer.problem import IntArray, least_k
from chipmap.instances.wafer.vectors import triples
from chipmap.kernels import njit
from chipmap.kernels.arrays import integer_table, integers, least_of

#: Larger than any cost, and small enough to be added a few times.
INF = 1 << 60


class Wire(NamedTuple):
    """What a wire costs where arguments differ (each) and where parities do, in ticks."""

    adapter: int
    half: int


class Grid(NamedTuple):
    """All (h, w, c) with h · w · (c + 1) <= limit, grouped by (h, w) and within a group by c = 1, 2, ….

    ``start`` [pairs + 1] are the groups' first entries; ``pairs`` [pairs, 2] their h and w; ``h``, ``w``, ``c`` [grid].
    """

    limit: int
    start: IntArray
    pairs: IntArray
    h: IntArray
    w: IntArray
    c: IntArray


def grid(limit: int) -> Grid:
    """The grid for a fabric whose longer side is ``limit`` tiles."""
    table = triples(limit)
    first = np.flatnonzero(table[:, 2] == 1)
    return Grid(limit, np.append(first, len(table)), table[first, :2], *np.ascontiguousarray(table.T))


@njit(cache=True, nogil=True)
def columns(convs: IntArray, h: IntArray, w: IntArray, c: IntArray, tau: int, memory: int) -> IntArray:
    """The least k [convolutions, grid] of each convolution of a kernel within ``tau`` quarters; 0 where none does."""
    table = integer_table(len(convs), len(h), 0)
    for i in range(len(convs)):
        for j in range(len(h)):
            table[i, j] = least_k(convs[i], h[j], w[j], c[j], tau, memory)
    return table


@njit(part=True)
def _project(message: IntArray, g: Grid) -> tuple[IntArray, IntArray, IntArray, IntArray, IntArray, IntArray, int]:
    side = g.limit + 1
    by_pair = integers(len(g.pairs), INF)
    by_hc, by_wc = integer_table(side // 2 + 1, side, INF), integer_table(side // 2 + 1, side, INF)
    by_h, by_w, by_c = integers(side, INF), integers(side, INF), integers(side, INF)
    for q in range(len(g.pairs)):
        h, w = g.pairs[q]
        for j in range(g.start[q], g.start[q + 1]):
            value, c = message[j], g.c[j]
            by_pair[q] = min(by_pair[q], value)
            by_hc[h, c] = min(by_hc[h, c], value)
            by_wc[w, c] = min(by_wc[w, c], value)
            by_c[c] = min(by_c[c], value)
        by_h[h] = min(by_h[h], by_pair[q])
        by_w[w] = min(by_w[w], by_pair[q])
    return by_pair, by_hc, by_wc, by_h, by_w, by_c, least_of(by_h)


@njit(part=True)
def _spread(message: IntArray, g: Grid, adapter: int) -> IntArray:
    """For each (h, w, c) the least of message(h', w', c') + adapter · number of arguments that differ."""
    by_pair, by_hc, by_wc, by_h, by_w, by_c, least = _project(message, g)
    out = integers(len(g.h), 0)
    for q in range(len(g.pairs)):
        h, w = g.pairs[q]
        common = min(by_pair[q] + adapter, min(by_h[h], by_w[w]) + 2 * adapter, least + 3 * adapter)
        for j in range(g.start[q], g.start[q + 1]):
            c = g.c[j]
            two = min(by_hc[h, c], by_wc[w, c]) + adapter
            out[j] = min(message[j], common, two, by_c[c] + 2 * adapter)
    return out


@njit(cache=True, nogil=True)
def edge_step(message: IntArray, g: Grid, wire: Wire) -> IntArray:
    """The message behind a wire."""
    out = integer_table(message.shape[0], message.shape[1], 0)
    even, odd = _spread(message[0], g, wire.adapter), _spread(message[1], g, wire.adapter)
    for j in range(len(even)):
        out[0, j] = min(even[j], odd[j] + wire.half)
        out[1, j] = min(odd[j], even[j] + wire.half)
    return out


class Strip(NamedTuple):
    """Where a kernel may lie: at most ``height`` tiles up and ``width`` tiles along its row, ``price`` ticks per tile.

    A choice that costs more than ``slack`` above the cheapest can't be of use to the next edge.
    """

    height: int
    width: int
    price: int
    slack: int


class Level(NamedTuple):
    """Choices of one (h, w) with the same largest c: Σ k <= ``budget`` at ``per_k`` ticks each plus ``fixed``."""

    highest: int
    budget: int
    per_k: int
    fixed: int


@njit(part=True)
def _inner(ks: IntArray, at: int) -> int:
    """Σ k of the convolutions between the first and the last at grid entry ``at``; -1 where one has none."""
    total = 0
    for i in range(1, len(ks) - 1):
        if ks[i, at] == 0:
            return -1
        total += ks[i, at]
    return total


@njit(part=True)
def _level(arrived: IntArray, ks: IntArray, start: int, level: Level, out: IntArray) -> None:
    """Adds a level's choices to ``out``: the last c rises, so its k falls and smaller first c become affordable."""
    inner = _inner(ks, start + level.highest - 1)
    if inner < 0:
        return
    last = len(ks) - 1
    if last == 0:
        j = start + level.highest - 1
        if 0 < ks[0, j] <= level.budget:
            out[j] = min(out[j], arrived[j] + level.fixed + level.per_k * ks[0, j])
        return
    best, lowest = INF, start + level.highest
    for j in range(start, start + level.highest):
        if ks[last, j] == 0:
            continue
        left = level.budget - inner - ks[last, j]
        while lowest > start and 0 < ks[0, lowest - 1] <= left:
            lowest -= 1
            best = min(best, arrived[lowest] + level.per_k * ks[0, lowest])
        if best < INF:
            out[j] = min(out[j], best + level.fixed + level.per_k * (inner + ks[last, j]))


@njit(part=True)
def upright(tiles: int, highest: int, strip: Strip) -> Level:
    """The level of an unrotated kernel: its width 3 Σ k lies along the row."""
    return Level(highest, strip.width // 3, 3 * strip.price, 0)


@njit(part=True)
def lying(tiles: int, highest: int, parity: int, strip: Strip) -> Level:
    """The level of a rotated kernel: its width 3 Σ k stands upright; k may be enlarged to reach either parity."""
    budget = strip.height // 3
    return Level(highest, budget - (budget + parity) % 2, 0, strip.price * tiles * (highest + 1))


@njit(part=True)
def upright_levels(tiles: int, entries: int, count: int, strip: Strip) -> tuple[int, int]:
    """Range of c_max (first, last) worth taking unrotated: all for one convolution, else the tallest of each parity."""
    top = min(strip.height // tiles - 1, entries)
    if count == 1:
        return 1, top
    return (max(top - 1, 1) if tiles % 2 else max(top, 1)), top


@njit(cache=True, nogil=True)
def node_step(arrived: IntArray, ks: IntArray, g: Grid, strip: Strip) -> IntArray:
    """The message after a kernel whose table :func:`columns` is ``ks``: its extent along the row is paid here."""
    out = integer_table(arrived.shape[0], arrived.shape[1], INF)
    for q in range(len(g.pairs)):
        start, tiles = g.start[q], g.pairs[q, 0] * g.pairs[q, 1]
        first, top = upright_levels(tiles, g.start[q + 1] - start, len(ks), strip)
        for highest in range(first, top + 1):
            parity = (tiles * (highest + 1)) % 2
            _level(arrived[parity], ks, start, upright(tiles, highest, strip), out[parity])
    floor = min(least_of(arrived[0]), least_of(arrived[1]))
    ceiling = min(least_of(out[0]), least_of(out[1])) + strip.slack
    for q in range(len(g.pairs)):
        start, tiles = g.start[q], g.pairs[q, 0] * g.pairs[q, 1]
        for highest in range(1, min(strip.width // tiles - 1, g.start[q + 1] - start) + 1):
            level = lying(tiles, highest, 0, strip)
            if floor + level.fixed > ceiling:
                break
            _level(arrived[0], ks, start, level, out[0])
            _level(arrived[1], ks, start, lying(tiles, highest, 1, strip), out[1])
    return out


@njit(part=True)
def _trace_level(arrived: IntArray, ks: IntArray, start: int, level: Level, j: int, value: int) -> int:
    """The first c of a level's choice whose last c is that of ``j`` and whose cost is ``value``; 0 where none is."""
    inner, last = _inner(ks, start + level.highest - 1), len(ks) - 1
    if inner < 0 or ks[last, j] == 0 or j >= start + level.highest:
        return 0
    for c in range(1, level.highest + 1):
        i = start + c - 1
        if ks[0, i] == 0 or (last == 0 and (i != j or c != level.highest)):
            continue
        total = ks[0, i] + (inner + ks[last, j] if last > 0 else 0)
        if total <= level.budget and arrived[i] + level.fixed + level.per_k * total == value:
            return c
    return 0


@njit(cache=True, nogil=True)
def trace_node(
    arrived: IntArray, ks: IntArray, g: Grid, strip: Strip, q: int, parity: int, j: int, value: int
) -> tuple[int, int, int]:
    """The choice (first c, largest c, rotated) that gave the message its ``value`` at ``parity`` and entry ``j``."""
    start, tiles, entries = g.start[q], g.pairs[q, 0] * g.pairs[q, 1], g.start[q + 1] - g.start[q]
    first, top = upright_levels(tiles, entries, len(ks), strip)
    for highest in range(first, top + 1):
        if (tiles * (highest + 1)) % 2 == parity:
            c = _trace_level(arrived[parity], ks, start, upright(tiles, highest, strip), j, value)
            if c > 0:
                return c, highest, 0
    for highest in range(1, min(strip.width // tiles - 1, entries) + 1):
        c = _trace_level(arrived[parity], ks, start, lying(tiles, highest, parity, strip), j, value)
        if c > 0:
            return c, highest, 1
    return 0, 0, 0


@njit(cache=True, nogil=True)
def trace_edge(message: IntArray, g: Grid, wire: Wire, parity: int, j: int, value: int) -> tuple[int, int]:
    """The entry (parity, index) of the message before an edge that gave ``value`` behind it; (-1, -1) where none."""
    h, w, c = g.h[j], g.w[j], g.c[j]
    for p in (parity, 1 - parity):
        extra = wire.half if p != parity else 0
        for i in range(message.shape[1]):
            differ = int(g.h[i] != h) + int(g.w[i] != w) + int(g.c[i] != c)  # NumPy adds booleans to one
            if message[p, i] < INF and message[p, i] + extra + wire.adapter * differ == value:
                return p, i
    return -1, -1
