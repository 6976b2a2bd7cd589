"""``explain`` for family ``placement``: why this step time or load, why no shorter one, and what more would allow.

The instance is solved, and the placement given (else the best one found) is taken apart. Then changes are made: one
more device, faster links, more memory, fewer demands. What a change allows *at best* is a bound on the changed
instance, not a promise. What the same search finds within a share of the time is what the checker says of it.
"""

from __future__ import annotations

from typing import Any

from chipmap.certificate import Certificate
from chipmap.deadline import Deadline
from chipmap.explaining.driver import Explaining, above, explainer, outcome, statement
from chipmap.explaining.placement import statements
from chipmap.explaining.placement.bound_reasons import Reason, reasons
from chipmap.explaining.placement.changes import PlacementTrial, all_bytes, changes
from chipmap.explaining.placement.difference import difference
from chipmap.explaining.placement.solved import bound_first, solve, solve_from
from chipmap.explanation import Change, Difference, Statement
from chipmap.instances.placement.instance import PlacementInstance, PlacementSolution
from chipmap.instances.placement.loads import loads
from chipmap.instances.placement.offload import loosest
from chipmap.instances.placement.problem import placement_problem
from chipmap.instances.placement.timeline import timeline
from chipmap.methods.placement.chain_state import ChainState
from chipmap.records import counted
from chipmap.records.quantities import duration, share, size

#: Seconds that heads and tails may take, where the solve has none.
WINDOWS_SECONDS = 2.0
#: Proofs by search, which have no reason in a sentence.
PROOFS = {
    "cpsat": "CP-SAT has looked through everything that is left (a proof by search)",
    "mip": "the MIP has looked through everything that is left (a proof by search)",
    "refutation": "CP-SAT has looked through everything that is left (a proof by search)",
    "ideals": "the program over ideals has compared all blocks one after the other",
}


class _Work(Explaining[PlacementTrial]):
    """One explanation in progress."""

    family = "placement"

    def __init__(self, instance: PlacementInstance, *rest: Any) -> None:
        self.problem = placement_problem(instance)
        self.word = "step time T1" if self.problem.timed else "load T2 per sample"
        self.thing = "schedule" if self.problem.timed else "placement"
        self.state: ChainState | None = None
        self.allowed: list[Statement] = []
        super().__init__(instance, *rest)
        bound_first(instance, self.base)

    def read(self, given: PlacementSolution, which: str) -> None:
        """Raise :class:`InputError` for a placement of something else."""
        timeline(self.problem, given) if self.problem.timed else loads(self.problem, given)

    def solve(self) -> None:
        """Solve the instance."""
        _, self.state = solve(self.instance, self.base)

    def trials(self) -> list[PlacementTrial]:
        """One more device, faster links, more memory, fewer demands."""
        return changes(self.problem, self.base.proved_infeasible) if self.problem.operations else []

    def nothing(self) -> str:
        """Without operations."""
        return "" if self.problem.operations else "No operation computes anything, so there is nothing to place"

    def compare(self, objective: int, best: int) -> None:
        """How far the placement given is from the best one found."""
        if objective > best:
            far = f"{above(objective, best)}, {duration(best)}"
            self.say("given", f"The {self.thing} given has a {self.word} of {duration(objective)}, {far}",
                     given_ns=objective, best_ns=best)  # fmt: skip

    def take_apart(self, own: PlacementSolution, certificate: Certificate) -> None:
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
        if own.fetched:
            self.said.append(statements.fetched(self.problem, own))
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
        if self.state is not None and self.problem.timed:  # mostly there already
            windows = self.state.heads_and_tails(Deadline.after(min(WINDOWS_SECONDS, self.left)))
        return reasons(loosest(self.problem), windows, low)[0]

    def shortage(self) -> None:
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

    def attempt(self, trial: PlacementTrial, left: int) -> None:
        """Solve a changed instance: what its bound allows at best, and what is found."""
        run = self.run(trial.instance, self.spent * self.left / left, (self.best,))
        solve_from(trial.instance, run, self.best)
        before = self.base.upper
        found = outcome(run, before)
        least = found["bound"]
        self.tried.append(Change(kind=trial.kind, what=trial.what, setting=trial.setting, **found))
        if before and least is not None:
            best = f"gains nothing (proved): {duration(before)} is the least with it as well" if least >= before else (
                f"allows at best {duration(least)}, {share(before - least, before)} less"
            )  # fmt: skip
            self.allowed.append(statement("more", f"{trial.what}: {best}", change=trial.what, bound_ns=least))

    def statements(self) -> list[Statement]:
        """With what changes allow at best."""
        return [*self.said, *self.allowed]

    def difference(self, judged: tuple[Certificate, Certificate]) -> Difference:
        """The two placements side by side."""
        return difference(self.problem, (self.solution, self.against), judged)


explain = explainer(_Work)


def _small(text: str) -> str:
    """A sentence as a part of another one."""
    return text[:1].lower() + text[1:] if text[:1].isalpha() else text
