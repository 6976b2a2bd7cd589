"""The explanation driver of all families: how one comes about, statements, the outcome of a change, two solutions
side by side."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from chipmap.certificate import Certificate
from chipmap.deadline import Deadline, Stop
from chipmap.explanation import Change, Difference, Explanation, Side, Statement, Step
from chipmap.family import family_of, resolve
from chipmap.kernels import plainly, uncompiled
from chipmap.records.quantities import share
from chipmap.result import Bound, Infeasibility, Note, Status
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


AnyTrial = TypeVar("AnyTrial", bound=Changed)


@dataclass(frozen=True)
class Solved:
    """What a solve gave: its run, with the best checked solution, the bounds and the reasons."""

    run: Run

    @property
    def objective(self) -> int | None:
        """The checker's objective of the best solution, in ticks."""
        return self.run.upper

    @property
    def bound(self) -> int | None:
        """The best lower bound, never above the objective."""
        lower = self.run.lower
        if lower is None or self.run.proved_infeasible:
            return None
        return lower.value if self.objective is None else min(lower.value, self.objective)

    @property
    def status(self) -> Status:
        """As in a Result."""
        if self.run.proved_infeasible:
            return "infeasible"
        if self.objective is None:
            return "unknown"
        return "optimal" if self.proved else "feasible"

    @property
    def proved(self) -> bool:
        """Whether the best solution is proved to be optimal."""
        return self.objective is not None and self.objective == self.bound

    @property
    def solution(self) -> Any:
        """The best solution, or None."""
        return self.run.best.solution if self.run.best is not None else None

    @property
    def certificate(self) -> Certificate | None:
        """The checker's certificate of the best solution."""
        return self.run.best.certificate if self.run.best is not None else None


