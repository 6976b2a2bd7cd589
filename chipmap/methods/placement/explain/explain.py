"""``explain`` for family ``placement``: why this step time or load, why no shorter one, and what more would allow.

The instance is solved, and the placement given (else the best one found) is taken apart. Then changes are made: one
more device, faster links, more memory, fewer demands. What a change allows *at best* is a bound on the changed
instance, not a promise. What the same search finds within a share of the time is what the checker says of it.
"""

from __future__ import annotations

import time
from typing import Any

from chipmap.certificate import Certificate
from chipmap.deadline import Deadline
from chipmap.explanation import Change, Explanation, Statement
from chipmap.family import family_of, resolve
from chipmap.instances.placement.instance import PlacementInstance, PlacementSolution
from chipmap.instances.placement.loads import loads
from chipmap.instances.placement.problem import placement_problem
from chipmap.instances.placement.timeline import timeline
from chipmap.methods.explaining import Explaining, Progress, Told, outcome, side, statement
from chipmap.methods.placement.at_once import at_once
from chipmap.methods.placement.explain import statements
from chipmap.methods.placement.explain.bound_reasons import Reason, reasons
from chipmap.methods.placement.explain.changes import Trial, all_bytes, changes
from chipmap.methods.placement.explain.difference import difference
from chipmap.methods.placement.explain.solved import bound_first, solve, solve_from
from chipmap.methods.placement.stages import Stages
from chipmap.records import counted
from chipmap.records.quantities import duration, share, size
from chipmap.run import SolveOptions

#: Seconds that heads and tails may take, where the solve has none.
WINDOWS_SECONDS = 2.0
#: Proofs by search, which have no reason in a sentence.
PROOFS = {
    "cpsat": "CP-SAT has looked through everything that is left (a proof by search)",
    "mip": "the MIP has looked through everything that is left (a proof by search)",
    "refutation": "CP-SAT has looked through everything that is left (a proof by search)",
    "ideals": "the program over ideals has compared all blocks one after the other",
}


def explain(
    instance: PlacementInstance,
    solution: PlacementSolution | None = None,
    options: SolveOptions | None = None,
    against: PlacementSolution | None = None,
    progress: Progress | None = None,
    told: Told | None = None,
) -> Explanation:
    """The explanation of ``instance``, and of ``solution`` if one is given; its difference to ``against``.

    Runs in this process; the time limit is kept between steps of the search. ``told`` hears the explanation as far as
    it has come, whenever there is more. Raises :class:`InputError` for a solution of something else.
    """
    options = options or SolveOptions()
    options.check()
    work = _Work(instance, solution, against, options)
    bound_first(instance, work.base)
    return work.explain(progress, told)


