"""The methods of family ``multimodel``: what ``--method`` names.

Every method is a function (instance, run) -> Termination that reports to ``run``; what it found stays there when the
deadline passes.
"""

from __future__ import annotations

from chipmap.heuristics.multimodel.bounds import edp_above, least_energy, least_objective, least_time
from chipmap.heuristics.multimodel.whole_models import fits, whole_models
from chipmap.instances.multimodel.instance import MultiInstance
from chipmap.instances.multimodel.problem import MultiProblem, multi_problem, schedule
from chipmap.methods.chain import Link, Turn, follow
from chipmap.methods.model_solve import Finds, Limits, conclude, solve_within
from chipmap.records import InputError
from chipmap.result import Infeasibility, Termination
from chipmap.run import Run

#: EDP's weights for the MIP around the incumbent's T2 / T1, and the share of the time that is left for each.
RATES, SLICE = (1.0, 0.5, 2.0, 0.25, 4.0), 0.4


def bound_at_once(problem: MultiProblem, turn: Turn) -> None:
    """The closed-form bound, and what no schedule can meet: a layer too large, limits below the least."""
    reasons = list(too_large(problem))
    task = problem.instance.task
    for least, limit, what, unit in (
        (least_time(problem), task.latency_limit_ns, "latency", "ns"),
        (least_energy(problem), task.energy_limit_pj, "energy", "pJ"),
    ):
        if limit is not None and least > limit:
            message = f"the {what} is at least {least} {unit}, its limit is {limit} {unit}"
            reasons.append(_infeasible("C4", what, least, limit, unit, message, f"a limit of {least} {unit} or more"))
    if reasons:
        turn.run.infeasible(*reasons)
        turn.run.checkpoint()
    turn.bound(least_objective(problem), "least latency and energy")


def too_large(problem: MultiProblem) -> list[Infeasibility]:
    """Layers that fit on no chiplet."""
    found = []
    for m, model in enumerate(problem.models):
        for k in range(model.layers):
            if not any(fits(problem, (m, k, k, c)) for c in range(problem.chiplets)):
                need = int(model.weights[k] + model.need[k])
                most = max(chiplet.sram_bytes or 0 for chiplet in problem.instance.module.chiplets)
                layer = problem.instance.models[m].layers[k].name
                message = f"layer {layer!r} of {model.name!r} needs {need} bytes, no chiplet has more than {most}"
                remedy = f"a chiplet with {need} bytes, a smaller mini-batch, or the layer split"
                found.append(_infeasible("C5", "SRAM", need, most, "bytes", message, remedy))
    return found


def start(problem: MultiProblem, turn: Turn) -> None:
    """Whole models, where they fit."""
    windows = whole_models(problem)
    if windows is not None:
        turn.solution(schedule(problem, windows), "whole models")


def model_by_cpsat(problem: MultiProblem, turn: Turn) -> None:
    """The CP-SAT model, from the incumbent on."""
    from chipmap.formulations.multimodel.cpsat import build

    run = turn.run
    try:
        model = build(problem.instance)
    except InputError as error:  # products beyond 64 bits
        run.note("solver", f"cpsat: {error.what}")
        return model_by_mip(problem, turn)
    run.checkpoint()
    outcome = solve_within(run, model, Finds("cpsat"), run.best.solution if run.best is not None else None)
    if outcome.termination.reason == "infeasible":
        run.infeasible(*_clash(problem))
    else:
        conclude(run, outcome, "cpsat")


def model_by_mip(problem: MultiProblem, turn: Turn) -> None:
    """The MIP, of an EDP instance by one weight after the other."""
    from chipmap.formulations.multimodel.mip import build

    run = turn.run
    if problem.instance.task.objective != "edp":
        run.checkpoint()
        best = run.best.solution if run.best is not None else None
        outcome = solve_within(run, build(problem.instance), Finds("mip"), best)
        if outcome.termination.reason == "infeasible":
            run.infeasible(*_clash(problem))
        else:
            conclude(run, outcome, "mip")
        return
    least = least_time(problem), least_energy(problem)
    for factor in RATES:
        run.checkpoint()
        terms = run.best.certificate.terms if run.best is not None else {"T1": least[0], "T2": least[1]}
        rate = max(1, round(1000 * factor * terms["T2"] / max(1, terms["T1"])))
        seconds = None if run.remaining == float("inf") else SLICE * run.remaining
        start = run.best.solution if run.best is not None else None
        model = build(problem.instance, {"rate": rate})
        outcome = solve_within(run, model, Finds("mip"), start, Limits(seconds=seconds))
        # the weighted sum's minimum is no bound on EDP; what follows from it is
        if outcome.bound is not None and outcome.termination.reason != "infeasible":
            run.bound(edp_above(problem, rate, outcome.bound * (1 - 1e-6), least), "mip weights")


def bounds(instance: MultiInstance, run: Run) -> Termination:
    """Every lower bound, no schedule."""
    problem = multi_problem(instance)
    return run.attempt(lambda: bound_at_once(problem, Turn(run, run.deadline)))


CHAIN = (Link("bound", 1.0, bound_at_once), Link("start", 1.0, start), Link("cpsat", 1.0, model_by_cpsat))


def auto(instance: MultiInstance, run: Run) -> Termination:
    """The best chain."""
    return _chain(instance, run, CHAIN)


def whole(instance: MultiInstance, run: Run) -> Termination:
    """Whole models only."""
    return _chain(instance, run, CHAIN[:2])


def cpsat(instance: MultiInstance, run: Run) -> Termination:
    """The CP-SAT model alone."""
    return _chain(instance, run, (CHAIN[0], CHAIN[2]))


def mip(instance: MultiInstance, run: Run) -> Termination:
    """The MIP alone."""
    return _chain(instance, run, (CHAIN[0], Link("mip", 1.0, model_by_mip)))


def _chain(instance: MultiInstance, run: Run, links: tuple[Link, ...]) -> Termination:
    problem = multi_problem(instance)
    return run.attempt(lambda: follow(links, problem, Turn(run, run.deadline)))


def _clash(problem: MultiProblem) -> list[Infeasibility]:
    """Reasons after a proof that no schedule exists, though each demand alone could be met."""
    instance, found = problem.instance, []
    task = instance.task
    limits = [value is not None for value in (task.latency_limit_ns, task.energy_limit_pj)]
    if any(limits) or any(model.deadline_ns is not None for model in instance.models):
        message = "no schedule keeps the limits and deadlines"
        remedy = "raise task.latency_limit_ns, task.energy_limit_pj or a model's deadline_ns"
        found.append(_infeasible("C4", "limits", 1, 0, "limits", message, remedy))
    elif any(chiplet.sram_bytes is not None for chiplet in instance.module.chiplets):
        message = f"the layers don't fit the chiplets' SRAM in {task.windows} windows"
        found.append(_infeasible("C5", "SRAM", 1, 0, "windows", message, "more windows, more SRAM or more links"))
    else:
        message = f"{len(instance.models)} models need more than {task.windows} windows of linked chiplets"
        found.append(_infeasible("C2", "chiplets", 1, 0, "windows", message, "more windows"))
    return found


def _infeasible(
    label: str, resource: str, demand: int, limit: int, unit: str, message: str, remedy: str
) -> Infeasibility:
    return Infeasibility(
        label=label, resource=resource, demand=demand, limit=limit, unit=unit, message=message, remedies=(remedy,)
    )
