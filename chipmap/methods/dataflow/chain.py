"""The methods of family ``dataflow``: what ``--method`` names.

Every method is a function (instance, run) -> Termination that reports to ``run``. The exact program solves one choice
of degrees; the method tries all of them, the most promising first, and drops those whose bound is no better.
"""

from __future__ import annotations

from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution, Degrees
from chipmap.instances.dataflow.problem import (
    DataflowProblem,
    caching,
    dataflow_problem,
    first_layer,
    resident,
    total_ticks,
)
from chipmap.methods.dataflow.cases import Case, case_of, cases, open_cases
from chipmap.methods.dataflow.effort import FIRST
from chipmap.methods.dataflow.infeasibility import no_degrees, no_mapping
from chipmap.methods.dataflow.models import by_cpsat
from chipmap.methods.dataflow.stages import UnfitError, solve_stages
from chipmap.result import BoundKind, Termination
from chipmap.run import Run

#: Pairs of a kernel and a partition up to which CP-SAT is asked after the methods for wide graphs: if a mapping is
#: known, and if none is.
SMALL, LARGEST = 1000, 20_000
#: Such pairs up to which it is asked where the program doesn't decide about stages of kernels.
SMALL_STAGES = 5000


def auto(instance: DataflowInstance, run: Run) -> Termination:
    """The exact program for every choice of degrees: the optimum over all of them, with its proof.

    Degrees whose graph is too wide for the program are solved by restrictions of it and a bound by covers
    (:mod:`chipmap.methods.dataflow.wide_graphs`); a note names them.
    """
    from chipmap.heuristics.dataflow.program.lattice import TooWideError

    def work() -> None:
        todo = open_cases(instance)
        if not todo:
            run.infeasible(no_degrees(instance))
            return
        run.bound(todo[0].bound, "compute")
        proved, wide = list[int](), list[tuple[Case, str]]()
        too_wide: set[Degrees] = set()
        for number, case in enumerate(todo):
            run.checkpoint()
            if run.upper is not None and case.bound >= run.upper:
                proved.append(case.bound)
                continue
            if case.problem.degrees in too_wide:
                continue
            try:
                ticks = solve_degrees(case.problem, run)
            except TooWideError as error:
                too_wide.add(case.problem.degrees)
                wide.append((case_of(dataflow_problem(instance, case.problem.degrees)), str(error)))
                continue
            except UnfitError as error:
                wide.append((Case(case.problem, error.bound), str(error)))
                continue
            if ticks is not None:
                proved.append(ticks)
            rest = [*proved, *(one.bound for one, _ in wide), *(later.bound for later in todo[number + 1 :])]
            if rest:
                run.bound(min(rest), "program over ideals")
        if wide:
            proved += (_staged_models if instance.task.stages == "kernels" else _solve_wide)(wide, proved, run)
        if not proved:
            no_mapping(instance, [case.problem for case in cases(instance)], run)

    return run.attempt(work, TooWideError)


def _solve_wide(cases: list[tuple[Case, str]], proved: list[int], run: Run) -> list[int]:
    """Bounds for degrees whose graph is too wide for the program, none for those where nothing fits.

    ``proved`` are the bounds of the other degrees. Each choice gets its share of the time that is left.
    """
    from chipmap.methods.dataflow.wide_graphs import Wide, covers, hopeless

    for case, why in cases:
        what = "mappings and bound" if covers(case.problem) else "mappings"
        run.note("left out", f"{case.problem.degrees.text}: {why}; {what} for wide graphs")
    todo, found = [case for case, _ in cases if not hopeless(case.problem, run)], list[int]()
    for number, case in enumerate(todo):
        run.checkpoint()
        others = [*proved, *found, *(later.bound for later in todo[number + 1 :])]

        def bounded(ticks: int, source: str, kind: BoundKind, case: Case = case, others: list[int] = others) -> None:
            run.bound(min([max(ticks, case.bound), *others]), source, kind)

        if run.upper is not None and case.bound >= run.upper:
            found.append(case.bound)
            continue
        small = _pairs(case.problem) <= SMALL
        ticks = Wide(case.problem, run, bounded, share=(0.5 if small else 1.0) / (len(todo) - number)).solve()
        if ticks is None:
            continue
        bound = max(ticks, case.bound)
        tried = small or (run.best is None and _pairs(case.problem) <= LARGEST)
        if tried and run.keep_going():
            found += [max(bound, one) for one in by_cpsat(case, run, others)]
        else:
            found.append(bound)
    if cases and (proved or found):
        run.bound(min([*proved, *found]), "cover by partitions" if todo else "the models", "relaxation")
    return found