class Explaining(ABC, Generic[AnyTrial]):
    """One explanation in progress: the instance is solved, then changes of it, while there is time.

    ``solution`` is explained, ``against`` compared with it, where they are given. ``base`` is the run of the instance,
    which knows both; ``said`` are the statements so far, ``tried`` the changes.
    """

    family: ClassVar[str]
    #: A solution in words.
    thing: str = "mapping"
    #: The share of the time that solving the instance itself may take, and the least seconds of a solve.
    own_share: ClassVar[float] = 0.5
    least_seconds: ClassVar[float] = 0.3
    #: The share of what is left for changes that their solves get: they end a little late.
    spent: ClassVar[float] = 0.9
    #: What is said behind a refused solution, and how many reasons without a solution are told.
    refused: ClassVar[str] = ". What follows is about the best one found"
    most_reasons: ClassVar[int | None] = None

    def __init__(self, instance: Any, solution: Any, against: Any, options: SolveOptions) -> None:
        self.instance, self.solution, self.against, self.options = instance, solution, against, options
        self.check: Check = resolve(family_of(instance).check)
        self.started, self.deadline = time.monotonic(), Deadline.after(options.time_limit)
        self.said: list[Statement] = []
        self.notes: list[Note] = []
        self.tried: list[Change] = []
        self.left_over: Sequence[AnyTrial] = []
        self.progress: Progress = lambda _: None
        self.told: Told = lambda _: None
        for given, which in ((solution, "SOLUTION"), (against, "--against")):
            if given is not None:
                self.read(given, which)
        self.base = self.run(instance, self.own_share * self.left, (solution, against))

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self.deadline.seconds

    @property
    def best(self) -> Any:
        """The best solution known, or None."""
        return Solved(self.base).solution

    def run(self, instance: Any, seconds: float, starts: Iterable[Any] = (), check: Check | None = None) -> Run:
        """A run of an instance for so many seconds, which knows those of ``starts`` that the checker accepts."""
        limit = None if seconds == float("inf") else max(self.least_seconds, seconds)
        run = Run(instance, self.options.replace(time_limit=limit, warm_start=None), check or self.check)
        for start in starts:
            if start is not None:
                run.solution(start, f"{self.thing} at hand")
        run.rejected.clear()
        return run

    @abstractmethod
    def read(self, given: Any, which: str) -> None:
        """Raise :class:`InputError` if ``given``, named ``which``, is a solution of something else."""

    @abstractmethod
    def solve(self) -> None:
        """Solve the instance."""

    @abstractmethod
    def take_apart(self, own: Any, certificate: Certificate) -> None:
        """Say what holds up the objective of a valid solution: the one given, else the best one known."""

    @abstractmethod
    def compare(self, objective: int, best: int) -> None:
        """Say how far the objective of the solution given, a valid one, is from the best one known."""

    @abstractmethod
    def difference(self, judged: tuple[Certificate, Certificate]) -> Difference:
        """The difference between ``solution`` and ``against``, of which the checker says ``judged``."""

    @abstractmethod
    def trials(self) -> Sequence[AnyTrial]:
        """The changes that are to be tried, the most telling first."""

    @abstractmethod
    def attempt(self, trial: AnyTrial, left: int) -> None:
        """Solve a changed instance; ``left`` changes are to be tried, this one among them."""

    def nothing(self) -> str:
        """What is said where there is nothing to solve; empty elsewhere."""
        return ""

    def shortage(self) -> None:
        """Without a solution: say what there is to hold and to do."""

    def say(self, topic: str, message: str, label: str = "", **figures: Any) -> None:
        """Add a statement."""
        self.said.append(statement(topic, message, label, **figures))

    def facts(self) -> None:
        """Say what can be said before changes are tried."""
        if nothing := self.nothing():
            self.say("verdict", nothing)
        elif self.base.proved_infeasible:
            self.say("verdict", f"No {self.thing} exists (proved)")
            for reason in self.base.infeasibility[: self.most_reasons]:
                self.clash(reason)
            self.shortage()
        elif self.best is None:
            self.say("verdict", f"No {self.thing} was found in the time, and no proof that there is none")
            self.shortage()
        else:
            own = self.given() or self.best
            self.take_apart(own, self.check(self.instance, own))

    def clash(self, reason: Infeasibility) -> None:
        """Say a reason why there is no solution."""
        text = f"{reason.message}. Remedy: {'; or '.join(reason.remedies)}"
        self.say("clash", text, reason.label, demand=reason.demand, limit=reason.limit, unit=reason.unit)

    def given(self) -> Any:
        """Say what the checker says of the solution given, which is returned if it is valid."""
        if self.solution is None:
            return None
        certificate = self.check(self.instance, self.solution)
        if not certificate.feasible:
            first, count = certificate.violations[0], len(certificate.violations)
            times = "violation" if count == 1 else "violations"
            text = f"The {self.thing} given is refused ({count} {times}): {first.label} {first.message}{self.refused}"
            self.say("given", text, first.label, violations=count)
            return None
        if certificate.objective is not None and self.base.upper is not None:
            self.compare(certificate.objective, self.base.upper)
        return self.solution

    def explain(self, progress: Progress | None, told: Told | None, bounds: Sequence[Bound]) -> Explanation:
        """The explanation, of which ``told`` hears whenever there is more. Changes without time are named in a note.
        ``bounds`` are known to hold."""
        self.progress, self.told = progress or self.progress, told or self.told
        for one in bounds:
            self.base.bound(one.value, one.source, one.kind)
        self.begin()
        self.progress(Step(kind="instance"))
        if self.base.best is not None:  # what is known without a solve, lest the time is too short for it
            self.facts()
            self.told(self.explanation())
            self.said.clear()
        if not self.base.proved_infeasible:
            with plainly(self.small):
                self.solve()
        self.facts()
        self.told(self.explanation())
        self.changes()
        return self.explanation()

    @property
    def small(self) -> bool:
        """Whether each solve has some seconds of plain Python before functions are compiled."""
        return family_of(self.instance).is_small(self.instance)

    def begin(self) -> None:
        """What a solve knows before its method begins, by plain code: bounds at once, and a first mapping."""
        family = family_of(self.instance)
        for name in (family.at_once, family.first):
            if name and not self.base.proved_infeasible and self.base.best is None:
                with uncompiled(), suppress(Stop):
                    resolve(name)(self.instance, self.base)

    def changes(self) -> None:
        """Try changes while there is time."""
        self.attempt_all(self.trials())

    def attempt_all(self, trials: Sequence[AnyTrial]) -> None:
        """Solve each changed instance within its share of the time that is left; those out of time are noted."""
        for i, trial in enumerate(trials):
            self.left_over = trials[i:]
            if self.left <= self.least_seconds:
                left = [one.what for one in self.left_over]
                text = f"not tried for lack of time: {'; '.join(left)}"
                self.notes.append(Note(kind="left out", text=text, data={"changes": left}))
                break
            self.progress(Step(kind="change", what=trial.what))
            with plainly(self.small):
                self.attempt(trial, len(trials) - i)
            self.left_over = trials[i + 1 :]
            self.told(self.explanation())

    def statements(self) -> Iterable[Statement]:
        """The statements, with what the changes tried say together."""
        return self.said

    def shown(self) -> Iterable[Change]:
        """The changes tried, as the explanation shows them."""
        return self.tried

    def explanation(self) -> Explanation:
        """What is known by now. The change with the least objective stands first, those without a solution last."""
        base = Solved(self.base)
        order = {"proved": 0, "best found": 0, "unknown": 1, "infeasible": 2}
        judged = [self.check(self.instance, one) for one in (self.solution, self.against) if one is not None]
        return Explanation(
            instance=self.instance.name,
            instance_hash=self.instance.content_hash,
            family=self.family,
            status=base.status,
            objective=base.objective,
            bound=base.bound,
            terms=base.certificate.terms if base.certificate else {},
            given=side(judged[0]) if self.solution is not None else None,
            statements=tuple(self.statements()),
            infeasibility=tuple(self.base.infeasibility),
            changes=tuple(sorted(self.shown(), key=lambda one: (order[one.standing], one.objective or 0))),
            difference=self.difference((judged[0], judged[1])) if len(judged) == 2 else None,
            notes=tuple(self.notes),
            seconds=round(time.monotonic() - self.started, 3),
        )


