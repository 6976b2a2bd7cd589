"""The CP-SAT model of family ``wafer`` against plain enumeration: every way to state it, starts, cutoffs, targets."""

from __future__ import annotations

from typing import Any

import pytest
from ortools.sat.python import cp_model

from chipmap.family import Standing
from chipmap.formulations.built import Built
from chipmap.formulations.wafer.cpsat import WaferCpChoices, add_wafer, build
from chipmap.formulations.wafer.options import Limits, _tilings, _tilings_in_all, least_time, options
from chipmap.instances.wafer import Fabric, Kernel, WaferInstance, Weights
from chipmap.instances.wafer.problem import evaluate, wafer_problem
from chipmap.records import InputError
from chipmap.solvers import infeasible_labels, solve_model
from chipmap.solvers.outcome import Outcome, SolveRequest
from tests.wafer import tiny
from tests.wafer.cases import IMPOSSIBLE, SEEDS, WORSE, best, instance, line

CHOICES: tuple[dict[str, Any], ...] = (
    {"labels": "assume"},
    {"cuts": ()},
    {"cuts": ("area",)},
    {"cuts": ("pairwise",)},
    {"cuts": ("triangle",)},
    {"symmetry": "none"},
)


def solved(model: Built, **request: Any) -> Outcome:
    return solve_model(model, SolveRequest(**{"threads": 1, "time_limit": 60.0, **request}))