def _staged_models(cases: list[tuple[Case, str]], proved: list[int], run: Run) -> list[int]:
    """Bounds for degrees with stages of kernels that the program doesn't decide: by CP-SAT where these are small."""
    small = [(case, why, _pairs(case.problem) <= SMALL_STAGES) for case, why in cases]
    for case, why, modelled in small:
        what = "CP-SAT takes it" if modelled else "dataflow/mip and dataflow/cpsat take it"
        run.note("left out", f"{case.problem.degrees.text}: {why}; {what}")
    found = [case.bound for case, _, modelled in small if not modelled]
    todo = [case for case, _, modelled in small if modelled]
    for number, case in enumerate(todo):
        run.checkpoint()
        if run.upper is not None and case.bound >= run.upper:
            found.append(case.bound)
            continue
        rest = [*proved, *found, *(later.bound for later in todo[number + 1 :])]
        found += [max(case.bound, one) for one in by_cpsat(case, run, rest)]
    if proved or found:
        run.bound(min([*proved, *found]), "the models", "relaxation")
    return found


def _pairs(problem: DataflowProblem) -> int:
    """Pairs of a kernel and a partition that a model has."""
    task = problem.instance.task
    kernels = problem.n * (problem.instance.workload.layers if task.across_layers else 1)
    stages = problem.degrees.pipeline if task.stages == "kernels" else 1
    return kernels * stages * min(kernels, task.partitions or kernels)


def solve_degrees(problem: DataflowProblem, run: Run) -> int | None:
    """Report the best mapping at these degrees if it is better than all before; a lower bound on the ticks of the
    whole batch at these degrees, None where no mapping is known and none fits.

    Raises :class:`TooWideError` where that takes more than a first try.
    """
    from chipmap.heuristics.dataflow.program.label_setting import NO_LIMIT
    from chipmap.heuristics.dataflow.program.program import Program

    instance, task = problem.instance, problem.instance.task
    if task.stages == "kernels":
        return solve_stages(problem, run)
    fused = task.fused and instance.system.chip.fused
    layers = instance.workload.layers if task.across_layers else 1
    program = Program(problem, layers, labels=FIRST)
    below = NO_LIMIT if run.upper is None else first_layer(problem, run.upper)
    found = [program.best(task.partitions if fused else None, task.exactly and fused, fused, below=below)]
    if resident(problem) and not (task.exactly and fused and task.partitions != 1):
        for cached in (False, True) if caching(problem) else (False,):
            stays = Program(problem, layers, resident=True, cached=cached, labels=FIRST)
            found.append(stays.best(1, True, fused, below=below))
    chains = [chain for chain in found if chain is not None]
    if not chains:
        return run.upper
    best = min(chains, key=lambda chain: total_ticks(problem, chain.ticks, chain.chosen))
    options = zip(problem.options * layers, best.chosen, strict=True)
    solution = DataflowSolution(
        instance=instance.name,
        degrees=problem.degrees,
        schemes=tuple(one[number].scheme for one, number in options),
        partitions=best.partitions,
    )
    ticks = total_ticks(problem, best.ticks, best.chosen)
    run.solution(solution, "program over ideals", claimed=ticks)
    return ticks
