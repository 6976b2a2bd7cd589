"""The MIP of family ``wafer`` against plain enumeration, by HiGHS and Gurobi, in every way to state it."""

from __future__ import annotations

from typing import Any

import pyomo.environ as pyo
import pytest

from chipmap.family import Standing
from chipmap.formulations.built import Built
from chipmap.formulations.wafer.choices import WaferChoices
from chipmap.formulations.wafer.mip import add_wafer, build, decode
from chipmap.instances.wafer import Fabric, Weights
from chipmap.instances.wafer.problem import wafer_problem
from chipmap.records import InputError
from chipmap.solvers import infeasible_labels, solve_model
from chipmap.solvers.outcome import Outcome, SolveRequest
from tests.wafer import tiny
from tests.wafer.cases import IMPOSSIBLE, SEEDS, best, instance, line

CHOICES: tuple[dict[str, Any], ...] = (
    {"cuts": ()},
    {"cuts": ("pairwise",)},
    {"cuts": ("area", "triangle")},
    {"symmetry": "none"},
)
SOLVERS = ("highs", "gurobi")
#: The smaller half of them, for what is tried in many ways.
FEW = (5, 7, 25, 38, 93, 156)


def solved(model: Built, solver: str, **request: Any) -> Outcome:
    return solve_model(model, SolveRequest(**{"threads": 1, "time_limit": 60.0, **request}), solver)


def check(seed: int, model: Built, solver: str) -> None:
    """The model's optimum is that of enumeration, and its floorplan is valid and scores so."""
    outcome = solved(model, solver)
    assert outcome.termination.reason == "optimal" and outcome.value_of is not None
    solution = model.decode(outcome.value_of)
    problem = wafer_problem(instance(seed))
    assert tiny.valid(problem, solution)
    assert outcome.objective == pytest.approx(best(seed)[0], rel=1e-6, abs=1e-6)
    assert tiny.score(problem, solution) == best(seed)[0]


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_optimum_is_that_of_enumeration(seed: int, solver: str) -> None:
    model = build(instance(seed))
    assert model.standing is Standing.EXACT
    check(seed, model, solver)


@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_every_way_to_state_it_keeps_the_optimum(choices: dict[str, Any]) -> None:
    for seed in FEW:
        for solver in SOLVERS:
            check(seed, build(instance(seed), choices), solver)


@pytest.mark.parametrize("seed", IMPOSSIBLE)
def test_what_enumeration_cannot_place_is_infeasible(seed: int) -> None:
    for choices in ({}, *CHOICES[:2]):
        for solver in SOLVERS:
            assert solved(build(instance(seed), choices), solver).termination.reason == "infeasible"


@pytest.mark.parametrize("seed", FEW)
def test_a_start_is_accepted_and_comes_back(seed: int) -> None:
    optimum, solution = best(seed)
    problem, model = wafer_problem(instance(seed)), build(instance(seed))
    pairs = model.encode(solution)
    assert pairs is not None
    values = {id(variable): value for variable, value in pairs}
    once = model.decode(lambda variable: values[id(variable)])
    assert tiny.valid(problem, once) and tiny.score(problem, once) == optimum
    for solver in SOLVERS:
        outcome = solved(model, solver, start=tuple(pairs))
        assert outcome.start_accepted and outcome.objective == pytest.approx(optimum)


def test_cutoff_and_target_time() -> None:
    for seed in FEW:
        optimum, _ = best(seed)
        check(seed, build(instance(seed), WaferChoices(upper=optimum)), "highs")
        if optimum:
            below = solved(build(instance(seed), WaferChoices(upper=optimum - 1)), "highs")
            assert below.termination.reason == "infeasible"
        late = build(instance(seed), {"tau": 10**4})
        outcome = solved(late, "highs")
        assert late.standing is Standing.AUXILIARY and outcome.value_of is not None
        assert tiny.score(wafer_problem(instance(seed)), late.decode(outcome.value_of)) >= optimum


@pytest.mark.parametrize("solver", SOLVERS)
def test_an_infeasible_model_names_the_labels_that_clash(solver: str) -> None:
    crowd = line(Weights(), 12).replace(fabric=Fabric(width=3, height=3))
    poor = line(Weights(), 12).replace(fabric=Fabric(width=12, height=5, memory_words=1))
    for one, labels in ((crowd, {"C1", "C2"}), (poor, {"C1", "C3"})):
        model = build(one, {"cuts": ()})
        assert solved(model, solver).termination.reason == "infeasible"
        named = infeasible_labels(model, SolveRequest(time_limit=30.0, threads=1), solver)
        assert labels <= {label.partition("_")[0].upper() for label in named}


def test_two_fabrics_in_one_model() -> None:
    """The sum of two instances' scores in one model is the sum of their optima, and each floorplan is valid."""
    pair = (SEEDS[0], SEEDS[4])
    model = pyo.ConcreteModel()
    model.wafers = pyo.Block([0, 1])
    for i, seed in enumerate(pair):
        add_wafer(model.wafers[i], instance(seed))
    model.objective = pyo.Objective(expr=model.wafers[0].cost + model.wafers[1].cost)
    pyo.SolverFactory("appsi_highs").solve(model, options={"mip_rel_gap": 0.0})
    assert pyo.value(model.objective) == pytest.approx(sum(best(seed)[0] for seed in pair))
    for i, seed in enumerate(pair):
        problem, solution = wafer_problem(instance(seed)), decode(model.wafers[i], pyo.value)
        assert tiny.valid(problem, solution) and tiny.score(problem, solution) == best(seed)[0]


def test_a_used_block_is_refused() -> None:
    model = pyo.ConcreteModel()
    model.x = pyo.Var()
    with pytest.raises(InputError, match="already has components"):
        add_wafer(model, instance(SEEDS[0]))
