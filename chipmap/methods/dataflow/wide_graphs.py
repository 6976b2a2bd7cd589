"""Degrees whose graph is too wide for the exact program: restricted programs for mappings, covers for a bound.

All that for every way in which what a layer hands on may lie (:mod:`chipmap.instances.dataflow.layer_handover`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from chipmap.heuristics.dataflow.cover.column_generation import LONGEST, Cover, PartitionBound, one_partition
from chipmap.heuristics.dataflow.cover.pricing import partitions_of
from chipmap.heuristics.dataflow.program.lattice import TooWideError
from chipmap.heuristics.dataflow.program.program import Chain, Program
from chipmap.heuristics.dataflow.program.restricted_program import Found, Narrow, Schemes
from chipmap.heuristics.dataflow.symmetric.classes import classes
from chipmap.heuristics.dataflow.symmetric.program import SymmetricProgram
from chipmap.instances.dataflow.instance import DataflowSolution
from chipmap.instances.dataflow.layer_handover import ways
from chipmap.instances.dataflow.problem import DataflowProblem, caching, first_layer, resident, total_ticks
from chipmap.methods.dataflow.effort import labels
from chipmap.methods.dataflow.wide_infeasibility import need
from chipmap.result import BoundKind
from chipmap.run import Run
from chipmap.solvers.repeated import Repeated

SOURCE = "program over some ideals"
#: Places that a kernel may be ahead of another, in turn; rounds of the bound, and those of a way before the next one's.
WINDOWS, ROUNDS, TURN = (2, 3, 4, 6, 8, 12), 300, 10


def covers(problem: DataflowProblem) -> bool:
    """Whether covers bound the problem: partitions lie within a layer. They drop C6 and C7, and share tiles at will."""
    return not problem.instance.task.across_layers


def plain(problem: DataflowProblem) -> bool:
    """Whether the program up to symmetry states the problem: one layer whose partitions run once per micro-batch and
    take the most of compute that adds up, memory and network, without a limit on DRAM."""
    instance, task = problem.instance, problem.instance.task
    once = task.overlap and task.utilisation is not None and not task.recompute and not task.across_layers
    return once and instance.system.memory.capacity_bytes is None


def hopeless(problem: DataflowProblem, run: Run) -> bool:
    """Whether some kernel, group of pins or phase is proved not to fit."""
    return covers(problem) and need(classes(problem), min(LONGEST, run.remaining)) is not None


class Wide:
    """One choice of degrees, for a ``share`` of the time left. ``bounded`` hears every better bound in ticks."""

    def __init__(
        self,
        problem: DataflowProblem,
        run: Run,
        bounded: Callable[[int, str, BoundKind], None],
        share: float = 1.0,
    ) -> None:
        self.run, self.bounded = run, bounded
        self.until = run.seconds + share * run.remaining
        found = list(ways(problem))
        self.ways = [_Way(way, run, self._better, share / len(found)) for way in found]
        self.bound = 0

    def solve(self) -> int | None:
        """A bound in ticks of the batch for these degrees; None where nothing fits."""
        for way in self.ways:
            way.find()
        for way in self._open():
            way.program()
        for share in (0.5 if len(self.ways) == 1 else 0.7, 1.0):
            self._run_covers(share)
            for way in self._open() if share < 1.0 else ():
                if self.run.keep_going():
                    way.exact()
        return min((way.bound for way in self.ways if way.bound is not None), default=None)

    def _open(self) -> list[_Way]:
        """The ways that may hold a better mapping, the least bound first."""
        upper = self.run.upper
        left = [(way.bound, i) for i, way in enumerate(self.ways) if way.bound is not None]
        return [self.ways[i] for bound, i in sorted(left) if upper is None or bound < upper]

    def _run_covers(self, share: float) -> None:
        """Better the bounds for this share of the time that is left, at most ``ROUNDS`` rounds each: ``TURN`` rounds of
        the way with the least bound at a time."""
        until = self.run.seconds + share * (self.until - self.run.seconds)
        rounds = dict.fromkeys(self.ways, ROUNDS)
        while self.run.seconds < until and self.run.keep_going():
            way = next((one for one in self._open() if rounds[one] > 0 and one.lively), None)
            if way is None:
                return
            turn = TURN if len(self.ways) > 1 else ROUNDS
            rounds[way] -= turn
            for other in self.ways:
                way.learn(other)
            way.better(turn, until)

    def _better(self, source: str, kind: BoundKind) -> None:
        """A way has a better bound."""
        bound = min((way.bound for way in self.ways if way.bound is not None), default=0)
        if bound > self.bound:
            self.bound = bound
            self.bounded(bound, source, kind)


class _Way:
    """A choice of degrees whose layers hand on what they do in one way; ``bound`` is None once nothing fits."""

    def __init__(
        self, problem: DataflowProblem, run: Run, better: Callable[[str, BoundKind], None], share: float
    ) -> None:
        self.problem, self.run, self.told = problem, run, better
        instance, task = problem.instance, problem.instance.task
        self.fused = task.fused and instance.system.chip.fused
        self.most = task.partitions if self.fused else None
        self.classes = classes(problem)
        self.layers = instance.workload.layers if task.across_layers else 1
        self.narrow = Narrow(self.classes, self.most, task.exactly and self.fused, self.fused, self.layers)
        self.narrow.labels, self.labels = labels(run, 0.1 * share), labels(run, 0.25 * share)
        self.cover = PartitionBound(self.classes, self.most, Repeated) if covers(problem) else None
        self.symmetric = bool(self.classes.groups) and plain(problem)
        self.learned: dict[_Way, int] = {}
        self.best: Found | None = None
        self.bound: int | None = 0
        self.alone: int | None = None

    def find(self) -> None:
        """Mappings by restricted programs."""
        schemes = self.narrow.first(self.run.keep_going, self._found)
        self._one_partition(schemes)
        self._widen(schemes)

    @property
    def lively(self) -> bool:
        """Whether more rounds may better the bound."""
        return self.cover is not None and not self.cover.done

    def learn(self, other: _Way) -> None:
        """The partitions that the cover of another way has found since the last time."""
        if other is not self and self.cover is not None and other.cover is not None:
            self.learned[other] = self.cover.learn(other.cover, self.learned.get(other, 0))

    def better(self, rounds: int, until: float) -> None:
        """So many rounds of the bound, or until that second."""
        assert self.cover is not None
        numbers = iter(range(rounds))

        def more() -> bool:
            return next(numbers, None) is not None and self.run.seconds < until and self.run.keep_going()

        self.cover.run(more, lambda: until - self.run.seconds, self._covered)
        if self.cover.infeasible:
            self.bound = None if self.alone is None else total_ticks(self.problem, self.alone)

    def program(self) -> None:
        """The program over all ideals below the best mapping: the optimum, unless it is given up."""
        if not self.symmetric:
            self._exact(None)

    def exact(self) -> None:
        """The program without the schemes that, by the bound, can't be in a better mapping, and up to symmetry where
        there is any: the optimum, unless there are still too many ideals, or it is given up."""
        if self.cover is not None:
            self._exact(self.cover)

    def _exact(self, cover: PartitionBound | None) -> None:
        run = self.run
        if run.upper is None or not run.keep_going():
            return
        upper = first_layer(self.problem, run.upper)
        if self.best is not None:
            upper = min(upper, self.best.ticks)
        allowed = [list(range(len(self.classes.options(c)))) for c in range(len(self.classes.kernels))]
        if cover is not None:
            allowed = cover.allowed(upper, run.keep_going, lambda: run.remaining)
        run.checkpoint()
        chain: Chain | None = None
        if all(allowed):
            try:
                chain = self._program(allowed, upper, cover)
            except TooWideError:
                return
        if chain is not None:
            of = self.classes.of()
            chosen = tuple(allowed[of[v % len(of)]][o] for v, o in enumerate(chain.chosen))
            self._found(Found(chain.ticks, chain.partitions, chosen))
        self._bounded(upper if chain is None else chain.ticks, "program over ideals", "combinatorial")

    def _program(self, allowed: list[list[int]], upper: int, cover: PartitionBound | None) -> Chain | None:
        of, task = self.classes.of(), self.problem.instance.task
        options = [tuple(choice[o] for o in allowed[of[v]]) for v, choice in enumerate(self.problem.options)]
        problem, exactly = replace(self.problem, options=tuple(options)), task.exactly and self.fused
        if cover is None or not self.symmetric:
            program = Program(problem, self.layers, labels=self.labels)
            if cover is not None:
                program.bound_rest(cover.floor(allowed))
            return program.best(self.most, exactly, self.fused, below=upper)
        symmetric = SymmetricProgram(problem)
        symmetric.bound_rest(cover.floor(allowed))
        return symmetric.best_up_to_symmetry(
            self.most, exactly, self.fused, upper=upper, checkpoint=self.run.checkpoint
        )

    def _one_partition(self, schemes: Schemes | None) -> None:
        """The mapping of one partition whose weights stay in SRAM, and a bound on it (the cover has them read)."""
        task = self.problem.instance.task
        several = task.exactly and self.fused and task.partitions != 1
        if not resident(self.problem) or several or not self.run.keep_going():
            return
        for cached in (False, True) if caching(self.problem) else (False,):
            if self.cover is None:
                alone = self._all_compute()
            else:
                alone = one_partition(self.classes, min(LONGEST, self.run.remaining), Repeated, cached=cached)
            if alone is None:
                continue
            self.alone = alone if self.alone is None else min(alone, self.alone)
            try:
                found = None if schemes is None else self.narrow.solve(schemes, 1, resident=True, cached=cached)
            except TooWideError:
                continue
            if found is not None:
                self._found(found, stays=True)

    def _all_compute(self) -> int | None:
        """Picoseconds that one partition of all kernels computes at least; None if their weights don't fit."""
        if self.layers * sum(min(o.weights for o in choice) for choice in self.problem.options) > self.problem.sram:
            return None
        return self.layers * sum(min(o.compute for o in choice) for choice in self.problem.options)

    def _found(self, found: Found, stays: bool = False) -> None:
        options = self.problem.options * self.layers
        solution = DataflowSolution(
            instance=self.problem.instance.name,
            degrees=self.problem.degrees,
            schemes=tuple(choice[o].scheme for choice, o in zip(options, found.chosen, strict=True)),
            partitions=found.partitions,
        )
        if self.cover is not None and not stays:
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
        if self.bound is not None and bound > self.bound:
            self.bound = bound
            self.told(source, kind)
