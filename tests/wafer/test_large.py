"""Times too short for the largest kernels alone: against enumerations of tiny instances, and by hand."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from chipmap.deadline import Deadline
from chipmap.formulations.wafer.cpsat_large import large
from chipmap.heuristics.wafer.bounds.score import BoundSearch, NoFloorplanError
from chipmap.instances.wafer.problem import WaferProblem, evaluate, in_order, wafer_problem
from chipmap.instances.wafer.shapes import shapes
from chipmap.methods.chain import Turn
from chipmap.methods.wafer import large as large_kernels
from chipmap.methods.wafer.chain import LARGEST
from chipmap.methods.wafer.large import _refuted, largest, least_tiles, too_short
from chipmap.methods.wafer.state import WaferChainState
from chipmap.run import Run, SolveOptions
from chipmap.solvers import solve_model
from chipmap.solvers.outcome import SolveRequest
from chipmap.validation.wafer.checker import check
from tests.lanes import of_all
from tests.wafer import tiny
from tests.wafer.generated import generated


def turn_of(problem: WaferProblem) -> Turn:
    return Turn(Run(problem.instance, SolveOptions(), check), Deadline())


@pytest.mark.parametrize("seed", range(of_all(120, few=10)))
def test_no_floorplan_is_as_fast_as_a_time_that_is_too_short(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Enumerated optima of time alone: every time below is the least one, so the search must not go beyond it."""
    random = Random(seed)
    weights = tiny.Weights(time=1, wire=0, adapter=0)
    instance = tiny.instance(random, side=9, blocks=False, weights=weights)
    problem, best = wafer_problem(instance), tiny.optimum(instance)
    if best is None:
        return
    monkeypatch.setattr(large_kernels, "SHARE", random.choice((0.02, 0.1, 0.3)))
    monkeypatch.setattr(large_kernels, "TOGETHER", random.choice((0.0, 0.5)))
    time = evaluate(problem, in_order(problem, best[1])).time
    least, turn = BoundSearch(problem).begin(Deadline()), turn_of(problem)
    assert least <= time
    assert least - 1 <= too_short(problem, least, turn) < time
    # with all kernels among the large ones a time is refuted just if it is too short
    monkeypatch.setattr(large_kernels, "SHARE", 0.0)
    monkeypatch.setattr(large_kernels, "TOGETHER", 0.0)
    for tau in (max(1, time // 2), time - 1, time, time + 1):
        some = largest(problem, tau)
        if some is not None:
            assert len(some.kernels) == problem.n
            assert _refuted(problem, some, tau, turn) == (tau < time)


def test_where_sides_do_not_add_up() -> None:
    """Seven of 90 kernels have least boxes of 258 × 45 on 301 × 299 tiles: six lie above each other, none stands beside
    them. The first other box that leaves the others room and helps is 210 × 56, at 606,816 quarters."""
    problem = wafer_problem(generated(29))
    search = BoundSearch(problem)
    least = search.begin(Deadline())
    some = largest(problem, least)
    assert some is not None and len(some.kernels) == 7
    t = int(problem.types[problem.names.index(some.kernels[0].name)])
    boxes = shapes(problem, least)[t][:, :2]
    assert boxes[boxes.prod(axis=1).argmin()].tolist() in ([258, 45], [45, 258])
    search.exclude(too_short(problem, least, turn_of(problem)))
    assert 1.04 * least < search.least <= 606_816
    assert [210, 56] in shapes(problem, 606_816)[t][:, :2].tolist()


@pytest.mark.parametrize("free", [0, 25])
def test_the_others_need_room(free: int) -> None:
    """At one time of tests/wafer/generated.py's seed 29 the seven have a place, but in boxes of more tiles than the
    others leave."""
    problem = wafer_problem(generated(29))
    some = largest(problem, 605_520)
    tiles = least_tiles(problem, 605_520)
    assert some is not None and tiles is not None
    left = problem.width * problem.height - int(tiles.sum())
    for room, feasible in ((left - free, False), (problem.width * problem.height, True)):
        outcome = solve_model(large(some, 605_520, room), SolveRequest(work_limit=5.0, threads=1), "cpsat")
        assert (outcome.value_of is not None) == feasible


@pytest.mark.parametrize("seed", range(6))
def test_what_is_excluded_leaves_the_search(seed: int) -> None:
    """At any moment: bounds stay below the optimum of the times that are left, and rise to them at least."""
    random = Random(seed)
    weights = tiny.Weights(time=2, wire=random.choice((0, 1, 5)), adapter=random.choice((0, 3)))
    instance = tiny.instance(random, kernels=2, side=8, blocks=False, weights=weights)
    problem, best = wafer_problem(instance), tiny.optimum(instance)
    if best is None:
        return
    search = BoundSearch(problem)
    least = search.begin(Deadline())
    if seed % 2:
        left = iter(range(40))
        search.go_on(None, Deadline(ended=lambda: None if next(left, None) is not None else "interrupted"), _ignored)
    time = evaluate(problem, in_order(problem, best[1])).time
    search.exclude(time - 1)
    assert search.least == max(least, time)
    assert all(part.low >= time and part.bound >= 2 * time for part in search.heap)
    assert 2 * time <= search.go_on(best[0], Deadline(), _ignored) <= best[0]


def _ignored(value: int, source: str) -> None:
    assert np.isfinite(value) and source


def test_where_every_time_is_too_short_no_bound_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the longest time that a kernel can take there is no floorplan: that is told, not a time."""
    problem = wafer_problem(tiny.instance(Random(1), side=9, weights=tiny.Weights(time=1, wire=0, adapter=0)))
    monkeypatch.setattr(large_kernels, "too_short", lambda problem, least, turn: problem.longest)
    state, turn = WaferChainState(problem, 0), turn_of(problem)
    LARGEST.work(state, turn)
    assert turn.run.lower is None
    with pytest.raises(NoFloorplanError):
        state.bounds.go_on(None, Deadline(), turn.bound)
