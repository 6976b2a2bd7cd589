"""The choices of degrees and plan of an instance, each with a first bound, for the methods of family
``dataflow``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from chipmap.deadline import Stop, look
from chipmap.instances.dataflow.batch_time import outside
from chipmap.instances.dataflow.dram import fits_dram
from chipmap.instances.dataflow.floors import first_ticks, lacks_sram, plain_floor
from chipmap.instances.dataflow.instance import (
    BatchPlan,
    DataflowInstance,
    DataflowSolution,
    Degrees,
)
from chipmap.instances.dataflow.layer_handover import handover_cases
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.dataflow.plans import allowed_degrees, allowed_plans, useful_plans
from chipmap.instances.dataflow.problem import DataflowProblem
from chipmap.instances.dataflow.uneven import MOST_WAYS, each_way, even_layers, ways
from chipmap.records import InputError
from chipmap.run import Run

#: How much the exact programs may do, in labels of their search instead of seconds: these are counted alike on every
#: machine, so that runs can be repeated. Labels of a first try, before any mapping is known.
FIRST_TRY = 12_000_000
#: Labels that the program makes in a second or so, and seconds given to it where there is no time limit.
LABELS_PER_SECOND, SECONDS = 1_500_000, 3600.0


class DegreesCase(NamedTuple):
    """A choice of degrees and plan, perhaps with one case of the hand-over between layers, and a lower bound in
    ticks."""

    problem: DataflowProblem
    bound: int

    @property
    def at(self) -> tuple[object, ...]:
        """The degrees and the plan: micro-batch, chunks, recomputation, what replicas share out, keep,
        layers of chunks."""
        return self.problem.degrees, *self.plan

    @property
    def plan(self) -> BatchPlan:
        """How the batch is run."""
        return self.problem.plan

    @property
    def text(self) -> str:
        """These in words."""
        return self.problem.text


def case_of(problem: DataflowProblem) -> DegreesCase:
    """The case with the bound that its kernels give one by one."""
    return DegreesCase(problem, first_ticks(problem))


#: What an entry of the heap is; of equal bounds the further one comes first.
PLAN, STATED, CASE = range(3)


class _Entry(NamedTuple):
    """An entry of the heap: a case, or what gives the entries that stand in its place."""

    bound: int
    level: int
    what: Callable[[], Iterator[_Entry]] | DegreesCase


class Choices:
    """Every choice of degrees and useful plan (with ``handovers`` every case of the hand-over between layers, too), the
    least bound first.

    A choice is stated when its turn comes: a heap holds choices by a bound that costs next to nothing
    (:func:`~chipmap.instances.dataflow.floors.plain_floor`), what it gives out are cases by the bound of their kernels.
    Those without room for what rests in DRAM, or for a kernel in SRAM, have no mapping and are dropped. ``left`` are
    the bounds of choices that are left out, as their micro-batches make numbers too large to count. Where the largest
    micro-batch is best, smaller ones stand in for it if it is too large. Without ``bubble`` all are as if their
    pipelines were always full. Where numbers of layers are free, those with ``relaxed`` come first of which
    :meth:`free` is told; then each way to share layers out.
    """

    def __init__(
        self, instance: DataflowInstance, handovers: bool = False, bubble: bool = True, relaxed: bool = False
    ) -> None:
        self.instance, self.handovers, self.left = instance, handovers, list[int]()
        self._relaxed, self._least_of = relaxed, dict[object, int | None]()
        self.bubble = bubble
        self.refusal: InputError | None = None
        self._heap: list[tuple[int, int, int, Callable[[], Iterator[_Entry]] | DegreesCase]] = []
        self._number, self._any = 0, False
        for degrees in allowed_degrees(instance):
            look()
            for plan in reversed(useful_plans(instance, degrees)):
                self._push(_Entry(plain_floor(instance, degrees, plan, bubble), PLAN, self._stating(degrees, plan)))

    @property
    def bounds(self) -> list[int]:
        """Bounds of which the least is one of all that is left out or still to come."""
        return self.left if self.least is None else [*self.left, self.least]

    @property
    def least(self) -> int | None:
        """The least bound of all that is still to come; None where nothing is."""
        return self._heap[0][0] if self._heap else None

    def __len__(self) -> int:
        """How many are still to come, those that aren't stated yet as one each."""
        return len(self._heap)

    def __iter__(self) -> Iterator[DegreesCase]:
        """The cases that are still to come.

        Raises :class:`InputError` where even the smallest micro-batches make numbers too large, and all others do.
        """
        while self._heap:
            look()
            bound, _, _, what = heappop(self._heap)
            if isinstance(what, DegreesCase):
                self._any = True
                yield what._replace(bound=bound)
                continue
            for entry in what():
                self._push(entry._replace(bound=max(entry.bound, bound)))
        if self.refusal is not None and not self._any:
            raise self.refusal

    def _push(self, entry: _Entry) -> None:
        self._number += 1
        heappush(self._heap, (entry.bound, -entry.level, self._number, entry.what))

    def _stating(self, degrees: Degrees, plan: BatchPlan) -> Callable[[], Iterator[_Entry]]:
        return lambda: self._stated(degrees, plan)

    def _stated(self, degrees: Degrees, plan: BatchPlan) -> Iterator[_Entry]:
        """The case of a choice, or what stands in for one with too large numbers."""
        try:
            problem = dataflow_problem(self.instance, degrees, *plan)
            case = case_of(problem if self.bubble else replace(problem, bubble=False, filled=0))
        except InputError as error:
            floor = plain_floor(self.instance, degrees, plan, self.bubble)
            self.left.append(floor)
            smaller = _stand_in(self.instance, degrees, plan)
            if smaller is None:
                self.refusal = error
            else:
                yield _Entry(floor, PLAN, self._stating(degrees, smaller))
            return
        if has_no_room(case.problem):
            return
        if case.problem.layers_free:
            if self._relaxed:
                yield _Entry(case.bound, CASE, case)
            yield _Entry(case.bound, PLAN, lambda: self._each_way(case))
        elif self.handovers:
            yield _Entry(case.bound, STATED, lambda: self._handed(case))
        else:
            yield _Entry(case.bound, CASE, case)

    def free(self, case: DegreesCase, least: int | None) -> list[int]:
        """Note the ``least`` ticks of any numbers of layers (None: no mapping); the bounds of what isn't tried then."""
        self._least_of[case.at] = least
        every = ways(case.problem.instance, case.problem.degrees) <= MOST_WAYS
        return [] if least is None or every else [least]

    def _each_way(self, case: DegreesCase) -> Iterator[_Entry]:
        """A choice for each way to share out layers, or for a few of too many."""
        instance, degrees = case.problem.instance, case.problem.degrees
        least = self._least_of.get(case.at, case.bound)
        if least is None:
            return
        every = ways(instance, degrees) <= MOST_WAYS
        if not every and not self._relaxed:
            self.left.append(case.bound)
        some = each_way(instance, degrees) if every else [even_layers(instance, degrees, case.plan)]
        for counts in some:
            plan = case.plan._replace(stage_layers=counts)
            floor = max(least, plain_floor(self.instance, degrees, plan, self.bubble))
            yield _Entry(floor, PLAN, self._stating(degrees, plan))

    def _handed(self, case: DegreesCase) -> Iterator[_Entry]:
        for one in map(case_of, handover_cases(case.problem)):
            yield _Entry(one.bound, CASE, one)


