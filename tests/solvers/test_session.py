"""A session keeps the best solution and bound on our side, and lets nothing of a hook into a solver's own code."""

from __future__ import annotations

import math

import pytest

from chipmap.solvers.outcome import SolveRequest
from chipmap.solvers.session import Session


def test_only_what_is_better_is_kept_and_passed_on() -> None:
    solutions, bounds = list[float](), list[float]()
    request = SolveRequest(on_solution=lambda _, objective: solutions.append(objective), on_bound=bounds.append)
    session = Session("stub", request)
    for objective in (9.0, 9.0, 12.0, 7.0):
        session.solution(lambda _: 0.0, objective)
    for bound in (-math.inf, 3.0, 2.0, 5.0):
        session.bound(bound)
    assert (session.objective, session.best_bound) == (7.0, 5.0)
    assert (solutions, bounds) == ([9.0, 7.0], [3.0, 5.0])


def test_a_bound_is_at_most_the_objective_of_the_solvers_own_solution() -> None:
    """A solver with a solution only proves that nothing is better."""
    session = Session("stub", SolveRequest())
    session.bound(math.inf)
    assert session.best_bound is None
    session.solution(lambda _: 0.0, 7.0)
    session.bound(7.9)
    assert session.best_bound == 7.0


def test_a_hooks_exception_stops_the_solver_and_is_raised_when_it_has_returned() -> None:
    def fail(bound: float) -> None:
        raise ArithmeticError("a defect")

    session = Session("stub", SolveRequest(on_bound=fail))

    def solve() -> str:
        session.bound(1.0)
        assert session.stopping, "the solver is told to stop"
        return "done"

    with pytest.raises(ArithmeticError, match="a defect"):
        session.run(solve, lambda: None)


def test_who_should_stop_is_told() -> None:
    session = Session("stub", SolveRequest(should_stop=lambda: True))
    told = list[bool]()

    def solve() -> str:
        while not told:
            pass
        return "stopped"

    assert session.run(solve, lambda: told.append(True)) == "stopped" and session.stopping
