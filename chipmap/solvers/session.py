"""One call of an adapter: its deadline, its hooks and its log, with the best solution and bound kept on our side."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread
from typing import Any, Literal, TypeVar

from chipmap.result import BOUND_TOLERANCE, Limit, Reason, Termination
from chipmap.solvers.outcome import Outcome, SolveRequest, ValueOf

#: How often ``should_stop`` is asked, in seconds.
POLL_SECONDS = 0.05
#: Share of the remaining time that the completion of a warm start may take.
COMPLETION_SHARE = 0.5
#: How much of a solver's log an :class:`Outcome` keeps, in characters from its end.
LOG_TAIL = 100_000

#: What a native status says: a reason (``"stopped"``: feasible or no_solution_found, by what is known), the limit that
#: stopped it, a detail. Each adapter has one literal table of these.
Verdict = tuple[Reason | Literal["stopped"], Limit, str]

T = TypeVar("T")


class Session:
    """The state of one solve. The adapter reports to it; it tells the request's hooks and concludes with an Outcome.

    An exception in a hook must not cross a solver's own code: it is kept, stops the solver, and is raised when the
    solver has returned. So is Ctrl-C, which a solver that runs in the main thread would not hear.
    """

    def __init__(self, solver: str, request: SolveRequest) -> None:
        self.solver = solver
        self.request = request
        self.started = time.monotonic()
        self.rows = self.columns = 0
        self.value_of: ValueOf | None = None
        self.objective: float | None = None
        self.best_bound: float | None = None
        self.start_accepted: bool | None = None
        self._lines: list[str] = []
        self._failure: BaseException | None = None
        self._asked = self._over = False
        self._odd = ""

    @property
    def seconds(self) -> float:
        """Seconds since the call began (lowering and completion of the start count)."""
        return time.monotonic() - self.started

    @property
    def remaining(self) -> float | None:
        """Seconds left of the request's time limit, never below 0; None without a limit."""
        limit = self.request.time_limit
        return None if limit is None else max(0.0, limit - self.seconds)

    def keep_going(self) -> bool:
        """Whether there is time left and nobody asks to stop."""
        asked = self.request.should_stop
        return self.remaining != 0.0 and (asked is None or not asked())

    @property
    def threads(self) -> int | None:
        """Threads to use: one when deterministic, else as requested (None: the solver's default)."""
        return 1 if self.request.deterministic else self.request.threads

    @property
    def stopping(self) -> bool:
        """Whether the solver should return as soon as it can."""
        return self._asked or self._failure is not None

    @property
    def log(self) -> str:
        """All that the solver has logged so far."""
        return "".join(self._lines)

    def write(self, text: str) -> None:
        """Add ``text`` to the log and, at once, to its file: a process that is killed leaves the log so far.

        A file that can't be written (full disk) never stops a solve.
        """
        self._lines.append(text)
        if self.request.log_file is not None:
            with suppress(OSError), self.request.log_file.open("a", encoding="utf-8") as file:
                file.write(text)

    def solution(self, value_of: ValueOf, objective: float) -> None:
        """A solution that the solver found; kept, and passed on to ``on_solution``, if better than all before.

        What comes after the end is not heard. An objective that is no number counts as infinite.
        """
        if not math.isfinite(objective):
            self._odd, objective = f"reported a solution with an objective of {objective}", math.inf
        if self._over or (self.objective is not None and objective >= self.objective):
            return
        self.objective, self.value_of = objective, value_of
        if self.request.on_solution is not None:
            self._guard(self.request.on_solution, value_of, objective)

    def bound(self, value: float) -> None:
        """A lower bound that the solver proved; kept, and passed on to ``on_bound``, if better than all before.

        A solver that has a solution only proves that nothing is better: HiGHS reports almost one unit above an integer
        optimum. So the solution's objective limits the bound.
        """
        if math.isnan(value):
            self._odd = "reported a bound that is no number"
        if math.isnan(value) or self._over:
            return
        if self.objective is not None:
            value = min(value, self.objective)
        if abs(value) >= 1e29 or (self.best_bound is not None and value <= self.best_bound):
            return
        self.best_bound = value
        if self.request.on_bound is not None:
            self._guard(self.request.on_bound, value)

    def run(self, solve: Callable[[], T], interrupt: Callable[[], object]) -> T:
        """``solve()`` in a thread of its own, while this one asks ``should_stop`` and hears Ctrl-C.

        ``interrupt`` is called at each poll while the solver should stop. Raises what a hook or ``solve`` raised.
        """
        answers: list[T] = []
        # Events, because Ctrl-C in Thread.start would leave the solve behind unwatched, and Ctrl-C in Thread.join
        # makes Python 3.11 take a running thread for a finished one.
        begin, done = Event(), Event()

        def work() -> None:
            begin.wait()
            self._guard(lambda: answers.append(solve()))
            done.set()

        Thread(target=work, name=self.solver, daemon=True).start()
        while True:
            try:
                begin.set()
                self._watch(done, interrupt)
                break
            except KeyboardInterrupt as signal:
                # Waited for however often it is pressed: what a running solver works on can't be taken away from it.
                self._failure = self._failure or signal
        if self._failure is not None:
            raise self._failure
        return answers[0]

    def conclude(self, verdict: Verdict, labels: tuple[str, ...] = ()) -> Outcome:
        """The Outcome that a native status amounts to, given what is known on our side."""
        reason, limit, detail = verdict
        self._over = True
        if reason == "stopped":
            reason = "no_solution_found" if self.objective is None else "feasible"
        if reason == "optimal" and self.objective is None:
            reason, limit, detail = "other_error", "none", "reported optimal, but gave no solution"
        if reason == "optimal" and not self._closed():
            reason, limit = "feasible", "gap"
        if reason == "infeasible" and self.objective is not None:
            reason, detail = "numerical_error", "reported infeasible, but a solution of the model is known"
        if self._odd:
            reason, limit, detail = "numerical_error", "none", self._odd
        return Outcome(
            solver=self.solver,
            termination=Termination(reason=reason, limit=limit, detail=detail),
            value_of=self.value_of,
            objective=self.objective,
            bound=self.best_bound,
            start_accepted=self.start_accepted,
            infeasible_labels=labels,
            seconds=self.seconds,
            rows=self.rows,
            columns=self.columns,
            log=self.log[-LOG_TAIL:],
        )

    def _watch(self, done: Event, interrupt: Callable[[], object]) -> None:
        while not done.wait(POLL_SECONDS):
            if self.request.should_stop is not None and not self._asked:
                self._guard(self._ask)
            if self.stopping:
                interrupt()

    def _ask(self) -> None:
        assert self.request.should_stop is not None
        self._asked = self.request.should_stop()

    def _closed(self) -> bool:
        """Whether bound and objective are equal as far as floating point tells."""
        if self.objective is None or self.best_bound is None:
            return False
        return self.objective - self.best_bound <= BOUND_TOLERANCE * max(1.0, abs(self.objective))

    def _guard(self, function: Callable[..., object], *arguments: Any) -> None:
        try:
            function(*arguments)
        except BaseException as error:  # Ctrl-C and Run's own Stop included: all are raised again by `run`
            self._failure = self._failure or error
