"""Every adapter keeps the contract: values, statuses, limits, hooks, options, determinism."""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyomo.environ as pyo
import pytest

from chipmap.records import InputError, SolverUnavailableError
from chipmap.solvers import gurobi, infeasible_labels, solve_model
from chipmap.solvers.outcome import SolveRequest
from tests.solvers.models import (
    MIP_SOLVERS,
    SOLVERS,
    Knapsack,
    Makespan,
    SmallModel,
    infeasible,
    integer_infeasible,
)

#: Far from proved within any limit that these tests set.
HARD = Knapsack.make(items=150, rows=25, seed=3)
#: No test waits for it: it ends what hangs.
GUARD = 60.0


def one_variable(kind: str = "mip") -> SmallModel:
    m = pyo.ConcreteModel()
    m.x = pyo.Var(bounds=(2, 9), domain=pyo.Integers)
    m.goal = pyo.Objective(expr=m.x)
    return SmallModel("mip", m, [m.x])


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("seed", range(4))
def test_knapsack_equals_brute_force(solver: str, seed: int) -> None:
    problem = Knapsack.make(items=10, rows=3, seed=seed, offset=100 * seed)
    model = problem.model(solver)
    outcome = solve_model(model, SolveRequest(time_limit=GUARD), solver)
    assert outcome.termination.reason == "optimal"
    assert outcome.objective == pytest.approx(problem.optimum())
    assert outcome.bound == pytest.approx(problem.optimum())
    assert outcome.value_of is not None
    x = model.decode(outcome.value_of)
    assert problem.feasible(x) and problem.objective(x) == problem.optimum()
    assert (outcome.solver, outcome.columns) == (solver, 10) and outcome.rows == 4


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("seed", range(3))
def test_makespan_equals_brute_force(solver: str, seed: int) -> None:
    problem = Makespan.make(jobs=6, machines=3, seed=seed)
    outcome = solve_model(problem.model(solver), SolveRequest(time_limit=GUARD), solver)
    assert outcome.objective == pytest.approx(problem.optimum())
    assert outcome.termination.reason == "optimal"


@pytest.mark.parametrize("solver", MIP_SOLVERS)
def test_case_that_highs_1_14_gets_wrong(solver: str) -> None:
    m = pyo.ConcreteModel()
    m.x, m.y = pyo.Var(domain=pyo.Binary), pyo.Var(bounds=(9, None))
    m.c1 = pyo.Constraint(expr=2 * m.x + m.y >= 10)
    m.goal = pyo.Objective(expr=2 * m.x + m.y)
    outcome = solve_model(SmallModel("mip", m, [m.x]), SolveRequest(time_limit=GUARD), solver)
    assert outcome.objective == pytest.approx(10)


@pytest.mark.parametrize("solver", MIP_SOLVERS)
def test_linear_program(solver: str) -> None:
    m = pyo.ConcreteModel()
    m.x, m.y = pyo.Var(bounds=(0, 4)), pyo.Var(bounds=(0, None))
    m.c1 = pyo.Constraint(expr=m.x + 2 * m.y >= 7)
    m.goal = pyo.Objective(expr=m.x + 4 * m.y + 0.5)
    outcome = solve_model(SmallModel("mip", m, [m.x]), SolveRequest(time_limit=GUARD), solver)
    assert outcome.termination.reason == "optimal"
    assert outcome.objective == pytest.approx(10.5) and outcome.bound == pytest.approx(10.5)


@pytest.mark.parametrize("solver", MIP_SOLVERS)
def test_maximised_objective_is_negated(solver: str) -> None:
    model = one_variable()
    model.native.goal.sense = pyo.maximize
    outcome = solve_model(model, SolveRequest(time_limit=GUARD), solver)
    assert outcome.objective == -9 and outcome.bound == -9 and model.decode(outcome.value_of) == (9,)


def test_maximised_objective_is_negated_for_cpsat() -> None:
    model = Knapsack.make(items=8, rows=2, seed=0).model("cpsat")
    model.native.maximize(sum(model.decisions) + 3)
    outcome = solve_model(model, SolveRequest(time_limit=GUARD))
    assert outcome.value_of is not None and outcome.objective is not None
    assert outcome.objective == outcome.bound == -(sum(model.decode(outcome.value_of)) + 3) < -3


@pytest.mark.parametrize("solver", SOLVERS)
def test_infeasible_with_labels(solver: str) -> None:
    model = infeasible(solver)
    outcome = solve_model(model, SolveRequest(time_limit=GUARD), solver)
    assert outcome.termination.reason == "infeasible"
    assert (outcome.objective, outcome.bound, outcome.value_of) == (None, None, None)
    assert infeasible_labels(model, SolveRequest(time_limit=GUARD), solver) == ("c1_low", "c2_high")


@pytest.mark.parametrize("solver", MIP_SOLVERS)
def test_labels_where_only_integrality_is_in_the_way(solver: str) -> None:
    model = integer_infeasible()
    assert solve_model(model, SolveRequest(time_limit=GUARD), solver).termination.reason == "infeasible"
    assert infeasible_labels(model, SolveRequest(time_limit=GUARD), solver) == ("c1_even", "c2_odd")


