"""The paper's procedure as a baseline: the inter-chip pass (section IV), then the intra-chip pass (section V).

The first pass settles degrees, sharding and stages without a look inside the chips; the second divides each stage into
partitions. Both are solved to the optimum by CP-SAT, but the best second pass after the best first pass need not be the
best mapping, nor one that fits: ``dataflow/auto`` and the models take both passes at once.
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution
from chipmap.instances.dataflow.passes import inter_chip
from chipmap.methods.dataflow import Case, cases
from chipmap.methods.dataflow_models import ModelTask, request
from chipmap.methods.dataflow_reasons import no_degrees
from chipmap.records import InputError
from chipmap.result import Termination
from chipmap.run import Run, Stop
from chipmap.solvers import solve_model


class Pass(NamedTuple):
    """A mapping of the inter-chip pass at some degrees, and what was minimised, in ticks."""

    case: Case
    mapping: DataflowSolution
    ticks: int


def two_pass(instance: DataflowInstance, run: Run) -> Termination:
    """The inter-chip pass for every choice of degrees, then the intra-chip pass for the best one. Nothing is proved."""

    def work() -> None:
        todo = cases(inter_chip(instance))
        if not todo:
            run.infeasible(no_degrees(instance))
            return
        run.bound(cases(instance)[0].bound, "compute")
        given = first_pass(todo, run)
        case = next(case for case in cases(instance) if case.problem.degrees == given.degrees)
        ModelTask(instance, run, "cpsat", case, [], "combinatorial", given).solve()
        if run.best is None:
            run.notes.append("no partitions fit the sharding and the stages of the inter-chip pass")

    return run.attempt(work)


def first_pass(todo: list[Case], run: Run) -> DataflowSolution:
    """The mapping of the inter-chip pass: the shortest batch of all degrees, then the least time in the network."""
    best: Pass | None = None
    for case in todo:
        if best is None or case.bound < best.ticks:
            best = _solved(case, run, best.ticks if best is not None else None) or best
    if best is None:
        raise InputError("has no mapping for any degrees", "the inter-chip pass", "Use the method dataflow/auto.")
    fewest = _solved(best.case, run, best.ticks, network=True)
    return (fewest or best).mapping


def _solved(case: Case, run: Run, upper: int | None, network: bool = False) -> Pass | None:
    """The optimum for one choice of degrees, within ``upper`` ticks: the shortest batch, or the least time of T3. None:
    there is none."""
    from chipmap.formulations.dataflow import cpsat

    run.checkpoint()
    model = cpsat.build(case.problem.instance, {"degrees": case.problem.degrees, "upper": upper})
    if network:
        model.native.clear_objective()
        model.native.minimize(sum(model.variables.terms["T3"]))
    outcome = solve_model(model, request(run, "cpsat", should_stop=lambda: run.interrupted))
    if outcome.termination.reason not in ("optimal", "infeasible"):
        run.checkpoint()
        raise Stop("time")
    if outcome.value_of is None or outcome.objective is None:
        return None
    return Pass(case, model.decode(outcome.value_of), ceil(outcome.objective))
