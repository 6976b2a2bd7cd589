"""Finer multipliers and narrower strips, where the search for bounds has come to its end."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from chipmap.deadline import Deadline
from chipmap.heuristics.wafer.bounds.elimination import SIZE
from chipmap.heuristics.wafer.bounds.multipliers import Climb
from chipmap.heuristics.wafer.bounds.packing import FloatArray
from chipmap.heuristics.wafer.bounds.score import FINEST, BoundSearch
from chipmap.instances.wafer import Fabric, WaferInstance, Weights
from chipmap.instances.wafer.problem import wafer_problem
from tests.lanes import of_all
from tests.wafer.test_bounds import GRAPHS, conv, make, optimum


def ended(search: BoundSearch, upper: int) -> int:
    """What a search has when it comes to its end."""
    return search.go_on(upper, Deadline(), lambda value, source: None)


@pytest.mark.parametrize("seed", range(of_all(60, few=12)))
def test_a_finer_search_stays_below_the_optimum(seed: int) -> None:
    random = Random(9000 + seed)
    n = random.choice((2, 2, 3))
    problem = make(random, n, random.choice(GRAPHS[n]), (random.randint(4, 6), random.randint(4, 6)), blocks=False)
    best = optimum(problem)
    if best is None:
        return
    plain, finer = ended(BoundSearch(problem), best + 8), ended(BoundSearch(problem, FINEST), best + 8)
    assert plain <= finer <= best


def test_a_finer_search_goes_on_where_another_one_ends() -> None:
    """Five kernels in a cycle: the search ends later, at the same bound or a higher one."""
    kernels = tuple(conv(f"k{i}", (2 + 2 * (i % 3), 4, 3, 3, 8, 8, 1)) for i in range(5))
    edges = tuple((f"k{i}", f"k{(i + 1) % 5}") for i in range(5))
    fabric, weights = Fabric(width=28, height=27), Weights(time=1, wire=1, adapter=0)
    instance = WaferInstance(name="cycle", kernels=kernels, edges=edges, fabric=fabric, weights=weights)
    problem = wafer_problem(instance)
    plain, finer = BoundSearch(problem), BoundSearch(problem, FINEST)
    assert ended(plain, plain.most) <= ended(finer, plain.most)
    assert not any(part.finer for part in plain.heap)
    assert max(part.finer for part in finer.heap) == FINEST


class Roof:
    """A program whose value is a million and the lesser of 10 m and 100 - 10 m, m the first multiplier."""

    def evaluate(self, states: object, ranges: object, at: FloatArray, deadline: Deadline) -> SimpleNamespace:
        slope = np.zeros(SIZE)
        slope[0] = 10 if at[0] < 5 else -10
        return SimpleNamespace(value=1e6 + min(10 * at[0], 100 - 10 * at[0]), slope=slope)

    def caps(self, ranges: object) -> FloatArray:
        return np.array([10.0, *[0.0] * (SIZE - 1)])


@pytest.mark.parametrize("times", range(3))
def test_a_finer_climb_rests_at_a_smaller_promise(times: int) -> None:
    """At rest, the value is as near to the best, 1,000,050, as the promise says; that is a tenth with each time."""
    climb, program, ranges = Climb(patience=50), cast(Any, Roof()), cast(Any, None)
    climb.promise = 1e-4
    for _ in range(times + 1):
        climb.climb(program, [], ranges, 60, Deadline())
        assert climb.rests
        rested = climb.value
        climb.go_finer()
        assert not climb.rests
    assert 1_000_050 - rested <= 100 * 0.1**times
