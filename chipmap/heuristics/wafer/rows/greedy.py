"""The greedy row packer: kernels in depth-first order, each the narrowest that is low enough, row above row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from chipmap.heuristics.wafer.bounds.single_kernel import SingleKernel
from chipmap.instances.wafer.instance import Placement
from chipmap.instances.wafer.problem import IntArray, WaferProblem, conv_time, depth_first_order
from chipmap.instances.wafer.shapes import Shape, place, ports, shapes

#: Target times that are tried, in equal ratios from the least attainable one to the longest.
TARGETS = 24


class Sized(NamedTuple):
    """One execution of each type within a target time: its placement at (0, 0), box and time; arrays over the types."""

    placements: tuple[Placement, ...]
    width: IntArray
    height: IntArray
    time: IntArray
    ends: IntArray  # h, w, what a consumer reads and what a producer offers, [types, 4]


def narrowest(problem: WaferProblem, fronts: Sequence[IntArray], tau: int, height: int) -> Sized | None:
    """Of every type the narrowest shape at most ``height`` tiles high, None where a type has none."""
    placements, rows = [], []
    for number, front in enumerate(fronts):
        low = front[front[:, 1] <= height]
        if not len(low):
            return None
        first = int(np.flatnonzero(problem.types == number)[0])
        shape = Shape(*low[-1].tolist())
        p = place(problem, first, shape, tau, 0, 0)
        arrays = problem.type_arrays[number]
        time = max(int(conv_time(conv, p.h, p.w, c, k)) for conv, c, k in zip(arrays, p.c, p.k, strict=True))
        placements.append(p)
        rows.append((shape.width, shape.height, time, *ports(problem, number, low[-1:], tau)[0]))
    table = np.array(rows, dtype=np.int64)
    return Sized(tuple(placements), table[:, 0], table[:, 1], table[:, 2], table[:, 3:])


def rows(problem: WaferProblem, order: Sequence[int], sized: Sized) -> IntArray | None:
    """Corners [n, 2] of rows filled alternately from the left and from the right; None if they don't fit."""
    corners = np.zeros((problem.n, 2), dtype=np.int64)
    widths, heights = sized.width[problem.types].tolist(), sized.height[problem.types].tolist()
    x = y = top = 0
    reverse = False
    for i in order:
        if x + widths[i] > problem.width:
            x, y, top, reverse = 0, y + top, 0, not reverse
        top = max(top, heights[i])
        if y + top > problem.height:
            return None
        corners[i] = problem.width - x - widths[i] if reverse else x, y
        x += widths[i]
    return corners


def score(problem: WaferProblem, sized: Sized, corners: IntArray) -> int:
    """The score in ticks of every kernel at its corner in its type's execution."""
    centres = 2 * corners + np.column_stack([sized.width, sized.height])[problem.types]
    u, v = problem.edges[:, 0], problem.edges[:, 1]
    wire = int(np.abs(centres[u] - centres[v]).sum())
    ends = sized.ends[problem.types]
    adapters = int((ends[u, :2] != ends[v, :2]).sum() + (ends[u, 3] != ends[v, 2]).sum())
    return problem.score(int(sized.time.max()), wire, adapters)


def greedy(
    problem: WaferProblem, found: Sequence[SingleKernel], upper: int | None = None
) -> Iterator[list[Placement] | None]:
    """Floorplans, each better than those before and than ``upper`` ticks; None after every attempt without one.

    Targets grow in equal ratios; for each, kernels are at most as high as the fabric divided by 1, 2, 3 … rows.
    ``found`` are the kernels by themselves (:mod:`chipmap.heuristics.wafer.bounds.single_kernel`).
    """
    order = depth_first_order(problem).tolist()
    low, high = max(one.time for one in found), problem.longest
    heights = sorted({problem.height // count for count in range(1, problem.height + 1)}, reverse=True)
    best = np.iinfo(np.int64).max if upper is None else upper
    for tau in sorted({max(low, round(low * (high / low) ** (step / (TARGETS - 1)))) for step in range(TARGETS)}):
        fronts = shapes(problem, tau)
        for height in heights:
            sized = narrowest(problem, fronts, tau, height)
            corners = None if sized is None else rows(problem, order, sized)
            if sized is None or corners is None or (value := score(problem, sized, corners)) >= best:
                yield None
                continue
            best = value
            yield [
                sized.placements[t].replace(kernel=name, x=x, y=y)
                for t, name, (x, y) in zip(problem.types.tolist(), problem.names, corners.tolist(), strict=True)
            ]
