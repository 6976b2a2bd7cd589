"""``explain`` for family ``dataflow``: what a mapping's time is made of, and what each resource would gain.

The instance is solved, and the mapping given (else the best one found) is taken apart. Then changed instances are
solved by the same chain: each resource twice as fast and free, one alone, limits and pinned choices left out. What is
said of a change at most is the lower bound of the changed instance; what is found is checked as a mapping of it.
"""

from __future__ import annotations

import time
from typing import Any

from chipmap.certificate import Certificate
from chipmap.explanation import Change, Explanation, Statement
from chipmap.family import family_of, resolve
from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution
from chipmap.methods.dataflow.explain import statements
from chipmap.methods.dataflow.explain.changes import Trial, changes
from chipmap.methods.dataflow.explain.difference import difference
from chipmap.methods.dataflow.explain.solved import solve, without_bubble
from chipmap.methods.dataflow.explain.statements import BATCH, otherwise, time_of
from chipmap.methods.explaining import Explaining, Progress, Told, outcome, side, statement
from chipmap.records.quantities import share
from chipmap.run import Run, SolveOptions

#: Times the instance's own seconds to its proof that a change gets if there is so much.
PATIENCE = 3.0


def explain(
    instance: DataflowInstance,
    solution: DataflowSolution | None = None,
    options: SolveOptions | None = None,
    against: DataflowSolution | None = None,
    progress: Progress | None = None,
    told: Told | None = None,
) -> Explanation:
    """The explanation of ``instance``, and of ``solution`` if one is given; its difference to ``against``.

    Runs in this process; the time limit is kept between steps of the search. ``told`` hears the explanation as far as
    it has come, whenever there is more.
    """
    options = options or SolveOptions()
    options.check()
    return _Work(instance, solution, against, options).explain(progress, told)