@pytest.mark.parametrize("solver", SOLVERS)
def test_feasible_model_has_no_infeasible_labels(solver: str) -> None:
    model = Knapsack.make(items=6, rows=2, seed=0).model(solver)
    assert infeasible_labels(model, SolveRequest(time_limit=GUARD), solver) == ()


def test_cpsat_assumptions_hold_in_a_solve() -> None:
    model = infeasible("cpsat")
    del model.assumptions["c2_high"]
    outcome = solve_model(model, SolveRequest(time_limit=GUARD))
    assert model.decode(outcome.value_of) == (5,)


@pytest.mark.parametrize("solver", MIP_SOLVERS)
@pytest.mark.parametrize("domain", [pyo.NonNegativeIntegers, pyo.NonNegativeReals])
def test_unbounded(solver: str, domain: object) -> None:
    m = pyo.ConcreteModel()
    m.x, m.y = pyo.Var(domain=domain), pyo.Var(domain=domain)
    m.c1 = pyo.Constraint(expr=m.x - m.y <= 3)
    m.goal = pyo.Objective(expr=-m.x - m.y)
    outcome = solve_model(SmallModel("mip", m, [m.x]), SolveRequest(time_limit=GUARD), solver)
    assert outcome.termination.reason == "other_error" and outcome.termination.detail == "unbounded"
    assert outcome.bound is None


@pytest.mark.parametrize("solver", MIP_SOLVERS)
def test_model_without_columns(solver: str) -> None:
    model = one_variable()
    model.native.x.fix(4)
    outcome = solve_model(model, SolveRequest(time_limit=GUARD), solver)
    assert (outcome.termination.reason, outcome.objective, outcome.bound) == ("optimal", 4.0, 4.0)
    assert model.decode(outcome.value_of) == (4,)


@pytest.mark.parametrize("solver", SOLVERS)
def test_time_limit_keeps_solution_and_bound(solver: str) -> None:
    model = HARD.model(solver)
    outcome = solve_model(model, SolveRequest(time_limit=1.5), solver)
    assert (outcome.termination.reason, outcome.termination.limit) == ("feasible", "time")
    assert outcome.bound is not None and outcome.objective is not None and outcome.bound < outcome.objective
    x = model.decode(outcome.value_of)
    assert HARD.feasible(x) and HARD.objective(x) == pytest.approx(outcome.objective)


@pytest.mark.parametrize("solver", SOLVERS)
def test_gap_limit_is_not_called_optimal(solver: str) -> None:
    outcome = solve_model(HARD.model(solver), SolveRequest(time_limit=GUARD, gap=0.5), solver)
    assert (outcome.termination.reason, outcome.termination.limit) == ("feasible", "gap")
    assert outcome.objective is not None and outcome.bound is not None
    assert outcome.objective - outcome.bound <= 0.5 * abs(outcome.objective)


@pytest.mark.parametrize("solver", SOLVERS)
def test_hooks_hear_improving_solutions_and_bounds(solver: str) -> None:
    model = HARD.model(solver)
    objectives: list[float] = []
    bounds: list[float] = []

    def on_solution(value_of: Callable[[Any], float], objective: float) -> None:
        x = model.decode(value_of)
        assert HARD.feasible(x) and HARD.objective(x) == pytest.approx(objective)
        objectives.append(objective)

    request = SolveRequest(time_limit=1.5, on_solution=on_solution, on_bound=bounds.append)
    outcome = solve_model(model, request, solver)
    assert objectives == sorted(objectives, reverse=True) and bounds == sorted(bounds)
    assert len(objectives) >= 2 and objectives[-1] == outcome.objective and bounds[-1] == outcome.bound


@pytest.mark.parametrize("solver", SOLVERS)
def test_should_stop_stops(solver: str) -> None:
    found: list[float] = []
    request = SolveRequest(
        time_limit=GUARD, on_solution=lambda _, objective: found.append(objective), should_stop=lambda: bool(found)
    )
    outcome = solve_model(HARD.model(solver), request, solver)
    assert outcome.termination.limit == "interrupted" and outcome.objective == found[-1]


@pytest.mark.parametrize("solver", SOLVERS)
def test_exception_in_a_hook_stops_the_solve_and_is_raised(solver: str) -> None:
    def on_solution(*_: object) -> None:
        raise ZeroDivisionError("in the hook")

    with pytest.raises(ZeroDivisionError, match="in the hook"):
        solve_model(HARD.model(solver), SolveRequest(time_limit=GUARD, on_solution=on_solution), solver)


@pytest.mark.parametrize("solver", SOLVERS)
def test_interrupt_from_the_keyboard(solver: str) -> None:
    found: list[float] = []

    def on_solution(_: object, objective: float) -> None:
        found.append(objective)
        if len(found) == 1:
            _thread.interrupt_main()

    request = SolveRequest(time_limit=GUARD, on_solution=on_solution)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job starts with it ignored
    try:
        with pytest.raises(KeyboardInterrupt):
            solve_model(HARD.model(solver), request, solver)
    finally:
        signal.signal(signal.SIGINT, before)
    for thread in threading.enumerate():
        if thread.name == solver:
            thread.join(timeout=5)
            assert not thread.is_alive(), "the solve goes on"


