"""One instance looked into for ``explain``: solved within a share of the time, with the programs over its ideals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from chipmap.certificate import Certificate
from chipmap.explanation import Change
from chipmap.family import family_of, resolve
from chipmap.instances.ring.contraction import Contraction, contract
from chipmap.instances.ring.instance import RingInstance, RingSolution
from chipmap.instances.ring.problem import RingProblem, ring_problem
from chipmap.methods.ring.chain import auto
from chipmap.methods.ring.state import IDEAL_LIMIT
from chipmap.records import InputError, listed
from chipmap.result import Status
from chipmap.run import Run, SolveOptions

if TYPE_CHECKING:
    from chipmap.heuristics.ring.programs.ideals import IdealFamily
    from chipmap.heuristics.ring.programs.program import Programs

#: The least time that a solve gets, in seconds: the small instances take no more.
LEAST_SECONDS = 0.5


@dataclass(frozen=True)
class Solved:
    """What a solve of ``instance`` gave: its run, with the best checked solution, the bounds and the reasons."""

    instance: RingInstance
    run: Run

    @property
    def objective(self) -> int | None:
        """The checker's objective of the best mapping, in ticks."""
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
        """Whether the best mapping is proved to be optimal."""
        return self.objective is not None and self.objective == self.bound

    @property
    def solution(self) -> RingSolution | None:
        """The best mapping."""
        best = self.run.best
        return best.solution if best is not None else None  # type: ignore[return-value]

    @property
    def certificate(self) -> Certificate | None:
        """The checker's certificate of the best mapping."""
        return self.run.best.certificate if self.run.best is not None else None

    @property
    def chips_used(self) -> int:
        """K of the best mapping (0 without one)."""
        return int(self.certificate.figures["chips_used"]) if self.certificate else 0


def check(instance: RingInstance, solution: RingSolution) -> Certificate:
    """The independent checker's certificate."""
    found: Certificate = resolve(family_of(instance).check)(instance, solution)
    return found


def solve_within(
    instance: RingInstance, options: SolveOptions, seconds: float, starts: Sequence[RingSolution] = ()
) -> Solved:
    """Solve ``instance`` by the family's best chain within ``seconds``; ``starts`` count where the checker says so."""
    limited = options.replace(time_limit=max(seconds, LEAST_SECONDS), warm_start=None)
    run = Run(instance, limited, lambda a, b: check(a, b))
    for start in starts:
        if len(start.chips) == len(instance.graph.operations):
            run.solution(start, "mapping at hand")
    run.rejected.clear()
    auto(instance, run)
    return Solved(instance, run)


class Case:
    """The instance that is explained, as the programs see it: contracted, with all its ideals if they are not too many.

    ``problem`` is the contracted problem, ``programs`` and ``ideals`` are None where the programs don't apply.
    """

    def __init__(self, instance: RingInstance) -> None:
        from chipmap.heuristics.ring.programs.ideals import TooManyIdealsError, all_ideals, flow_graph
        from chipmap.heuristics.ring.programs.program import Programs

        self.instance = instance
        self.contraction: Contraction = contract(instance)
        self.problem: RingProblem = ring_problem(self.contraction.instance)
        self.graph = flow_graph(self.problem)
        self.programs: Programs | None = None
        self.ideals: IdealFamily | None = None
        try:
            self.programs = Programs(self.problem, self.graph)
            self.ideals = all_ideals(self.graph, IDEAL_LIMIT)
        except (ValueError, TooManyIdealsError):
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
class Trial:
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

    trial: Trial
    solved: Solved

    def change(self, base: int | None) -> Change:
        """The record of it; ``base`` is the objective of the instance as it is."""
        solved = self.solved
        objective = solved.objective
        figures = {}
        if solved.certificate is not None:
            figures = {
                "chips_used": solved.chips_used,
                "chips": solved.instance.package.chips,
                "max_memory_bytes": int(solved.certificate.figures["max_memory_bytes"]),
            }
        standing = {"optimal": "proved", "feasible": "best found"}.get(solved.status, solved.status)
        return Change(
            kind=self.trial.kind,
            what=self.trial.what,
            setting=self.trial.setting,
            standing=standing,  # type: ignore[arg-type]
            objective=objective,
            bound=solved.bound,
            gain=None if objective is None or not base else (base - objective) / base,
            figures=figures,
        )


def attempt(trial: Trial, options: SolveOptions, seconds: float, starts: Sequence[RingSolution]) -> Tried | None:
    """Solve the changed instance; None if the change makes no sense (a pin to a chip that is no more)."""
    try:
        changed = trial.make()
    except InputError:
        return None
    given = starts if trial.start is None else (*starts, trial.start)
    named = msgspec.structs.replace(changed, name=f"{changed.name}: {trial.what}")
    return Tried(trial, solve_within(named, options, seconds, given))
