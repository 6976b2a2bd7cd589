"""Annealing of the order of a row: the shortest wires for given widths (weighted minimum linear arrangement)."""

from __future__ import annotations

from typing import Any

import numpy as np

from chipmap.heuristics.wafer.slicing.kernel import copy
from chipmap.instances.wafer.problem import IntArray
from chipmap.kernels import njit
from chipmap.kernels.annealing import temperature, uniform
from chipmap.kernels.arrays import integers


@njit(part=True)
def row_wires(order: IntArray, widths: IntArray, edges: IntArray, centres: IntArray) -> int:
    """Wire length in half tiles of kernels side by side in ``order``; fills ``centres`` [n], in half tiles."""
    x = 0
    for kernel in order:
        centres[kernel] = x + widths[kernel]
        x += 2 * widths[kernel]
    total = 0
    for e in range(len(edges)):
        total += abs(centres[edges[e, 0]] - centres[edges[e, 1]])
    return total


@njit(part=True)
def _move(order: IntArray, kind: int, i: int, j: int) -> None:
    """Swaps the entries i and j (kind 0), moves entry i to j (1), or reverses what lies between them (2)."""
    if kind == 0:
        order[i], order[j] = order[j], order[i]
    elif kind == 1:
        kernel, step = order[i], 1 if j > i else -1
        while i != j:
            order[i] = order[i + step]
            i += step
        order[j] = kernel
    else:
        low, high = min(i, j), max(i, j)
        while low < high:
            order[low], order[high] = order[high], order[low]
            low, high = low + 1, high - 1


@njit(cache=True, nogil=True)
def anneal_order(order: IntArray, widths: IntArray, edges: IntArray, moves: int, random: Any) -> IntArray:
    """The best order found from ``order`` by ``moves`` random moves, cooling from the mean wire to half a tile."""
    n = len(order)
    now, trial, best = order.copy(), order.copy(), order.copy()
    centres = integers(n, 0)
    value = least = row_wires(now, widths, edges, centres)
    hot = max(1.0, value / max(1, len(edges)))
    for step in range(moves):
        heat = temperature(hot, 0.5, step / moves)
        i, j = int(uniform(random) * n), int(uniform(random) * n)
        copy(now, trial)
        _move(trial, int(uniform(random) * 3), i, j)
        cost = row_wires(trial, widths, edges, centres)
        if cost <= value or uniform(random) < np.exp((value - cost) / heat):
            value = cost
            copy(trial, now)
            if value < least:
                least = value
                copy(now, best)
    return best
