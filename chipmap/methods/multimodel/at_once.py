"""What is known of a multimodel instance at next to no cost: a bound, and the plainest proofs of infeasibility."""

from __future__ import annotations

from chipmap.heuristics.multimodel.baselines import fits
from chipmap.heuristics.multimodel.bounds import (
    least_energy,
    least_latency,
    least_objective,
    least_segments,
    least_time,
    longest_path,
)
from chipmap.instances.multimodel.instance import MultiInstance
from chipmap.instances.multimodel.problem import MultiProblem, multi_problem
from chipmap.result import Infeasibility
from chipmap.run import Run


def at_once(instance: MultiInstance, run: Run) -> None:
    """Report the bound in closed form, or why there is no schedule."""
    problem = multi_problem(instance)
    if reasons := too_large(problem) or [*too_few_links(problem), *too_few_places(problem), *limits(problem)]:
        run.infeasible(*reasons)
    else:
        run.bound(least_objective(problem), "least latency and energy")


def limits(problem: MultiProblem) -> list[Infeasibility]:
    """Limits and deadlines (C4) below the least."""
    task, found = problem.instance.task, []
    asked = [
        (least_time(problem), task.latency_limit_ns, "latency", "ns"),
        (least_energy(problem), task.energy_limit_pj, "energy", "pJ"),
    ]
    for costs, model in zip(problem.models, problem.instance.models, strict=True):
        asked.append((least_latency(problem, costs), model.deadline_ns, f"latency of {model.name!r}", "ns"))
    for least, limit, what, unit in asked:
        if limit is not None and least > limit:
            message = f"the {what} is at least {least} {unit}, its limit is {limit} {unit}"
            found.append(_infeasible("C4", what, least, limit, unit, message, f"a limit of {least} {unit} or more"))
    return found


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


def too_few_links(problem: MultiProblem) -> list[Infeasibility]:
    """Models that need more chiplets than links join (C3), in as many windows as there are."""
    windows, joined, found = problem.instance.task.windows, longest_path(problem), []
    for model in problem.models:
        need = least_segments(problem, model)
        if need > windows * joined:
            message = (
                f"{model.name!r} fits the SRAM in {need} segments at least, and links join at most {joined} chiplets"
            )
            lone = [
                c.name for c, near in zip(problem.instance.module.chiplets, problem.neighbours, strict=True) if not near
            ]
            remedy = (
                f"links to {', '.join(lone[:8])}, " if lone else ""
            ) + "more windows, more SRAM or a smaller mini-batch"
            found.append(_infeasible("C3", "chiplets", need, windows * joined, "segments", message, remedy))
    return found


def too_few_places(problem: MultiProblem) -> list[Infeasibility]:
    """More segments than windows have chiplets (C2): all models in as few segments as fit the largest SRAM."""
    windows = problem.instance.task.windows
    need, places = sum(least_segments(problem, model) for model in problem.models), windows * problem.chiplets
    if need <= places:
        return []
    message = f"the models fit the SRAM in {need} segments at least, {windows} windows have {places} chiplets"
    more = -(-need // problem.chiplets)
    remedy = f"at least {more} windows (--set task.windows={more}), more SRAM or a smaller mini-batch"
    return [_infeasible("C2", "chiplets", need, places, "segments", message, remedy)]


def clash(problem: MultiProblem) -> list[Infeasibility]:
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
