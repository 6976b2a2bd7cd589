"""The least compute time of kernels that share a chip's tiles, compiled, for the program over ideals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.instances.dataflow.problem import IntArray
from chipmap.instances.dataflow.tiles import Shares
from chipmap.kernels import njit


class Tiles(NamedTuple):
    """Shares of options (columns of the program's graph) as CSR rows: those of option o are ``first[o]`` …
    ``first[o+1]-1`` of ``size`` (tiles, rising) and ``time`` (picoseconds, falling).

    ``within[a, k]``: with option a a kernel needs no more tiles at any time than with its option number k. ``total`` is
    the number of tiles of a chip (0: they aren't counted).
    """

    first: IntArray
    size: IntArray
    time: IntArray
    within: NDArray[np.bool_]
    total: int


def tiles(listed: Sequence[Sequence[Shares]], total: int, most: int) -> Tiles:
    """The arrays of the kernels' shares, [kernel][option], at most ``most`` options each; none listed: not counted."""
    flat = [one for choice in listed for one in choice]
    within = np.zeros((len(flat), most), dtype=np.bool_)
    column = 0
    for choice in listed:
        for one in choice:
            within[column, : len(choice)] = [_within(one, other) for other in choice]
            column += 1
    joined = np.concatenate(flat) if flat else np.zeros((0, 2), dtype=np.int64)
    return Tiles(
        first=np.cumsum([0, *map(len, flat)]).astype(np.int64),
        size=np.ascontiguousarray(joined[:, 0]),
        time=np.ascontiguousarray(joined[:, 1]),
        within=within,
        total=total if flat else 0,
    )


def _within(one: Shares, other: Shares) -> bool:
    """Whether each of the other's shares takes at least the tiles that ``one`` needs at its time."""
    place = len(one) - np.searchsorted(one[::-1, 1], other[:, 1], side="right")
    return bool(np.all(place < len(one)) and np.all(one[np.minimum(place, len(one) - 1), 0] <= other[:, 0]))


@njit(part=True)
def needed(t: Tiles, option: int, time: int) -> int:
    """The fewest tiles with which an option takes at most ``time``; more than there are where none do."""
    low, high = t.first[option], t.first[option + 1]
    while low < high:
        middle = (low + high) // 2
        if t.time[middle] <= time:
            high = middle
        else:
            low = middle + 1
    return t.size[low] if low < t.first[option + 1] else t.total + 1


@njit(part=True)
def fits(t: Tiles, options: IntArray, time: int) -> bool:
    """Whether kernels under these options can all take at most ``time`` side by side."""
    left = t.total
    for option in options:
        left -= needed(t, option, time)
        if left < 0:
            return False
    return True


@njit(part=True)
def least_time(t: Tiles, options: IntArray, low: int, limit: int) -> int:
    """The least time >= ``low`` in which they fit, by bisection; ``limit`` where that isn't below it."""
    if low >= limit or fits(t, options, low):
        return min(low, limit)
    step, high = max(low // 64, 1), low
    while not fits(t, options, high):
        if high >= limit - 1:
            return limit
        low, high = high, min(high + step, limit - 1)
        step *= 2
    while high - low > 1:
        middle = (low + high) // 2
        if fits(t, options, middle):
            high = middle
        else:
            low = middle
    return high
