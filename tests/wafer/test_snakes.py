"""Snakes: the program against all rows of tiny orders, and legal floorplans on the contest's cases."""

from __future__ import annotations

from itertools import pairwise, product
from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray

from chipmap.deadline import Deadline
from chipmap.heuristics.wafer.adapters import boxes_of
from chipmap.heuristics.wafer.rows.snakes import snakes
from chipmap.heuristics.wafer.rows.snakes_kernel import INFINITE, lowest, snake
from chipmap.heuristics.wafer.slicing.guillotine import guillotine
from chipmap.heuristics.wafer.slicing.kernel import NONE
from chipmap.inputs.reading import read
from chipmap.instances.wafer import WaferInstance, WaferSolution
from chipmap.instances.wafer.problem import IntArray, wafer_problem
from chipmap.validation.wafer.checker import check


def by_hand(leaves: NDArray[np.int32], weights: IntArray, cuts: IntArray, width: int, height: int) -> tuple[int, int]:
    """(least wire, least height) over all ways to end rows and all heights of them."""
    n, wire, low = len(leaves), INFINITE, height + 1
    for ends in product((False, True), repeat=n - 1):
        stops = [0, *(j + 1 for j, end in enumerate(ends) if end), n]
        rows = list(pairwise(stops))
        for talls in product(range(1, height + 1), repeat=len(rows)):
            used = [sum(int(leaves[k, tall]) for k in range(a, b)) for (a, b), tall in zip(rows, talls, strict=True)]
            if sum(talls) > height or max(used) > width:
                continue
            low = min(low, sum(talls))
            cost = sum(int(cuts[a] + cuts[b]) * tall for (a, b), tall in zip(rows, talls, strict=True))
            for (a, b), tall in zip(rows, talls, strict=True):
                cost += sum(int(weights[k] * leaves[k, tall]) for k in range(a, b))
            wire = min(wire, cost)
    return wire, low


@pytest.mark.parametrize("seed", range(12))
def test_the_program_is_exact_over_rows(seed: int) -> None:
    random = Random(seed)
    n, width, height = random.randint(1, 4), random.randint(4, 9), random.randint(3, 6)
    leaves = np.full((n, height + 1), NONE, np.int32)
    for k in range(n):
        wide = NONE
        for tall in range(random.randint(1, 2), height + 1):
            wide = min(wide, random.randint(1, width))
            leaves[k, tall] = wide
    weights = np.array([random.randint(0, 4) for _ in range(n)])
    cuts = np.array([0, *(random.randint(0, 3) for _ in range(n - 1)), 0])
    wire, low = by_hand(leaves, weights, cuts, width, height)
    assert snake(leaves, weights, cuts, width, height)[0][n, height] == wire
    assert min(int(lowest(leaves, width, height)), height + 1) == low


@pytest.mark.parametrize("case", ["A", "J"])
def test_floorplans_are_legal_and_slicing(case: str) -> None:
    instance = read(f"wafer/ispd2020-{case}")
    assert isinstance(instance, WaferInstance)
    problem, found = wafer_problem(instance), list[WaferSolution]()
    best = snakes(problem, Deadline(), found.append)
    scores = [check(instance, solution) for solution in found]
    assert best is found[-1] and all(one.feasible for one in scores)
    assert [one.objective for one in scores] == sorted((one.objective or 0 for one in scores), reverse=True)
    assert guillotine(boxes_of(best.placements)) is not None
