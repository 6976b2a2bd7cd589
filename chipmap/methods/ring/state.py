"""What the methods of family ``ring`` know of one instance in one run.

All of them work on the lossless contraction and lift what they find.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from chipmap.deadline import Stop
from chipmap.instances.ring.contraction import Contraction, contract
from chipmap.instances.ring.instance import RingInstance, RingSolution
from chipmap.instances.ring.problem import RingProblem, ring_problem
from chipmap.methods.ring.oracle_cuts import Cuts
from chipmap.methods.ring.trace_order import telling
from chipmap.records import InputError, counted
from chipmap.result import Infeasibility
from chipmap.run import Run

if TYPE_CHECKING:
    from chipmap.heuristics.engines.ideals import IdealFamily
    from chipmap.heuristics.ring.bounds.cut_profile import CutProfile
    from chipmap.heuristics.ring.programs.program import ProgramResult, Programs
    from chipmap.heuristics.ring.programs.screens import RejectedBlocks

#: Ideals that the programs list before they give a graph up as too wide.
IDEAL_LIMIT = 200_000
#: Programs whose mappings may break C3.
RELAXATIONS = ("program free", "program n1")


class RingChainState:
    """One instance in one run: its contraction, its programs and ideals, and how far the chain has come.

    ``ideals`` are all ideals once :meth:`list_ideals` has listed them. ``sliced`` says that orders have been sliced,
    so that the programs apply, ``searched`` that local search had its turn. ``rounds`` counts the rounds of the station
    search that are done; ``cut_profile`` is what cuts of prefixes have found so far.
    """

    def __init__(self, instance: RingInstance, run: Run) -> None:
        self.instance, self.run = instance, run
        self.contraction: Contraction = contract(instance)
        self.problem: RingProblem = ring_problem(self.contraction.instance)
        self.cuts = Cuts(run, instance, self.contraction)
        self.rejected: RejectedBlocks | None = None
        self.ideals: IdealFamily | None = None
        self.cut_profile: CutProfile | None = None
        self.sliced = self.searched = False
        self.rounds = 0

    @cached_property
    def programs(self) -> Programs:
        """The programs of the contracted problem. Raises :class:`InputError` where they don't apply."""
        from chipmap.heuristics.ring.programs.program import Programs

        try:
            programs = Programs(self.problem)
        except ValueError as error:
            remedy = "Methods for every instance: ring/auto, ring/mip, ring/cpsat."
            raise InputError(str(error), self.contraction.original.name, remedy) from None
        self.rejected = self.cuts.screen(programs)
        return programs

    def list_ideals(self, limit: int = IDEAL_LIMIT) -> IdealFamily:
        """All ideals. Raises TooManyIdealsError if there are more than ``limit``."""
        if self.ideals is None:
            from chipmap.heuristics.engines.ideals import all_ideals

            self.ideals = all_ideals(self.programs.graph.producers, limit)
            count = self.programs.graph.n
            words = f"{counted(count, 'operation')} after contraction, {counted(len(self.ideals), 'ideal')}"
            self.run.note("size", words, operations=count, ideals=len(self.ideals))
        return self.ideals

    @property
    def below(self) -> int | None:
        """The value that would improve on the incumbent."""
        return None if self.run.upper is None else self.run.upper - 1

    @property
    def lower(self) -> int:
        """The best lower bound so far in ticks (0 without one)."""
        return self.run.lower.value if self.run.lower is not None else 0

    def report(self, chips: tuple[int, ...], source: str, claimed: int | None = None) -> bool:
        """Report a mapping of the contracted operations; whether the checker accepts it."""
        solution = RingSolution(instance=self.contraction.instance.name, chips=chips)
        told = telling(self.run, self.instance, self.contraction.lift(solution))
        certificate = self.run.solution(told, source, claimed=claimed)
        if source in RELAXATIONS and {violation.label for violation in certificate.violations} == {"C3"}:
            self.run.rejected.pop()
            words = f"{source} leaves out part of C3: its value is a bound, its mapping breaks C3 and isn't used"
            self.run.note("left out", words)
        return certificate.feasible

    def best(self, program: Callable[[], ProgramResult], source: str, bounds: bool = False) -> ProgramResult:
        """Run a program, report its mapping; with an oracle, again with its cuts until H accepts or has no cut for it.

        Every round relaxes the problem with C5: its value is a bound where the program's is (``bounds``).
        """
        while True:
            result = program()
            if result.chips is not None:
                self.report(result.chips, source, result.value)
            rejected, before = self.rejected, len(self.rejected) if self.rejected is not None else 0
            self.cuts.update()
            for block in self.cuts.blocks[before:] if rejected is not None else ():
                rejected.add(block)  # type: ignore[union-attr]
            if rejected is None or len(rejected) == before or result.chips is None:
                return result
            if bounds and result.value is not None:
                self.run.bound(result.value, source)
            self.run.checkpoint()

    def proved(self, result: ProgramResult, upper: int | None, source: str) -> None:
        """Report what a program over all ideals proves: its value, or that nothing is as good as ``upper``."""
        if result.value is not None:
            self.run.bound(result.value, source)
        elif upper is not None:
            self.run.bound(upper + 1, source)
        elif not self.run.best:
            self.run.infeasible(*self._reasons())

    def _reasons(self) -> list[Infeasibility]:
        """Why no chain of ideals exists: memory, if there is one without C4; else what the models say."""
        from chipmap.heuristics.ring.bounds.shortages import least_sram
        from chipmap.methods.ring.at_once import memory
        from chipmap.methods.ring.infeasibility import EXPLAIN_SECONDS, FEW, clashing_labels, does, reasons

        ideals, limit = self.list_ideals(), self.run.deadline
        if not self.run.options.deterministic:
            limit = limit.within(EXPLAIN_SECONDS)
        try:
            known = least_sram(self.programs, ideals, limit) if self.problem.has("C4") else None
        except Stop:
            known = None
        if known is not None and known[0] > self.problem.sram_bytes:
            mapping = RingSolution(instance=self.contraction.instance.name, chips=known[1])
            reached = known[0] if does(self.instance, self.run, known[0], self.contraction.lift(mapping)) else None
            labels = clashing_labels(self.contraction.instance, self.run) if self.problem.n <= FEW else ()
            in_force = tuple(label for label in ("C1", "C2", "C3", "C4") if self.problem.has(label))
            return [memory(self.problem, known[0], reached, labels if "C4" in labels else in_force)]
        return self.cuts.reason() or reasons(self.contraction.instance, self.run)
