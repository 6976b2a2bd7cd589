"""What the CP-SAT model of family ``placement`` is built with: its choices, and its variables.

Statement: ``docs/families/placement-models.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ortools.sat.python import cp_model

from chipmap.formulations.cpsat import LabelledModel
from chipmap.formulations.placement.choices import (
    PlacementChoices,
    fetchings,
    horizon,
    most_load,
    placings,
    routes,
    sendings,
)
from chipmap.formulations.placement.narrowing import Narrowing, NearPlacements, alike, largest_first
from chipmap.instances.placement.problem import PlacementProblem


@dataclass(frozen=True)
class PlacementCpChoices(PlacementChoices):
    """``labels``: ``assume`` gives each constraint a literal in ``assumptions`` and leaves the cuts out.

    An infeasible model then names those that clash.

    Of step time: ``narrowing`` keeps placements with T1 at most its ``upper`` only. ``symmetry``: where devices are
    alike, the k-th largest part is on one of the first k devices; not for models with constraints of your own that tell
    devices apart. ``near`` leaves out placements far from one: the model is a restriction, without symmetry.
    """

    labels: Literal["plain", "assume"] = "plain"
    narrowing: Narrowing | None = None
    symmetry: bool = False
    near: NearPlacements | None = None


#: What :func:`~chipmap.formulations.placement.cpsat.build` takes where nothing is chosen.
PLAIN = PlacementCpChoices()


class Builder(LabelledModel):
    """The model on its way.

    ``x[v, d]``; ``sent[s, d]``: storage s is sent to device d; ``route[s, a, d]``: from device a. ``start[v]``,
    ``end[v]`` and ``at[s, d]`` (the start of a transfer) in ns, with step time. ``fetch[v, d]``: operation v is on
    device d and fetches its weights, for ``fetch_time[v, d]``; ``stays[v, d]``: it is there and doesn't.
    """

    def __init__(
        self, model: cp_model.CpModel, problem: PlacementProblem, prefix: str, choices: PlacementCpChoices
    ) -> None:
        super().__init__(model, prefix, choices.labels == "assume")
        self.problem = problem
        self.cuts = () if self.assume else choices.cuts
        upper, given = choices.upper, choices.narrowing
        self.narrowing = given if given is not None and problem.timed and not self.assume else None
        if self.narrowing is not None:
            self.most = self.narrowing.upper if upper is None else min(upper, self.narrowing.upper)
        else:
            self.most = horizon(problem, upper) if problem.timed else most_load(problem, upper)
        self.part = tuple(range(problem.operations)) if self.narrowing is None else self.narrowing.part
        leaders = choices.symmetry and choices.near is None and problem.timed and not self.assume and alike(problem)
        self.leaders = largest_first(problem, self.part) if leaders else []
        self.x = self._places()
        self.sent = {(s, d): self.literal(f"sent[{s},{d}]") for s, d in sendings(problem) if self._may_go(s, d)}
        self.route = {
            (s, a, d): self.literal(f"route[{s},{a},{d}]")
            for s, d in self.sent
            for a in routes(problem, s, d)
            if (int(problem.storages.producer[s]), a) in self.x
        }
        self.fetch, self.fetch_time = dict[tuple[int, int], Any](), dict[tuple[int, int], int]()
        for v, d, time in fetchings(problem):
            if (v, d) in self.x:
                self.fetch[v, d], self.fetch_time[v, d] = self.literal(f"fetch[{v},{d}]"), time
                model.add_implication(self.fetch[v, d], self.x[v, d])
        self.start: dict[int, Any] = {}
        self.end: dict[int, Any] = {}
        self.at: dict[tuple[int, int], Any] = {}
        self.stays: dict[tuple[int, int], Any] = {}
        self.earliest: dict[tuple[int, int], int] = {}
        self.before: dict[tuple[int, int], Any] = {}  # device d comes before device e (C7)
        self.cost: Any = 0

    def _places(self) -> dict[tuple[int, int], Any]:
        """x: one literal per device for operations that share it."""
        common: dict[int, set[int]] = {}
        for v, part in enumerate(self.part):
            here = {d for d in range(self.problem.devices) if self.problem.allowed[v, d]}
            common[part] = common[part] & here if part in common else here
        for k, v in enumerate(self.leaders[: self.problem.devices - 1]):  # the others may be on any device
            common[self.part[v]] &= set(range(k + 1))
        made: dict[tuple[int, int], Any] = {}
        found = {}
        for v, d in placings(self.problem):
            part = self.part[v]
            if d in common[part]:
                if (part, d) not in made:
                    made[part, d] = self.literal(f"x[{v},{d}]")
                found[v, d] = made[part, d]
        return found

    def _may_go(self, s: int, d: int) -> bool:
        """Whether storage s may have to be sent to device d: to a reader that needn't share the producer's device."""
        u = int(self.problem.storages.producer[s])
        return any(self.part[w] != self.part[u] and (w, d) in self.x for w in self.problem.storages.read_by(s))

    def window(self, v: int) -> tuple[int, int]:
        """The least start and the greatest end of operation v."""
        if self.narrowing is None:
            return 0, self.most
        return self.narrowing.head[v], max(self.narrowing.head[v], self.most - self.narrowing.tail[v])

    def on(self, v: int, d: int) -> Any:
        """[operation v is on device d]: a literal, or False where it isn't allowed."""
        return self.x.get((v, d), False)

    def time(self, v: int) -> Any:
        """p of operation v where it is, with the time of fetching its weights."""
        return sum(self.busy(v, d) for d in range(self.problem.devices) if (v, d) in self.x)

    def busy(self, v: int, d: int) -> Any:
        """What operation v takes of device d."""
        time = int(self.problem.time[v, d]) * self.x[v, d]
        return time + self.fetch_time[v, d] * self.fetch[v, d] if (v, d) in self.fetch else time

    def runs(self, v: int, d: int) -> list[tuple[Any, int]]:
        """(literal, time): the ways in which operation v runs on device d."""
        time = int(self.problem.time[v, d])
        if (v, d) not in self.fetch:
            return [(self.x[v, d], time)]
        if (v, d) not in self.stays:
            stays, fetch = self.literal(f"stays[{v},{d}]"), self.fetch[v, d]
            self.model.add(stays + fetch == self.x[v, d])
            self.stays[v, d] = stays
        return [(self.stays[v, d], time), (self.fetch[v, d], time + self.fetch_time[v, d])]

    def implied(self, label: str, under: list[Any], constraint: cp_model.Constraint) -> None:
        """Enforce ``constraint`` where all of ``under`` hold, and the label's assumption."""
        constraint.only_enforce_if([*under, *self.assumption(label)])
