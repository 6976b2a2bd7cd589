"""The compiled program of rings: rectangles round a hub that grow by a strip of kernels at one of their four sides.

Coordinates and lengths are in tiles; the hub's centre is counted from the lower left corner of its rectangle.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.instances.wafer.problem import IntArray
from chipmap.kernels import njit

FloatArray = NDArray[np.float64]
#: More than any rectangle costs, and longer than any strip.
INFINITE, NONE = 1e300, 1 << 20
#: Kernels of a strip at most, and how long it is at least, as a part of its side.
RUN, SHORT = 30, 0.5
#: What a tile that the hub lies beside the middle costs, as a part of a tile of the sides.
OFF = 0.5
#: How a rectangle was made: from so many kernels, from that height, along which axis and at which end, strip's depth.
FROM, HEIGHT, SIDE, DEPTH = range(4)


class Rings(NamedTuple):
    """One rectangle for each number of kernels and each height [n, height of the fabric + 1].

    ``cost`` in tiles; ``wide`` in tiles; ``hub`` [.., 2] its centre; ``back`` [.., 4] how it was made.
    """

    cost: FloatArray
    wide: IntArray
    hub: FloatArray
    back: IntArray


@njit(part=True)
def along(length: float, count: int, low: float, high: float) -> float:
    """Σ |y| of the centres of ``count`` equal boxes stacked to ``length``, as far round 0 as -low .. high allows."""
    begin = min(max(-length / 2, -low), high - length)
    end, size = begin + length, length / count
    whole = 0.5 * (end * abs(end) - begin * abs(begin))
    if begin < 0 < end:
        centre = abs(begin + (np.floor(-begin / size) + 0.5) * size)
        whole -= max(0.0, size / 2 - centre) ** 2
    return float(whole / size)


@njit(part=True)
def ahead(w: float, h: float, x: float, y: float) -> float:
    """What a rectangle costs each kernel to come: its width, and how far the hub lies from its middle."""
    return w + OFF * (abs(w - 2 * x) + abs(h - 2 * y))


@njit(part=True)
def _grow(rings: Rings, ways: IntArray, sides: IntArray, price: float) -> int:
    """Every rectangle of ``ways[0]`` kernels with a strip up to kernel ``ways[1]``, along axis ``ways[2]``, ``ways[3]``
    tiles deep and ``ways[4]`` long. Returns how many were looked at."""
    k, m, axis, depth, length = ways[0], ways[1], ways[2], ways[3], ways[4]
    count, left = m - k, len(rings.cost) - 1 - m
    for h in range(1, sides[1] + 1):
        if rings.cost[k, h] >= INFINITE:
            continue
        w, x, y = rings.wide[k, h], rings.hub[k, h, 0], rings.hub[k, h, 1]
        # a: the side that grows, b: the side along which the strip lies; p, q: the hub's centre
        a, b, p, q = (w, h, x, y) if axis == 0 else (h, w, y, x)
        if a + depth > sides[axis] or length < SHORT * b:
            continue
        b2, q2 = b, q
        if length > b:
            b2, q2 = length, min(max(length / 2, q), length - (b - q))
        wire = count * (min(p, a - p) + depth / 2) + along(length, count, q2, b2 - q2)
        first = p < a - p
        a2, p2 = a + depth, p + depth if first else p
        w2, h2, x2, y2 = (a2, b2, p2, q2) if axis == 0 else (b2, a2, q2, p2)
        cost = (
            rings.cost[k, h] - (left + count) * price * ahead(w, h, x, y) + wire + left * price * ahead(w2, h2, x2, y2)
        )
        if cost < rings.cost[m, h2]:
            rings.cost[m, h2], rings.wide[m, h2] = cost, w2
            rings.hub[m, h2, 0], rings.hub[m, h2, 1] = x2, y2
            rings.back[m, h2, FROM], rings.back[m, h2, HEIGHT] = k, h
            rings.back[m, h2, SIDE], rings.back[m, h2, DEPTH] = 2 * axis + int(first), depth
    return int(sides[1])


@njit(part=True)
def _prune(rings: Rings, k: int) -> None:
    """Leave out rectangles that are higher, wider and dearer than the cheapest of those below."""
    best, wide = INFINITE, 0
    for h in range(rings.cost.shape[1]):
        if rings.cost[k, h] < best:
            best, wide = rings.cost[k, h], rings.wide[k, h]
        elif rings.wide[k, h] >= wide:
            rings.cost[k, h] = INFINITE


@njit(cache=True, nogil=True, long=True)
def fill(rings: Rings, types: IntArray, least: IntArray, sides: IntArray, price: float, begin: int, end: int) -> int:
    """Strips on the rectangles of ``begin`` to ``end - 1`` kernels beside the hub; how many were looked at.

    ``types`` [n - 1] of the kernels from the inside; ``least`` [2, types, depths] their least length by a strip's
    depth, along y and along x; ``price``: what a tile of width costs each kernel to come.
    """
    total = np.zeros((2, least.shape[2]), np.int64)
    ways = np.zeros(5, np.int64)
    done = 0
    for k in range(begin, end):
        _prune(rings, k)
        total[:] = 0
        for m in range(k + 1, min(k + RUN, len(types)) + 1):
            total += least[:, types[m - 1]]
            for axis in range(2):
                for depth in range(1, min(least.shape[2] - 1, sides[axis]) + 1):
                    length = total[axis, depth]
                    if length <= sides[1 - axis] and length < total[axis, depth - 1]:
                        ways[0], ways[1], ways[2], ways[3], ways[4] = k, m, axis, depth, length
                        done += _grow(rings, ways, sides, price)
    return done
