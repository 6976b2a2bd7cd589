"""Sides that kernels border on and limits on lines in the MIP: C6 and C7."""

from __future__ import annotations

from typing import Any

import pyomo.environ as pyo

from chipmap.deadline import look
from chipmap.formulations.wafer.choices import Sizing


def c6_sides(block: pyo.Block, made: Sizing) -> None:
    """C6: x <= 0, x + width >= W, y <= 0 or y + height >= H of a kernel that borders on a side."""
    rows, problem = pyo.Constraint(pyo.Any), made.problem
    block.c6_sides = rows
    for v, side in problem.touching:
        corner, sizes, extent = (
            (block.x[v], block.width[v], problem.width),
            (block.y[v], block.height[v], problem.height),
        )[side // 2]
        rows[v, side] = corner + sizes >= extent if side % 2 else corner <= 0


def c7_crossing(block: pyo.Block, made: Sizing) -> None:
    """C7: ``behind[line, v]`` is 1 where the centre of kernel v is behind the line: 2 x + width >= 2 · at · behind and
    2 x + width <= 2 · at - 1 + M · behind. ``crosses[line, u, v]`` >= the difference of two; the sum of their traffic,
    and of wires to sides, is at most the limit. M = 2 W + the greatest width, so that C1 is no part of it."""
    problem = made.problem
    block.behind = pyo.Var(range(len(problem.instance.crossing)), range(problem.n), domain=pyo.Binary)
    block.crosses = pyo.Var(pyo.Any, bounds=(0, 1), dense=False)
    rows = block.c7_crossing = pyo.Constraint(pyo.Any)
    for number, line in enumerate(problem.instance.crossing):
        axis = "xy".index(line.axis)
        corner, sizes = ((block.x, block.width), (block.y, block.height))[axis]
        for v, chosen in enumerate(made.options):
            look()
            most = 2 * (problem.width, problem.height)[axis] + max((option[:2][axis] for option in chosen), default=0)
            centre, behind = 2 * corner[v] + sizes[v], block.behind[number, v]
            rows[number, v, "behind"] = centre >= 2 * line.at * behind
            rows[number, v, "before"] = centre <= 2 * line.at - 1 + most * behind
        rows[number, "limit"] = _crossed(block, made, number, axis) <= line.most


def _crossed(block: pyo.Block, made: Sizing, number: int, axis: int) -> Any:
    """The traffic over a line; its pairs' rows are added."""
    problem, rows, total = made.problem, block.c7_crossing, list[Any]()
    for (u, v), traffic in zip(problem.edges.tolist(), problem.traffic.tolist(), strict=True):
        look()
        key = (number, min(u, v), max(u, v))
        ends = block.behind[number, key[1]], block.behind[number, key[2]]
        rows[(*key, "+")] = block.crosses[key] >= ends[0] - ends[1]
        rows[(*key, "-")] = block.crosses[key] >= ends[1] - ends[0]
        total.append(traffic * block.crosses[key])
    for v, side, traffic in problem.stubs.tolist():
        if side // 2 == axis:
            behind = block.behind[number, v]
            total.append(traffic * (1 - behind if side % 2 else behind))
    return pyo.quicksum(total) if total else 0 * block.x[0]