def explainer(work: Callable[[Any, Any, Any, SolveOptions], Explaining[Any]]) -> Callable[..., Explanation]:
    """The function that a family's record names as ``explain``: of an instance, and of a solution if one is given.

    It runs in this process; the time limit is kept between steps of the search. ``told`` hears the explanation as far
    as it has come, whenever there is more. It raises :class:`InputError` for a solution of something else.
    """

    def explain(
        instance: Any,
        solution: Any = None,
        options: SolveOptions | None = None,
        against: Any = None,
        progress: Progress | None = None,
        told: Told | None = None,
        bounds: Sequence[Bound] = (),
    ) -> Explanation:
        """The explanation of an instance, by the family's ``work``."""
        options = options or SolveOptions()
        options.check()
        return work(instance, solution, against, options).explain(progress, told, bounds)

    return explain


def statement(topic: str, message: str, label: str = "", **figures: Any) -> Statement:
    """A statement; the message gets its capital and its full stop here."""
    return Statement(topic=topic, label=label, message=f"{message[:1].upper()}{message[1:]}.", figures=figures)


def above(objective: int, best: int) -> str:
    """How far an objective lies above the best one found, in words."""
    return f"{share(objective - best, best)} above the best one found"


def outcome(run: Run, before: int | None) -> dict[str, Any]:
    """The fields of a :class:`~chipmap.explanation.Change` whose instance was solved in ``run``; ``before`` is the
    objective of the instance as it is."""
    solved = Solved(run)
    standing = {"optimal": "proved", "feasible": "best found"}.get(solved.status, solved.status)
    gain = None if solved.objective is None or not before else (before - solved.objective) / before
    return {"standing": standing, "objective": solved.objective, "bound": solved.bound, "gain": gain}


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
