"""The chain ``dataflow/auto``: exact programs for every choice of degrees and micro-batch, others for wide graphs.

The exact program solves one choice. All of them are tried, the most promising first, and those are dropped whose bound
is no better than the incumbent. Degrees whose graph is too wide are left over for the next links.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from chipmap.deadline import Stop
from chipmap.heuristics.dataflow.program.label_setting import NO_LIMIT
from chipmap.heuristics.dataflow.program.lattice import TooWideError
from chipmap.heuristics.dataflow.program.program import Program
from chipmap.heuristics.dataflow.unfused.relaxed import by_plain_code
from chipmap.instances.dataflow.batch import paired
from chipmap.instances.dataflow.batch_time import caching, first_layer, resident, total_ticks
from chipmap.instances.dataflow.dram import fits_dram
from chipmap.instances.dataflow.instance import DataflowInstance, Degrees
from chipmap.instances.dataflow.layer_handover import handover_cases
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.dataflow.problem import DataflowProblem
from chipmap.methods.chain import Link, Turn, follow
from chipmap.methods.dataflow import unequal
from chipmap.methods.dataflow.cases import (
    FIRST_TRY,
    Choices,
    DegreesCase,
    case_of,
    has_no_room,
    least_demanding,
    mapping_of,
    report,
    solve_each,
)
from chipmap.methods.dataflow.first import each_degrees, first_mappings
from chipmap.methods.dataflow.infeasibility import no_degrees, no_mapping
from chipmap.methods.dataflow.stages import UnfitError, solve_stages
from chipmap.methods.dataflow.unfused import one_by_one, solve_one_by_one
from chipmap.result import Termination
from chipmap.run import Run

#: Pairs of a kernel and a partition up to which CP-SAT is asked after the methods for wide graphs: if a mapping is
#: known, and if none is.
SMALL, LARGEST = 1000, 20_000
#: Such pairs up to which it is asked where the program doesn't decide about stages of kernels.
SMALL_STAGES = 5000
FLOOR = "kernels one by one"
TOO_LARGE = "micro-batches so large that numbers pass 64 bits: give task.micro_batch, or a smaller batch"


@dataclass
class DataflowChainState:
    """What is known of an instance: the bounds that are ``proved`` for some choices of degrees and micro-batch, and the
    choices that the program leaves over, with the reason of each."""

    instance: DataflowInstance
    run: Run
    proved: list[int] = field(default_factory=list)
    left_over: list[tuple[DegreesCase, str]] = field(default_factory=list)


def auto(instance: DataflowInstance, run: Run) -> Termination:
    """The chain (:data:`CHAIN`): the optimum over all choices of degrees, with its proof, unless a graph is too wide.

    A note names the degrees whose graph is. On groups of unequal chips the chain solves each stage by itself.
    """
    if instance.system.others:
        return unequal.auto(instance, run, auto)
    return run.attempt(lambda: follow(CHAIN, DataflowChainState(instance, run), Turn(run, run.deadline)), TooWideError)


def solve_degrees(problem: DataflowProblem, run: Run) -> int | None:
    """Report the best mapping at these degrees if it is better than all before.

    Returns a lower bound on the ticks of the whole batch at these degrees, None where no mapping is known and none
    fits. Raises :class:`TooWideError` where that takes more than a first try.
    """
    instance, layers = problem.instance, problem.instance.mapped_layers
    if instance.task.stages == "kernels":
        return solve_stages(problem, run)
    if has_no_room(problem):
        return run.upper
    if one_by_one(problem):
        alone = solve_one_by_one(problem, run)
        if alone.bound is None:
            return run.upper
        if alone.ticks is not None or (run.upper is not None and alone.bound >= run.upper):
            return alone.bound
        if paired(instance, problem.degrees):
            raise TooWideError("no order was found in which tensors fit DRAM")
        # no order was found in which its tensors fit DRAM: the program over ideals knows all orders
        if problem.instance.task.keep in ("phase", "step"):
            raise TooWideError("layouts that are kept don't fit DRAM as the cheapest mapping has them")
    most, exactly, fused = instance.asked
    program = Program(problem, layers, most_labels=FIRST_TRY)
    below = NO_LIMIT if run.upper is None else first_layer(problem, run.upper)
    found = [program.best(most, exactly, fused, below=below)]
    if resident(problem) and not (exactly and most != 1):
        for cached in (False, True) if caching(problem) else (False,):
            stays = Program(problem, layers, resident=True, cached=cached, most_labels=FIRST_TRY)
            found.append(stays.best(1, True, fused, below=below))
    chains = [chain for chain in found if chain is not None]
    if not chains:
        return run.upper
    best = min(chains, key=lambda chain: total_ticks(problem, chain.ticks, chain.chosen))
    ticks = total_ticks(problem, best.ticks, best.chosen)
    if problem.options[0][0].kept_by and not fits_dram(problem, best.chosen, best.partitions):
        raise TooWideError("unequal stages, or moments of late updates, need DRAM in different ways")
    report(problem, run, mapping_of(problem, best.chosen, best.partitions), "program over ideals", ticks)
    return ticks


def _first(state: DataflowChainState, turn: Turn) -> None:
    """Mappings and a bound that stand at once: by plain code, which is through before numba would be imported."""
    with by_plain_code():
        first_mappings(state.instance, state.run, turn.deadline)


def _each_degrees(state: DataflowChainState, turn: Turn) -> None:
    """Where there are many choices, a mapping at each choice of degrees."""
    each_degrees(state.instance, state.run, turn.deadline)


def _program(state: DataflowChainState, _: Turn) -> None:
    """The exact program, for every choice of degrees and every case of the hand-over between layers."""
    instance, run, left_over = state.instance, state.run, state.left_over
    todo, too_wide, listed = (
        Choices(instance, handovers=True, relaxed=True),
        dict[Degrees, str](),
        set[tuple[object, ...]](),
    )
    if todo.least is None:
        run.infeasible(no_degrees(instance))
        return
    run.bound(todo.least, FLOOR)

    def all_bounds(*more: int) -> list[int]:
        return [*more, *(one.bound for one, _ in left_over)]

    def solve(case: DegreesCase, others: list[int], _: int) -> list[int]:
        """What is proved of one choice of degrees; where the program gives up, it is left over."""
        degrees = case.problem.degrees
        run.bound(min(all_bounds(case.bound, *others)), FLOOR)
        if case.at in listed:
            return []
        if case.problem.layers_free:
            return todo.free(case, _or_none(case.problem, run))
        try:
            if degrees in too_wide:
                raise TooWideError(too_wide[degrees])
            ticks = solve_degrees(case.problem, run)
        except TooWideError as error:
            too_wide[degrees] = str(error)
            listed.add(case.at)
            left_over.append((case_of(dataflow_problem(instance, degrees, *case.plan)), str(error)))
            return []
        except UnfitError as error:
            left_over.append((DegreesCase(case.problem, error.bound), str(error)))
            return []
        proved = [] if ticks is None else [ticks]
        if bounds := all_bounds(*proved, *others):
            run.bound(min(bounds), "program over ideals")
        return proved

    try:
        state.proved = solve_each(todo, run, solve, state.proved)
    except Stop:
        run.bound(min(all_bounds(*state.proved, *todo.bounds)), FLOOR)
        raise
    if todo.left:
        run.note("left out", TOO_LARGE)
    if bounds := all_bounds(*state.proved):
        run.bound(min(bounds), "program over ideals")
    else:
        _no_mapping(state)


def _or_none(problem: DataflowProblem, run: Run) -> int | None:
    """As :func:`solve_degrees` in all cases of the hand-over; the bound of the kernels where the program gives up."""
    try:
        each = [solve_degrees(one, run) for one in handover_cases(problem)]
    except TooWideError:
        return case_of(problem).bound
    return min((one for one in each if one is not None), default=None)


def _wide_graphs(state: DataflowChainState, _: Turn) -> None:
    """Restricted programs and a bound by covers; then CP-SAT, where the graph is small."""
    run = state.run
    if state.instance.task.stages == "kernels" or not state.left_over:
        return
    # imported when their turn comes: most instances are proved before
    from chipmap.methods.dataflow.models import by_cpsat
    from chipmap.methods.dataflow.wide_graphs import WideGraph, has_cover_bound, has_no_mapping

    for case, why in state.left_over:
        what = "mappings and bound" if has_cover_bound(case.problem) else "mappings"
        run.note("left out", f"{case.text}: {why}; {what} for wide graphs")

    def solve(case: DegreesCase, others: list[int], left: int) -> list[int]:
        """What mappings, covers and models for wide graphs prove of one choice of degrees."""
        small = _pairs(case.problem) <= SMALL
        if paired(case.problem.instance, case.problem.degrees):  # covers don't know which passes hide others
            return [max(case.bound, one) for one in by_cpsat(case, run, others)] if small else [case.bound]
        if small and case.problem.uses:  # a model says more of where parameters rest, and sooner
            return [max(case.bound, one) for one in by_cpsat(case, run, others)]
        share = (0.5 if small else 1.0) / (left + 1)
        ticks = WideGraph(case.problem, run, others, case.bound, share).solve()
        if ticks is None:
            return []
        bound = max(ticks, case.bound)
        tried = small or (run.best is None and _pairs(case.problem) <= LARGEST)
        return [max(bound, one) for one in by_cpsat(case, run, others)] if tried and run.keep_going() else [bound]

    todo = [case for case, _ in state.left_over if not has_no_mapping(case.problem, run)]
    state.proved = solve_each(todo, run, solve, state.proved)
    _bounded(state, "cover by partitions" if todo else "the models")


def _stages_of_kernels(state: DataflowChainState, _: Turn) -> None:
    """CP-SAT for small problems whose stages share out kernels."""
    run = state.run
    if state.instance.task.stages != "kernels" or not state.left_over:
        return
    from chipmap.methods.dataflow.models import by_cpsat

    todo, known = list[DegreesCase](), list(state.proved)
    for case, why in state.left_over:
        small = _pairs(case.problem) <= SMALL_STAGES
        what = "CP-SAT takes it" if small else "dataflow/mip and dataflow/cpsat take it"
        run.note("left out", f"{case.text}: {why}; {what}")
        if small:
            todo.append(case)
        else:
            known.append(case.bound)

    def solve(case: DegreesCase, others: list[int], _: int) -> list[int]:
        return [max(case.bound, one) for one in by_cpsat(case, run, others)]

    state.proved = solve_each(todo, run, solve, known)
    _bounded(state, "the models")


def _bounded(state: DataflowChainState, source: str) -> None:
    """All choices of degrees are bounded, by ``source``, or have no mapping."""
    if state.proved:
        state.run.bound(min(state.proved), source, "relaxation")
    else:
        _no_mapping(state)


def _no_mapping(state: DataflowChainState) -> None:
    """No choice is left: the reasons why."""
    no_mapping(state.instance, least_demanding(state.instance), state.run)


def _pairs(problem: DataflowProblem) -> int:
    """Pairs of a kernel and a partition that a model has."""
    task = problem.instance.task
    kernels = problem.n * problem.instance.mapped_layers
    stages = problem.degrees.pipeline if task.stages == "kernels" else 1
    return kernels * stages * min(kernels, task.partitions or kernels)


#: Each link stops when it has nothing more to say; a share below 1 would end it before.
CHAIN: tuple[Link, ...] = (
    Link("first mappings", 0.2, _first),
    Link("each choice of degrees", 0.4, _each_degrees),
    Link("program over ideals", 1.0, _program),
    Link("wide graphs", 1.0, _wide_graphs),
    Link("models of stages", 1.0, _stages_of_kernels),
)
