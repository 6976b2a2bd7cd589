"""The greedy row packer: kernels in depth-first order, each the narrowest that is low enough, row above row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chipmap.heuristics.wafer.alone import Alone, longest
from chipmap.instances.wafer.costs import IntArray, WaferProblem
from chipmap.instances.wafer.instance import Placement
from chipmap.instances.wafer.shapes import Shape, place, shapes

#: Target times that are tried, in equal ratios from the least attainable one to the longest.
TARGETS = 24


def depth_first(problem: WaferProblem) -> list[int]:
    """Kernels in depth-first topological order: each right after its last producer where that is possible."""
    missing = [0] * problem.n
    readers: list[list[int]] = [[] for _ in range(problem.n)]
    for u, v in problem.edges.tolist():
        missing[v] += 1
        readers[u].append(v)
    order: list[int] = []
    stack = [v for v in reversed(range(problem.n)) if not missing[v]]
    while stack:
        u = stack.pop()
        order.append(u)
        for v in reversed(readers[u]):
            missing[v] -= 1
            if not missing[v]:
                stack.append(v)
    placed = set(order)
    return order + [v for v in range(problem.n) if v not in placed]  # kernels on a cycle


def rows(
    problem: WaferProblem, order: Sequence[int], fronts: Sequence[IntArray], tau: int, height: int
) -> list[Placement] | None:
    """Rows of at most ``height`` tiles, filled alternately from the left and from the right; None if they don't fit."""
    narrowest = [next((Shape(*row.tolist()) for row in front[::-1] if row[1] <= height), None) for front in fronts]
    placements: dict[int, Placement] = {}
    x = y = top = 0
    reverse = False
    for i in order:
        shape = narrowest[int(problem.types[i])]
        if shape is None:
            return None
        if x + shape.width > problem.width:
            x, y, top, reverse = 0, y + top, 0, not reverse
        top = max(top, shape.height)
        if y + top > problem.height or shape.width > problem.width:
            return None
        left = problem.width - x - shape.width if reverse else x
        placements[i] = place(problem, i, shape, tau, left, y)
        x += shape.width
    return [placements[i] for i in range(problem.n)]


def greedy(problem: WaferProblem, found: Sequence[Alone]) -> Iterator[list[Placement]]:
    """Floorplans at growing target times, for every number of rows that divides the fabric differently.

    ``found`` are the kernels alone (:func:`chipmap.heuristics.wafer.alone.alone`).
    """
    order = depth_first(problem)
    low, high = max(one.time for one in found), max(longest(convs) for convs in problem.type_arrays)
    heights = sorted({problem.height // count for count in range(1, problem.height + 1)}, reverse=True)
    for tau in sorted({round(low * (high / low) ** (step / (TARGETS - 1))) for step in range(TARGETS)}):
        fronts = shapes(problem, max(tau, low))
        for height in heights:
            plan = rows(problem, order, fronts, max(tau, low), height)
            if plan is not None:
                yield plan
