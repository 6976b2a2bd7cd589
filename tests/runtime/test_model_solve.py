"""A model solved within a run: its solutions are checked, its bounds count by its standing, and its start is said."""

from __future__ import annotations

import time
from typing import Any

import pytest

from chipmap.deadline import Deadline, Stop
from chipmap.family import get_family, resolve
from chipmap.formulations.ring.mip import build as build_mip
from chipmap.inputs.reading import read
from chipmap.instances.ring import RingSolution
from chipmap.methods.model_solve import Finds, Limits, conclude, solve_within
from chipmap.result import Termination
from chipmap.run import Run, SolveOptions
from chipmap.solvers.outcome import Outcome

INSTANCE: Any = read("ring/tiny-skip")
CHECK = resolve(get_family("ring").check)


def new_run(**options: Any) -> Run:
    return Run(INSTANCE, SolveOptions.make(**{"threads": 1, "time_limit": 60.0, **options}), CHECK)


def optimum() -> tuple[int, RingSolution]:
    run = new_run()
    solve_within(run, build_mip(INSTANCE), Finds("mip"))
    assert run.best is not None and run.gap == 0.0 and isinstance(run.best.solution, RingSolution)
    return run.best.objective, run.best.solution


def test_an_exact_model_gives_solutions_and_bounds_of_its_solver() -> None:
    run = new_run()
    outcome = solve_within(run, build_mip(INSTANCE), Finds("mip"))
    assert outcome.termination.reason == "optimal"
    assert run.lower is not None and run.upper == run.lower.value
    assert run.lower.kind == "solver" and {bound.source for bound in run.bounds} == {"mip"}
    assert run.best is not None and run.best.source == "mip" and run.best.claimed == pytest.approx(run.upper)
    assert not run.notes, "no start was given, so there is nothing to say of one"


def test_a_restriction_gives_solutions_only() -> None:
    run = new_run()
    solve_within(run, build_mip(INSTANCE, {"family": "path"}), Finds("path"))
    assert run.best is not None and not run.bounds


def test_without_finds_the_run_learns_nothing() -> None:
    run = new_run()
    outcome = solve_within(run, build_mip(INSTANCE))
    assert outcome.value_of is not None and run.best is None and not run.bounds


def test_a_start_is_said() -> None:
    objective, solution = optimum()
    run = new_run()
    solve_within(run, build_mip(INSTANCE), Finds("mip"), start=solution)
    assert run.upper == objective
    (note,) = run.notes
    assert (note.kind, note.text, note.data) == ("start", "mip: warm start accepted", {"accepted": True})


def test_a_bound_goes_the_way_back_too() -> None:
    run = new_run()
    solve_within(run, build_mip(INSTANCE), Finds("half", ticks=lambda bound, _: int(bound) // 2, kind="relaxation"))
    assert run.lower is not None and run.upper is not None
    assert run.lower.value == run.upper // 2 and run.lower.kind == "relaxation"


def test_a_passed_deadline_ends_the_solve() -> None:
    run = new_run()
    over = Deadline(time.monotonic() - 1.0)
    outcome = solve_within(run, build_mip(INSTANCE), Finds("mip"), limits=Limits(deadline=over))
    assert outcome.termination.limit in ("time", "interrupted") and run.keep_going()
    with pytest.raises(Stop):
        conclude(run, outcome, "mip")


def test_what_ends_without_a_proof_is_said() -> None:
    run = new_run()
    conclude(run, Outcome(solver="highs", termination=Termination(reason="imprecise", detail="so it is")), "mip")
    assert [(note.kind, note.text) for note in run.notes] == [("solver", "mip: imprecise so it is")]
    conclude(run, Outcome(solver="highs", termination=Termination(reason="optimal")), "mip")
    assert len(run.notes) == 1
