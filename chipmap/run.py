"""One solve in progress: its options, one deadline, one incumbent, its bounds and its trace."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any, Literal

from chipmap.certificate import Certificate
from chipmap.deadline import Deadline, Stop, StopReason
from chipmap.evaluator import Evaluator, EvaluatorError
from chipmap.options import MOST_THREADS as MOST_THREADS
from chipmap.options import OptionsByName as OptionsByName
from chipmap.options import SolveOptions as SolveOptions
from chipmap.options import SolverName as SolverName
from chipmap.oracle import Oracle
from chipmap.records import ContradictionError, Record
from chipmap.result import (
    BOUND_TOLERANCE,
    Bound,
    BoundKind,
    Evaluation,
    Infeasibility,
    Note,
    NoteKind,
    Termination,
    TraceEvent,
    best_bound,
    gap,
)

#: What may end a run before it is done.
Limited = Literal["none", "time", "interrupted", "gap", "iteration"]


def contradict(objective: int, bound: int) -> bool:
    """Whether a lower bound lies above a checked objective by more than the tolerance."""
    return bound > objective + BOUND_TOLERANCE * max(1, abs(objective))


@dataclass(frozen=True)
class Incumbent:
    """The best solution so far, as the checker saw it; ``measured``: what the evaluator said of it, if it was asked."""

    solution: Record
    certificate: Certificate
    source: str
    seconds: float
    claimed: int | float | None
    measured: float | None = None

    @property
    def objective(self) -> int:
        """The checker's objective, in ticks."""
        assert self.certificate.objective is not None
        return self.certificate.objective


