"""The shapes worth considering for every kernel at a target time: the exact Pareto front over both orientations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chipmap.instances.wafer.instance import Placement
from chipmap.instances.wafer.problem import IntArray, WaferProblem, least_ks, least_widths, size


class Shape(NamedTuple):
    """A kernel's box in tiles and the execution arguments that give it."""

    width: int
    height: int
    h: int
    w: int
    c: int
    rotated: bool


def shapes(problem: WaferProblem, tau: int, within: bool = False, parities: bool = False) -> tuple[IntArray, ...]:
    """For each type the Pareto-minimal boxes [count, 6] (columns of :class:`Shape`) within ``tau`` quarters.

    No other box of the type is as narrow and as low. Sorted by height, so widths fall. Empty where a kernel can't meet
    the time within the fabric. ``within`` keeps c at most the least C of the kernel's convolutions. With ``parities``
    that is said of boxes whose sides are even or odd alike, one kind after the other: a side of the other parity moves
    a centre by half a tile.
    """
    limit = max(problem.width, problem.height)
    found = []
    for t, convs in enumerate(problem.type_arrays):
        if problem.tables[t] is not None:
            found.append(tabled(problem, t, tau))
            continue
        most_c = int(convs[:, 4].min()) if within else 0
        widths, how = least_widths(convs, tau, problem.memory, limit, most_c)
        found.append(front(problem, widths, how, parities))
    return tuple(found)


def tabled(problem: WaferProblem, t: int, tau: int, memory: int | None = None) -> IntArray:
    """The Pareto-minimal boxes of a type with a table within ``tau`` quarters and the memory (c is 0)."""
    table = problem.tables[t]
    assert table is not None
    some = table[(table[:, 2] <= tau) & (table[:, 3] <= (problem.memory if memory is None else memory))]
    nothing = np.zeros(len(some), dtype=np.int64)
    return _front(problem, np.column_stack([some[:, 0], some[:, 1], some[:, 1], some[:, 0], nothing, nothing]))


def front(problem: WaferProblem, widths: IntArray, how: IntArray, parities: bool = False) -> IntArray:
    """The Pareto-minimal boxes of these least widths by height, both ways round (columns of :class:`Shape`); with
    ``parities`` among those whose sides are even or odd alike."""
    heights = np.flatnonzero(widths)
    upright = np.column_stack([widths[heights], heights, how[heights], np.zeros_like(heights)])
    return _front(problem, upright, parities)


def _front(problem: WaferProblem, upright: IntArray, parities: bool = False) -> IntArray:
    lying = upright.copy()
    lying[:, :2], lying[:, 5] = upright[:, 1::-1], 1
    boxes = np.concatenate([upright, lying])
    boxes = boxes[problem.fits(boxes[:, 0], boxes[:, 1])]
    boxes = boxes[np.lexsort((boxes[:, 5], boxes[:, 0], boxes[:, 1]))]
    kinds = boxes[:, 0] % 2 + 2 * (boxes[:, 1] % 2) if parities else np.zeros(len(boxes), np.int64)
    return np.concatenate([_minimal(boxes[kinds == kind]) for kind in range(4)])


def _minimal(boxes: IntArray) -> IntArray:
    """Those of ``boxes``, which ascend in height and then in width, that no lower one is as narrow as."""
    if not len(boxes):
        return boxes
    narrowest = np.minimum.accumulate(boxes[:, 0])
    return boxes[np.concatenate([[True], boxes[1:, 0] < narrowest[:-1]])]


def fitting(problem: WaferProblem, convs: IntArray, tau: int, memory: int) -> tuple[IntArray, IntArray, IntArray]:
    """The least widths by height, the arguments that give them, and the heights at which the box fits the fabric."""
    widths, how = least_widths(convs, tau, memory, max(problem.width, problem.height), 0)
    heights = np.arange(len(widths))
    either = problem.fits(widths, heights) | problem.fits(heights, widths)
    return widths, how, np.flatnonzero((widths > 0) & either)


def fewest_tiles(problem: WaferProblem, t: int, tau: int, memory: int) -> int:
    """:func:`least_tiles` of type ``t``, which may have a table."""
    if problem.tables[t] is None:
        return least_tiles(problem, problem.type_arrays[t], tau, memory)
    boxes = tabled(problem, t, tau, memory)
    return int((boxes[:, 0] * boxes[:, 1]).min()) if len(boxes) else 0


def least_tiles(problem: WaferProblem, convs: IntArray, tau: int, memory: int) -> int:
    """The fewest tiles of a kernel within ``tau`` quarters and within the fabric, rotated or not; 0 if it can't."""
    widths, _, fits = fitting(problem, convs, tau, memory)
    return int((widths[fits] * fits).min()) if len(fits) else 0


def ports(problem: WaferProblem, t: int, boxes: IntArray, tau: int) -> IntArray:
    """What adapters compare of every shape of type ``t`` [count, 4]: h, w, c in and c out."""
    found = boxes[:, [2, 3, 4, 4]]
    if problem.instance.protocol == "min_c_k":
        convs = problem.type_arrays[t]
        for port in found:
            ks = least_ks(convs, port[0], port[1], [port[2]] * len(convs), tau, problem.memory)
            port[3] = min(port[2], ks[-1]) if ks else port[2]
    return found


def centre(placement: Placement) -> tuple[int, int]:
    """The doubled coordinates of the centre of a placed kernel."""
    width, height = size(placement)
    return 2 * placement.x + width, 2 * placement.y + height


def place(problem: WaferProblem, i: int, shape: Shape, tau: int, x: int, y: int) -> Placement:
    """Kernel ``i`` in that shape at (x, y), with the fewest columns k that meet ``tau`` quarters."""
    convs = problem.type_arrays[int(problem.types[i])]
    if not len(convs):
        h, w = int(shape.h), int(shape.w)
        rotated = bool(shape.rotated)
        return Placement(kernel=problem.names[i], h=h, w=w, c=(), k=(), x=int(x), y=int(y), rotated=rotated)
    ks = least_ks(convs, shape.h, shape.w, [shape.c] * len(convs), tau, problem.memory)
    if ks is None:
        raise ValueError(f"kernel {problem.names[i]} with {shape} doesn't run within {tau} quarters")
    return Placement(
        kernel=problem.names[i],
        h=int(shape.h),
        w=int(shape.w),
        c=(int(shape.c),) * len(convs),
        k=ks,
        x=int(x),
        y=int(y),
        rotated=bool(shape.rotated),
    )
