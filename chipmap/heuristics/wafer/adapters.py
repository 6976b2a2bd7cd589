"""The fewest adapters for a given floorplan: execution arguments chosen anew within every kernel's box.

Each kernel may take any (h, w, c of its first and last convolution) that runs within the target time and fits the box
it has, upright or rotated. The row program with free tiles then counts adapters alone: exact along a path
(``rows_chain``), over useful arguments on chains of residual blocks (``rows_blocks``), and on other graphs a heuristic
that sees the wires between neighbours of the flow's order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from chipmap.heuristics.wafer.rows.chain import Row, joined
from chipmap.heuristics.wafer.rows.kernel import Wire
from chipmap.heuristics.wafer.rows.single_row import RowProgram
from chipmap.instances.wafer.instance import Placement, WaferSolution
from chipmap.instances.wafer.problem import TICKS, IntArray, WaferProblem, evaluate, in_order, size


def fewest_adapters(problem: WaferProblem, solution: WaferSolution, tau: int) -> WaferSolution:
    """``solution`` with the fewest adapters within its boxes at ``tau`` quarters, or within boxes grown into free room.

    The best of the two and of ``solution`` itself by the whole score; kernels stay as near their old centres as their
    boxes allow. ``solution`` must be legal.
    """
    old = in_order(problem, solution)
    program = RowProgram(problem)
    best, score = tuple(old), evaluate(problem, old).score
    boxes = boxes_of(old)
    for room in (boxes, grown(boxes, problem.width, problem.height)):
        new = fit_boxes(program, old, room, tau)
        if new is not None and (found := evaluate(problem, new).score) < score:
            best, score = new, found
    return WaferSolution(instance=solution.instance, placements=best)


def boxes_of(placements: Sequence[Placement]) -> IntArray:
    """The boxes [n, 4] of placements: left, bottom, right, top."""
    low = np.array([(p.x, p.y) for p in placements], dtype=np.int64)
    return np.concatenate([low, low + [size(p) for p in placements]], axis=1)


def grown(boxes: IntArray, width: int, height: int) -> IntArray:
    """Disjoint boxes that contain ``boxes``: one after the other moves each of its sides up to the next box."""
    boxes = boxes.copy()
    for i in range(len(boxes)):
        for axis in (1, 0):
            other = 1 - axis
            beside = (boxes[:, other] < boxes[i, other + 2]) & (boxes[:, other + 2] > boxes[i, other])
            beside[i] = False
            before = boxes[beside & (boxes[:, axis + 2] <= boxes[i, axis]), axis + 2]
            behind = boxes[beside & (boxes[:, axis] >= boxes[i, axis + 2]), axis]
            boxes[i, axis] = before.max(initial=0)
            boxes[i, axis + 2] = behind.min(initial=(width, height)[axis])
    return boxes


def fit_boxes(program: RowProgram, old: Sequence[Placement], boxes: IntArray, tau: int) -> tuple[Placement, ...] | None:
    """Placements with the fewest adapters within ``boxes`` at ``tau`` quarters; None where a kernel has none."""
    problem, row = program.problem, program.row
    unit = TICKS * max(problem.instance.weights.adapter, 1)
    joints = Counter((a, b) for a, b in joined(problem, row.order).tolist())
    counted = {joint: Wire(wires * unit, 0) for joint, wires in joints.items()}
    strips = tuple((int(boxes[i, 3] - boxes[i, 1]), int(boxes[i, 2] - boxes[i, 0])) for i in row.order)
    chain = program.at(tau)(Row(row.order, (0,) * problem.n, strips, counted))
    if chain is None:
        return None
    placed: dict[int, Placement] = {}
    for kernel, choice in zip(row.order, chain.choices, strict=True):
        left, bottom, right, top = (int(v) for v in boxes[kernel])
        width, height = size(old[kernel])
        x = old[kernel].x + (width - choice.along) // 2
        y = old[kernel].y + (height - choice.up) // 2
        x, y = min(max(x, left), right - choice.along), min(max(y, bottom), top - choice.up)
        placed[kernel] = choice.place(problem.names[kernel], x, y)
    return tuple(placed[i] for i in range(problem.n))