class _Work(Explaining[Trial]):
    """One explanation in progress."""

    def __init__(
        self,
        instance: PlacementInstance,
        solution: PlacementSolution | None,
        against: PlacementSolution | None,
        options: SolveOptions,
    ) -> None:
        self.instance, self.solution, self.against = instance, solution, against
        self.problem = placement_problem(instance)
        for given in (solution, against):
            if given is not None:  # says what is wrong with a placement of something else
                timeline(self.problem, given) if self.problem.timed else loads(self.problem, given)
        self.word = "step time T1" if self.problem.timed else "load T2 per sample"
        self.thing = "schedule" if self.problem.timed else "placement"
        self.stages: Stages | None = None
        self.allowed: list[Statement] = []
        self.tried: list[Change] = []
        judge = resolve(family_of(instance).check)
        super().__init__(instance, (solution, against), options, judge, "placement at hand")

    def solve(self) -> None:
        """Solve the instance, unless there is no placement."""
        if not self.base.proved_infeasible:
            at_once(self.instance, self.base)
        if not self.base.proved_infeasible:
            _, self.stages = solve(self.instance, self.base)

    def trials(self) -> list[Trial]:
        """One more device, faster links, more memory, fewer demands."""
        return changes(self.problem, self.base.proved_infeasible) if self.problem.operations else []

    @property
    def best(self) -> PlacementSolution | None:
        """The best placement known."""
        found = self.base.best
        assert found is None or isinstance(found.solution, PlacementSolution)
        return None if found is None else found.solution  # type: ignore[return-value]

    def say(self, topic: str, message: str, label: str = "", **figures: Any) -> None:
        """Add a statement."""
        self.said.append(statement(topic, message, label, **figures))

    def facts(self) -> None:
        """What can be said before changes are tried."""
        if not self.problem.operations:
            self.say("verdict", "No operation computes anything, so there is nothing to place")
        elif self.base.proved_infeasible:
            self.say("verdict", f"No {self.thing} exists (proved)")
            for reason in self.base.infeasibility:
                text = f"{reason.message[:1].upper()}{reason.message[1:]}. Remedy: {'; or '.join(reason.remedies)}"
                self.say("clash", text, reason.label, demand=reason.demand, limit=reason.limit, unit=reason.unit)
            self.demand()
        elif self.best is None:
            self.say("verdict", f"No {self.thing} was found in the time, and no proof that there is none")
            self.demand()
        else:
            own = self.given() or self.best
            self.placement(own, self.check(self.instance, own))

    def given(self) -> PlacementSolution | None:
        """What the checker says of the placement given, which is returned if it is valid."""
        if self.solution is None:
            return None
        certificate, best = self.check(self.instance, self.solution), self.base.upper or 0
        if not certificate.feasible:
            first, count = certificate.violations[0], len(certificate.violations)
            times = "violation" if count == 1 else "violations"
            text = f"The {self.thing} given is refused ({count} {times}): {first.label} {first.message}"
            self.say("given", f"{text}. What follows is about the best one found", first.label, violations=count)
            return None
        objective = certificate.objective or 0
        if objective > best:
            above = f"{share(objective - best, best)} above the best one found, {duration(best)}"
            self.say("given", f"The {self.thing} given has a {self.word} of {duration(objective)}, {above}",
                     given_ns=objective, best_ns=best)  # fmt: skip
        return self.solution

    def placement(self, own: PlacementSolution, certificate: Certificate) -> None:
        """A valid placement taken apart, and why nothing is shorter."""
        objective = certificate.objective or 0
        least = min(objective, self.base.lower.value if self.base.lower is not None else 0)
        proof = "which is proved to be the least" if least == objective else (
            f"and no {self.thing} has less than {duration(least)} (gap {share(objective - least, objective)})"
        )  # fmt: skip
        used = len(set(own.devices.values()))
        text = f"The {self.thing} has a {self.word} of {duration(objective)}, {proof}"
        of = f"It uses {used} of {counted(self.problem.devices, 'device')}"
        self.say("verdict", f"{text}. {of}", devices=used, ns=objective)
        if self.problem.timed:
            self.said += statements.schedule(timeline(self.problem, own))
        else:
            self.said += statements.throughput(self.problem, own)
        self.said += statements.memory(self.problem, certificate.figures)
        self.bound(least, objective)

    def bound(self, least: int, objective: int) -> None:
        """The reason behind the bound, and how far simple reasons go where a search has proved more."""
        lower = self.base.lower
        if lower is None or not least:
            return
        strongest = self.strongest(lower.value)
        words = f"No {self.thing} {'takes less' if self.problem.timed else 'has a smaller load'}"
        words += "" if least == objective else f" than {duration(least)}"
        if strongest.value >= least:
            self.say("bound", f"{words}: {_small(strongest.message)}", "", kind=strongest.kind, source=lower.source,
                     bound_ns=least, **strongest.figures)  # fmt: skip
            return
        proof = PROOFS.get(lower.source, f"that is the bound {lower.source!r}")
        simple = f"Simple reasons go up to {duration(strongest.value)}: {_small(strongest.message)}"
        self.say("bound", f"{words}: {proof}. {simple}", "", kind=lower.source, source=lower.source, bound_ns=least,
                 simple=strongest.kind, simple_ns=strongest.value)  # fmt: skip

    def strongest(self, low: int) -> Reason:
        """The simple argument that goes farthest towards the bound ``low``."""
        windows = None
        if self.stages is not None and self.problem.timed:  # mostly there already
            windows = self.stages.windows(Deadline.after(min(WINDOWS_SECONDS, self.left)))
        return reasons(self.problem, windows, low)[0]

    def demand(self) -> None:
        """Without a placement: what there is to hold and to do."""
        problem = self.problem
        limits = [limit for limit in problem.memory.tolist() if limit >= 0]
        if problem.instance.task.memory != "none" and len(limits) == problem.devices:
            text = f"All weights and tensors are {size(all_bytes(problem))}; the {problem.devices} devices have "
            self.say("memory", f"{text}{size(sum(limits))} together, the largest {size(max(limits))}", "C6",
                     all_bytes=all_bytes(problem), memory_bytes=sum(limits))  # fmt: skip
        strongest = self.strongest(0)
        text = f"Limits aside, no {self.thing} takes less than {duration(strongest.value)}: {_small(strongest.message)}"
        self.say("bound", text, kind=strongest.kind, bound_ns=strongest.value, **strongest.figures)

    def attempt(self, trial: Trial, left: int) -> None:
        """Solve a changed instance: what its bound allows at best, and what is found."""
        run = self.run(trial.instance, self.spent * self.left / left)
        end, before = solve_from(trial.instance, run, self.best), self.base.upper
        found = outcome(run, end.reason, before)
        least = found["bound"]
        self.tried.append(Change(kind=trial.kind, what=trial.what, setting=trial.setting, **found))
        if before and least is not None:
            best = f"gains nothing (proved): {duration(before)} is the least with it as well" if least >= before else (
                f"allows at best {duration(least)}, {share(before - least, before)} less"
            )  # fmt: skip
            words = trial.what[:1].upper() + trial.what[1:]
            self.allowed.append(statement("more", f"{words}: {best}", change=trial.what, bound_ns=least))

    def explanation(self) -> Explanation:
        """What is known by now."""
        base, both = self.base, (self.solution, self.against)
        status = "optimal" if base.gap == 0 else "feasible" if base.best is not None else "unknown"
        lower = None if base.lower is None or base.proved_infeasible else base.lower.value
        order = {"proved": 0, "best found": 0, "unknown": 1, "infeasible": 2}
        found = None
        if both[0] is not None and both[1] is not None:
            judged = self.check(self.instance, both[0]), self.check(self.instance, both[1])
            found = difference(self.problem, both, judged)  # type: ignore[arg-type]
        return Explanation(
            instance=self.instance.name,
            instance_hash=self.instance.content_hash,
            family="placement",
            status="infeasible" if base.proved_infeasible else status,  # type: ignore[arg-type]
            objective=base.upper,
            bound=lower if base.upper is None or lower is None else min(lower, base.upper),
            terms=base.best.certificate.terms if base.best else {},
            given=side(self.check(self.instance, self.solution)) if self.solution is not None else None,
            statements=(*self.said, *self.allowed),
            infeasibility=tuple(base.infeasibility),
            changes=tuple(sorted(self.tried, key=lambda one: (order[one.standing], one.objective or 0))),
            difference=found,
            notes=tuple(self.notes),
            seconds=round(time.monotonic() - self.started, 3),
        )


def _small(text: str) -> str:
    """A sentence as a part of another one."""
    return text[:1].lower() + text[1:] if text[:1].isalpha() else text
