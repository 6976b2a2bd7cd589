"""The chain ``dataflow/auto``: exact programs for every choice of degrees, other methods for graphs that are too wide.

The exact program solves one choice of degrees. All of them are tried, the most promising first, and those are dropped
whose bound is no better than the incumbent. Degrees whose graph is too wide are left over for the next links.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from chipmap.heuristics.dataflow.program.lattice import TooWideError
from chipmap.instances.dataflow.instance import DataflowInstance, Degrees
from chipmap.instances.dataflow.problem import DataflowProblem, dataflow_problem
from chipmap.methods.chain import Link, Turn, follow
from chipmap.methods.dataflow.cases import Case, case_of, cases, open_cases, solve_each
from chipmap.methods.dataflow.infeasibility import no_degrees, no_mapping
from chipmap.methods.dataflow.models import by_cpsat
from chipmap.methods.dataflow.programs import solve_degrees
from chipmap.methods.dataflow.stages import UnfitError
from chipmap.methods.dataflow.wide_graphs import WideGraph, has_cover_bound, has_no_mapping
from chipmap.result import Termination
from chipmap.run import Run

#: Pairs of a kernel and a partition up to which CP-SAT is asked after the methods for wide graphs: if a mapping is
#: known, and if none is.
SMALL, LARGEST = 1000, 20_000
#: Such pairs up to which it is asked where the program doesn't decide about stages of kernels.
SMALL_STAGES = 5000


@dataclass
class State:
    """What is known of an instance: the bounds that are ``proved`` for some choices of degrees, and the choices that
    the program leaves over, with the reason of each."""

    instance: DataflowInstance
    run: Run
    proved: list[int] = field(default_factory=list)
    left_over: list[tuple[Case, str]] = field(default_factory=list)


def auto(instance: DataflowInstance, run: Run) -> Termination:
    """The chain (:data:`CHAIN`): the optimum over all choices of degrees, with its proof, unless a graph is too wide.

    A note names the degrees whose graph is.
    """
    return run.attempt(lambda: follow(CHAIN, State(instance, run), Turn(run, run.deadline)), TooWideError)


def _program(state: State, _: Turn) -> None:
    """The exact program, for every choice of degrees and every case of the hand-over between layers."""
    instance, run, left_over = state.instance, state.run, state.left_over
    todo, too_wide = open_cases(instance), set[Degrees]()
    if not todo:
        run.infeasible(no_degrees(instance))
        return
    run.bound(todo[0].bound, "compute")

    def solve(case: Case, others: list[int], _: int) -> list[int]:
        degrees = case.problem.degrees
        if degrees in too_wide:
            return []
        try:
            ticks = solve_degrees(case.problem, run)
        except TooWideError as error:
            too_wide.add(degrees)
            left_over.append((case_of(dataflow_problem(instance, degrees)), str(error)))
            return []
        except UnfitError as error:
            left_over.append((Case(case.problem, error.bound), str(error)))
            return []
        proved = [] if ticks is None else [ticks]
        bounds = [*proved, *others, *(one.bound for one, _ in left_over)]
        if bounds:
            run.bound(min(bounds), "program over ideals")
        return proved

    state.proved = solve_each(todo, run, solve)
    if not (state.proved or left_over):
        _no_mapping(state)


def _wide_graphs(state: State, _: Turn) -> None:
    """Restricted programs and a bound by covers; then CP-SAT, where the graph is small."""
    run = state.run
    if state.instance.task.stages == "kernels" or not state.left_over:
        return
    for case, why in state.left_over:
        what = "mappings and bound" if has_cover_bound(case.problem) else "mappings"
        run.note("left out", f"{case.problem.degrees.text}: {why}; {what} for wide graphs")

    def solve(case: Case, others: list[int], left: int) -> list[int]:
        small = _pairs(case.problem) <= SMALL
        share = (0.5 if small else 1.0) / (left + 1)
        ticks = WideGraph(case.problem, run, others, case.bound, share).solve()
        if ticks is None:
            return []
        bound = max(ticks, case.bound)
        tried = small or (run.best is None and _pairs(case.problem) <= LARGEST)
        return [max(bound, one) for one in by_cpsat(case, run, others)] if tried and run.keep_going() else [bound]

    todo = [case for case, _ in state.left_over if not has_no_mapping(case.problem, run)]
    state.proved = solve_each(todo, run, solve, state.proved)
    if state.proved:
        run.bound(min(state.proved), "cover by partitions" if todo else "the models", "relaxation")
    else:
        _no_mapping(state)


def _stages_of_kernels(state: State, _: Turn) -> None:
    """CP-SAT for small problems whose stages share out kernels."""
    run = state.run
    if state.instance.task.stages != "kernels" or not state.left_over:
        return
    todo, known = list[Case](), list(state.proved)
    for case, why in state.left_over:
        small = _pairs(case.problem) <= SMALL_STAGES
        what = "CP-SAT takes it" if small else "dataflow/mip and dataflow/cpsat take it"
        run.note("left out", f"{case.problem.degrees.text}: {why}; {what}")
        if small:
            todo.append(case)
        else:
            known.append(case.bound)

    def solve(case: Case, others: list[int], _: int) -> list[int]:
        return [max(case.bound, one) for one in by_cpsat(case, run, others)]

    state.proved = solve_each(todo, run, solve, known)
    if state.proved:
        run.bound(min(state.proved), "the models", "relaxation")
    else:
        _no_mapping(state)


def _no_mapping(state: State) -> None:
    """No choice of degrees is left: the reasons why."""
    no_mapping(state.instance, [case.problem for case in cases(state.instance)], state.run)


def _pairs(problem: DataflowProblem) -> int:
    """Pairs of a kernel and a partition that a model has."""
    task = problem.instance.task
    kernels = problem.n * problem.instance.mapped_layers
    stages = problem.degrees.pipeline if task.stages == "kernels" else 1
    return kernels * stages * min(kernels, task.partitions or kernels)


#: Each link stops when it has nothing more to say; a share below 1 would end it before.
CHAIN: tuple[Link, ...] = (
    Link("program over ideals", 1.0, _program),
    Link("wide graphs", 1.0, _wide_graphs),
    Link("models of stages", 1.0, _stages_of_kernels),
)
