"""One instance looked into for ``explain``: what its solve gave, the programs over its ideals, and changes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chipmap.deadline import Deadline, Stop
from chipmap.explaining.driver import Solved, outcome
from chipmap.explanation import Change
from chipmap.instances.ring.contraction import Contraction, contract
from chipmap.instances.ring.instance import RingInstance, RingSolution
from chipmap.instances.ring.problem import RingProblem, ring_problem
from chipmap.methods.ring.state import IDEAL_LIMIT
from chipmap.records import listed

if TYPE_CHECKING:
    from chipmap.heuristics.engines.ideals import IdealFamily
    from chipmap.heuristics.ring.programs.program import Programs


class RingSolved(Solved):
    """A solved instance, with the chips that its best mapping uses."""

    @property
    def instance(self) -> RingInstance:
        """The instance."""
        return self.run.instance  # type: ignore[return-value]

    @property
    def chips_used(self) -> int:
        """K of the best mapping (0 without one)."""
        return int(self.certificate.figures["chips_used"]) if self.certificate else 0


class ExplainedInstance:
    """The instance that is explained, as the programs see it: contracted, with all its ideals if they are not too many.

    ``problem`` is the contracted problem, ``programs`` and ``ideals`` are None where the programs don't apply, or where
    the ideals aren't listed by the deadline.
    """

    def __init__(self, instance: RingInstance, deadline: Deadline) -> None:
        from chipmap.heuristics.engines.ideals import TooManyIdealsError, all_ideals
        from chipmap.heuristics.ring.programs.flow_graph import flow_graph
        from chipmap.heuristics.ring.programs.program import Programs

        self.instance = instance
        self.contraction: Contraction = contract(instance)
        self.problem: RingProblem = ring_problem(self.contraction.instance)
        self.graph = flow_graph(self.problem)
        self.programs: Programs | None = None
        self.ideals: IdealFamily | None = None
        try:
            self.programs = Programs(self.problem, self.graph)
            self.ideals = all_ideals(self.graph.producers, IDEAL_LIMIT, deadline)
        except (ValueError, TooManyIdealsError, Stop):
            self.programs = None

    def name(self, v: int) -> str:
        """The name of operation ``v`` of the contracted problem, with those that it stands for in a group."""
        names = [self.instance.graph.operations[u].name for u in self.contraction.members[v]]
        names = names or [self.contraction.instance.graph.operations[v].name]
        return names[0] if len(names) == 1 else f"{names[0]} with {listed(names[1:])} (kept together)"

    def single(self, v: int) -> bool:
        """Whether operation ``v`` of the contracted problem is one operation, not a keep-together group."""
        return len(self.contraction.members[v]) == 1

    def lower(self, solution: RingSolution) -> tuple[int, ...]:
        """The chips of the contracted operations."""
        return self.contraction.lower(solution).chips

    def lift(self, chips: tuple[int, ...]) -> RingSolution:
        """The mapping of the original operations."""
        return self.contraction.lift(RingSolution(chips=chips))


@dataclass(frozen=True)
class RingTrial:
    """A change to be tried: ``make`` gives the changed instance (:class:`InputError`: it makes no sense here).

    ``left_out`` is what the change does without, where that is one thing: ``C3``, ``C4``, or the time of ``links``.
    """

    kind: str
    what: str
    make: Callable[[], RingInstance]
    setting: str = ""
    start: RingSolution | None = None
    left_out: str = ""


@dataclass(frozen=True)
class Tried:
    """A trial with its outcome."""

    trial: RingTrial
    solved: RingSolved

    def change(self, base: int | None) -> Change:
        """The record of it; ``base`` is the objective of the instance as it is."""
        solved, trial, figures = self.solved, self.trial, {}
        if solved.certificate is not None:
            figures = {
                "chips_used": solved.chips_used,
                "chips": solved.instance.package.chips,
                "max_memory_bytes": int(solved.certificate.figures["max_memory_bytes"]),
            }
        told = outcome(solved.run, base)
        return Change(kind=trial.kind, what=trial.what, setting=trial.setting, figures=figures, **told)