def has_no_room(problem: DataflowProblem) -> bool:
    """Whether, whatever the mapping, more bytes rest in a chip's DRAM than it has (C6), or some kernel takes more than
    its SRAM (C2)."""
    limit = problem.instance.system.memory.capacity_bytes
    rests = limit is not None and problem.instance.task.stages == "layers" and outside(problem, "kept") > limit
    return rests or lacks_sram(problem)


def _stand_in(instance: DataflowInstance, degrees: Degrees, plan: BatchPlan) -> BatchPlan | None:
    """The plan of the next smaller micro-batch where only the largest one is useful; else none."""
    allowed, useful = allowed_plans(instance, degrees), useful_plans(instance, degrees)
    if len({one.micro_batch for one in useful}) > 1:
        return None
    smaller = [one for one in allowed if one[1:] == plan[1:] and (one.micro_batch or 0) < (plan.micro_batch or 0)]
    return smaller[-1] if smaller else None


def cases(instance: DataflowInstance) -> list[DegreesCase]:
    """All cases of :class:`Choices`, stated."""
    return list(Choices(instance))


def least_demanding(instance: DataflowInstance) -> list[DataflowProblem]:
    """Problems of which one has a mapping if any choice has: at each choice of degrees the smallest micro-batch, one
    chunk per stage where that is allowed, and everything that may be recomputed.

    SRAM holds tiles of tokens, as many for any micro-batch, and DRAM whole micro-batches. Only the buffers of an update
    that is read are smaller for larger ones; then all plans are returned. It depends on the layers of a stage whether
    sharing out more takes less. Choices whose numbers are too large are left out.
    """
    updates = {kernel.name for kernel in instance.workload.kernels if kernel.update}
    every = any(u in updates for u, _ in (*instance.workload.edges, *instance.workload.carries))
    found = list[DataflowProblem]()
    for degrees in allowed_degrees(instance):
        plans = allowed_plans(instance, degrees)
        if not every:
            plans = list({plan.shard: plan for plan in sorted(plans, key=_demands, reverse=True)}.values())
        for plan in plans:
            look()
            with suppress(InputError):
                found.append(dataflow_problem(instance, degrees, *plan))
    return found


