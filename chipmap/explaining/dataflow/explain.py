"""``explain`` for family ``dataflow``: what a mapping's time is made of, and what each resource would gain.

The instance is solved, and the mapping given (else the best one found) is taken apart. Then changed instances are
solved by the same chain: each resource twice as fast and free, one alone, limits and pinned choices left out. What is
said of a change at most is the lower bound of the changed instance; what is found is checked as a mapping of it.
"""

from __future__ import annotations

import time
from typing import Any

from chipmap.certificate import Certificate, with_prediction
from chipmap.explaining.dataflow import statements
from chipmap.explaining.dataflow.changes import DataflowTrial, changes
from chipmap.explaining.dataflow.difference import difference
from chipmap.explaining.dataflow.solved import solve, without_bubble
from chipmap.explaining.dataflow.statements import BATCH, otherwise, time_of
from chipmap.explaining.driver import Explaining, Solved, above, explainer, outcome
from chipmap.explanation import Change, Difference, Statement
from chipmap.family import get_family
from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution
from chipmap.instances.dataflow.predicting import predicted
from chipmap.records.quantities import share
from chipmap.run import Run

#: Times the instance's own seconds to its proof that a change gets if there is so much.
PATIENCE = 3.0


class _Work(Explaining[DataflowTrial]):
    """One explanation in progress."""

    family = "dataflow"
    own_share = 0.4

    def __init__(self, instance: DataflowInstance, *rest: Any) -> None:
        self.batch = BATCH[instance.task.purpose]
        self.runs: list[tuple[DataflowTrial, Run]] = []
        self.own_seconds = 0.0
        super().__init__(instance, *rest)

    def read(self, given: DataflowSolution, which: str) -> None:
        """Any mapping can be compared."""

    def trials(self) -> list[DataflowTrial]:
        """Each resource twice as fast and free, one alone, limits and choices left out; none on unequal chips."""
        if self.instance.system.others:
            return []
        return changes(self.instance, self.base.proved_infeasible)

    def solve(self) -> None:
        """Solve the instance."""
        started = time.monotonic()
        solve(self.instance, self.base, bubble=True)
        self.own_seconds = time.monotonic() - started
        self.notes += [note for note in self.base.notes if note not in self.notes]

    def compare(self, objective: int, best: int) -> None:
        """How far the mapping given is from the best one found."""
        if objective > best:
            far = f"{above(objective, best)}, {time_of(best)}"
            text = f"The mapping given takes {time_of(objective)}, {far}; what changes gain is told of the best one"
            self.say("given", text, given_ps=objective, best_ps=best)

    def take_apart(self, own: DataflowSolution, certificate: Certificate) -> None:
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
        self._predicted(own, certificate)
        self.said += statements.mapping(self.instance, own, certificate)

    def _predicted(self, own: DataflowSolution, certificate: Certificate) -> None:
        """What a profile of the machine says of the mapping, where one applies."""
        told = with_prediction(certificate, self.instance, own, predicted, self.check)
        if told.prediction is not None:
            text = told.told_in(get_family("dataflow").units_of(self.instance)).outlook
            self.say("prediction", text[0].upper() + text[1:], ps=told.prediction.objective)

    def attempt(self, trial: DataflowTrial, left: int) -> None:
        """Solve a changed instance, from the best mapping; ``left`` changes are to be tried, this one among them."""
        seconds = self.spent * self.left / left
        if self.base.gap == 0:
            seconds = min(self.spent * self.left, max(seconds, PATIENCE * self.own_seconds))
        check = self.check if trial.bubble else without_bubble(self.check)
        run = self.run(trial.instance, seconds, (self.best,), check)
        solve(trial.instance, run, trial.bubble)
        self.runs.append((trial, run))
        self._transfer_to_base(trial, run)

    def _transfer_to_base(self, trial: DataflowTrial, run: Run) -> None:
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
        for _, run in self.runs:
            if self.best is not None:
                run.solution(self.best, "mapping at hand")
                run.rejected.clear()
        self.said.clear()
        self.facts()

    def tried_with_choices(self) -> list[tuple[DataflowTrial, Change, str]]:
        """The changes that were solved, as they stand beside the best mapping, with the choices that differ."""
        found = []
        for trial, run in self.runs:
            other = otherwise(self.best, Solved(run).solution) if self.best and run.best else ""
            change = Change(
                kind=trial.kind,
                what=trial.what,
                setting=trial.setting,
                figures={"choices": other} if other else {},
                **outcome(run, self.base.upper),
            )
            found.append((trial, change, other))
        return found

    def conclusions(self) -> list[Statement]:
        """What changes say together, of the best mapping."""
        now, tried = self.base.upper, self.tried_with_choices()
        if now is None or not tried:
            return []
        rest = sum(one.kind == "twice" for one in self.left_over)
        told = [statements.halves(tried, rest, now), *statements.resources(tried, now)]
        told += [statements.forced(tried, now), statements.choices(tried, now), statements.alone(tried, now)]
        return [one for one in told if one is not None]

    def statements(self) -> list[Statement]:
        """With the conclusions."""
        return [*self.said, *self.conclusions()]

    def shown(self) -> list[Change]:
        """Without what no instance is (other resources free, no bubble): that is told in words alone."""
        return [change for trial, change, _ in self.tried_with_choices() if trial.bubble]

    def difference(self, judged: tuple[Certificate, Certificate]) -> Difference:
        """The two mappings side by side."""
        return difference(self.instance, (self.solution, self.against), judged)


explain = explainer(_Work)