class _Work(Explaining[Trial]):
    """One explanation in progress."""

    own_share = 0.4

    def __init__(
        self,
        instance: DataflowInstance,
        solution: DataflowSolution | None,
        against: DataflowSolution | None,
        options: SolveOptions,
    ) -> None:
        self.instance, self.solution, self.against = instance, solution, against
        self.batch = BATCH[instance.task.purpose]
        self.runs: list[tuple[Trial, Run, str]] = []
        self.own_seconds = 0.0
        judge = resolve(family_of(instance).check)
        super().__init__(instance, (solution, against), options, judge, "mapping at hand")

    @property
    def best(self) -> DataflowSolution | None:
        """The best mapping known."""
        found = self.base.best
        return found.solution if found is not None else None  # type: ignore[return-value]

    def trials(self) -> list[Trial]:
        """Each resource twice as fast and free, one alone, limits and choices left out."""
        return changes(self.instance, self.base.proved_infeasible)

    def solve(self) -> None:
        """Solve the instance."""
        started = time.monotonic()
        solve(self.instance, self.base, bubble=True)
        self.own_seconds = time.monotonic() - started
        self.notes += [note for note in self.base.notes if note not in self.notes]

    def facts(self) -> None:
        """What can be said before changes are tried."""
        if self.base.proved_infeasible:
            self.say("verdict", "No mapping exists (proved)")
            for reason in self.base.infeasibility:
                text = f"{reason.message[:1].upper()}{reason.message[1:]}. Remedy: {'; or '.join(reason.remedies)}"
                self.say("clash", text, reason.label, demand=reason.demand, limit=reason.limit, unit=reason.unit)
        elif self.best is None:
            self.say("verdict", "No mapping was found in the time, and no proof that there is none")
        else:
            own = self.given() or self.best
            self.mapping(own, self.check(self.instance, own))

    def say(self, topic: str, message: str, label: str = "", **figures: Any) -> None:
        """Add a statement."""
        self.said.append(statement(topic, message, label, **figures))

    def given(self) -> DataflowSolution | None:
        """What the checker says of the mapping given, which is returned if it is valid."""
        if self.solution is None:
            return None
        certificate, best = self.check(self.instance, self.solution), self.base.upper or 0
        if not certificate.feasible:
            first, count = certificate.violations[0], len(certificate.violations)
            times = "violation" if count == 1 else "violations"
            text = f"The mapping given is refused ({count} {times}): {first.label} {first.message}"
            self.say("given", f"{text}. What follows is about the best one found", first.label, violations=count)
            return None
        objective = certificate.objective or 0
        if objective > best:
            above = f"{share(objective - best, best)} above the best one found, {time_of(best)}"
            text = f"The mapping given takes {time_of(objective)}, {above}; what changes gain is told of the best one"
            self.say("given", text, given_ps=objective, best_ps=best)
        return self.solution

    def mapping(self, own: DataflowSolution, certificate: Certificate) -> None:
        """A valid mapping taken apart."""
        objective, lower = certificate.objective or 0, self.base.lower
        least = min(objective, lower.value if lower is not None else 0)
        proof = f"and no mapping takes less than {time_of(least)} (gap {share(objective - least, objective)})"
        if least == objective:
            proof = "the least there is (proved)"
        elif lower is None:
            proof = "of which nothing is proved yet"
        rates = f" ({certificate.headline})" if certificate.headline else ""
        text = f"The {self.batch} of {self.instance.task.batch:,} takes {time_of(objective)}{rates}, {proof}"
        self.say("verdict", text, ps=objective, bound_ps=least)
        self.said += statements.mapping(self.instance, own, certificate)

    def attempt(self, trial: Trial, left: int) -> None:
        """Solve a changed instance, from the best mapping; ``left`` changes are to be tried, this one among them."""
        seconds = self.spent * self.left / left
        if self.base.gap == 0:
            seconds = min(self.spent * self.left, max(seconds, PATIENCE * self.own_seconds))
        run = self.run(trial.instance, seconds, self.check if trial.bubble else without_bubble(self.check))
        if self.best is not None:
            run.solution(self.best, "mapping at hand")
            run.rejected.clear()
        end = solve(trial.instance, run, trial.bubble)
        self.runs.append((trial, run, end.reason))
        self._taken_back(trial, run)

    def _taken_back(self, trial: Trial, run: Run) -> None:
        """What a changed instance says of the instance as it is: its mapping may be better than the best one here; at
        twice a rate nothing takes longer, so that its bound holds here, too."""
        base = self.base
        if base.proved_infeasible:
            return
        before = base.upper, base.lower
        if run.best is not None:
            base.solution(run.best.solution, f"found with {trial.what}")
            base.rejected.clear()
        if trial.kind == "twice" and run.lower is not None and not run.proved_infeasible:
            base.bound(run.lower.value, f"{run.lower.source}, {trial.what}")
        if (base.upper, base.lower) != before:
            self._again()

    def _again(self) -> None:
        """Something new is known of the instance as it is: all is told from it."""
        for _, run, _ in self.runs:
            if self.best is not None:
                run.solution(self.best, "mapping at hand")
                run.rejected.clear()
        self.said.clear()
        self.facts()

    def tried(self) -> list[tuple[Trial, Change, str]]:
        """The changes that were solved, as they stand beside the best mapping, with the choices that differ."""
        found = []
        for trial, run, reason in self.runs:
            other = otherwise(self.best, run.best.solution) if self.best is not None and run.best is not None else ""  # type: ignore[arg-type]
            change = Change(
                kind=trial.kind,
                what=trial.what,
                setting=trial.setting,
                figures={"choices": other} if other else {},
                **outcome(run, "optimal" if run.gap == 0 else reason, self.base.upper),
            )
            found.append((trial, change, other))
        return found

    def conclusions(self) -> list[Statement]:
        """What changes say together, of the best mapping."""
        now, tried = self.base.upper, self.tried()
        if now is None or not tried:
            return []
        rest = sum(one.kind == "twice" for one in self.left_over)
        told = [statements.halves(tried, rest, now), *statements.resources(tried, now)]
        told += [statements.forced(tried, now), statements.choices(tried, now), statements.alone(tried, now)]
        return [one for one in told if one is not None]

    def explanation(self) -> Explanation:
        """What is known by now."""
        base, both = self.base, (self.solution, self.against)
        status = "optimal" if base.gap == 0 else "feasible" if base.best is not None else "unknown"
        lower = None if base.lower is None or base.proved_infeasible else base.lower.value
        order = {"proved": 0, "best found": 0, "unknown": 1, "infeasible": 2}
        found = None
        if both[0] is not None and both[1] is not None:
            judged = self.check(self.instance, both[0]), self.check(self.instance, both[1])
            found = difference(self.instance, both, judged)  # type: ignore[arg-type]
        # what no instance is (other resources free, no bubble) is told in words alone
        shown = [change for trial, change, _ in self.tried() if trial.bubble]
        return Explanation(
            instance=self.instance.name,
            instance_hash=self.instance.content_hash,
            family="dataflow",
            status="infeasible" if base.proved_infeasible else status,  # type: ignore[arg-type]
            objective=base.upper,
            bound=lower if base.upper is None or lower is None else min(lower, base.upper),
            terms=base.best.certificate.terms if base.best else {},
            given=side(self.check(self.instance, self.solution)) if self.solution is not None else None,
            statements=(*self.said, *self.conclusions()),
            infeasibility=tuple(base.infeasibility),
            changes=tuple(sorted(shown, key=lambda one: (order[one.standing], one.objective or 0))),
            difference=found,
            notes=tuple(self.notes),
            seconds=round(time.monotonic() - self.started, 3),
        )
