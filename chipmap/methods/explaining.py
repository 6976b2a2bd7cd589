"""What the explanations of several families share: how one comes about, statements, the outcome of a change, two
solutions side by side."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from chipmap.certificate import Certificate
from chipmap.explanation import Difference, Explanation, Side, Statement, Step
from chipmap.result import Note
from chipmap.run import Run, SolveOptions

#: Quantities of a solution by (resource, quantity).
Figures = Mapping[tuple[str, str], float]
Check = Callable[[Any, Any], Certificate]
Progress = Callable[[Step], None]
Told = Callable[[Explanation], None]


class Changed(Protocol):
    """A change of the instance that may be solved; ``what`` it is in words."""

    @property
    def what(self) -> str:
        """In words."""


Trial = TypeVar("Trial", bound=Changed)


class Explaining(ABC, Generic[Trial]):
    """One explanation in progress: the instance is solved, then changes of it, while there is time.

    ``base`` is the run of the instance, which knows the mappings ``given``; ``said`` are the statements so far.
    """

    #: The share of the time that solving the instance itself may take, and the least seconds of a solve.
    own_share: ClassVar[float] = 0.5
    least_seconds: ClassVar[float] = 0.3
    #: The share of what is left for changes that their solves get: they end a little late.
    spent: ClassVar[float] = 0.9

    def __init__(self, instance: Any, given: Sequence[Any], options: SolveOptions, check: Check, source: str) -> None:
        self.options, self.check = options, check
        self.started = time.monotonic()
        self.said: list[Statement] = []
        self.notes: list[Note] = []
        self.left_over: Sequence[Trial] = []
        self.base = self.run(instance, self.own_share * self.left)
        for one in given:
            if one is not None:
                self.base.solution(one, source)
        self.base.rejected.clear()

    @property
    def left(self) -> float:
        """Seconds that are left."""
        limit = self.options.time_limit
        return float("inf") if limit is None else limit - (time.monotonic() - self.started)

    def run(self, instance: Any, seconds: float, check: Check | None = None) -> Run:
        """A run of an instance for so many seconds."""
        limit = None if seconds == float("inf") else max(self.least_seconds, seconds)
        return Run(instance, self.options.replace(time_limit=limit, warm_start=None), check or self.check)

    @abstractmethod
    def solve(self) -> None:
        """Solve the instance."""

    @abstractmethod
    def facts(self) -> None:
        """Say what can be said before changes are tried."""

    @abstractmethod
    def trials(self) -> Sequence[Trial]:
        """The changes that are to be tried, the most telling first."""

    @abstractmethod
    def attempt(self, trial: Trial, left: int) -> None:
        """Solve a changed instance; ``left`` changes are to be tried, this one among them."""

    @abstractmethod
    def explanation(self) -> Explanation:
        """What is known by now."""

    def explain(self, progress: Progress | None, told: Told | None) -> Explanation:
        """The explanation, of which ``told`` hears whenever there is more. Changes without time are named in a note."""
        say, tell = progress or (lambda _: None), told or (lambda _: None)
        say(Step(kind="instance"))
        if self.base.best is not None:  # what is known without a solve, lest the time is too short for it
            self.facts()
            tell(self.explanation())
            self.said.clear()
        self.solve()
        self.facts()
        tell(self.explanation())
        trials = self.trials()
        for i, trial in enumerate(trials):
            self.left_over = trials[i:]
            if self.left <= self.least_seconds:
                left = [one.what for one in self.left_over]
                text = f"not tried for lack of time: {'; '.join(left)}"
                self.notes.append(Note(kind="left out", text=text, data={"changes": left}))
                break
            say(Step(kind="change", what=trial.what))
            self.attempt(trial, len(trials) - i)
            self.left_over = trials[i + 1 :]
            tell(self.explanation())
        return self.explanation()


def statement(topic: str, message: str, label: str = "", **figures: Any) -> Statement:
    """A statement, ended by a full stop."""
    return Statement(topic=topic, label=label, message=f"{message}.", figures=figures)


def outcome(run: Run, reason: str, before: int | None) -> dict[str, Any]:
    """The fields of a :class:`~chipmap.explanation.Change` whose instance was solved in ``run``, which ended for
    ``reason``; ``before`` is the objective of the instance as it is."""
    standings = {"optimal": "proved", "feasible": "best found", "infeasible": "infeasible"}
    least = None if run.lower is None or run.proved_infeasible else run.lower.value
    least = least if least is None or run.upper is None else min(least, run.upper)
    gain = None if run.upper is None or not before else (before - run.upper) / before
    return {"standing": standings.get(reason, "unknown"), "objective": run.upper, "bound": least, "gain": gain}


def side(certificate: Certificate) -> Side:
    """The checker's word on one solution."""
    return Side(**{field: getattr(certificate, field) for field in Side.__struct_fields__})


def side_by_side(judged: tuple[Certificate, Certificate], before: Figures, after: Figures) -> Difference:
    """Two solutions with what the checker says of each, and the quantities in which they differ."""
    rows = [
        {"resource": key[0], "quantity": key[1], "before": before.get(key, 0.0), "after": after.get(key, 0.0)}
        for key in {**before, **after}
        if before.get(key, 0.0) != after.get(key, 0.0)
    ]
    return Difference(before=side(judged[0]), after=side(judged[1]), resources=tuple(rows))
