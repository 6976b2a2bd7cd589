"""The fewest adapters within given boxes: against enumeration, legal, and never worse."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from chipmap.heuristics.wafer.adapters import boxes_of, fewest_adapters, fit_boxes, grown
from chipmap.heuristics.wafer.rows.single_row import RowProgram
from chipmap.instances.wafer.instance import Placement, WaferSolution, Weights
from chipmap.instances.wafer.problem import WaferProblem, evaluate, size
from tests.wafer.rows_by_hand import DIAMOND, PATH, TRIANGLE, legal, options, table, tiny

WEIGHTS = Weights(time=1, wire=0, adapter=3)


def scattered(problem: WaferProblem, tau: int) -> tuple[Placement, ...]:
    """A floorplan of one kernel per cell of a 2 x 2 grid, each with its last option."""
    cell = problem.width // 2
    placements = []
    for i in range(problem.n):
        p = options(problem, i, cell, cell, tau)[-1]
        x, y = cell * (i % 2), cell * (i // 2)
        placements.append(Placement(kernel=p.kernel, h=p.h, w=p.w, c=p.c, k=p.k, x=x, y=y, rotated=p.rotated))
    return tuple(placements)


def fewest(problem: WaferProblem, rooms: list[tuple[int, int]], tau: int) -> int:
    """The fewest adapters with kernel i within rooms[i] = (width, height), by enumeration."""
    tables = [table(problem, i, options(problem, i, *room, tau), False)[:, :4] for i, room in enumerate(rooms)]
    tables = [np.unique(t, axis=0) for t in tables]
    total = np.zeros([len(t) for t in tables], np.int64)
    for u, v in problem.edges.tolist():
        for out, into in ((0, 0), (1, 1), (3, 2)):
            a = tables[u][:, out].reshape([-1 if i == u else 1 for i in range(problem.n)])
            b = tables[v][:, into].reshape([-1 if i == v else 1 for i in range(problem.n)])
            total = total + (a != b)
    return int(total.min())


@pytest.mark.parametrize("edges", [PATH, TRIANGLE, DIAMOND])
@pytest.mark.parametrize("seed", range(3))
def test_adapters_within_boxes_are_as_few_as_by_enumeration(seed: int, edges: tuple[tuple[int, int], ...]) -> None:
    problem = tiny(seed, edges, side=20, blocks=edges == PATH and seed == 2, weights=WEIGHTS)
    tau = problem.longest // 2
    old = scattered(problem, tau)
    assert legal(problem, old)
    new = fit_boxes(RowProgram(problem), old, boxes_of(old), tau)
    assert new is not None and legal(problem, new)
    parts = evaluate(problem, new)
    assert parts.time <= tau
    assert parts.adapters == fewest(problem, [size(p) for p in old], tau) <= evaluate(problem, old).adapters


@pytest.mark.parametrize("seed", range(3))
def test_grown_boxes_help_and_nothing_gets_worse(seed: int) -> None:
    problem = tiny(seed, TRIANGLE, side=20, weights=WEIGHTS)
    tau = problem.longest // 2
    old = scattered(problem, tau)
    boxes = grown(boxes_of(old), problem.width, problem.height)
    for a, b in itertools.combinations(boxes.tolist(), 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
    new = fewest_adapters(problem, WaferSolution(placements=old), tau)
    assert legal(problem, new.placements)
    rooms = [(b[2] - b[0], b[3] - b[1]) for b in boxes.tolist()]
    parts = evaluate(problem, new.placements)
    assert fewest(problem, rooms, tau) <= parts.adapters
    assert parts.score <= evaluate(problem, old).score
