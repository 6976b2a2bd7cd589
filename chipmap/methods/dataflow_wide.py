"""Degrees whose graph is too wide for the exact program: restricted programs for mappings, covers for a bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count

from chipmap.heuristics.dataflow.classes import classes
from chipmap.heuristics.dataflow.lattice import TooWideError
from chipmap.heuristics.dataflow.narrow import Found, Narrow, Schemes
from chipmap.heuristics.dataflow.program import Chain, Program
from chipmap.heuristics.dataflow.single import partitions_of
from chipmap.heuristics.dataflow.symmetric import SymmetricProgram
from chipmap.instances.dataflow.costs import DataflowProblem, resident, total_ticks
from chipmap.instances.dataflow.instance import DataflowSolution
from chipmap.methods.dataflow_cover import LONGEST, Cover, PartitionBound, one_partition
from chipmap.methods.dataflow_wide_reasons import need
from chipmap.result import BoundKind
from chipmap.run import Run

SOURCE = "program over some ideals"
#: Places that a kernel may be ahead of another, in turn, and rounds of the bound.
WINDOWS, ROUNDS = (2, 3, 4, 6, 8, 12), 300


def taken(problem: DataflowProblem) -> bool:
    """Whether the problem is one of those that the methods for wide graphs state: one layer whose partitions run once
    per micro-batch and take the most of compute that adds up, memory and network, without a limit on DRAM."""
    instance, task = problem.instance, problem.instance.task
    plain = task.overlap and task.utilisation is not None and not task.recompute and not task.across_layers
    return plain and task.stages == "layers" and instance.system.memory.capacity_bytes is None


def hopeless(problem: DataflowProblem, run: Run) -> bool:
    """Whether some kernel, group of pins or phase is proved not to fit."""
    return need(classes(problem), min(LONGEST, run.remaining)) is not None


class Wide:
    """One choice of degrees, for a ``share`` of the time left. ``bounded`` hears every better bound in ticks."""

    def __init__(
        self,
        problem: DataflowProblem,
        run: Run,
        bounded: Callable[[int, str, BoundKind], None],
        share: float = 1.0,
    ) -> None:
        self.problem, self.run, self.bounded = problem, run, bounded
        self.until = run.seconds + share * run.remaining
        instance, task = problem.instance, problem.instance.task
        self.fused = task.fused and instance.system.chip.fused
        self.most = task.partitions if self.fused else None
        self.classes = classes(problem)
        self.narrow = Narrow(self.classes, self.most, task.exactly and self.fused, self.fused)
        self.cover = PartitionBound(self.classes, self.most)
        self.best: Found | None = None
        self.bound = 0
        self.alone: int | None = None

    def solve(self) -> int | None:
        """A bound in ticks of the batch for these degrees; None where nothing fits."""
        schemes = self.narrow.first(self.run.keep_going, self._found)
        self._one_partition(schemes)
        self._widen(schemes)
        for share in (0.5, 1.0):
            self._run_cover(share)
            if self.cover.infeasible:
                return None if self.alone is None else total_ticks(self.problem, self.alone)
            if share < 1.0 and self.run.keep_going():
                self._exact()
        return self.bound

    def _run_cover(self, share: float) -> None:
        """Better the bound for this share of the time that is left, at most ``ROUNDS`` rounds."""
        until = self.run.seconds + share * (self.until - self.run.seconds)
        rounds = count()

        def more() -> bool:
            return next(rounds) < ROUNDS and self.run.seconds < until and self.run.keep_going()

        self.cover.run(more, lambda: until - self.run.seconds, self._covered)

    def _exact(self) -> None:
        """The program over ideals (up to symmetry where there is any), without the schemes that can't be in a better
        mapping: the optimum, unless there are still too many ideals or schemes open at once."""
        if self.best is None:
            return
        upper, run = self.best.ticks, self.run
        allowed = self.cover.allowed(upper, run.keep_going, lambda: run.remaining)
        run.checkpoint()
        chain: Chain | None = None
        if all(allowed):
            try:
                chain = self._program(allowed, upper)
            except TooWideError:
                return
        if chain is not None:
            of = self.classes.of()
            chosen = tuple(allowed[of[v]][o] for v, o in enumerate(chain.chosen))
            self._found(Found(chain.ticks, chain.partitions, chosen))
        self._bounded(upper if chain is None else chain.ticks, "program over ideals", "combinatorial")

    def _program(self, allowed: list[list[int]], upper: int) -> Chain | None:
        of, task = self.classes.of(), self.problem.instance.task
        options = [tuple(choice[o] for o in allowed[of[v]]) for v, choice in enumerate(self.problem.options)]
        problem, exactly = replace(self.problem, options=tuple(options)), task.exactly and self.fused
        if not self.classes.groups:
            program = Program(problem)
            program.bound_rest(self.cover.floor(allowed))
            return program.best(self.most, exactly, self.fused, below=upper)
        symmetric = SymmetricProgram(problem)
        symmetric.bound_rest(self.cover.floor(allowed))
        return symmetric.best_up_to_symmetry(
            self.most, exactly, self.fused, upper=upper, checkpoint=self.run.checkpoint
        )

    def _one_partition(self, schemes: Schemes | None) -> None:
        """The mapping of one partition whose weights stay in SRAM, and a bound on it (the cover has them read)."""
        task = self.problem.instance.task
        several = task.exactly and self.fused and task.partitions != 1
        if not resident(self.problem) or several or not self.run.keep_going():
            return
        self.alone = one_partition(self.classes, min(LONGEST, self.run.remaining))
        if self.alone is not None and schemes is not None:
            found = self.narrow.solve(schemes, 1, resident=True)
            if found is not None:
                self._found(found, stays=True)

    def _found(self, found: Found, stays: bool = False) -> None:
        solution = DataflowSolution(
            instance=self.problem.instance.name,
            degrees=self.problem.degrees,
            schemes=tuple(choice[o].scheme for choice, o in zip(self.problem.options, found.chosen, strict=True)),
            partitions=found.partitions,
        )
        if not stays:
            self.cover.add(partitions_of(self.classes, self.cover.unit, found.partitions, found.chosen))
        if self.best is None or found.ticks < self.best.ticks:
            self.best = found
            self.run.solution(solution, SOURCE, claimed=total_ticks(self.problem, found.ticks, found.chosen))

    def _widen(self, schemes: Schemes | None) -> None:
        if schemes is None or self.best is None:
            return
        steady = self.run.options.deterministic  # no clock: the first few
        for window in WINDOWS[: 3 if steady else None]:
            self.run.checkpoint()
            before = self.run.seconds
            try:
                found = self.narrow.solve(schemes, window, upper=self.best.ticks)
            except TooWideError:
                break
            if found is not None:
                self._found(found)
            if not steady and self.run.seconds - before > 0.02 * min(self.run.remaining, 100.0):
                break

    def _covered(self, cover: Cover) -> None:
        self._bounded(cover.bound, "cover by partitions", "relaxation")

    def _bounded(self, layer: int, source: str, kind: BoundKind) -> None:
        """A bound on the picoseconds of a layer unless it is one partition whose weights stay."""
        bound = total_ticks(self.problem, layer if self.alone is None else min(layer, self.alone))
        if bound > self.bound:
            self.bound = bound
            self.bounded(bound, source, kind)
