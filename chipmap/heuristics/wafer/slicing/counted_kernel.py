"""The compiled program of counted cuts: in every rectangle a best collection of boxes by guillotine cuts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.instances.wafer.problem import IntArray
from chipmap.kernels import njit

#: What a rectangle w × h does: nothing, as the one of w - 1 or of h - 1; a type t as t + 1; a cut at x as -x, at y as
#: -(UP + y).
EMPTY, NARROWER, LOWER, UP = 0, -(1 << 30), -(1 << 30) - 1, 1 << 20
#: A rectangle is better only by more than this, so that rounding errors change nothing.
LESS = 1e-9


class Rectangles(NamedTuple):
    """Of every rectangle [width + 1, height + 1]: the price of what it holds, how it is cut, and how many of each type
    it holds [.., .., types]."""

    value: NDArray[np.float64]
    cut: NDArray[np.int32]
    holds: NDArray[np.int16]


class Wanted(NamedTuple):
    """Of every type [types]: the price of a kernel and the number of them."""

    price: NDArray[np.float64]
    left: IntArray


@njit(part=True)
def _together(value: float, some: NDArray[np.int16], more: NDArray[np.int16], wanted: Wanted, least: float) -> float:
    """The price of two rectangles' kernels, ``value`` if all of them were wanted; it ends below ``least``."""
    price, left = wanted.price, wanted.left
    for t in range(len(left)):
        over = some[t] + more[t] - left[t]
        if over > 0:
            value -= over * price[t]
            if value <= least:
                return value
    return value


@njit(part=True)
def _best_cut(table: Rectangles, wanted: Wanted, w: int, h: int) -> None:
    """The best of one box, the next smaller rectangles and all cuts that begin behind a useful width or height."""
    value, cut, holds = table.value, table.cut, table.holds
    best, how = float(value[w, h]), int(cut[w, h])
    if value[w - 1, h] > best:
        best, how = value[w - 1, h], NARROWER
    if value[w, h - 1] > best:
        best, how = value[w, h - 1], LOWER
    for a in range(1, w // 2 + 1):
        total = value[a, h] + value[w - a, h]
        if value[a, h] > value[a - 1, h] and total > best + LESS:
            total = _together(total, holds[a, h], holds[w - a, h], wanted, best + LESS)
            if total > best + LESS:
                best, how = total, -a
    for a in range(1, h // 2 + 1):
        total = value[w, a] + value[w, h - a]
        if value[w, a] > value[w, a - 1] and total > best + LESS:
            total = _together(total, holds[w, a], holds[w, h - a], wanted, best + LESS)
            if total > best + LESS:
                best, how = total, -(UP + a)
    value[w, h], cut[w, h] = best, how


@njit(part=True)
def _count(table: Rectangles, wanted: Wanted, w: int, h: int) -> None:
    """How many of each type the rectangle holds, as it is cut; a box holds what stands there already."""
    cut, holds = table.cut, table.holds
    how = int(cut[w, h])
    for t in range(len(wanted.left)):
        if how == NARROWER:
            holds[w, h, t] = holds[w - 1, h, t]
        elif how == LOWER:
            holds[w, h, t] = holds[w, h - 1, t]
        elif how <= -UP:
            a = -how - UP
            holds[w, h, t] = min(wanted.left[t], holds[w, a, t] + holds[w, h - a, t])
        elif how < 0:
            holds[w, h, t] = min(wanted.left[t], holds[-how, h, t] + holds[w + how, h, t])


@njit(cache=True, nogil=True)
def fill(table: Rectangles, wanted: Wanted, begin: int, end: int) -> None:
    """Fill in the rectangles of widths ``begin`` to ``end`` - 1 and all heights; narrower ones are there.

    A rectangle of the size of a box holds that box before. Each rectangle keeps one collection: the dearest of those
    that two smaller ones give, in which a kernel more than are wanted has no price.
    """
    for w in range(begin, end):
        for h in range(1, table.value.shape[1]):
            _best_cut(table, wanted, w, h)
            _count(table, wanted, w, h)
