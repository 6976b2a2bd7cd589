"""Degrees whose graph is too wide for the exact program: restricted programs for mappings, covers for a bound.

Covers leave out changes of layout between layers; programs run for every way in which what a layer hands on may lie.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count

from chipmap.heuristics.dataflow.branches import interchangeable
from chipmap.heuristics.dataflow.classes import classes
from chipmap.heuristics.dataflow.lattice import TooWideError
from chipmap.heuristics.dataflow.narrow import Found, Narrow, Schemes
from chipmap.heuristics.dataflow.program import Chain, Program
from chipmap.heuristics.dataflow.single import partitions_of
from chipmap.heuristics.dataflow.symmetric import SymmetricProgram
from chipmap.instances.dataflow.costs import DataflowProblem, resident, total_ticks
from chipmap.instances.dataflow.handed import ways
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
    return plain and instance.system.memory.capacity_bytes is None


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
        self.exactly = task.exactly and self.fused
        self.narrow = [Narrow(classes(way), self.most, self.exactly, self.fused) for way in ways(problem)]
        self.cover = PartitionBound(self.classes, self.most)
        self.best: Found | None = None
        self.bound = 0
        self.alone: int | None = None

    def solve(self) -> int | None:
        """A bound in ticks of the batch for these degrees; None where nothing fits."""
        starts = [(narrow, schemes) for narrow in self.narrow if (schemes := self._first(narrow)) is not None]
        self._one_partition(starts)
        for narrow, schemes in starts:
            self._widen(narrow, schemes)
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
        run = self.run
        allowed = self.cover.allowed(self.best.ticks, run.keep_going, lambda: run.remaining)
        for narrow in self.narrow:
            run.checkpoint()
            problem = self._without(narrow.classes.problem, allowed)
            try:
                chain = self._program(problem, allowed) if all(problem.options) else None
            except TooWideError:
                return
            if chain is not None:
                self._found(problem, Found(chain.ticks, chain.partitions, chain.chosen))
        self._bounded(self.best.ticks, "program over ideals", "combinatorial")

    def _without(self, way: DataflowProblem, allowed: list[list[int]]) -> DataflowProblem:
        """``way`` with those of its options whose schemes are ``allowed`` (by class, as numbers of all options)."""
        of, options = self.classes.of(), []
        for v, choice in enumerate(way.options):
            schemes = {self.problem.options[v][o].scheme for o in allowed[of[v]]}
            options.append(tuple(option for option in choice if option.scheme in schemes))
        return replace(way, options=tuple(options))

    def _program(self, problem: DataflowProblem, allowed: list[list[int]]) -> Chain | None:
        """The best mapping of ``problem`` that is better than the best so far."""
        assert self.best is not None
        upper = self.best.ticks
        if not interchangeable(problem):
            program = Program(problem)
            program.bound_rest(self.cover.floor(allowed))
            return program.best(self.most, self.exactly, self.fused, below=upper)
        symmetric = SymmetricProgram(problem)
        symmetric.bound_rest(self.cover.floor(allowed))
        return symmetric.best_up_to_symmetry(
            self.most, self.exactly, self.fused, upper=upper, checkpoint=self.run.checkpoint
        )

    def _first(self, narrow: Narrow) -> Schemes | None:
        return narrow.first(self.run.keep_going, lambda found: self._found(narrow.classes.problem, found))

    def _one_partition(self, starts: list[tuple[Narrow, Schemes]]) -> None:
        """The mapping of one partition whose weights stay in SRAM, and a bound on it (the cover has them read)."""
        task = self.problem.instance.task
        several = task.exactly and self.fused and task.partitions != 1
        if not resident(self.problem) or several or not self.run.keep_going():
            return
        self.alone = one_partition(self.classes, min(LONGEST, self.run.remaining))
        for narrow, schemes in starts if self.alone is not None else ():
            found = narrow.solve(schemes, 1, resident=True)
            if found is not None:
                self._found(narrow.classes.problem, found, stays=True)

    def _found(self, problem: DataflowProblem, found: Found, stays: bool = False) -> None:
        """A mapping of ``problem``, this one with fewer options."""
        schemes = tuple(choice[o].scheme for choice, o in zip(problem.options, found.chosen, strict=True))
        if not stays:
            pairs = zip(self.problem.options, schemes, strict=True)
            chosen = tuple([option.scheme for option in choice].index(scheme) for choice, scheme in pairs)
            self.cover.add(partitions_of(self.classes, self.cover.unit, found.partitions, chosen))
        if self.best is None or found.ticks < self.best.ticks:
            self.best = found
            solution = DataflowSolution(
                instance=self.problem.instance.name,
                degrees=self.problem.degrees,
                schemes=schemes,
                partitions=found.partitions,
            )
            self.run.solution(solution, SOURCE, claimed=total_ticks(problem, found.ticks, found.chosen))

    def _widen(self, narrow: Narrow, schemes: Schemes) -> None:
        if self.best is None:
            return
        steady = self.run.options.deterministic  # no clock: the first few
        for window in WINDOWS[: 3 if steady else None]:
            self.run.checkpoint()
            before = self.run.seconds
            try:
                found = narrow.solve(schemes, window, upper=self.best.ticks)
            except TooWideError:
                break
            if found is not None:
                self._found(narrow.classes.problem, found)
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
