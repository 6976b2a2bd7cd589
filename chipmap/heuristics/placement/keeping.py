"""Which weights stay on their devices, for given devices of all operations: a knapsack for each device."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chipmap.deadline import look
from chipmap.instances.placement.offload import fetch_times
from chipmap.instances.placement.problem import IntArray, PlacementProblem

#: Cells of a knapsack: bytes are rounded up to such a part of the room. Sizes of the buffer that are tried at most.
CELLS, BUFFERS = 4_096, 8


def kept_weights(
    problem: PlacementProblem, devices: IntArray, held: IntArray, reserve: bool = False
) -> NDArray[np.bool_]:
    """Whether the weights of each operation stay on its device [N], with devices [N] and bytes ``held`` there [D]
    beside weights: those stay that save the most time of fetching and fit.

    With rule ``static``, and where ``reserve`` says so, the largest fetched weights of a device need room as well.
    """
    times, stays = fetch_times(problem), np.ones(problem.operations, dtype=bool)
    buffered = reserve or problem.instance.task.memory == "static"
    for d in range(problem.devices):
        here = np.flatnonzero((devices == d) & (problem.weights > 0))
        room = int(problem.memory[d]) - int(held[d])
        if problem.memory[d] >= 0 and int(problem.weights[here].sum()) > room:
            stays[here] = _kept(problem.weights[here], times[here], room, buffered)
    return stays


def _kept(sizes: IntArray, values: IntArray, room: int, buffered: bool) -> NDArray[np.bool_]:
    """The best choice within ``room`` over the sizes that the largest fetched one may have."""
    limits = np.unique(sizes)[::-1]
    limits = limits[np.unique(np.linspace(0, len(limits) - 1, BUFFERS).astype(np.int64))] if buffered else limits[:1]
    best, most = np.zeros(len(sizes), dtype=bool), 0
    for limit in limits.tolist():
        stays = sizes > limit  # must stay, as the buffer is smaller
        left = room - int(sizes[stays].sum()) - (limit if buffered else 0)
        if left < 0:
            continue
        small = np.flatnonzero(~stays)
        stays[small[knapsack(sizes[small], values[small], left)]] = True
        if int(values[stays].sum()) > most:
            best, most = stays, int(values[stays].sum())
    return best


def knapsack(sizes: IntArray, values: IntArray, room: int) -> IntArray:
    """The positions of the items of most value that fit together into ``room``, by dynamic programming over cells of
    ``room / CELLS`` bytes; a greedy choice by size where that is worth more.

    Raises :class:`~chipmap.deadline.Stop` where the work around it must end.
    """
    if not len(sizes) or int(sizes.sum()) <= room:
        return np.arange(len(sizes))
    unit = max(1, -(-room // CELLS))
    cells, space = -(-sizes // unit), room // unit
    worth, took = np.zeros(space + 1, dtype=np.int64), np.zeros((len(sizes), space + 1), dtype=bool)
    for i, (size, value) in enumerate(zip(cells.tolist(), values.tolist(), strict=True)):
        look()
        if size <= space:
            other = worth[: space + 1 - size] + value
            took[i, size:] = other > worth[size:]
            worth[size:] = np.maximum(worth[size:], other)
    found, at = list[int](), space
    for i in reversed(range(len(sizes))):
        if took[i, at]:
            found.append(i)
            at -= int(cells[i])
    greedy, left = list[int](), room
    for i in np.argsort(-sizes, kind="stable").tolist():
        if sizes[i] <= left:
            greedy.append(i)
            left -= int(sizes[i])
    return np.array(max((found, greedy), key=lambda one: int(values[one].sum())), dtype=np.int64)
