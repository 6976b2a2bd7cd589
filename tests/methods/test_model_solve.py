"""What a solver is asked within a run, and what becomes of its answer."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from chipmap.deadline import Deadline, Stop
from chipmap.family import Standing
from chipmap.methods import model_solve
from chipmap.methods.model_solve import WORK_PER_SECOND, Finds, Limits, conclude, solve_within
from chipmap.result import Reason, Termination
from chipmap.run import Run
from chipmap.solvers.outcome import Outcome, SolveRequest
from tests.test_run import Answer, new_run


class Minimise:
    """A MIP in name: its solver below finds 7, then proves 5.2."""

    kind: Literal["mip", "cpsat"] = "mip"
    standing = Standing.EXACT
    native: Any = None

    def encode(self, solution: Any) -> list[tuple[Any, float]]:
        return [("x", float(solution.value))]

    def decode(self, value: Any) -> Answer:
        return Answer(value=int(value("x")))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[SolveRequest, str | None]]:
    """The requests that a solver gets, which answers each with a solution and a bound."""
    requests: list[tuple[SolveRequest, str | None]] = []

    def answer(_: Any, request: SolveRequest, solver: str | None) -> Outcome:
        requests.append((request, solver))
        if request.on_solution is not None:
            request.on_solution(lambda _: 7.0, 7.0)
        if request.on_bound is not None:
            request.on_bound(5.2)
        return Outcome("stub", Termination(reason="optimal"), lambda _: 7.0, 7.0, 5.2, start_accepted=True)

    monkeypatch.setattr(model_solve, "solve_model", answer)
    return requests


def test_finds_are_checked_lifted_and_said(asked: list[Any]) -> None:
    run = new_run(time_limit=50.0, threads=3, seed=4)
    lift = Finds("stub", lambda found: found.replace(value=found.value + 1), lambda bound, _: round(10 * bound))
    with pytest.raises(Exception, match="52"):  # the bound in ticks contradicts: it is what `ticks` makes of it
        solve_within(run, Minimise(), lift)
    run = new_run(time_limit=50.0, threads=3, seed=4)
    solve_within(run, Minimise(), Finds("stub"), start=Answer(value=9))
    assert run.upper == 7 and run.lower is not None and run.lower.value == 6
    assert [note.text for note in run.notes] == ["stub: warm start accepted"]
    request, _ = asked[-1]
    assert request.time_limit is not None and 40.0 < request.time_limit <= 50.0 and request.work_limit is None
    assert (request.threads, request.seed, request.start) == (3, 4, (("x", 9.0),))


@pytest.mark.parametrize("standing", [Standing.RESTRICTION, Standing.AUXILIARY])
def test_a_restriction_gives_no_bound(asked: list[Any], standing: Standing) -> None:
    model, run = Minimise(), new_run()
    model.standing = standing
    solve_within(run, model, Finds("stub"))
    assert run.upper == 7 and run.lower is None


@pytest.mark.parametrize("solver", sorted(WORK_PER_SECOND))
def test_deterministic_work_stands_for_seconds(asked: list[Any], solver: str) -> None:
    run = new_run(time_limit=50.0, deterministic=True, solver=solver)
    solve_within(run, Minimise(), Finds("stub"))
    solve_within(run, Minimise(), Finds("stub"), limits=Limits(seconds=8.0))
    solve_within(run, Minimise(), limits=Limits(work=2.5), solver="cpsat")
    works = [request.work_limit for request, _ in asked]
    assert works == [WORK_PER_SECOND[solver] * 50.0, WORK_PER_SECOND[solver] * 8.0, 2.5]
    assert all(request.time_limit is not None and request.time_limit > 40.0 for request, _ in asked)
    assert asked[-1][1] == "cpsat" and asked[-1][0].on_solution is None


def test_a_deadline_ends_a_solve_earlier(asked: list[Any]) -> None:
    run = new_run(time_limit=50.0)
    solve_within(run, Minimise(), limits=Limits(deadline=Deadline.after(-1.0)))
    request, _ = asked[-1]
    assert request.time_limit == 0.0 and request.should_stop is not None and request.should_stop()


def test_a_share_that_is_used_up_is_no_interrupt() -> None:
    """Only who runs the run interrupts it."""
    stopped = Outcome("stub", Termination(reason="feasible", limit="interrupted"))
    run: Run = new_run()
    with pytest.raises(Stop, match="time"):
        conclude(run, stopped, "stub")
    run.interrupted = True
    with pytest.raises(Stop, match="interrupted"):
        conclude(run, stopped, "stub")


@pytest.mark.parametrize(("reason", "said"), [("optimal", 0), ("feasible", 1), ("no_solution_found", 1)])
def test_an_end_that_proves_nothing_is_said(reason: Reason, said: int) -> None:
    run: Run = new_run()
    conclude(run, Outcome("stub", Termination(reason=reason)), "stub")
    assert len(run.notes) == said
    with pytest.raises(Stop, match="time"):
        conclude(run, Outcome("stub", Termination(reason=reason, limit="memory")), "stub")
