"""``explain`` for family ``ring``: why the period is what it is or why there is no mapping, and what would help.

The instance is solved, then each change that might help is made and solved as an instance of its own. What is said
about a change is the checker's objective for the changed instance; ``proved`` stands where its bound meets it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from chipmap.certificate import Certificate
from chipmap.explaining.driver import Explaining, explainer
from chipmap.explaining.ring import changes, reasons, shortages
from chipmap.explaining.ring.difference import difference, placed
from chipmap.explaining.ring.solved import ExplainedInstance, RingSolved, RingTrial, Tried
from chipmap.explanation import Change, Difference, Step
from chipmap.heuristics.ring.bounds.simple import largest
from chipmap.instances.ring.instance import RingInstance, RingSolution
from chipmap.instances.ring.problem import ring_problem
from chipmap.methods.ring.chain import auto
from chipmap.methods.ring.text import TICKS_PER_US, us
from chipmap.records import InputError
from chipmap.records.quantities import share
from chipmap.result import Infeasibility


class _Work(Explaining[RingTrial]):
    """One explanation in progress."""

    family = "ring"
    own_share, least_seconds, spent = 0.4, 0.5, 1.0
    refused = ""

    def __init__(self, instance: RingInstance, *rest: Any) -> None:
        self.outcomes: list[Tried] = []
        self.needed: list[RingTrial] = []  # what makes up for a shortage
        super().__init__(instance, *rest)

    @cached_property
    def case(self) -> ExplainedInstance:
        """The instance as the programs see it."""
        return ExplainedInstance(self.instance, self.deadline)

    @property
    def solved(self) -> RingSolved:
        """What is known of the instance as it is."""
        return RingSolved(self.base)

    def read(self, given: RingSolution, which: str) -> None:
        """Raise :class:`InputError` for a mapping that doesn't place every computing operation on a chip."""
        placed(ring_problem(self.instance), given, which)

    def solve(self) -> None:
        """Solve the instance."""
        auto(self.instance, self.base)

    def nothing(self) -> str:
        """Without operations."""
        return "" if self.case.problem.n else "No operation computes anything, so there is nothing to map"

    def facts(self) -> None:
        """What can be said before changes are tried; of the mapping given, where there is no other one as well."""
        if self.best is None:
            self.given()
        super().facts()

    def clash(self, reason: Infeasibility) -> None:
        """Say a reason why there is no mapping."""
        self.say("clash", reason.message, reason.label)

    def compare(self, objective: int, best: int) -> None:
        """How far the mapping given is from the best one known."""
        known = "the least there is (proved)" if self.solved.proved else "the best known"
        far = f"which is {known}"
        if objective > best:
            far = f"{share(objective - best, best)} above {known}, {us(best)}"
        text, scale = f"The mapping given has a period of {us(objective)}, {far}", TICKS_PER_US
        self.say("given", text, period_us=objective / scale, best_us=best / scale)

    def take_apart(self, own: RingSolution, certificate: Certificate) -> None:
        """What holds up the period of the best mapping, whichever was given."""
        self.said.append(reasons.verdict(self.solved))
        self.said += reasons.busiest(self.case, self.solved)
        self.said += reasons.bounds(self.case, self.solved)

    def shortage(self) -> None:
        """What is short by simple bounds, and with a proof that there is no mapping, what is needed."""
        self.said += [*shortages.memory(self.case), *shortages.sites(self.instance)]
        if self.base.proved_infeasible:
            needs, self.needed = shortages.needs(self.case, self.deadline)
            self.said += needs

    def trials(self) -> list[RingTrial]:
        """The instance without a constraint, and without pins, groups and forbidden chips."""
        return [*changes.relaxations(self.instance), *changes.sites(self.instance)]

    def attempt(self, trial: RingTrial, left: int) -> None:
        """Solve a changed instance from the best mapping; nothing if the change makes no sense (a pin to no chip)."""
        found = self.outcome(trial, left, [self.best, trial.start])
        if found is not None:
            self.outcomes.append(found)

    def outcome(self, trial: RingTrial, left: int, starts: list[RingSolution | None]) -> Tried | None:
        """What one of ``left`` changes gives within its share of the time; None if it makes no sense."""
        try:
            changed = trial.make()
        except InputError:
            return None
        changed = changed.replace(name=f"{changed.name}: {trial.what}")
        count = len(changed.graph.operations)
        fitting = [one for one in starts if one is not None and len(one.chips) == count]
        run = self.run(changed, self.spent * self.left / left, fitting)
        auto(changed, run)
        return Tried(trial, RingSolved(run))

    def tried_of(self, trials: Sequence[RingTrial]) -> list[Tried]:
        """The outcomes of ``trials``, which are tried while there is time."""
        before = len(self.outcomes)
        self.attempt_all(trials)
        return self.outcomes[before:]

    def changes(self) -> None:
        """Try changes, each kind after what the kinds before it gave."""
        if self.nothing():
            return
        least = reasons.enough(self.case, self.solved, self.deadline)
        relaxed = self.tried_of(self.trials())
        if self.base.proved_infeasible:
            self.without_a_mapping(relaxed)
        elif self.best is not None:
            self.with_a_mapping(relaxed, least)

    def with_a_mapping(self, relaxed: list[Tried], least: tuple[int, int]) -> None:
        """What each constraint costs, and what makes the period shorter."""
        case, base = self.case, self.solved
        self.said += reasons.costs(case, base, relaxed, self.check)
        self.sufficient(relaxed)
        longest_decides = base.objective == largest(case.problem)  # then nothing but splitting that operation can help
        clones = [] if longest_decides else changes.clones(case, base.objective)
        later = self.tried_of([*changes.splits(case, base), *clones, *changes.chips(self.instance, least[1])])
        chips = [tried for tried in self.again(later) if tried.trial.kind == "chips"]
        more = [tried for tried in chips if tried.solved.instance.package.chips > self.instance.package.chips]
        self.said += reasons.unused(case, base, least, more[-1] if more else None)

    def sufficient(self, relaxed: list[Tried]) -> None:
        """Where memory or links cost something: the SRAM that the mapping without C4 fits, links twice as fast."""
        trials = []
        for tried in relaxed:
            solved = tried.solved
            if solved.objective is None or solved.objective >= (self.base.upper or 0):
                continue
            if tried.trial.left_out == "C4" and solved.certificate is not None:
                enough = int(solved.certificate.figures["max_memory_bytes"])
                trials.append(replace(changes.sram_trial(self.instance, enough), start=solved.solution))
            elif tried.trial.left_out == "links":
                trials.append(changes.link_trial(self.instance, 2))
        self.attempt_all(trials)

    def again(self, tried: list[Tried]) -> list[Tried]:
        """``tried`` with those that are still open solved once more, from what they have, within the time left over."""
        still = [t for t in tried if not t.solved.proved and t.solved.status != "infeasible"]
        better = {}
        for i, one in enumerate(still):
            if self.left <= 2 * self.least_seconds:
                break
            self.progress(Step(kind="change", what=one.trial.what, again=True))
            found = self.outcome(one.trial, len(still) - i, [one.solved.solution, one.trial.start])
            if found is not None and (found.solved.bound or 0) >= (one.solved.bound or 0):
                better[id(one)] = found
        self.outcomes = [better.get(id(one), one) for one in self.outcomes]
        return [better.get(id(one), one) for one in tried]

    def without_a_mapping(self, relaxed: list[Tried]) -> None:
        """What makes up for the shortage."""
        case = self.case
        changed = self.tried_of([*self.needed, *changes.splits(case, self.solved), *changes.clones(case, None)])
        stuck = [t for t in changed if t.trial.kind == "split" and t.solved.status == "infeasible"]
        more = [shortages.with_chips(tried, self.deadline) for tried in stuck]
        self.attempt_all([trial for trial in more if trial is not None])
        for tried in relaxed:
            if tried.solved.status == "infeasible":
                self.say("cost", f"{tried.trial.what} there is still no mapping (proved)")

    def shown(self) -> list[Change]:
        """The changes tried."""
        return [one.change(self.base.upper) for one in self.outcomes]

    def difference(self, judged: tuple[Certificate, Certificate]) -> Difference:
        """The two mappings side by side."""
        return difference(ring_problem(self.instance), (self.solution, self.against), judged)


explain = explainer(_Work)
