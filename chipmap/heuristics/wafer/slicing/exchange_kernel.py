"""The compiled annealing of who takes which box: exchanges of equal kernels, mirrored parts of a slicing tree."""

from __future__ import annotations

from math import exp
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.heuristics.wafer.slicing.moves_kernel import below
from chipmap.instances.wafer.problem import IntArray
from chipmap.kernels import njit
from chipmap.kernels.annealing import temperature, uniform

#: Columns of ``Plan.boxes``: left, bottom, width, height, and what adapters compare: h, w, c in and c out.
X, Y, W, H, PORTS = range(5)
#: One move in so many mirrors a part; the others exchange two kernels.
MIRROR = 50


class Graph(NamedTuple):
    """What does not change: neighbours of kernel i and whether it is the producer, near[start[i]:start[i + 1]]
    [2m, 2]; kernels by type, members[first[t]:first[t + 1]]; types [n]; ticks of a half tile and of an adapter."""

    start: IntArray
    near: IntArray
    first: IntArray
    members: IntArray
    types: IntArray
    ticks: IntArray


class Plan(NamedTuple):
    """A floorplan: ``boxes`` [n, 8] of the kernels; ``leaves`` [n] the kernels as the tree has them from left to right,
    ``place`` [n] where each is, ``parts`` [n - 1, 2] the leaves under each cut; the generator's state."""

    boxes: IntArray
    leaves: IntArray
    place: IntArray
    parts: IntArray
    random: NDArray[np.uint64]


@njit(part=True)
def own(boxes: IntArray, start: IntArray, near: IntArray, ticks: IntArray, i: int, both: bool) -> int:
    """Ticks of the wires and adapters of kernel ``i``; unless ``both``, of those to its consumers only."""
    x, y = 2 * boxes[i, X] + boxes[i, W], 2 * boxes[i, Y] + boxes[i, H]
    length = differ = 0
    for e in range(start[i], start[i + 1]):
        j = near[e, 0]
        if near[e, 1] or both:
            length += abs(2 * boxes[j, X] + boxes[j, W] - x) + abs(2 * boxes[j, Y] + boxes[j, H] - y)
            if ticks[1] > 0:
                u, v = (i, j) if near[e, 1] else (j, i)
                differ += int(boxes[u, PORTS] != boxes[v, PORTS]) + int(boxes[u, PORTS + 1] != boxes[v, PORTS + 1])
                differ += int(boxes[u, PORTS + 3] != boxes[v, PORTS + 2])
    return int(ticks[0] * length + ticks[1] * differ)


@njit(part=True)
def total(graph: Graph, boxes: IntArray) -> int:
    """Ticks of all wires and adapters."""
    start, near, ticks = graph.start, graph.near, graph.ticks
    cost = 0
    for i in range(len(boxes)):
        cost += own(boxes, start, near, ticks, i, False)
    return cost


@njit(part=True)
def _swap(boxes: IntArray, i: int, j: int) -> None:
    """Kernels ``i`` and ``j`` change boxes."""
    for column in range(boxes.shape[1]):
        boxes[i, column], boxes[j, column] = boxes[j, column], boxes[i, column]


@njit(part=True)
def _mirror(boxes: IntArray, leaves: IntArray, begin: int, end: int, axis: int) -> None:
    """Mirror the kernels at leaves begin .. end - 1 within their common box, along ``axis`` (0: x, 1: y)."""
    low, high = np.int64(1) << 40, np.int64(0)
    for at in range(begin, end):
        i = leaves[at]
        low = min(low, boxes[i, axis])
        high = max(high, boxes[i, axis] + boxes[i, W + axis])
    for at in range(begin, end):
        i = leaves[at]
        boxes[i, axis] = low + high - boxes[i, axis] - boxes[i, W + axis]


@njit(cache=True, nogil=True, long=True)
def anneal(graph: Graph, plan: Plan, moves: int, hot: float, cold: float) -> int:
    """``moves`` moves at temperatures (ticks) that fall from ``hot`` to ``cold``; returns the cost at the end.

    Mirroring keeps a part within its common box and exchanged kernels are of one type, so nothing overlaps and no time
    changes.
    """
    # plain arrays in the inner calls: a record of arrays costs more than the move
    boxes, leaves, place, parts, random = plan.boxes, plan.leaves, plan.place, plan.parts, plan.random
    start, near, first, members, types, ticks = graph
    heat = hot
    for move in range(moves):
        if move % MIRROR == 0:
            heat = temperature(hot, cold, move / moves)
            k, axis = below(random, len(parts)), below(random, 2)
            before = total(graph, boxes)
            _mirror(boxes, leaves, parts[k, 0], parts[k, 1], axis)
            change = total(graph, boxes) - before
            if change > 0 and uniform(random) >= exp(-change / heat):
                _mirror(boxes, leaves, parts[k, 0], parts[k, 1], axis)
            continue
        i = below(random, len(boxes))
        t = types[i]
        j = members[first[t] + below(random, first[t + 1] - first[t])]
        if i == j:
            continue
        # an edge between the two counts twice, before and after
        before = own(boxes, start, near, ticks, i, True) + own(boxes, start, near, ticks, j, True)
        _swap(boxes, i, j)
        change = own(boxes, start, near, ticks, i, True) + own(boxes, start, near, ticks, j, True) - before
        if change > 0 and uniform(random) >= exp(-change / heat):
            _swap(boxes, i, j)
        else:
            a, b = place[i], place[j]
            place[i], place[j], leaves[a], leaves[b] = b, a, j, i
    return total(graph, boxes)