def _demands(plan: BatchPlan) -> tuple[bool, bool, int, int]:
    return plan.keep not in (None, "none"), plan.recompute != "full", plan.chunks or 1, plan.micro_batch or 1


def solve_each(
    todo: Choices | Sequence[DegreesCase],
    run: Run,
    solve: Callable[[DegreesCase, list[int], int], Iterable[int]],
    proved: Iterable[int] = (),
) -> list[int]:
    """Solve the cases in turn, but for those whose bound is no better than the incumbent; the bounds of all.

    ``solve(case, others, left)`` bounds a case, or returns nothing where it has no mapping. It is given the bounds of
    all other cases (of :class:`Choices` that are still to come the least one), and how many come after it. ``proved``
    are the bounds of cases that are done already; a list of them has those of the others, too, if the time runs out.
    """
    found: list[int] = proved if isinstance(proved, list) else list(proved)
    lazy = todo if isinstance(todo, Choices) else None
    cases: Iterator[DegreesCase] = iter(todo)
    given = list[int]() if isinstance(todo, Choices) else [case.bound for case in todo]
    for number in count():
        if lazy is not None and run.upper is not None and lazy.least is not None and lazy.least >= run.upper:
            break  # nothing that is still to come is better
        case = next(cases, None)
        if case is None:
            break
        later = lazy.bounds if lazy is not None else given[number + 1 :]
        try:
            run.checkpoint()
            if run.upper is not None and case.bound >= run.upper:
                found.append(case.bound)
            else:
                found += solve(case, [*found, *later], len(todo) if lazy is not None else len(later))
        except Stop:
            found.append(case.bound)
            raise
    return [*found, *(todo.bounds if isinstance(todo, Choices) else [])]


def most_labels(run: Run, share: float) -> int:
    """The labels that a program may make in this share of the time limit."""
    return int(LABELS_PER_SECOND * share * (run.options.time_limit or SECONDS))


def report(problem: DataflowProblem, run: Run, mapping: DataflowSolution, source: str, ticks: int) -> None:
    """Report a mapping of a problem that takes so many ticks; where layers were free, if it fits with those chosen."""
    if not problem.layers_free:
        run.solution(mapping, source, claimed=ticks)
    elif _fits_free(problem, mapping):
        run.solution(mapping, source)


def mapping_of(
    problem: DataflowProblem, chosen: Sequence[int], partitions: tuple[int, ...], stages: tuple[int, ...] = ()
) -> DataflowSolution:
    """The mapping with these numbers of the options that are ``chosen``, these partitions and their stages."""
    schemes = (problem.options[v % problem.n][option].scheme for v, option in enumerate(chosen))
    return problem.mapping(schemes, partitions, stages)


def _fits_free(problem: DataflowProblem, mapping: DataflowSolution) -> bool:
    """Whether a mapping found while layers were free fits DRAM with those that it states."""
    stated = dataflow_problem(problem.instance, problem.degrees, stage_layers=mapping.stage_layers)
    names = [[option.scheme for option in options] for options in stated.options]
    chosen = [some.index(scheme) for some, scheme in zip(names, mapping.schemes, strict=True)]
    return fits_dram(stated, chosen, mapping.partitions)
