"""Solving a model within a run: what every family's methods ask of a solver, and what becomes of its answer.

A solver gets the limits and options of the run, and the incumbent as start where the caller wants it. Its solutions go
through the family's checker. Its bounds count where the model's standing allows it, and as long as nothing that it says
is known to be wrong (:class:`Witness`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from chipmap.deadline import Deadline, Stop
from chipmap.family import Model
from chipmap.records import Record
from chipmap.result import BOUND_TOLERANCE, BoundKind, Infeasibility, Reason, Termination, integer_bound
from chipmap.run import Run
from chipmap.solvers import solve_model
from chipmap.solvers.native import proofs_void
from chipmap.solvers.outcome import Outcome, SolveRequest, ValueOf

#: Ends of a solver that failed.
BROKEN = ("numerical_error", "other_error", "imprecise")
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
    solver_name = name or ("cpsat" if model.kind == "cpsat" else "highs")
    witness = Witness(run, model, finds, void=proofs_void(solver_name, run.options.native), started=encoded is not None)
    request = SolveRequest(
        **_limits(run, limits, solver_name),
        start=tuple(encoded) if encoded is not None else None,
        on_solution=witness.found if minimises else None,
        on_bound=witness.proved if minimises and model.standing.bounds and not witness.void else None,
    )
    outcome = solve_model(model, request, name)
    if encoded is not None and finds is not None:
        accepted = "accepted" if outcome.start_accepted else "not accepted"
        run.note("start", f"{finds.source}: warm start {accepted}", accepted=outcome.start_accepted)
    if finds is not None and not minimises and outcome.value_of is not None:
        witness.found(outcome.value_of, None)
    return witness.judged(outcome)


class Witness:
    """A solver in one solve, whose words are compared with what the checker and the run know.

    ``wrong`` says what it got wrong since its last solution that the checker accepted: until it gives another, its
    bounds don't count. ``void`` says why nothing that it proves counts (native options that change what a proof means).
    ``started``: it got a solution of the very model as start.
    """

    def __init__(self, run: Run, model: Model, finds: Finds | None, void: str, started: bool) -> None:
        self.run, self.model, self.finds, self.void, self.started = run, model, finds, void, started
        self.wrong, self.valid = "", False

    @property
    def source(self) -> str:
        """What its finds go under."""
        return self.finds.source if self.finds is not None else self.model.kind

    def found(self, value_of: ValueOf, objective: float | None) -> None:
        """Have its solution checked. A relaxation's may be refused, and an oracle knows more than the model."""
        assert self.finds is not None
        claimed = objective if objective is None or isfinite(objective) else None
        try:
            decoded = self.model.decode(value_of)
        except (ValueError, OverflowError) as error:
            self.wrong = f"its values are no solution: {error}"
            return
        solution = self.finds.lift(decoded)
        told = claimed if self.model.standing.priced else None  # else another objective's value
        certificate = self.run.solution(solution, self.finds.source, claimed=told)
        if certificate.feasible and certificate.objective is not None:
            self.valid, self.wrong = True, self._too_low(claimed, certificate.objective)
        elif self.model.standing.valid and self.run.oracle is None:
            what = certificate.violations[0].message if certificate.violations else "it has no objective"
            self.wrong = f"the checker refuses its solution: {what}"

    def _too_low(self, claimed: float | None, checked: int) -> str:
        """What to say of an objective below the checked one. One above may be right for what the model states: before
        the end of a solve, its times may be later than they need be."""
        own = self.finds is not None and self.finds.ticks is whole_ticks and self.model.standing.exact
        if not own or claimed is None or claimed >= checked - max(0.5, BOUND_TOLERANCE * abs(checked)):
            return ""
        return f"it claims an objective of {claimed:g} ticks for a solution of {checked}"

    def proved(self, bound: float) -> None:
        """Report its bound."""
        assert self.finds is not None
        if self.wrong:
            return
        ticks = self.finds.ticks(bound, self.model)
        if self.run.lower is None or ticks > self.run.lower.value:  # how often a solver repeats itself depends on time
            self.run.bound(ticks, self.finds.source, self.finds.kind)

    def judged(self, outcome: Outcome) -> Outcome:
        """The outcome as far as it may be believed; what is wrong with it is said."""
        end = outcome.termination
        if end.reason == "infeasible" and (self.valid or (self.started and self.model.standing.exact)):
            known = "has found a solution" if self.valid else "was given a solution as start"
            self.wrong = f"it says infeasible, but {known}"
        if self.wrong:
            end = Termination(reason="numerical_error", detail=self.wrong)
        elif self.void and end.reason in ("infeasible", "optimal"):
            reason: Reason = "no_solution_found" if outcome.value_of is None else "feasible"
            end = Termination(reason=reason, limit="other", detail=f"it says {end.reason}, which doesn't count")
        if self.void:
            self.run.note("no proof", f"{self.source}: {self.void}")
        if end.reason in BROKEN:
            self.run.note("solver", f"{self.source}: {end.reason} {end.detail}".rstrip())
        return replace(outcome, termination=end, bound=None if self.wrong or self.void else outcome.bound)


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


def solve_whole(
    run: Run,
    model: Model,
    source: str,
    reasons: Callable[[], Iterable[Infeasibility]],
    limits: Limits = OWN,
    solver: str | None = None,
) -> None:
    """Solve a model of the whole instance, from the incumbent on: its solution, bound or proof that there is none.

    ``reasons`` are asked why, where it is infeasible and its standing lets that count; any other end is concluded.
    """
    run.checkpoint()
    start = run.best.solution if run.best is not None else None
    outcome = solve_within(run, model, Finds(source), start, limits, solver)
    if outcome.termination.reason == "infeasible" and model.standing.bounds:
        run.infeasible(*reasons())
    else:
        conclude(run, outcome, source)


def conclude(run: Run, outcome: Outcome, source: str) -> None:
    """Say how a solve ended that proved nothing (a proof of infeasibility that counts is the caller's to report).

    A solver that failed is the run's trouble. Raises :class:`Stop` where a limit ended it.
    """
    end = outcome.termination
    if end.reason != "optimal":
        words = f"{source}: {end.reason} {end.detail}".rstrip()
        if end.reason in BROKEN:
            run.trouble(words)
        else:
            run.note("solver", words)
        run.checkpoint()
    if end.limit != "none":  # a solver that was stopped though the run goes on had used its share of the time up
        raise Stop("gap" if end.limit == "gap" else "time")
