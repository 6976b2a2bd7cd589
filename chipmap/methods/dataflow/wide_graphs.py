"""Degrees whose graph is too wide for the exact program: restricted programs for mappings, covers for a bound.

All steps are done for each case of the hand-over between layers (:mod:`chipmap.instances.dataflow.layer_handover`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from chipmap.deadline import Deadline, Stop
from chipmap.heuristics.dataflow.cover.column_generation import LONGEST, PartitionBound, one_partition
from chipmap.heuristics.dataflow.cover.pricing import partitions_of
from chipmap.heuristics.dataflow.program.lattice import TooWideError
from chipmap.heuristics.dataflow.program.program import Chain, Program
from chipmap.heuristics.dataflow.program.restricted_program import RestrictedProgram, Schemes
from chipmap.heuristics.dataflow.symmetric.classes import classes
from chipmap.heuristics.dataflow.symmetric.program import SymmetricProgram
from chipmap.instances.dataflow.batch_time import caching, first_layer, resident, total_ticks
from chipmap.instances.dataflow.dram import fits_dram
from chipmap.instances.dataflow.layer_handover import handover_cases
from chipmap.instances.dataflow.pins import names_partitions
from chipmap.instances.dataflow.problem import DataflowProblem
from chipmap.methods.chain import Link, Turn, follow
from chipmap.methods.dataflow.cases import mapping_of, most_labels
from chipmap.methods.dataflow.wide_infeasibility import shortage
from chipmap.result import BoundKind
from chipmap.run import Run
from chipmap.solvers.repeated import GrowingProgram, Repeated

SOURCE = "program over some ideals"
#: Places that a kernel may be ahead of another, in turn; with ``--deterministic`` the first few.
WINDOWS, STEADY_WINDOWS = (2, 3, 4, 6, 8, 12), 3
#: A restricted program that took this share of the time left (of 100 seconds, where there are more) is the last one.
LAST_WINDOW = 0.02
#: Rounds of the bound for each case of the hand-over, and those of a case before the next one's turn.
ROUNDS, TURN = 300, 10
#: Share of the time for the bound before the exact program uses its prices: with one case of the hand-over, or more.
FIRST_COVERS = (0.5, 0.7)
#: The program of the cover is solved anew each time: by the prices where it ends then, pricing takes a half to a third.
COVERS = partial(GrowingProgram, warm=False)
#: Shares of the labels for a restricted program, and for the exact one.
RESTRICTED, EXACT = 0.1, 0.25


def has_cover_bound(problem: DataflowProblem) -> bool:
    """Whether covers bound the problem: partitions lie within a layer. They drop C6 and C7, and share tiles at will."""
    return not problem.instance.task.across_layers


def has_symmetric_program(problem: DataflowProblem) -> bool:
    """Whether the program up to symmetry states the problem.

    It knows one layer whose partitions run once per micro-batch and take the most of compute that adds up, memory and
    network, without a limit on DRAM. It doesn't count partitions as pins do.
    """
    instance, task = problem.instance, problem.instance.task
    once = task.overlap and task.utilisation is not None and task.recomputed == "none" and not task.across_layers
    return once and instance.system.memory.capacity_bytes is None and not names_partitions(instance)


def has_no_mapping(problem: DataflowProblem, run: Run) -> bool:
    """Whether some kernel, group of pins or phase is proved not to fit."""
    return has_cover_bound(problem) and shortage(classes(problem), min(LONGEST, run.remaining)) is not None


class WideGraph:
    """One choice of degrees, for a ``share`` of the time left; ``others`` are the bounds of the other choices, and
    ``least`` is a bound that is known of this one."""

    def __init__(
        self, problem: DataflowProblem, run: Run, others: Sequence[int] = (), least: int = 0, share: float = 1.0
    ) -> None:
        self.run, self.others, self.least, self.share, self.bound = run, others, least, share, 0
        found = list(handover_cases(problem))
        self.cases = [HandoverCase(self, case, share / len(found)) for case in found]

    def solve(self) -> int | None:
        """A bound in ticks of the batch for these degrees; None where nothing fits."""
        try:
            follow(CHAIN, self, Turn(self.run, self.run.deadline.share(self.share)))
        except Stop:
            self.run.checkpoint()  # only this share of the time is used up
        return min((case.bound for case in self.cases if case.bound is not None), default=None)

    def open_cases(self) -> list[HandoverCase]:
        """The cases that may hold a better mapping, the least bound first."""
        upper = self.run.upper
        left = [(case.bound, i) for i, case in enumerate(self.cases) if case.bound is not None]
        return [self.cases[i] for bound, i in sorted(left) if upper is None or bound < upper]

    def restricted(self, turn: Turn) -> None:
        """Mappings by restricted programs."""
        for case in self.cases:
            case.restricted_programs(turn.deadline)

    def program(self, turn: Turn) -> None:
        """The program over all ideals, where branches aren't interchangeable."""
        for case in self.open_cases():
            if not case.symmetric:
                case.exact(None, turn.deadline)

    def first_covers(self, turn: Turn) -> None:
        """The bound by covers for a share of the time."""
        self.covers(turn.share(FIRST_COVERS[len(self.cases) > 1]))

    def covers(self, turn: Turn) -> None:
        """The bound by covers: ``TURN`` rounds at a time of the case with the least bound, ``ROUNDS`` for each."""
        rounds = dict.fromkeys(self.cases, ROUNDS)
        while turn.deadline.keep_going():
            case = next((one for one in self.open_cases() if rounds[one] > 0 and one.can_improve), None)
            if case is None:
                return
            some = TURN if len(self.cases) > 1 else ROUNDS
            rounds[case] -= some
            for other in self.cases:
                case.take_partitions(other)
            case.improve(some, turn.deadline)

    def priced_program(self, turn: Turn) -> None:
        """The program without the schemes that, by the bound, can't be in a better mapping."""
        for case in self.open_cases():
            if case.cover is not None and turn.deadline.keep_going():
                case.exact(case.cover, turn.deadline)

    def improved(self, source: str, kind: BoundKind) -> None:
        """A case has a better bound."""
        bound = min((case.bound for case in self.cases if case.bound is not None), default=0)
        if bound > self.bound:
            self.bound = bound
            self.run.bound(min([max(bound, self.least), *self.others]), source, kind)


