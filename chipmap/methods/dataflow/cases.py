"""The choices of degrees of an instance, each with a first bound, for the methods of family ``dataflow``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution, allowed_degrees
from chipmap.instances.dataflow.layer_handover import handover_cases
from chipmap.instances.dataflow.problem import DataflowProblem, compute_ticks, dataflow_problem
from chipmap.run import Run

#: How much the exact programs may do, in labels of their search instead of seconds: these are counted alike on every
#: machine, so that runs can be repeated. Labels of a first try, before any mapping is known.
FIRST_TRY = 12_000_000
#: Labels that the program makes in a second or so, and seconds given to it where there is no time limit.
LABELS_PER_SECOND, SECONDS = 1_500_000, 3600.0


class Case(NamedTuple):
    """A choice of degrees, perhaps with one case of the hand-over between layers, and a lower bound in ticks."""

    problem: DataflowProblem
    bound: int


def case_of(problem: DataflowProblem) -> Case:
    """The case with the bound that compute gives."""
    return Case(problem, compute_ticks(problem))


def cases(instance: DataflowInstance) -> list[Case]:
    """Every choice of degrees with the bound that compute gives, the least first."""
    problems = [dataflow_problem(instance, degrees) for degrees in allowed_degrees(instance)]
    return sorted(map(case_of, problems), key=lambda case: case.bound)


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
    return DataflowSolution(
        instance=problem.instance.name,
        degrees=problem.degrees,
        schemes=tuple(problem.options[v % problem.n][option].scheme for v, option in enumerate(chosen)),
        partitions=partitions,
        stages=stages,
    )
