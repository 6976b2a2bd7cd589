"""Solving a model within a run: what every family's methods ask of a solver, and what becomes of its answer.

A solver gets the limits and options of the run, and the incumbent as start where the caller wants it. Its solutions go
through the family's checker. Its bounds count where the model's standing allows it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from chipmap.deadline import Deadline, Stop
from chipmap.family import Model, Standing
from chipmap.records import Record
from chipmap.result import BoundKind, integer_bound
from chipmap.run import Run
from chipmap.solvers import solve_model
from chipmap.solvers.outcome import Outcome, SolveRequest, ValueOf

#: Deterministic work per second of the time limit: CP-SAT's and Gurobi's own units, HiGHS's nodes.
WORK_PER_SECOND = {"cpsat": 0.5, "gurobi": 0.5, "highs": 20.0}


def whole_ticks(bound: float, model: Model) -> int:
    """A solver's bound in ticks: CP-SAT counts in integers, a MIP solver in floating point."""
    return round(bound) if model.kind == "cpsat" else integer_bound(bound)


@dataclass(frozen=True)
class Finds:
    """What becomes of a solver's finds: the ``source`` that they go under, and the way back to the run's instance.

    ``lift`` makes a solution of the run's instance from one of the model's (the same, unless it says otherwise).
    ``ticks`` makes a bound of the run's instance from a bound of the model; it is reported as of ``kind``.
    """

    source: str
    lift: Callable[[Any], Record] = lambda solution: solution
    ticks: Callable[[float, Model], int] = whole_ticks
    kind: BoundKind = "solver"


@dataclass(frozen=True)
class Limits:
    """The limits of one solve, where they aren't the run's own (None: they are).

    ``seconds`` is a part of the run's time; with ``--deterministic`` it stands for the work that a solver does in so
    many seconds. ``work`` is in the solver's own unit and holds in any case. ``deadline`` may end the solve earlier.
    """

    seconds: float | None = None
    work: float | None = None
    deadline: Deadline | None = None
    gap: float | None = None
    threads: int | None = None
    seed: int | None = None


OWN = Limits()


def solve_within(
    run: Run,
    model: Model,
    finds: Finds | None = None,
    start: Record | None = None,
    limits: Limits = OWN,
    solver: str | None = None,
) -> Outcome:
    """Solve ``model`` within the limits of ``run`` and report its finds (None: the caller looks at the outcome).

    ``start`` is a solution of the model's instance. The solver is the one that the user names, or ``solver``. A model
    without an objective (a decision problem) has its solution reported at the end.
    """
    minimises = finds is not None and (model.kind == "mip" or bool(model.native.has_objective()))
    encoded = model.encode(start) if start is not None else None
    name = solver or run.options.solver
    run.used |= {"native", *(["solver"] if name == run.options.solver else [])}

    def found(value_of: ValueOf, objective: float | None) -> None:
        assert finds is not None
        claimed = None if model.standing is Standing.AUXILIARY else objective
        run.solution(finds.lift(model.decode(value_of)), finds.source, claimed=claimed)

    def proved(bound: float) -> None:
        assert finds is not None
        ticks = finds.ticks(bound, model)
        if run.lower is None or ticks > run.lower.value:  # how often a solver repeats itself depends on time
            run.bound(ticks, finds.source, finds.kind)

    request = SolveRequest(
        **_limits(run, limits, name or ("cpsat" if model.kind == "cpsat" else "highs")),
        start=tuple(encoded) if encoded is not None else None,
        on_solution=found if minimises else None,
        on_bound=proved if minimises and model.standing.bounds else None,
    )
    outcome = solve_model(model, request, name)
    if encoded is not None and finds is not None:
        accepted = "accepted" if outcome.start_accepted else "not accepted"
        run.note("start", f"{finds.source}: warm start {accepted}", accepted=outcome.start_accepted)
    if finds is not None and not minimises and outcome.value_of is not None:
        found(outcome.value_of, None)
    return outcome


def _limits(run: Run, limits: Limits, solver: str) -> dict[str, Any]:
    """The fields of a request that say when and how to stop."""
    options, deadline = run.options, limits.deadline or run.deadline
    seconds, work = deadline.seconds, limits.work
    if not options.deterministic:
        seconds = min(seconds, float("inf") if limits.seconds is None else limits.seconds)
    elif work is None:
        allowed = options.time_limit if limits.seconds is None else limits.seconds
        work = None if allowed is None else max(1.0, WORK_PER_SECOND[solver] * allowed)
    return {
        "time_limit": None if seconds == float("inf") else seconds,
        "work_limit": work,
        "gap": options.gap if limits.gap is None else limits.gap,
        "threads": limits.threads or options.threads,
        "seed": options.seed if limits.seed is None else limits.seed,
        "deterministic": options.deterministic,
        "should_stop": lambda: not deadline.keep_going(),
        "native": options.native,
        "log_file": run.log_file,
    }


def conclude(run: Run, outcome: Outcome, source: str) -> None:
    """Say how a solve ended that proved nothing (a proof of infeasibility that counts is the caller's to report).

    Raises :class:`Stop` where a limit ended it.
    """
    end = outcome.termination
    if end.reason != "optimal":
        run.note("solver", f"{source}: {end.reason} {end.detail}".rstrip())
        run.checkpoint()
    if end.limit != "none":  # a solver that was stopped though the run goes on had used its share of the time up
        raise Stop("gap" if end.limit == "gap" else "time")
