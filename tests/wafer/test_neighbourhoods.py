"""CP-SAT neighbourhoods of a floorplan: what is fixed stays, what is free is solved exactly, nothing gets worse."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from chipmap.formulations.built import Built
from chipmap.formulations.wafer.cpsat import build
from chipmap.formulations.wafer.cpsat_window import same_order, window, with_labels
from chipmap.formulations.wafer.options import Limits, options
from chipmap.instances.wafer import Placement, WaferSolution
from chipmap.instances.wafer.problem import WaferProblem, evaluate, in_order, least_widths, wafer_problem
from chipmap.instances.wafer.shapes import shapes
from chipmap.methods.wafer.neighbourhoods import Neighbourhoods, search_neighbourhoods
from chipmap.run import Run, SolveOptions
from chipmap.solvers import solve_model
from chipmap.solvers.outcome import SolveRequest
from chipmap.validation.wafer.checker import check
from tests.wafer import tiny

#: Instances with several kernels joined by wires, on fabrics with some room.
SEEDS = (5, 12, 38, 60, 93)
#: Instances on which a side of another parity saves wire.
PARITIES = (103, 199)


def crude(seed: int) -> tuple[WaferProblem, list[Placement]]:
    """A valid floorplan that nobody has optimised for wires or adapters, by the model of the time alone."""
    one = tiny.instance(Random(seed))
    problem = wafer_problem(one.replace(weights=one.weights.replace(time=1, wire=0, adapter=0)))
    model = build(problem.instance, {"symmetry": "none"})
    outcome = solve_model(model, SolveRequest(threads=1, time_limit=30.0))
    assert outcome.value_of is not None
    weights = one.weights.replace(time=1, wire=3, adapter=5)
    return wafer_problem(one.replace(weights=weights)), in_order(problem, model.decode(outcome.value_of))


def every(problem: WaferProblem, tau: int) -> dict[int, list[Any]]:
    listed = options(problem, Limits(tau=tau))
    return {v: list(listed[int(problem.types[v])]) for v in range(problem.n)}


def solved(problem: WaferProblem, model: Built) -> tuple[list[Placement], int]:
    outcome = solve_model(model, SolveRequest(threads=1, time_limit=30.0))
    assert outcome.termination.reason == "optimal" and outcome.value_of is not None and outcome.objective is not None
    solution = model.decode(outcome.value_of)
    certificate = check(problem.instance, solution)
    assert certificate.feasible and certificate.objective is not None
    assert certificate.objective <= round(outcome.objective)  # the solver reports a float
    return in_order(problem, solution), round(outcome.objective)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_window_of_all_kernels_is_the_whole_model(seed: int) -> None:
    problem, placements = crude(seed)
    tau = evaluate(problem, placements).time
    whole = solve_model(build(problem.instance, {"tau": tau}), SolveRequest(threads=1, time_limit=30.0))
    _, found = solved(problem, window(problem, placements, every(problem, tau), tau))
    assert found == whole.objective


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_not_free_stays(seed: int) -> None:
    problem, placements = crude(seed)
    tau = evaluate(problem, placements).time
    before = evaluate(problem, placements)
    for free in range(problem.n):
        menu = {free: every(problem, tau)[free]}
        after, found = solved(problem, window(problem, placements, menu, tau))
        assert found <= before.score
        assert all(after[v] == placements[v] for v in range(problem.n) if v != free)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_order_is_no_worse_than_the_floorplan_and_no_better_than_the_model(seed: int) -> None:
    problem, placements = crude(seed)
    tau = evaluate(problem, placements).time
    menu = every(problem, tau)
    _, found = solved(problem, same_order(problem, placements, menu, tau))
    _, best = solved(problem, window(problem, placements, menu, tau))
    assert best <= found <= evaluate(problem, placements).score


@pytest.mark.parametrize("seed", SEEDS)
def test_boxes_of_each_parity_against_all_boxes(seed: int) -> None:
    problem, placements = crude(seed)
    tau = evaluate(problem, placements).time
    for convs, found in zip(problem.type_arrays, shapes(problem, tau, parities=True), strict=True):
        widths, _ = least_widths(convs, tau, problem.memory, max(problem.width, problem.height), 0)
        upright = [(int(w), h) for h, w in enumerate(widths) if w]
        turned = [box for w, h in upright for box in ((w, h), (h, w))]
        boxes = {(w, h) for w, h in turned if w <= problem.width and h <= problem.height}

        def beaten(box: tuple[int, int], others: set[tuple[int, int]] = boxes) -> bool:
            alike = [o for o in others - {box} if (o[0] - box[0]) % 2 == (o[1] - box[1]) % 2 == 0]
            return any(o[0] <= box[0] and o[1] <= box[1] for o in alike)

        assert sorted((w, h) for w, h, *_ in found.tolist()) == sorted(box for box in boxes if not beaten(box))


def ordered(problem: WaferProblem, placements: list[Placement], plain: bool) -> int:
    """The score of all kernels in their order, by the search's own menu or by Pareto-minimal boxes alone."""
    start = WaferSolution(instance=problem.instance.name, placements=tuple(placements))
    search, every_kernel = Neighbourhoods(problem, start, 0, lambda better: None), tuple(range(problem.n))
    search.size = 0
    if plain:
        search.ordered = search.fronts
    return solved(problem, search.model(every_kernel))[1]


