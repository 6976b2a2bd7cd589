"""Bounds of graphs with a core, whose ranges cost twice: never more than a floorplan, and never above the optimum."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import numpy as np
import pytest

from chipmap.heuristics.wafer.bounds import clusters
from chipmap.heuristics.wafer.bounds.clusters import plan
from chipmap.heuristics.wafer.bounds.elimination import Elimination
from chipmap.heuristics.wafer.bounds.score import NoFloorplanError
from tests.lanes import of_all
from tests.wafer.test_bounds import bound, make, optimum
from tests.wafer.test_bounds_links import cut, slack, wired

#: Long cycles, alone, with a chord, with ends outside, and paths beside a cycle that is no core.
GRAPHS: list[list[tuple[int, int]]] = [
    [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)],
    [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (0, 3)],
    [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (1, 5)],
    [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 1), (2, 5)],
]


@pytest.mark.parametrize("seed", range(of_all(60, few=4)))
def test_wires_of_cut_boxes_are_no_shorter(seed: int) -> None:
    """Boxes cut from a fabric and swapped so that the slack shrinks."""
    random = Random(seed)
    edges = GRAPHS[seed % len(GRAPHS)]
    n = 1 + max(max(edge) for edge in edges)
    width, height = random.randint(5, 16), random.randint(4, 16)
    program = Elimination(wired(random, n, edges, (width, height)), False)
    assert program.plan.core == (seed % len(GRAPHS) != 2)
    pieces = np.array(cut(random, (0, 0, width, height), random.choice((4, 12, width * height // n))))
    if len(pieces) < n:
        return
    chosen = random.sample(range(len(pieces)), n)
    least = slack(program, pieces[chosen], True)
    for _ in range(15):
        at, other = random.randrange(n), random.randrange(len(pieces))
        tried = [chosen[at] if p == other else other if i == at else p for i, p in enumerate(chosen)]
        if (new := slack(program, pieces[tried], True)) <= least:
            chosen, least = tried, new
    assert least >= -1e-6


@pytest.mark.parametrize("seed", range(of_all(60, few=3)))
def test_never_above_the_optimum_with_a_kernel_outside(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "CORE", 0.5)
    random = Random(9000 + seed)
    problem = make(random, 4, [(0, 1), (1, 2), (0, 2), (2, 3)], (random.randint(5, 6), random.randint(4, 5)), False)
    assert plan(problem).outside.tolist() == [False, False, False, True]
    best = optimum(problem)
    with suppress(NoFloorplanError):
        found = bound(problem)
        assert best is None or found <= best
