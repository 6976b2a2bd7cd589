"""The bounds against the problem as its page states it: hubs, cycles, paths, trees, tables and weights of all kinds."""

from __future__ import annotations

import pytest

from chipmap import SolveOptions, solve
from chipmap.heuristics.wafer.bounds.score import NoFloorplanError
from chipmap.instances.wafer.instance import special
from chipmap.instances.wafer.problem import wafer_problem
from tests.lanes import of_all
from tests.wafer.page_cpsat import drawn, optimum
from tests.wafer.test_bounds import bound

#: CP-SAT's deterministic work on one instance. No bound may lie above a floorplan, proved or not.
WORK = 0.3


@pytest.mark.parametrize("seed", range(of_all(500, few=8)))
def test_no_bound_lies_above_a_floorplan_of_the_page(seed: int) -> None:
    instance = drawn(seed)
    best, _ = optimum(instance, WORK)
    if special(instance):
        result = solve(instance, "wafer/bounds", SolveOptions(time_limit=1.0, threads=1), isolate=False)
        value, refuted = result.bound or 0, result.status == "infeasible"
    else:
        value, refuted = 0, False
        try:
            value = bound(wafer_problem(instance), checks=60)
        except NoFloorplanError:
            refuted = True
    assert best is None or (not refuted and value <= best)