@dataclass
class Run:
    """The state that a method works on: ``run.solution(s, source)``, ``run.bound(value, source)``, ``run.best``.

    ``check`` is the family's independent checker; only what it accepts can become the incumbent. ``listener`` hears
    every improvement (the worker process reports them to its parent). Solvers append their logs to ``log_file``.
    ``failure`` says how the method crashed, if it did; ``troubles`` are failures of its parts.
    ``oracle`` is the user's own constraint, which ``check`` asks (its last word is ``oracle_report``). With an
    ``evaluator``, the user's own cost, the incumbent is the solution of least measured cost, and bounds don't end the
    run, as they are of the analytic cost (the evaluator's last word from a child is ``evaluation``). ``outer`` is the
    deadline of the run around this one. Whoever sets ``interrupted`` (a listener, say) or the event ``cancel`` (another
    thread) ends the run at its next look at the clock, with what it has. ``used`` names the options for solvers that
    one has taken. Unless ``ready``, compiling must not begin: it would count (:class:`chipmap.kernels.Unready`).
    ``small``: kernels run as plain Python for a while. ``delayed`` are the parts of a chain that waited for functions
    which another process compiles.
    ``recall`` says whether work that was put off can go on: what runs in its stead ends then (:mod:`.methods.chain`).
    ``timed`` is true once a part of the work has been told that its time is up. ``foreign`` is what the listener
    raised.
    """

    instance: Record
    options: SolveOptions
    check: Callable[[Any, Any], Certificate]
    started: float = field(default_factory=time.monotonic)
    listener: Callable[[TraceEvent, Run], None] | None = None
    log_file: Path | None = None
    best: Incumbent | None = None
    bounds: list[Bound] = field(default_factory=list)
    rejected: list[tuple[str, Certificate]] = field(default_factory=list)
    trace: list[TraceEvent] = field(default_factory=list)
    infeasibility: list[Infeasibility] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    timings: dict[str, float] = field(default_factory=dict)
    interrupted: bool = False
    proved_infeasible: bool = False
    failure: str = ""
    troubles: list[str] = field(default_factory=list)
    oracle: Oracle | None = None
    oracle_report: dict[str, Any] | None = None
    evaluator: Evaluator | None = None
    evaluation: Evaluation | None = None
    outer: Deadline = field(default_factory=Deadline)
    cancel: Event | None = None
    used: set[str] = field(default_factory=set)
    ready: bool = True
    small: bool = False
    recall: Callable[[], bool] | None = None
    delayed: list[str] = field(default_factory=list)
    timed: bool = False
    foreign: Exception | None = None
    _known: tuple[int, Bound | None] = (0, None)

    @property
    def clocked(self) -> bool:
        """Whether the clock is in charge: there is a time limit, and results may depend on it."""
        return self.options.time_limit is not None and not self.options.deterministic

    @property
    def deadline(self) -> Deadline:
        """When this run must end: at its time limit, by an interrupt or a closed gap, or with the run around it."""
        limit = self.options.time_limit
        own = float("inf") if limit is None else self.started + limit
        return Deadline(min(own, self.outer.until), self._ended, self._passed)

    def inner(self, instance: Record, deadline: Deadline | None = None, **options: Any) -> Run:
        """A run on another instance within ``deadline`` (this one's by default), with its checker.

        The time limit of a deterministic run, which stands for work, doesn't depend on what the clock has left: a part
        of it has its share of the whole (:attr:`~chipmap.deadline.Deadline.part`).
        """
        own, until = self.options.time_limit, deadline or self.deadline
        if self.options.deterministic:
            limit = float("inf") if own is None else until.part * own
        else:
            limit = min(until.seconds, self.deadline.seconds)
        changed = self.options.replace(time_limit=None if limit == float("inf") else limit, warm_start=None, **options)
        changed = changed.replace(evaluator=None, evaluations=None)
        return Run(instance, changed, self.check, outer=self.deadline, used=self.used)

    def _passed(self) -> None:
        self.timed = True
        self.outer.passed()

    def _ended(self) -> StopReason | None:
        if self.cancelled:
            return "interrupted"
        if self.evaluator is not None and self.evaluator.used_up:
            return "iteration"
        if self.closed:
            return "gap"
        return "ready" if self.recall is not None and self.recall() else self.outer.ended()

    @property
    def cancelled(self) -> bool:
        """Whether somebody wants this run to end."""
        return self.interrupted or (self.cancel is not None and self.cancel.is_set())

    @property
    def seconds(self) -> float:
        """Seconds since the run started."""
        return time.monotonic() - self.started

    @property
    def remaining(self) -> float:
        """Seconds left until the deadline (infinite without a limit, never below 0)."""
        return self.deadline.seconds

    @property
    def lower(self) -> Bound | None:
        """The best bound so far. It is asked at each look at the clock: only bounds that are new are compared."""
        count, best = self._known
        if count != len(self.bounds):
            best = best_bound([*([] if best is None else [best]), *self.bounds[count:]])
            self._known = len(self.bounds), best
        return best

    @property
    def upper(self) -> int | None:
        """The incumbent's objective in ticks, or None."""
        return self.best.objective if self.best else None

    @property
    def gap(self) -> float | None:
        """The relative gap now; None while one side is missing, and with an evaluator.

        A bound a little above the incumbent counts as it.
        """
        if self.evaluator is not None or self.upper is None or self.lower is None:
            return None
        return gap(self.upper, min(self.upper, self.lower.value))

    @property
    def closed(self) -> bool:
        """Whether the gap is within what the user asked for (0 by default: proved optimal)."""
        now = self.gap
        return self.proved_infeasible or (now is not None and now <= self.options.gap)

    def keep_going(self) -> bool:
        """False once the gap is closed, the deadline has passed or the user interrupted."""
        return self.deadline.keep_going()

    def checkpoint(self) -> None:
        """Raise :class:`Stop` unless the run should go on."""
        self.deadline.check()

    def solution(
        self, solution: Record, source: str, claimed: int | float | None = None, measured: float | None = None
    ) -> Certificate:
        """Have ``solution`` checked; keep it if it is valid and better than the incumbent. Returns the certificate.

        With an evaluator, a valid solution is measured (unless another process has: ``measured``); the better one is
        that of less measured cost. Raises :class:`~chipmap.evaluator.EvaluatorError`.
        """
        certificate = self.check(self.instance, solution)
        if not certificate.feasible or certificate.objective is None:
            self.rejected.append((source, certificate))
            return certificate
        if self.evaluator is not None and measured is None:
            try:
                measured = self.evaluator.ask(self.instance, solution, certificate.objective, source)
            except EvaluatorError:
                self._keep(Incumbent(solution, certificate, source, self.seconds, claimed))
                raise
        self._keep(Incumbent(solution, certificate, source, self.seconds, claimed, measured))
        return certificate

    def checked(self, solution: Record, certificate: Certificate, source: str) -> None:
        """Keep a valid solution with its certificate, where another process of this run had it checked."""
        self._keep(Incumbent(solution, certificate, source, self.seconds, None))

    def measure(self, solution: Record, source: str) -> float | None:
        """The cost of ``solution`` by the evaluator, or without one in ticks; kept if it is the best.

        None where the checker refuses it, infinite where the evaluator does, or may not be called any more.
        """
        certificate = self.solution(solution, source)
        if not certificate.feasible:
            return None
        cost = certificate.objective if self.evaluator is None else self.evaluator.cost(solution)
        return float("inf") if cost is None else float(cost)

    def _keep(self, new: Incumbent) -> None:
        """Make ``new`` the incumbent if it is better."""
        best, objective = self.best, new.objective
        if best is None or self._worth(new) < self._worth(best):
            self.best = new
            self._agree(objective, self.lower)
            if self.proved_infeasible:
                raise ContradictionError(
                    f"the checker accepts a solution of {new.source} after a proof that there is none. "
                    "This is a defect of chipmap or of a solver: please report it."
                )
            self._log("solution", objective, new.source)

    def _worth(self, found: Incumbent) -> tuple[float, int]:
        """What makes one solution better than another: less is better."""
        if self.evaluator is None:
            return 0.0, found.objective
        return float("inf") if found.measured is None else found.measured, found.objective

    def bound(self, value: int, source: str, kind: BoundKind = "combinatorial") -> None:
        """Record a lower bound in ticks, once per source. Within 1e-6 above the incumbent it is clipped to it.

        Raises :class:`ContradictionError` beyond that, with both kept. What is no number, or infinite, is a failure of
        its source and no bound.
        """
        if isinstance(value, float) and not math.isfinite(value):
            self.trouble(f"{source} gave a bound of {value}, which is none")
            return
        new = Bound(value=int(value), source=source, kind=kind, seconds=round(self.seconds, 6))
        if self.best is not None:
            if contradict(self.best.objective, new.value):
                self.bounds.append(new)
                self._agree(self.best.objective, new)
            if new.value > self.best.objective:
                new = Bound(value=self.best.objective, source=source, kind=kind, seconds=new.seconds)
        if any((known.value, known.source) == (new.value, new.source) for known in self.bounds):
            return
        improves = self.lower is None or new.value > self.lower.value
        self.bounds.append(new)
        if improves:
            self._log("bound", new.value, source)

    def infeasible(self, *reasons: Infeasibility) -> None:
        """Record a proof that no solution exists, with its reasons. Raises if a valid solution is already known."""
        self.infeasibility.extend(reasons)
        self.proved_infeasible = True
        if self.best is not None:
            raise ContradictionError(
                f"a proof of infeasibility ({'; '.join(reason.message for reason in reasons)}) contradicts the checked "
                f"solution of {self.best.source}. This is a defect of chipmap or of a solver: please report it."
            )

    def trouble(self, text: str) -> None:
        """Say, once, that a part of the work failed. It is the run's failure if nothing closes the gap in spite of it
        (:meth:`settle`)."""
        self.note("solver", text)
        if text not in self.troubles:
            self.troubles.append(text)

    def settle(self) -> None:
        """Make the troubles the run's failure unless it has its proof, or the gap that was asked for."""
        if self.troubles and not self.failure and not self.closed:
            self.failure = "; ".join(self.troubles)

    def note(self, kind: NoteKind, text: str, **data: Any) -> None:
        """Say something beside the figures, once."""
        new = Note(kind=kind, text=text, data=data)
        if new not in self.notes:
            self.notes.append(new)

    def _agree(self, objective: int, bound: Bound | None) -> None:
        if bound is not None and contradict(objective, bound.value):
            raise ContradictionError(
                f"the bound {bound.value} of {bound.source} lies above the checked objective {objective}. "
                "This is a defect of chipmap or of a solver: please report it with the saved instance and solution."
            )

    def _log(self, event: Literal["solution", "bound"], value: int, source: str) -> None:
        lower = self.lower
        line = TraceEvent(
            seconds=round(self.seconds, 6),
            event=event,
            value=value,
            source=source,
            incumbent=self.upper,
            bound=lower.value if lower else None,
            measured=self.best.measured if event == "solution" and self.best else None,
        )
        self.trace.append(line)
        if self.listener is not None:
            try:
                self.listener(line, self)
            except Exception as error:  # the caller's own: no failure of the method
                self.foreign = error
                raise

    def attempt(self, work: Callable[[], None], gives_up: type[Exception] | tuple[()] = ()) -> Termination:
        """Do ``work``: a passed deadline, an interrupt or a closed gap ends it with what was found.

        So does an exception of type ``gives_up``, whose words become a note.
        """
        try:
            with self.deadline.heeded():
                work()
        except Stop as stop:
            if stop.limit == "ready" or (stop.limit == "gap" and self.gap == 0):
                return self.terminate()
            return self.terminate(stop.limit)
        except gives_up as error:
            self.note("left out", str(error))
        return self.terminate()

    def terminate(self, limit: Limited = "none", detail: str = "") -> Termination:
        """The termination that this state amounts to (``optimal`` is decided from objective and bound alone)."""
        if self.proved_infeasible:
            return Termination(reason="infeasible", detail=detail)
        if self.best is None:
            return Termination(reason="no_solution_found", limit=limit, detail=detail)
        if self.gap == 0.0:
            return Termination(reason="optimal", detail=detail)
        return Termination(reason="feasible", limit=limit, detail=detail)
