"""What the CP-SAT model of family ``placement`` is built with: its choices, and its variables.

Statement: ``docs/families/placement.md``, "Explicit models".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ortools.sat.python import cp_model

from chipmap.formulations.cpsat import LabelledModel
from chipmap.formulations.placement.choices import PlacementChoices, horizon, most_load, placings, routes, sendings
from chipmap.instances.placement.problem import PlacementProblem


@dataclass(frozen=True)
class PlacementCpChoices(PlacementChoices):
    """``labels``: ``assume`` gives each constraint a literal in ``assumptions`` and leaves the cuts out.

    An infeasible model then names those that clash.
    """

    labels: Literal["plain", "assume"] = "plain"


#: What :func:`~chipmap.formulations.placement.cpsat.build` takes where nothing is chosen.
PLAIN = PlacementCpChoices()


class Builder(LabelledModel):
    """The model on its way.

    ``x[v, d]``; ``sent[s, d]``: storage s is sent to device d; ``route[s, a, d]``: from device a. ``start[v]``,
    ``end[v]`` and ``at[s, d]`` (the start of a transfer) in ns, with step time.
    """

    def __init__(
        self, model: cp_model.CpModel, problem: PlacementProblem, prefix: str, choices: PlacementCpChoices
    ) -> None:
        super().__init__(model, prefix, choices.labels == "assume")
        self.problem = problem
        self.cuts = () if self.assume else choices.cuts
        self.most = horizon(problem, choices.upper) if problem.timed else most_load(problem, choices.upper)
        self.x = {(v, d): self.literal(f"x[{v},{d}]") for v, d in placings(problem)}
        self.sent = {(s, d): self.literal(f"sent[{s},{d}]") for s, d in sendings(problem)}
        self.route = {
            (s, a, d): self.literal(f"route[{s},{a},{d}]") for s, d in self.sent for a in routes(problem, s, d)
        }
        self.start: dict[int, Any] = {}
        self.end: dict[int, Any] = {}
        self.at: dict[tuple[int, int], Any] = {}
        self.cost: Any = 0

    def on(self, v: int, d: int) -> Any:
        """[operation v is on device d]: a literal, or False where it isn't allowed."""
        return self.x.get((v, d), False)

    def time(self, v: int) -> Any:
        """p of operation v where it is."""
        here = [d for d in range(self.problem.devices) if (v, d) in self.x]
        return sum(int(self.problem.time[v, d]) * self.x[v, d] for d in here)

    def implied(self, label: str, under: list[Any], constraint: cp_model.Constraint) -> None:
        """Enforce ``constraint`` where all of ``under`` hold, and the label's assumption."""
        constraint.only_enforce_if([*under, *self.assumption(label)])