def check(seed: int, model: Built) -> None:
    """The model's optimum is that of enumeration, and its floorplan is valid and scores so."""
    outcome = solved(model)
    assert outcome.termination.reason == "optimal" and outcome.value_of is not None
    solution = model.decode(outcome.value_of)
    problem = wafer_problem(instance(seed))
    assert tiny.valid(problem, solution)
    assert outcome.objective == tiny.score(problem, solution) == best(seed)[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_optimum_is_that_of_enumeration(seed: int) -> None:
    model = build(instance(seed))
    assert model.standing is Standing.EXACT
    check(seed, model)


@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_every_way_to_state_it_keeps_the_optimum(choices: dict[str, Any]) -> None:
    for seed in SEEDS[::4]:
        model = build(instance(seed), choices)
        assert model.standing is Standing.EXACT
        check(seed, model)


@pytest.mark.parametrize("seed", IMPOSSIBLE)
def test_what_enumeration_cannot_place_is_infeasible(seed: int) -> None:
    assert tiny.optimum(instance(seed)) is None
    for choices in ({}, *CHOICES):
        assert solved(build(instance(seed), choices)).termination.reason == "infeasible"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_start_is_accepted_and_comes_back(seed: int) -> None:
    """decode(encode(s)) has s's score and is a fixed point; the solver takes it as a start."""
    optimum, solution = best(seed)
    problem, model = wafer_problem(instance(seed)), build(instance(seed))
    pairs = model.encode(solution)
    assert pairs is not None
    once = model.decode(reader(pairs))
    assert tiny.valid(problem, once) and tiny.score(problem, once) == optimum
    again = model.encode(once)
    assert again is not None and model.decode(reader(again)) == once
    heard: list[float] = []
    outcome = solved(model, start=tuple(pairs), on_solution=lambda _, objective: heard.append(objective))
    assert outcome.start_accepted and heard[0] == optimum


def reader(pairs: list[tuple[Any, float]]) -> Any:
    values = {variable.index: value for variable, value in pairs}
    return lambda variable: values[variable.index]


def test_a_cutoff_keeps_what_is_below_it() -> None:
    for seed in SEEDS[::3]:
        optimum, _ = best(seed)
        check(seed, build(instance(seed), WaferCpChoices(upper=optimum)))
        if optimum:
            outcome = solved(build(instance(seed), WaferCpChoices(upper=optimum - 1)))
            assert outcome.termination.reason == "infeasible"


def test_a_given_target_time_gives_the_best_wires_at_that_time() -> None:
    """Auxiliary: at the optimum's own time the cost is the optimum; at a later one the floorplan scores at most it."""
    for seed in SEEDS:
        optimum, solution = best(seed)
        problem = wafer_problem(instance(seed))
        own = evaluate(problem, tiny.ordered(problem, solution)).time
        for tau in (own, own + 3):
            model = build(instance(seed), {"tau": tau})
            outcome = solved(model)
            assert model.standing is Standing.AUXILIARY and outcome.value_of is not None
            assert outcome.objective is not None
            assert tau > own or outcome.objective == optimum
            assert optimum <= tiny.score(problem, model.decode(outcome.value_of)) <= outcome.objective


def test_the_short_list_is_a_restriction_that_costs_something() -> None:
    """One sizing per box: as good without wires and adapters; with them, adapters (or half tiles) are lost at times."""
    for seed in SEEDS:
        model = build(instance(seed), {"options": "front"})
        weights = instance(seed).weights
        free = weights.wire == weights.adapter == 0
        assert model.standing is (Standing.EXACT if free else Standing.RESTRICTION)
        outcome = solved(model)
        assert outcome.value_of is not None and outcome.objective is not None
        solution = model.decode(outcome.value_of)
        problem = wafer_problem(instance(seed))
        assert tiny.valid(problem, solution) and tiny.score(problem, solution) == outcome.objective
        assert outcome.objective >= best(seed)[0] and (not free or outcome.objective == best(seed)[0])
        assert seed not in WORSE or outcome.objective > best(seed)[0]


def test_two_fabrics_in_one_model() -> None:
    """Two instances side by side under one common time: the least of the larger time plus both wires."""
    pair = [line(Weights(time=0, wire=1), width) for width in (12, 18)]
    native = cp_model.CpModel()
    both = [add_wafer(native, one, prefix=f"{i} ") for i, one in enumerate(pair)]
    names = [variable.name for variable in native.proto.variables if variable.name]
    assert len(set(names)) == len(names)
    slowest = native.new_int_var(0, 10**6, "slowest")
    for one in both:
        native.add(one.time <= slowest)
    native.minimize(slowest + sum(one.cost for one in both))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers, solver.parameters.max_time_in_seconds = 1, 60.0
    assert solver.solve(native) == cp_model.OPTIMAL
    times = sorted({option.time for one in both for chosen in one.decisions.sizing.options for option in chosen})
    costs = [[cost_within(one, time) for one in pair] for time in times]
    wanted = min(time + sum(cost) for time, cost in zip(times, costs, strict=True) if None not in cost)
    assert solver.objective_value == wanted
    for variables, alone in zip(both, pair, strict=True):
        assert tiny.valid(wafer_problem(alone), variables.decode(solver.value))


def cost_within(one: WaferInstance, tau: int) -> Any:
    """The least score without its time, within ``tau`` (a model of its own: this test is about two in one)."""
    return solved(build(one, {"tau": tau})).objective


def test_options_are_few_and_needed() -> None:
    """No option of one type is as narrow, low and fast as another with the same labels and parities."""
    for seed in SEEDS:
        problem = wafer_problem(instance(seed))
        labelled = problem.instance.weights.adapter > 0
        parity = 2 if problem.instance.weights.wire else 1
        for chosen in options(problem, Limits()):
            keys = [(o.width % parity, o.height % parity, o.labels if labelled else ()) for o in chosen]
            for i, a in enumerate(chosen):
                for j, b in enumerate(chosen):
                    within = a.width <= b.width and a.height <= b.height and a.time <= b.time
                    assert i == j or keys[i] != keys[j] or not within


def test_the_area_bound_is_the_least_time_that_leaves_room() -> None:
    for seed in SEEDS:
        problem = wafer_problem(instance(seed))
        tau = least_time(problem)
        assert tau is not None
        needed = [area(problem, late) for late in (tau, tau - 1)]
        assert needed[0] is not None and needed[0] <= problem.width * problem.height
        assert needed[1] is None or needed[1] > problem.width * problem.height


def area(problem: Any, tau: int) -> int | None:
    listed = options(problem, Limits("front", tau=tau))
    if not all(listed):
        return None
    return sum(min(o.width * o.height for o in listed[t]) for t in problem.types)


def test_an_infeasible_model_names_the_labels_that_clash() -> None:
    crowd = line(Weights(), 12).replace(fabric=Fabric(width=3, height=3))
    poor = line(Weights(), 12).replace(fabric=Fabric(width=12, height=5, memory_words=1))
    for one, labels in ((crowd, {"c1_inside", "c2_no_overlap"}), (poor, {"c3_memory"})):
        model = build(one, {"labels": "assume", "cuts": ()})
        assert solved(model).termination.reason == "infeasible"
        assert labels <= set(infeasible_labels(model, SolveRequest(time_limit=30.0, threads=1), "cpsat"))


def test_bad_choices_and_endless_lists_are_refused() -> None:
    with pytest.raises(InputError, match="is -1"):
        build(instance(2), {"tau": -1})
    block = Kernel(name="b", kind="dblock", arguments={"H": 56, "W": 56, "F": 256})
    large = WaferInstance(name="large", kernels=(block,), edges=(), weights=Weights(adapter=1))
    with pytest.raises(InputError, match="sizings"):
        build(large)
    for limit in range(30):  # they are counted before they are listed
        for unequal in (False, True):
            assert _tilings_in_all(limit, unequal) == len(list(_tilings(limit, unequal)))
