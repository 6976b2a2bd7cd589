"""Degrees whose graph is too wide for the exact program: restricted programs for mappings, covers for a bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from chipmap.heuristics.dataflow.classes import classes
from chipmap.heuristics.dataflow.lattice import TooWideError
from chipmap.heuristics.dataflow.narrow import Found, Narrow, Schemes, fits_alone
from chipmap.heuristics.dataflow.single import partitions_of
from chipmap.instances.dataflow.costs import DataflowProblem, resident, total_ticks
from chipmap.instances.dataflow.instance import DataflowSolution
from chipmap.methods.dataflow_cover import LONGEST, Cover, PartitionBound, one_partition
from chipmap.run import Run

SOURCE = "program over some ideals"
#: Places that a kernel may be ahead of another, in turn; rounds of the bound, and between two looks at its schemes.
WINDOWS, ROUNDS, LOOK = (2, 3, 4, 6, 8, 12), 400, 25


class Outcome(NamedTuple):
    """What is known of some degrees: the least T4 found (None: nothing) and a bound on it (None: no mapping)."""

    ticks: int | None
    bound: int | None


class Wide:
    """One choice of degrees. ``bounded`` hears every better bound in ticks of the batch."""

    def __init__(self, problem: DataflowProblem, run: Run, bounded: Callable[[int], None]) -> None:
        self.problem, self.run, self.bounded = problem, run, bounded
        instance, task = problem.instance, problem.instance.task
        self.fused = task.fused and instance.system.chip.fused
        self.most = task.partitions if self.fused else None
        self.classes = classes(problem)
        self.narrow = Narrow(self.classes, self.most, task.exactly and self.fused, self.fused)
        self.cover = PartitionBound(self.classes, self.most)
        self.best: Found | None = None
        self.bound = 0
        self.alone: int | None = None
        self.rounds = 0

    def solve(self) -> int | None:
        """A bound in ticks of the batch for these degrees; None where nothing fits."""
        if fits_alone(self.problem):
            return None
        schemes = self.narrow.first(self.run.keep_going, self._found)
        self._one_partition(schemes)
        self._widen(schemes)
        self.cover.run(self._more, lambda: self.run.remaining, self._covered)
        if not self.cover.infeasible:
            return self.bound
        return None if self.alone is None else total_ticks(self.problem, self.alone)

    def _one_partition(self, schemes: Schemes | None) -> None:
        """The mapping of one partition whose weights stay in SRAM, and a bound on it (the cover has them read)."""
        task = self.problem.instance.task
        if not resident(self.problem) or (task.exactly and task.partitions != 1) or not self.run.keep_going():
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
            self.run.solution(solution, SOURCE, claimed=total_ticks(self.problem, found.ticks))

    def _widen(self, schemes: Schemes | None) -> None:
        if schemes is None or self.best is None:
            return
        for window in WINDOWS:
            self.run.checkpoint()
            before = self.run.seconds
            try:
                found = self.narrow.solve(schemes, window, upper=self.best.ticks)
            except TooWideError:
                break
            if found is not None:
                self._found(found)
            if self.run.seconds - before > 0.02 * min(self.run.remaining, 100.0):
                break

    def _more(self) -> bool:
        self.rounds += 1
        return self.rounds <= ROUNDS and self.run.keep_going()

    def _covered(self, cover: Cover) -> None:
        bound = total_ticks(self.problem, cover.bound if self.alone is None else min(cover.bound, self.alone))
        if bound > self.bound:
            self.bound = bound
            self.bounded(bound)
