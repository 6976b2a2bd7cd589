"""The models on random instances against brute force, composed twice in one model, and exported."""

from __future__ import annotations

from random import Random

import pyomo.environ as pyo
import pytest
from ortools.sat.python import cp_model

from chipmap.formulations.placement import cpsat, mip
from chipmap.instances.placement import PlacementInstance
from chipmap.solvers import solve_model
from chipmap.solvers.outcome import SolveRequest
from chipmap.validation.brute_force import brute_force
from chipmap.validation.placement.checker import check
from tests.placement.random_instances import made, throughput, tiny_instance

#: Random instances that each kind of model is compared on.
NUMBER = 100


@pytest.mark.parametrize("seed", [11, 12])
@pytest.mark.parametrize(("module", "solver"), [(cpsat, "cpsat"), (mip, "highs")], ids=["cpsat", "mip"])
def test_a_model_says_what_brute_force_says(module: object, solver: str, seed: int) -> None:
    """Both objectives, all shorthands of links, memory over time, static and none: the optimum or its absence."""
    random, seen = Random(seed), set[tuple[str, str, bool]]()
    for _ in range(NUMBER):
        instance = tiny_instance(random)
        optimum, _ = brute_force(instance, check)
        model = module.build(instance)  # type: ignore[attr-defined]
        outcome = solve_model(model, SolveRequest(time_limit=60.0, threads=1), solver)
        seen.add((instance.task.objective, instance.task.memory, optimum is None))
        if optimum is None:
            assert outcome.termination.reason == "infeasible"
            continue
        assert outcome.termination.reason == "optimal" and outcome.value_of is not None
        certificate = check(instance, model.decode(outcome.value_of))
        assert certificate.feasible and certificate.objective == optimum
        assert outcome.objective == pytest.approx(optimum, rel=1e-6)
    assert {(objective, rule) for objective, rule, _ in seen} == {
        ("step_time", "none"),
        ("step_time", "static"),
        ("step_time", "live"),
        ("throughput", "none"),
        ("throughput", "static"),
    }
    assert {infeasible for _, _, infeasible in seen} == {True, False}


def pair() -> list[PlacementInstance]:
    """Two instances of different objectives."""
    rows = [(4, 1, 3), (5, 2, 2), (3, 1, 0)]
    return [made(rows, [(0, 2), (1, 2)]), made(rows, [(0, 1), (1, 2)], task=throughput(memory="none"))]


def test_two_instances_in_one_cpsat_model() -> None:
    """Side by side, the sum of both objectives is the sum of the optima."""
    model = cp_model.CpModel()
    made_of = [cpsat.add_placement(model, one, prefix=f"{i}:") for i, one in enumerate(pair())]
    model.minimize(sum(one.cost for one in made_of))
    solver = cp_model.CpSolver()
    assert solver.solve(model) == cp_model.OPTIMAL
    optima = [brute_force(one, check)[0] for one in pair()]
    assert solver.objective_value == sum(value or 0 for value in optima)
    for one, variables, optimum in zip(pair(), made_of, optima, strict=True):
        assert check(one, variables.decode(solver.value)).objective == optimum


def test_two_instances_in_one_pyomo_model() -> None:
    """Two blocks; a joint budget on both costs that the sum of the optima just meets."""
    model = pyo.ConcreteModel()
    model.block = pyo.Block([0, 1])
    for i, one in enumerate(pair()):
        mip.add_placement(model.block[i], one)
    optima = [brute_force(one, check)[0] or 0 for one in pair()]
    model.budget = pyo.Constraint(expr=model.block[0].cost + model.block[1].cost <= sum(optima))
    model.objective = pyo.Objective(expr=model.block[0].cost)
    pyo.SolverFactory("appsi_highs").solve(model)
    for i, one in enumerate(pair()):
        assert check(one, mip.decode(model.block[i], one, pyo.value)).objective == optima[i]
