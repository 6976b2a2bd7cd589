"""The choices of degrees and plan of an instance, each with a first bound, for the methods of family
``dataflow``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from chipmap.instances.dataflow.floors import first_ticks, plain_floor
from chipmap.instances.dataflow.instance import BatchPlan, DataflowInstance, DataflowSolution, Degrees, Recompute, Shard
from chipmap.instances.dataflow.layer_handover import handover_cases
from chipmap.instances.dataflow.plans import allowed_degrees, allowed_plans, useful_plans
from chipmap.instances.dataflow.problem import DataflowProblem, dataflow_problem
from chipmap.records import InputError
from chipmap.run import Run

#: How much the exact programs may do, in labels of their search instead of seconds: these are counted alike on every
#: machine, so that runs can be repeated. Labels of a first try, before any mapping is known.
FIRST_TRY = 12_000_000
#: Labels that the program makes in a second or so, and seconds given to it where there is no time limit.
LABELS_PER_SECOND, SECONDS = 1_500_000, 3600.0


class Case(NamedTuple):
    """A choice of degrees and plan, perhaps with one case of the hand-over between layers, and a lower bound in
    ticks."""

    problem: DataflowProblem
    bound: int

    @property
    def at(self) -> tuple[Degrees, int | None, int | None, Recompute | None, Shard | None]:
        """The degrees and the plan: micro-batch, chunks, recomputation, what replicas share out."""
        return self.problem.degrees, *self.plan

    @property
    def plan(self) -> BatchPlan:
        """How the batch is run."""
        return self.problem.plan

    @property
    def text(self) -> str:
        """These in words."""
        return f"{self.problem.degrees.text}, {self.plan.text}"


def case_of(problem: DataflowProblem) -> Case:
    """The case with the bound that its kernels give one by one."""
    return Case(problem, first_ticks(problem))


def cases(instance: DataflowInstance) -> list[Case]:
    """Every choice of degrees and useful plan with a first bound, the least first."""
    problems = [problem for degrees in allowed_degrees(instance) for problem in _problems(instance, degrees)[0]]
    return sorted(map(case_of, problems), key=lambda case: case.bound)


def beyond(instance: DataflowInstance) -> list[int]:
    """The bounds of choices that :func:`cases` leaves out, as their micro-batches make numbers too large to count."""
    return [bound for degrees in allowed_degrees(instance) for bound in _problems(instance, degrees)[1]]


def _problems(instance: DataflowInstance, degrees: Degrees) -> tuple[list[DataflowProblem], list[int]]:
    """The problems at these degrees, one for each useful plan, and the bounds of those that are too large.

    Where the largest micro-batch is best, smaller ones stand in for it if it is too large. Raises :class:`InputError`
    where even the smallest is.
    """
    found, left = list[DataflowProblem](), list[int]()
    allowed, useful = allowed_plans(instance, degrees), useful_plans(instance, degrees)
    kinds, done = {plan[1:] for plan in useful}, set[tuple[object, ...]]()
    alone = len({plan.micro_batch for plan in useful}) == 1
    for plan in (plan for plan in reversed(allowed) if plan[1:] in kinds):
        if alone and plan[1:] in done:
            continue
        try:
            found.append(dataflow_problem(instance, degrees, *plan))
        except InputError:
            if plan.micro_batch == allowed[0].micro_batch:
                raise
            left.append(plain_floor(instance, degrees, plan))
        else:
            done.add(plan[1:])
    return found, left


def least_demanding(instance: DataflowInstance, todo: Iterable[Case]) -> list[DataflowProblem]:
    """Of these cases those that have a mapping if any has: at each choice of degrees the smallest micro-batch, one
    chunk per stage where that is allowed, and everything that may be recomputed.

    SRAM holds tiles of tokens, as many for any micro-batch, and DRAM whole micro-batches. Only the buffers of an update
    that is read are smaller for larger ones; then all cases are returned.
    """
    updates = {kernel.name for kernel in instance.workload.kernels if kernel.update}
    if any(u in updates for u, _ in (*instance.workload.edges, *instance.workload.carries)):
        return [case.problem for case in todo]
    least: dict[tuple[Degrees, Shard | None], DataflowProblem] = {}
    for case in sorted(todo, key=_demands, reverse=True):
        # it depends on the layers of a stage whether sharing out more takes less
        least[case.problem.degrees, case.plan.shard] = case.problem
    return list(least.values())


def _demands(case: Case) -> tuple[bool, int, int]:
    plan = case.plan
    return plan.recompute != "full", plan.chunks or 1, plan.micro_batch or 1


def open_cases(instance: DataflowInstance) -> list[Case]:
    """The same for every case of the hand-over between layers (:mod:`chipmap.instances.dataflow.layer_handover`)."""
    split = (case_of(one) for case in cases(instance) for one in handover_cases(case.problem))
    return sorted(split, key=lambda case: case.bound)


def solve_each(
    todo: Sequence[Case],
    run: Run,
    solve: Callable[[Case, list[int], int], Iterable[int]],
    proved: Iterable[int] = (),
) -> list[int]:
    """Solve the cases in turn, but for those whose bound is no better than the incumbent; the bounds of all.

    ``solve(case, others, left)`` bounds a case, or returns nothing where it has no mapping. It is given the bounds of
    all other cases, and how many come after it. ``proved`` are the bounds of cases that are done already.
    """
    found = list(proved)
    for number, case in enumerate(todo):
        run.checkpoint()
        if run.upper is not None and case.bound >= run.upper:
            found.append(case.bound)
            continue
        later = [one.bound for one in todo[number + 1 :]]
        found += solve(case, [*found, *later], len(later))
    return found


def most_labels(run: Run, share: float) -> int:
    """The labels that a program may make in this share of the time limit."""
    return int(LABELS_PER_SECOND * share * (run.options.time_limit or SECONDS))


def mapping_of(
    problem: DataflowProblem, chosen: Sequence[int], partitions: tuple[int, ...], stages: tuple[int, ...] = ()
) -> DataflowSolution:
    """The mapping with these numbers of the options that are ``chosen``, these partitions and their stages."""
    schemes = (problem.options[v % problem.n][option].scheme for v, option in enumerate(chosen))
    return problem.mapping(schemes, partitions, stages)
