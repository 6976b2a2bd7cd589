"""The compiled parts of the slicing programs: shape curves and their two combinations (numba, cached, no fastmath).

A shape curve is kept twice: ``widths`` [L + 1] is the least width within each height and ``heights`` [L + 1] the least
height within each width (:data:`NONE` where there is none). Both never rise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.kernels import njit

#: No such shape. Two of them add up without overflow.
NONE = 1 << 28
SideArray = NDArray[np.int32]


class Options(NamedTuple):
    """Execution arguments (h, w, c) worth a look, all types one after another.

    ``arguments`` [options, 4]: height, h, w, c; ``steps`` [options, 4]: 4·A of each convolution (0: it has fewer);
    ``least`` [options, 4]: the k that its memory asks for; ``start`` [types + 1]; ``kernels`` [types, 4, 3]: K, T²
    and the time on one tile.
    """

    arguments: NDArray[np.int64]
    steps: NDArray[np.int64]
    least: NDArray[np.int64]
    start: NDArray[np.int64]
    kernels: NDArray[np.int64]


@njit(cache=True, nogil=True)
def option_width(options: Options, kind: int, o: int, tau: int) -> int:
    """3 · Σ k of option ``o`` of type ``kind`` within ``tau`` quarters; 0 where it can't run in time."""
    width = 0
    for i in range(4):
        steps = options.steps[o, i]
        if steps == 0:
            break
        rounds = min(tau, options.kernels[kind, i, 2]) * options.kernels[kind, i, 1] // steps
        if rounds == 0:
            return 0
        whole = options.kernels[kind, i, 0]
        width += max(-(-whole // min(rounds, whole)), options.least[o, i])
    return 3 * width


@njit(cache=True, nogil=True)
def leaf_curve(options: Options, kind: int, tau: int, curve: SideArray, choice: SideArray) -> None:
    """Into ``curve`` [L + 1]: the least width of a type in either orientation (its own inverse), by which option."""
    limit = len(curve) - 1
    curve[:] = NONE
    choice[:] = -1
    for o in range(options.start[kind], options.start[kind + 1]):
        height = options.arguments[o, 0]
        if height > limit:
            continue
        width = option_width(options, kind, o, tau)
        if 0 < width <= limit:
            for a, b in ((height, width), (width, height)):
                if b < curve[a]:
                    curve[a], choice[a] = b, o
    for h in range(1, limit + 1):
        if curve[h - 1] <= curve[h]:
            curve[h], choice[h] = curve[h - 1], choice[h - 1]


@njit(part=True)
def copy(source: SideArray, target: SideArray) -> None:
    """target = source, in a loop: the assignment of slices takes seconds to compile."""
    for h in range(len(source)):
        target[h] = source[h]


@njit(part=True)
def invert(curve: SideArray, out: SideArray) -> None:
    """Into ``out``: the least height within each width, from the least width within each height (or back)."""
    limit = len(curve) - 1
    reached = limit + 1
    for h in range(limit + 1):
        least = curve[h]
        if least < reached:
            for w in range(least, reached):
                out[w] = h
            reached = least
    for w in range(reached):
        out[w] = NONE


@njit(part=True)
def add(a: SideArray, b: SideArray, out: SideArray) -> None:
    """out = min(a + b, NONE)."""
    for h in range(len(out)):
        out[h] = min(a[h] + b[h], np.int32(NONE))


@njit(part=True)
def add_least(a: SideArray, b: SideArray, out: SideArray) -> None:
    """out = min(out, a + b)."""
    for h in range(len(out)):
        out[h] = min(out[h], a[h] + b[h])


@njit(cache=True, nogil=True)
def order_curves(leaves: SideArray, curves: SideArray) -> None:
    """Curves of every run of a linear order, into ``curves`` [n, n + 1, L + 1]: [i, s] covers s parts from i on.

    ``leaves`` [n, L + 1] are the parts' own curves in that order, each its own inverse as a kernel's is. So is every
    run's then, as turning a floorplan by 90 degrees keeps the order: one curve per run will do.
    """
    n, side = leaves.shape
    spare = np.empty(side, np.int32)
    for i in range(n):
        copy(leaves[i], curves[i, 1])
    for s in range(2, n + 1):
        for i in range(n - s + 1):
            ours = curves[i, s]
            ours[:] = NONE
            for first in range(1, s):
                add_least(curves[i, first], curves[i + first, s - first], ours)
            invert(ours, spare)
            for h in range(side):
                ours[h] = min(ours[h], spare[h])
