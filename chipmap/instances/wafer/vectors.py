"""The sizing of kernels by numpy, all execution arguments at once, where nothing is to be compiled."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from chipmap.instances.wafer.problem import IntArray, WaferProblem, longest


class Arguments(NamedTuple):
    """Execution arguments h, w, c [count] and the heights h · w · (c + 1) that they give, by height."""

    h: IntArray
    w: IntArray
    c: IntArray
    height: IntArray

    def thinned(self, part: int) -> Arguments:
        """Every ``part``-th of them, and those with h = w = 1."""
        kept = (np.arange(len(self.h)) % part == 0) | ((self.h == 1) & (self.w == 1))
        return Arguments(*(column[kept] for column in self))


@lru_cache(maxsize=4)
def arguments(limit: int) -> Arguments:
    """All h, w and c with h · w · (c + 1) up to ``limit``."""
    h, w, c = triples(limit).T
    height = h * w * (c + 1)
    order = np.argsort(height, kind="stable")
    return Arguments(h[order], w[order], c[order], height[order])


def triples(limit: int) -> IntArray:
    """[count, 3] all h, w and c with h · w · (c + 1) up to ``limit``, in that order."""
    every = [(h, w) for h in range(1, limit // 2 + 1) for w in range(1, limit // (2 * h) + 1)]
    pairs = np.array(every, dtype=np.int64).reshape(-1, 2)
    counts = limit // pairs.prod(axis=1) - 1
    before = np.cumsum(counts) - counts
    c = np.arange(counts.sum(), dtype=np.int64) - np.repeat(before, counts) + 1
    return np.column_stack([np.repeat(pairs, counts, axis=0), c])


def least_widths(convs: IntArray, tau: int, memory: int, limit: int, some: Arguments) -> tuple[IntArray, IntArray]:
    """For each height up to ``limit`` the least width of a kernel within ``tau`` quarters (0: none), and its h, w, c:
    :func:`chipmap.instances.wafer.problem.least_widths` over ``some`` arguments."""
    total = np.zeros(len(some.h), dtype=np.int64)
    able = np.ones(len(some.h), dtype=bool)
    for conv in convs:
        k = _least_k(conv, some, tau, memory)
        able &= k > 0
        total += 3 * k
    widths, how = np.zeros(limit + 1, dtype=np.int64), np.zeros((limit + 1, 3), dtype=np.int64)
    kept = np.flatnonzero(able)
    if kept.size:
        order = kept[np.lexsort((total[kept], some.height[kept]))]  # stable: of equal widths the first arguments
        heights, first = np.unique(some.height[order], return_index=True)
        best = order[first]
        widths[heights] = total[best]
        how[heights] = np.column_stack([some.h[best], some.w[best], some.c[best]])
    return widths, how


def least_time(problem: WaferProblem, convs: IntArray, some: Arguments) -> int:
    """A lower bound on the time of a kernel over ``some`` arguments, in quarters: each convolution has all of the width
    that the others leave, at the arguments that suit all of them best; 0 where none fits."""
    upright = np.where(some.height <= problem.height, problem.width, 0)
    lying = np.where(some.height <= problem.width, problem.height, 0)
    most = np.maximum(upright, lying) // 3 - (len(convs) - 1)
    able, slowest = most > 0, np.zeros(len(some.h), dtype=np.int64)
    for conv in convs:
        able &= _memory_k(conv, some, problem.memory) <= most
        steps = _up(conv[0], some.h) * _up(conv[1], some.w) * _up(conv[4], some.c) * _up(conv[5], np.maximum(most, 1))
        slowest = np.maximum(slowest, _up(4 * steps * conv[2] * conv[3] * conv[7], conv[6] * conv[6] * conv[8]))
    return int(slowest[able].min()) if able.any() else 0


def _least_k(conv: IntArray, some: Arguments, tau: int, memory: int) -> IntArray:
    """The least k within ``tau`` quarters that fits the memory; 0 where no k is fast enough."""
    steps = 4 * _up(conv[0], some.h) * _up(conv[1], some.w) * _up(conv[4], some.c) * conv[2] * conv[3] * conv[7]
    rounds = (min(tau, int(longest(conv))) * conv[6] * conv[6] * conv[8]) // steps
    fast = _up(conv[5], np.clip(rounds, 1, conv[5]))
    found: IntArray = np.where(rounds > 0, np.maximum(fast, _memory_k(conv, some, memory)), 0)
    return found


def _memory_k(conv: IntArray, some: Arguments, memory: int) -> IntArray:
    weights = conv[4] * conv[2] * conv[3] * some.w * some.h
    halo = (conv[1] + conv[3] - 1) * (conv[0] + conv[2] - 1) * some.c
    found: IntArray = np.maximum(1, _up((weights + halo) * conv[5], some.c * some.w * some.h * memory))
    return found


def _up(a: IntArray | int, b: IntArray | int) -> IntArray:
    """⌈a / b⌉ for b > 0."""
    found: IntArray = -(-a // b)  # type: ignore[assignment]
    return found
