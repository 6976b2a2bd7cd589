"""The search over slicing trees: valid layouts, its own score, reproducible, and its moves undone exactly."""

from __future__ import annotations

import numpy as np
import pytest

from chipmap.deadline import Deadline, StopReason
from chipmap.heuristics.wafer.adapters import boxes_of as boxes_between
from chipmap.heuristics.wafer.published.cu_poker import Found, Placer, TimeSearch
from chipmap.heuristics.wafer.slicing import annealing_kernel as kernel
from chipmap.heuristics.wafer.slicing import moves_kernel
from chipmap.heuristics.wafer.slicing.annealing import Search, search
from chipmap.heuristics.wafer.slicing.guillotine import guillotine
from chipmap.heuristics.wafer.slicing.orders import order_search
from chipmap.heuristics.wafer.slicing.program import OrderProgram
from chipmap.heuristics.wafer.slicing.sizing import Sizing
from chipmap.heuristics.wafer.slicing.trees import boxes_of, floor_of, state_of
from chipmap.inputs.reading import read
from chipmap.instances.wafer import WaferInstance, WaferSolution
from chipmap.instances.wafer.problem import depth_first_order, evaluate, wafer_problem
from chipmap.validation.brute_force import brute_force
from chipmap.validation.wafer.checker import check
from tests.wafer.random_instances import free, made


def chain(count: int = 12) -> WaferInstance:
    kernels = {f"k{i}": {"H": 4 + i % 3, "W": 4, "C": 4 + i % 2, "K": 8} for i in range(count)}
    edges = [(f"k{i}", f"k{j}") for i in range(count) for j in (i + 1, i + 3) if j < count]
    instance = made(60, 40, "", kernels, wire_weight=2)
    return WaferInstance(
        name="chain", kernels=instance.kernels, edges=tuple(edges), fabric=instance.fabric, weights=instance.weights
    )


@pytest.mark.parametrize("name", sorted(free()))
def test_every_feature_gives_a_valid_layout(name: str) -> None:
    instance = free()[name]
    solution = search(wafer_problem(instance), 1, Deadline(), runs=2)
    if solution is not None:
        assert not check(instance, solution).violations


def test_it_improves_and_reports_what_it_returns() -> None:
    problem = wafer_problem(chain())
    reported: list[WaferSolution] = []
    solution = search(problem, 3, Deadline(), reported.append, runs=3)
    scores = [evaluate(problem, s.placements).score for s in reported]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) > 1
    assert solution == reported[-1]
    certificate = check(problem.instance, solution)
    assert not certificate.violations
    assert certificate.objective == scores[-1]


def test_the_same_seed_gives_the_same_layout() -> None:
    problem = wafer_problem(chain())
    first = search(problem, 5, Deadline(), runs=2)
    assert first == search(problem, 5, Deadline(), runs=2)


def test_it_stops_when_asked() -> None:
    asked = []

    def soon() -> StopReason | None:
        asked.append(1)
        return None if len(asked) < 3 else "interrupted"

    search(wafer_problem(chain()), 1, Deadline(ended=soon))
    assert len(asked) <= 4


def test_rejected_moves_leave_no_trace() -> None:
    problem = wafer_problem(chain())
    sizing = Sizing(problem)
    program = OrderProgram(sizing, depth_first_order(problem))
    tau = program.least(sizing.area_time())
    floor = floor_of(sizing, np.unique(np.geomspace(tau, 2 * tau, 20).astype(np.int64)))
    for seed in range(4):
        state = state_of(sizing, program.tree(np.random.default_rng(seed)), 0, seed)
        kernel.restart(state, floor)
        kernel.anneal(state, floor, 3000, 400.0, 4.0, 0.2)
        score = int(state.score[0])
        fresh = state_of(sizing, program.tree(), 0, seed)
        fresh.tree[:] = state.tree
        kernel.restart(fresh, floor)
        assert int(fresh.score[0]) == score
        assert sorted(fresh.tree[moves_kernel.LEFT : moves_kernel.RIGHT + 1, :-1].ravel().tolist())[
            2 * problem.n :
        ] == sorted(set(range(2 * problem.n - 1)) - {int(fresh.tree[moves_kernel.ROOT, -1])})


@pytest.mark.parametrize("name", ["three upright", "strides and filters", "no edges", "wires only"])
def test_it_is_never_below_the_optimum(name: str) -> None:
    instance = free()[name]
    solution = search(wafer_problem(instance), 1, Deadline(), runs=3)
    best, _ = brute_force(instance, check)
    assert solution is not None
    assert best is not None
    assert evaluate(wafer_problem(instance), solution.placements).score >= best


def test_a_run_stays_on_its_best() -> None:
    work = Search(wafer_problem(chain()), 2)
    seen = []
    for _ in range(3):
        work.run(Deadline(), lambda solution: None)
        seen.append(work.score)
    assert seen == sorted(seen, reverse=True)


def test_orders_are_searched_where_only_the_time_counts() -> None:
    """The search over orders finds shorter times than the depth-first order has, legal and never below the area's."""
    instance = read("wafer/ispd2020-D", ["weights.wire=0"])
    assert isinstance(instance, WaferInstance)
    problem = wafer_problem(instance)
    scores: list[int] = []

    def improved(solution: WaferSolution) -> None:
        certificate = check(instance, solution)
        assert certificate.feasible and certificate.objective is not None
        scores.append(certificate.objective)

    found = order_search(problem, 1, Deadline(), improved, orders=40)
    assert found is not None and scores == sorted(scores, reverse=True) and len(scores) > 1
    assert scores[-1] == evaluate(problem, found.placements).score >= Sizing(problem).area_time()
    assert order_search(problem, 1, Deadline(), lambda solution: None, orders=40) == found


def rows(instance: WaferInstance) -> Found:
    found = TimeSearch(Placer(wafer_problem(instance))).run()
    assert found is not None
    return found


def test_a_row_layout_becomes_a_tree_that_fits_in_its_time() -> None:
    problem = wafer_problem(chain())
    found = rows(problem.instance)
    boxes = boxes_between(found.placements)
    cut = guillotine(boxes)
    assert cut is not None
    sizing = Sizing(problem)
    again = boxes_of(sizing, cut[0], found.parts.time, cut[1])
    assert (again[:, 0] + again[:, 2]).max() <= boxes[:, 2].max()
    assert (again[:, 1] + again[:, 3]).max() <= boxes[:, 3].max()


def test_a_pinwheel_has_no_tree() -> None:
    pinwheel = np.array([[0, 0, 2, 1], [2, 0, 3, 2], [1, 2, 3, 3], [0, 1, 1, 3], [1, 1, 2, 2]])
    assert guillotine(pinwheel) is None
    assert guillotine(pinwheel[:4]) is None
    assert guillotine(pinwheel[:3]) is not None


@pytest.mark.parametrize("seed", range(3))
def test_a_start_is_never_made_worse(seed: int) -> None:
    instance = chain()
    found = rows(instance)
    start = WaferSolution(instance=instance.name, placements=tuple(found.placements))
    best = search(wafer_problem(instance), seed, Deadline(), runs=2, start=start)
    assert best is not None
    certificate = check(instance, best)
    assert not certificate.violations
    assert certificate.objective is not None
    assert certificate.objective <= found.parts.score
