"""The models on random instances against brute force, composed twice in one model, and exported."""

from __future__ import annotations

from pathlib import Path
from random import Random

import highspy
import msgspec
import pyomo.environ as pyo
import pytest
from ortools.sat.python import cp_model

from chipmap.formulations.placement import cpsat, mip
from chipmap.instances.placement import PlacementInstance
from chipmap.instances.placement.generators import random_instance
from chipmap.solvers import solve_model
from chipmap.solvers.outcome import SolveRequest
from chipmap.validation.brute_force import brute_force
from chipmap.validation.placement.checker import check
from tests.lanes import of_all
from tests.placement.random_instances import made, throughput, tiny_instance

#: Random instances that each kind of model is compared on.
NUMBER = of_all(100, few=40)


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


def test_the_exported_model_of_a_load_has_the_same_value(tmp_path: Path) -> None:
    """The LP file of a throughput instance, read again by a solver, has the optimum of brute force."""
    instance = pair()[1]
    path = tmp_path / "load.lp"
    built = mip.build(instance)
    built.native.write(str(path), io_options={"symbolic_solver_labels": True})
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.readModel(str(path))
    solver.run()
    optimum = brute_force(instance, check)[0]
    assert optimum is not None
    assert solver.getInfo().objective_function_value == pytest.approx(optimum)


@pytest.mark.parametrize("objective", ["step_time", "throughput"])
def test_two_classes_and_a_host(objective: str) -> None:
    """Two kinds of GPU beside a host that pays no transfers: both models say what brute force says."""
    random = Random(5)
    for _ in range(12):
        task = {"objective": objective, "memory": "none"}
        instance = random_instance(operations=3, devices=3, classes=3, seed=random.randrange(10**6), task=task)
        classes = instance.system.classes
        host = msgspec.structs.replace(classes[2], pays_transfers=False)
        system = msgspec.structs.replace(instance.system, classes=(*classes[:2], host))
        fields = {name: getattr(instance, name) for name in ("name", "task", "graph", "time_ns", "together")}
        instance = PlacementInstance(**fields, system=system)
        optimum, _ = brute_force(instance, check)
        for module, solver in ((cpsat, "cpsat"), (mip, "highs")):
            outcome = solve_model(module.build(instance), SolveRequest(time_limit=60.0, threads=1), solver)
            assert outcome.objective == pytest.approx(optimum, rel=1e-6)
