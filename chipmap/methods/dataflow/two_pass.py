"""The paper's procedure as a baseline: the inter-chip pass (section IV), then the intra-chip pass (section V).

The first pass settles degrees, sharding and stages without a look inside the chips; the second divides each stage into
partitions. Each is solved to its optimum, but the best second pass after the best first pass need not be the best
mapping, nor one that fits: ``dataflow/auto`` and the models take both passes at once.
"""

from __future__ import annotations

from math import ceil
from typing import Any, NamedTuple

from chipmap.deadline import Stop
from chipmap.heuristics.dataflow.program.lattice import TooWideError
from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution
from chipmap.instances.dataflow.layer_handover import handover_cases
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.dataflow.passes import inter_chip
from chipmap.instances.dataflow.pins import restricted
from chipmap.instances.dataflow.problem import DataflowProblem
from chipmap.methods.dataflow.cases import Choices, DegreesCase, cases
from chipmap.methods.dataflow.chain import auto, solve_degrees
from chipmap.methods.dataflow.infeasibility import no_degrees
from chipmap.methods.dataflow.models import build, by_cpsat
from chipmap.methods.model_solve import BROKEN, Limits, conclude, solve_within
from chipmap.records import InputError
from chipmap.result import Termination
from chipmap.run import Run

#: Share of the time that is left for the search of the first pass's least time in the network.
SHARE = 0.5


class Pass(NamedTuple):
    """A mapping of the inter-chip pass, and its batch in ticks."""

    mapping: DataflowSolution
    ticks: int


def two_pass(instance: DataflowInstance, run: Run) -> Termination:
    """The inter-chip pass over every choice of degrees, then the intra-chip pass. Nothing is proved of the whole."""

    if instance.task.schedule == "dualpipe-v":
        what = "is dualpipe-v, of whose pairs of passes neither pass by itself knows"
        raise InputError(what, "task.schedule", "Use the method dataflow/auto.")

    def work() -> None:
        """The first pass, then the second at what the first one chose."""
        todo = cases(inter_chip(instance))
        if not todo:
            run.infeasible(no_degrees(instance))
            return
        whole = Choices(instance)
        first = next(iter(whole), None)
        if first is not None:
            run.bound(min([first.bound, *whole.left]), "kernels one by one")
        given = first_pass(todo, run)
        if given is None:
            run.note(
                "left out", "the inter-chip pass found no mapping for any degrees: dataflow/auto takes both at once"
            )
            return
        # the first pass doesn't say what is recomputed inside a chip: the case of least bound
        asked = given.degrees, given.micro_batch, given.chunks
        case = next((case for case in Choices(instance) if case.at[:3] == asked), None)
        if case is not None:  # else DRAM can't hold what rests there
            try:
                second_pass(case.problem, given, run)
            except TooWideError as error:
                run.note("left out", f"intra-chip pass: {error}; CP-SAT takes it")
                by_cpsat(case, run, [], given)
        if run.best is None:
            run.note("left out", "no partitions fit the sharding and the stages of the inter-chip pass")

    return run.attempt(work)


def first_pass(todo: list[DegreesCase], run: Run) -> DataflowSolution | None:
    """The mapping of the inter-chip pass: the shortest batch over all degrees, by the program over ideals (for wide
    graphs by CP-SAT), and of those at its degrees the one with the least time in the network, by CP-SAT. None where it
    finds none."""
    best = _by_program(todo, run) or _by_models(todo, run)
    if best is None:
        return None
    case = next(case for case in todo if case.at == (best.mapping.degrees, *best.mapping.plan))
    fewest = _solved(case, run, best.ticks, network=True)
    return (fewest or best).mapping


def _by_program(todo: list[DegreesCase], run: Run) -> Pass | None:
    """The shortest batch by ``dataflow/auto``; None where that isn't proved."""
    inner = run.inner(todo[0].problem.instance, run.deadline.share(SHARE))
    proved = auto(todo[0].problem.instance, inner).reason == "optimal"
    run.checkpoint()
    return Pass(inner.best.solution, inner.best.objective) if proved and inner.best is not None else None  # type: ignore[arg-type]


def _by_models(todo: list[DegreesCase], run: Run) -> Pass | None:
    best: Pass | None = None
    for case in todo:
        if best is None or case.bound < best.ticks:
            best = _solved(case, run, best.ticks if best is not None else None) or best
    return best


def _solved(case: DegreesCase, run: Run, upper: int | None, network: bool = False) -> Pass | None:
    """The optimum for one choice of degrees, within ``upper`` ticks, by CP-SAT: the shortest batch, or the least time
    of T3 (the least that is found in a share of the time, with a note). None: there is none."""
    run.checkpoint()
    model: Any = build(case, "cpsat", upper=upper)
    if network:
        model.native.clear_objective()
        model.native.minimize(sum(model.variables.terms["T3"]))
    deadline = run.deadline.share(SHARE) if network else run.deadline
    outcome = solve_within(run, model, limits=Limits(deadline=deadline), solver="cpsat")
    run.checkpoint()
    if outcome.termination.reason not in ("optimal", "infeasible"):
        if not network:
            conclude(run, outcome, "inter-chip pass")
            raise Stop("time")
        run.note("left out", "inter-chip pass: its least time in the network isn't proved")
    if outcome.value_of is None or outcome.objective is None or outcome.termination.reason in BROKEN:
        return None
    found = Pass(model.decode(outcome.value_of), ceil(outcome.objective))
    if not run.check(case.problem.instance, found.mapping).feasible:
        run.trouble("inter-chip pass: the checker refuses the solver's mapping")
        return None
    return found


def second_pass(problem: DataflowProblem, given: DataflowSolution, run: Run) -> None:
    """Report the best partitions for the sharding and stages of a mapping; nothing where none fit.

    Raises :class:`TooWideError` for too many order ideals, for backward kernels in partitions across layers, and for
    pins there.
    """
    from chipmap.heuristics.dataflow.program.intra_chip import Stage, partitions

    instance, task = problem.instance, problem.instance.task
    names = [kernel.name for kernel in instance.workload.kernels]
    if task.stages == "layers" and not task.across_layers:
        pins = dict(zip(names, given.schemes, strict=True))
        pinned = instance.replace(task=task.replace(schemes=pins, degrees=problem.degrees))
        (case,) = handover_cases(dataflow_problem(pinned, problem.degrees))
        solve_degrees(case, run)
        return
    if any(kernel.phase == "backward" for kernel in instance.workload.kernels):
        raise TooWideError("there are backward kernels")
    if restricted(instance):
        raise TooWideError("kernels are pinned to partitions, or lie apart")
    listed = [[option.scheme for option in options] for options in problem.options]
    chosen = [listed[i % problem.n].index(scheme) for i, scheme in enumerate(given.schemes)]
    of = [given.stages[p] if given.stages else 0 for p in given.partitions]
    where, stages = [0] * len(chosen), list[int]()
    for s in range(problem.degrees.pipeline):
        inside = [i for i, at in enumerate(of) if at == s]
        found = partitions(Stage(problem, chosen, inside), run.deadline)
        if found is None:
            return
        for part in found:
            for i in part:
                where[i] = len(stages)
            stages.append(s)
    staged = tuple(stages) if task.stages == "kernels" else ()
    mapping = given.replace(instance=instance.name, partitions=tuple(where), stages=staged)
    run.solution(mapping, "intra-chip pass")