#: Each link stops when it has nothing more to say.
CHAIN: tuple[Link, ...] = (
    Link("restricted programs", 1.0, WideGraph.restricted),
    Link("program over ideals", 1.0, WideGraph.program),
    Link("cover by partitions", 1.0, WideGraph.first_covers),
    Link("program with the cover's prices", 1.0, WideGraph.priced_program),
    Link("cover by partitions, to the end", 1.0, WideGraph.covers),
)


class HandoverCase:
    """A choice of degrees with one case of the hand-over between layers; ``bound`` is None once nothing fits.

    ``resident_bound`` is a bound on the picoseconds of a mapping of one partition whose weights stay in SRAM (None:
    there is none): the cover has weights read from DRAM, so that it doesn't bound those.
    """

    def __init__(self, wide: WideGraph, problem: DataflowProblem, share: float) -> None:
        self.wide, self.problem, self.run = wide, problem, wide.run
        self.asked, self.layers = problem.instance.asked, problem.instance.mapped_layers
        self.classes = classes(problem)
        self.restricted = RestrictedProgram(self.classes, *self.asked, self.layers)
        self.restricted.most_labels = most_labels(self.run, RESTRICTED * share)
        self.most_labels = most_labels(self.run, EXACT * share)
        self.longest = float("inf") if self.run.options.deterministic else LONGEST
        self.cover: PartitionBound | None = None
        if has_cover_bound(problem):
            self.cover = PartitionBound(self.classes, self.asked[0], Repeated, COVERS, self.longest)
        self.symmetric = bool(self.classes.groups) and has_symmetric_program(problem)
        self.taken: dict[HandoverCase, int] = {}
        self.best: Chain | None = None
        self.bound: int | None = 0
        self.resident_bound: int | None = None

    def restricted_programs(self, deadline: Deadline) -> None:
        """Mappings by restricted programs."""
        schemes = self.restricted.best_schemes(deadline, self._found)
        self._one_partition(schemes, deadline)
        self._wider_windows(schemes, deadline)

    @property
    def can_improve(self) -> bool:
        """Whether more rounds may better the bound."""
        return self.cover is not None and not self.cover.done

    def take_partitions(self, other: HandoverCase) -> None:
        """Take the partitions that the cover of another case has found since the last time."""
        if other is not self and self.cover is not None and other.cover is not None:
            self.taken[other] = self.cover.learn(other.cover, self.taken.get(other, 0))

    def improve(self, rounds: int, deadline: Deadline) -> None:
        """So many rounds of the bound."""
        assert self.cover is not None
        self.cover.run(rounds, deadline, lambda layer: self._bounded(layer, "cover by partitions", "relaxation"))
        if self.cover.infeasible:
            self.bound = None if self.resident_bound is None else total_ticks(self.problem, self.resident_bound)

    def exact(self, cover: PartitionBound | None, deadline: Deadline) -> None:
        """The program over ideals below the best mapping: the optimum, unless it is given up.

        With a ``cover`` schemes that can't be in a better mapping are left out, its prices bound what is left, and
        where branches are interchangeable ideals count up to symmetry.
        """
        run = self.run
        if run.upper is None or not deadline.keep_going():
            return
        upper = first_layer(self.problem, run.upper)
        if self.best is not None:
            upper = min(upper, self.best.ticks)
        allowed = [list(range(len(self.classes.options(c)))) for c in range(len(self.classes.kernels))]
        if cover is not None:
            allowed = cover.allowed(upper, deadline)
        deadline.check()
        chain: Chain | None = None
        if all(allowed):
            try:
                chain = self._program(allowed, upper, cover, deadline)
            except TooWideError:
                return
        if chain is not None:
            of = self.classes.of()
            chosen = tuple(allowed[of[v % len(of)]][o] for v, o in enumerate(chain.chosen))
            self._found(chain._replace(chosen=chosen))
        self._bounded(upper if chain is None else chain.ticks, "program over ideals", "combinatorial")

    def _program(
        self, allowed: list[list[int]], upper: int, cover: PartitionBound | None, deadline: Deadline
    ) -> Chain | None:
        of = self.classes.of()
        options = [tuple(choice[o] for o in allowed[of[v]]) for v, choice in enumerate(self.problem.options)]
        problem = replace(self.problem, options=tuple(options))
        if cover is not None and self.symmetric:
            symmetric = SymmetricProgram(problem)
            symmetric.bound_rest(cover.floor(allowed))
            return symmetric.best_up_to_symmetry(*self.asked, upper=upper, deadline=deadline)
        program = Program(problem, self.layers, most_labels=self.most_labels)
        if cover is not None:
            program.bound_rest(cover.floor(allowed))
        return program.best(*self.asked, below=upper)

    def _one_partition(self, schemes: Schemes | None, deadline: Deadline) -> None:
        """The mapping of one partition whose weights stay in SRAM, and a bound on it."""
        several = self.asked[1] and self.asked[0] != 1
        if not resident(self.problem) or several or not deadline.keep_going():
            return
        for cached in (False, True) if caching(self.problem) else (False,):
            if self.cover is None:
                bound = self._all_compute()
            else:
                bound = one_partition(self.classes, deadline, Repeated, cached=cached, longest=self.longest)
            if bound is None:
                continue
            self.resident_bound = bound if self.resident_bound is None else min(bound, self.resident_bound)
            try:
                found = None if schemes is None else self.restricted.solve(schemes, 1, resident=True, cached=cached)
            except TooWideError:
                continue
            if found is not None:
                self._found(found, stays=True)

    def _all_compute(self) -> int | None:
        """Picoseconds that one partition of all kernels computes at least; None if their weights don't fit."""
        if self.layers * sum(min(o.weights for o in choice) for choice in self.problem.options) > self.problem.sram:
            return None
        return self.layers * sum(min(o.compute for o in choice) for choice in self.problem.options)

    def _found(self, found: Chain, stays: bool = False) -> None:
        if self.cover is not None and not stays:
            self.cover.add(partitions_of(self.classes, self.cover.unit, found.partitions, found.chosen))
        better = self.best is None or found.ticks < self.best.ticks
        if better and fits_dram(self.problem, found.chosen, found.partitions):  # what layouts take that are kept, too
            self.best = found
            ticks = total_ticks(self.problem, found.ticks, found.chosen)
            self.run.solution(mapping_of(self.problem, found.chosen, found.partitions), SOURCE, claimed=ticks)

    def _wider_windows(self, schemes: Schemes | None, deadline: Deadline) -> None:
        if schemes is None or self.best is None:
            return
        steady = self.run.options.deterministic
        for window in WINDOWS[: STEADY_WINDOWS if steady else None]:
            deadline.check()
            before = self.run.seconds
            try:
                found = self.restricted.solve(schemes, window, upper=self.best.ticks)
            except TooWideError:
                break
            if found is not None:
                self._found(found)
            if not steady and self.run.seconds - before > LAST_WINDOW * min(deadline.seconds, 100.0):
                break

    def _bounded(self, layer: int, source: str, kind: BoundKind) -> None:
        """A bound on the picoseconds of a layer unless it is one partition whose weights stay."""
        least = layer if self.resident_bound is None else min(layer, self.resident_bound)
        bound = total_ticks(self.problem, least)
        if self.bound is not None and bound > self.bound:
            self.bound = bound
            self.wide.improved(source, kind)
