"""Warm starts: completed from the decisions, accepted by the solver's own word, never lost."""

from __future__ import annotations

import re

import pytest

from chipmap.solvers import cpsat, solve_model
from chipmap.solvers.outcome import SolveRequest
from chipmap.solvers.session import Session
from tests.solvers.models import SOLVERS, Knapsack, Makespan

GUARD = 60.0
PROBLEM = Makespan.make(jobs=8, machines=3, seed=2)
ASSIGNMENT = (0, 1, 2, 0, 1, 2, 0, 1)

#: What each solver logs when it takes over a start, with the start's objective. HiGHS 1.16 has a colon.
ACCEPTED = {
    "highs": r"MIP start solution is feasible[,:] objective value is {}",
    "gurobi": "User MIP start produced solution with objective {}",
    "cpsat": "The solution hint is complete and is feasible. Its objective value is {}",
}


@pytest.mark.parametrize("solver", SOLVERS)
def test_start_is_accepted(solver: str) -> None:
    model, heard = PROBLEM.model(solver), []
    request = SolveRequest(
        time_limit=GUARD,
        start=PROBLEM.start(model, ASSIGNMENT),
        on_solution=lambda value_of, objective: heard.append((model.decode(value_of), objective)),
    )
    outcome = solve_model(model, request, solver)
    assert outcome.start_accepted is True
    assert re.search(ACCEPTED[solver].format(PROBLEM.objective(ASSIGNMENT)), outcome.log)
    started = tuple(value for _, value in PROBLEM.start(model, ASSIGNMENT))
    assert heard[0] == (started, PROBLEM.objective(ASSIGNMENT))
    assert outcome.objective == pytest.approx(PROBLEM.optimum())


@pytest.mark.parametrize("solver", SOLVERS)
def test_partial_start_is_completed(solver: str) -> None:
    model = PROBLEM.model(solver)
    start = PROBLEM.start(model, ASSIGNMENT)[:9]
    outcome = solve_model(model, SolveRequest(time_limit=GUARD, start=start), solver)
    assert outcome.start_accepted is True
    assert re.search(ACCEPTED[solver].format(r"\d"), outcome.log)
    assert outcome.objective == pytest.approx(PROBLEM.optimum())


@pytest.mark.parametrize("solver", SOLVERS)
def test_infeasible_start_is_refused_and_does_no_harm(solver: str) -> None:
    model = PROBLEM.model(solver)
    start = tuple((variable, 1) for variable, _ in PROBLEM.start(model, ASSIGNMENT))
    outcome = solve_model(model, SolveRequest(time_limit=GUARD, start=start), solver)
    assert outcome.start_accepted is False
    assert outcome.objective == pytest.approx(PROBLEM.optimum())


@pytest.mark.parametrize("solver", SOLVERS)
def test_start_outside_the_bounds_is_refused(solver: str) -> None:
    model = PROBLEM.model(solver)
    start = ((model.decisions[0], 2),)
    outcome = solve_model(model, SolveRequest(time_limit=GUARD, start=start), solver)
    assert outcome.start_accepted is False and outcome.termination.reason == "optimal"


@pytest.mark.parametrize("solver", ("highs", "gurobi"))
def test_start_that_contradicts_a_fixed_variable_is_refused(solver: str) -> None:
    model = PROBLEM.model(solver)
    start = PROBLEM.start(model, ASSIGNMENT)
    model.native.x[0, 1].fix(1)
    outcome = solve_model(model, SolveRequest(time_limit=GUARD, start=start), solver)
    assert outcome.start_accepted is False and outcome.termination.reason == "optimal"


def test_start_survives_a_cpsat_solve_that_stops_in_presolve(monkeypatch: pytest.MonkeyPatch) -> None:
    make = cpsat._solver

    def stopping(session: Session, share: float = 1.0) -> object:
        solver = make(session, share)
        solver.parameters.stop_after_presolve = share == 1.0  # the solve proper, not the completion
        return solver

    monkeypatch.setattr(cpsat, "_solver", stopping)
    model = PROBLEM.model("cpsat")
    outcome = solve_model(model, SolveRequest(time_limit=GUARD, start=PROBLEM.start(model, ASSIGNMENT)))
    assert outcome.termination.reason == "feasible"
    assert outcome.objective == PROBLEM.objective(ASSIGNMENT)
    assert tuple(model.decode(outcome.value_of)) == tuple(v for _, v in PROBLEM.start(model, ASSIGNMENT))


def test_cpsat_hints_of_the_model_come_back() -> None:
    model = PROBLEM.model("cpsat")
    model.native.add_hint(model.decisions[3], 1)
    solve_model(model, SolveRequest(time_limit=GUARD, start=PROBLEM.start(model, ASSIGNMENT)))
    hint = model.native.proto.solution_hint
    assert (list(hint.vars), list(hint.values)) == ([3], [1])


@pytest.mark.parametrize("solver", SOLVERS)
def test_without_a_start_there_is_no_verdict_on_it(solver: str) -> None:
    problem = Knapsack.make(items=6, rows=2, seed=0)
    assert solve_model(problem.model(solver), SolveRequest(time_limit=GUARD), solver).start_accepted is None