WORK = {"highs": 30, "gurobi": 0.2, "cpsat": 0.3}


@pytest.mark.parametrize("solver", SOLVERS)
def test_deterministic_twice(solver: str) -> None:
    def answer() -> tuple[Any, ...]:
        model = HARD.model(solver)
        request = SolveRequest(time_limit=GUARD, seed=5, deterministic=True, work_limit=WORK[solver])
        outcome = solve_model(model, request, solver)
        return outcome.termination, outcome.objective, outcome.bound, model.decode(outcome.value_of)

    first = answer()
    assert first[0].reason == "feasible" and first[0].limit == ("node" if solver == "highs" else "other")
    assert answer() == first


def test_the_bounds_of_a_deterministic_run_of_highs_do_not_depend_on_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many are told, and the same, where each look at the clock finds seconds gone by or none."""
    told = list[list[float]]()
    for pace in (0.0, 5.0):
        clock = SimpleNamespace(monotonic=count(0.0, pace).__next__)
        monkeypatch.setattr("chipmap.solvers.highs.time", clock)
        heard = list[float]()
        request = SolveRequest(time_limit=GUARD, deterministic=True, work_limit=WORK["highs"], on_bound=heard.append)
        solve_model(HARD.model("highs"), request, "highs")
        told.append(heard)
    assert told[0] == told[1] and len(told[0]) > 1


def test_highs_thread_count_may_change_between_solves() -> None:
    for threads in (1, 2, 1):
        outcome = solve_model(HARD.model("highs"), SolveRequest(time_limit=GUARD, threads=threads, work_limit=1))
        assert (outcome.termination.reason, outcome.termination.limit) == ("feasible", "node")


UNKNOWN_OPTION = {"no_such_option": 1}
BAD_VALUE = {"highs": {"mip_max_nodes": "many"}, "gurobi": {"Presolve": "no"}, "cpsat": {"num_workers": "many"}}


@pytest.mark.parametrize("solver", SOLVERS)
def test_native_options_are_checked(solver: str) -> None:
    model = Knapsack.make(items=6, rows=2, seed=0).model(solver)
    for native, named in ((UNKNOWN_OPTION, "no_such_option"), (BAD_VALUE[solver], next(iter(BAD_VALUE[solver])))):
        with pytest.raises(InputError, match=named):
            solve_model(model, SolveRequest(time_limit=GUARD, native=native), solver)


NATIVE: dict[str, dict[str, Any]] = {
    "highs": {"mip_max_nodes": 1, "presolve": "off"},
    "gurobi": {"SolutionLimit": 1},
    "cpsat": {"stop_after_first_solution": True, "search_branching": "FIXED_SEARCH", "ignore_subsolvers": ["no_lp"]},
}


@pytest.mark.parametrize("solver", SOLVERS)
def test_native_options_reach_the_solver(solver: str) -> None:
    outcome = solve_model(HARD.model(solver), SolveRequest(time_limit=GUARD, native=NATIVE[solver]), solver)
    assert outcome.termination.reason == "feasible" and outcome.termination.limit not in ("none", "time")


@pytest.mark.parametrize("solver", SOLVERS)
def test_log_goes_to_file_and_outcome_not_to_the_console(
    solver: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "solver.log"
    model = Knapsack.make(items=8, rows=2, seed=1).model(solver)
    outcome = solve_model(model, SolveRequest(time_limit=GUARD, log_file=file), solver)
    name = {"highs": "HiGHS", "gurobi": "Gurobi", "cpsat": "CP-SAT"}[solver]
    assert name in outcome.log and file.read_text() == outcome.log
    assert capfd.readouterr() == ("", "")


def test_gurobi_size_limit_is_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gurobi, "gurobi_licence", lambda: "limited")
    model = Knapsack.make(items=2001, rows=1, seed=0).model("gurobi")
    with pytest.raises(SolverUnavailableError, match=r"2,001 variables.*stops at 2,000") as caught:
        solve_model(model, SolveRequest(time_limit=GUARD), "gurobi")
    assert caught.value.exit_code == 5 and "gurobi.com" in str(caught.value)


@pytest.mark.parametrize(("solver", "kind"), [("cpsat", "mip"), ("highs", "cpsat"), ("gurobi", "cpsat")])
def test_solver_that_does_not_fit_the_model(solver: str, kind: str) -> None:
    model = Knapsack.make(items=3, rows=1, seed=0).model("cpsat" if kind == "cpsat" else "highs")
    with pytest.raises(InputError, match="Choose from"):
        solve_model(model, SolveRequest(), solver)


def test_default_solvers() -> None:
    problem = Knapsack.make(items=3, rows=1, seed=0)
    assert solve_model(problem.model("highs"), SolveRequest(time_limit=GUARD)).solver == "highs"
    assert solve_model(problem.model("cpsat"), SolveRequest(time_limit=GUARD)).solver == "cpsat"
