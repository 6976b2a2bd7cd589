"""Snakes: the kernels of an order in rows that are read to and fro, of least wire for a target time.

Unlike CU.POKer's rows, which are filled until the next kernel doesn't fit, rows end where a program over (kernels
placed, height used) says. Its wire is that of the rows laid end to end plus the rows' heights where wires leave them:
an estimate, so that floorplans are compared by their true scores. They are slicing, for a search to start from.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.wafer.rows.chain import pulls
from chipmap.heuristics.wafer.rows.snakes_kernel import INFINITE, lowest, snake
from chipmap.heuristics.wafer.slicing.kernel import SideArray
from chipmap.heuristics.wafer.slicing.sizing import Sizing, least_time
from chipmap.heuristics.wafer.slicing.trees import layout
from chipmap.instances.wafer.instance import WaferSolution
from chipmap.instances.wafer.problem import IntArray, WaferProblem, depth_first_order, evaluate

#: Target times tried, as shares above the least one at which rows fit.
LATER = (0.0, 0.002, 0.004, 0.006, 0.008, 0.01, 0.0125, 0.015, 0.02, 0.025, 0.03, 0.04, 0.06, 0.09)


def snakes(
    problem: WaferProblem, deadline: Deadline, improved: Callable[[WaferSolution], None]
) -> WaferSolution | None:
    """The best snake by the whole score over target times from the least one up; None where no rows fit."""
    sizing, order = Sizing(problem), depth_first_order(problem)
    low = sizing.area_time()
    if low == 0 or problem.n == 1:
        return None

    def leaves(tau: int) -> SideArray:
        return np.ascontiguousarray(sizing.curves(tau)[problem.types[order]])

    def feasible(tau: int) -> bool:
        return bool(lowest(leaves(tau), problem.width, problem.height) <= problem.height)

    least = least_time(feasible, low, problem.longest)
    weights, cuts = pulls(problem, order)
    best, score = None, -1
    for share in LATER:
        tau = int(least * (1 + share))
        if least == 0 or not deadline.keep_going():
            break
        wires, begins, talls = snake(leaves(tau), weights, cuts, problem.width, problem.height)
        if wires[-1, -1] >= INFINITE:
            continue
        curves = sizing.curves(tau)[problem.types]
        placed = _boxes(order, begins, talls, curves, (problem.width, problem.height))
        solution = layout(sizing, tau, placed)
        found = evaluate(problem, solution.placements).score
        if score < 0 or found < score:
            best, score = solution, found
            improved(solution)
    return best


def _boxes(order: IntArray, begins: IntArray, talls: IntArray, curves: SideArray, fabric: tuple[int, int]) -> IntArray:
    """[n, 4] left, bottom, width and height of the kernels in the rows of :func:`snake`'s tables, to and fro.

    The first row is the lowest, every kernel centred in its row. ``curves`` [n, L + 1] are the kernels' least widths.
    """
    found = np.zeros((len(order), 4), np.int64)
    rows, (end, top) = list[tuple[int, int, int]](), (len(order), fabric[1])
    while end:
        begin, tall = int(begins[end, top]), int(talls[end, top])
        rows.append((begin, end, tall))
        end, top = begin, top - tall
    bottom = 0
    for number, (begin, end, tall) in enumerate(reversed(rows)):
        x = 0
        for kernel in order[begin:end].tolist():
            wide = int(curves[kernel, tall])
            high = int(np.argmax(curves[kernel] <= wide))
            left = fabric[0] - x - wide if number % 2 else x
            found[kernel] = left, bottom + (tall - high) // 2, wide, high
            x += wide
        bottom += tall
    return found