def test_kernels_in_their_order_take_boxes_of_other_parities() -> None:
    """A box of even sides round a centre of odd ones costs half a tile of each wire."""
    scores = [(ordered(*crude(seed), False), ordered(*crude(seed), True)) for seed in PARITIES]
    assert all(ours < plain for ours, plain in scores)


@pytest.mark.parametrize("deterministic", (False, True))
@pytest.mark.parametrize("seed", (12, 60, 93))
def test_the_search_finds_what_neighbourhoods_hold(seed: int, deterministic: bool) -> None:
    """Two kernels: a neighbourhood of both is the whole model at the floorplan's time, so its optimum is found."""
    problem, placements = crude(seed)
    tau = evaluate(problem, placements).time
    heard: list[WaferSolution] = []
    start = WaferSolution(instance=problem.instance.name, placements=tuple(placements))
    run = Run(problem.instance, SolveOptions(time_limit=30.0, deterministic=deterministic), check)
    tally = search_neighbourhoods(run, problem, start, run.deadline, heard.append)
    _, best = solved(problem, window(problem, placements, every(problem, tau), tau))
    assert tally.gained == len(heard) and tally.tried > tally.gained
    assert all(check(problem.instance, better).feasible for better in heard)
    found = [evaluate(problem, in_order(problem, better)) for better in heard]
    scores = [evaluate(problem, placements).score, *(parts.score for parts in found)]
    assert scores == sorted(set(scores), reverse=True) and scores[-1] <= best
    assert all(parts.time <= tau for parts in found)


def test_neighbourhoods_are_the_same_again() -> None:
    """With one thread and deterministic work, no clock decides."""
    problem, placements = crude(60)
    start = WaferSolution(instance=problem.instance.name, placements=tuple(placements))
    heard: list[list[WaferSolution]] = []
    for _ in range(2):
        run = Run(problem.instance, SolveOptions(time_limit=60.0, deterministic=True), check)
        heard.append([])
        search_neighbourhoods(run, problem, start, run.deadline, heard[-1].append)
    assert heard[0] == heard[1]


def test_sizings_with_labels_run_in_time_and_within_memory() -> None:
    for seed in (60, 76):
        problem = wafer_problem(tiny.instance(Random(seed)))
        tau = 4 * max(option.time for option in options(problem, Limits())[0])
        for v in range(problem.n):
            found = with_labels(problem, v, tau, [(1, 1), (2, 1)], {1})
            assert {option.labels[:2] for option in found} <= {(1, 1), (2, 1)}
            for option in found:
                alone = problem.instance.replace(
                    kernels=tuple(k for k in problem.instance.kernels if k.name == problem.names[v]), edges=()
                )
                solution = WaferSolution(placements=(option.placement(problem.names[v], 0, 0),))
                assert check(alone, solution).feasible
                assert evaluate(wafer_problem(alone), solution.placements).time <= tau
