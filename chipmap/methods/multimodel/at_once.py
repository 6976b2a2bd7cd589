"""What is known of a multimodel instance at next to no cost: a bound, and the plainest proofs of infeasibility."""

from __future__ import annotations

from chipmap.explanation import EXPLAIN
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
from chipmap.records import counted
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
            message = f"the {what} is at least {least:,} {unit}, its limit is {limit:,} {unit}"
            remedy = f"a limit of at least {least:,} {unit}, maybe more: {EXPLAIN}"
            found.append(_infeasible("C4", what, least, limit, unit, message, remedy))
    return found


def too_large(problem: MultiProblem) -> list[Infeasibility]:
    """Layers that fit on no chiplet: the one that needs most, and how many others there are."""
    needs = [
        (int(model.weights[k] + model.need[k]), m, k)
        for m, model in enumerate(problem.models)
        for k in range(model.layers)
        if not any(fits(problem, (m, k, k, c)) for c in range(problem.chiplets))
    ]
    if not needs:
        return []
    need, m, k = max(needs, key=lambda one: one[0])
    most = max(chiplet.sram_bytes or 0 for chiplet in problem.instance.module.chiplets)
    name = f"layer {problem.instance.models[m].layers[k].name!r} of {problem.models[m].name!r}"
    more = f" ({counted(len(needs) - 1, 'other layer')} too large as well)" if len(needs) > 1 else ""
    message = f"{name} needs {need:,} bytes, no chiplet has more than {most:,}{more}"
    remedy = f"a chiplet with at least {need:,} bytes, maybe more; a smaller mini-batch, or smaller layers: {EXPLAIN}"
    return [_infeasible("C5", "SRAM", need, most, "bytes", message, remedy)]


def too_few_links(problem: MultiProblem) -> list[Infeasibility]:
    """Models that need more chiplets than links join (C3), in as many windows as there are."""
    windows, joined, found = problem.instance.task.windows, longest_path(problem), []
    for model in problem.models:
        need = least_segments(problem, model)
        if need > windows * joined:
            message = (
                f"{model.name!r} fits the SRAM in {counted(need, 'segment')} at least, and links join at most "
                f"{counted(joined, 'chiplet')}"
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
    message = (
        f"the models fit the SRAM in {counted(need, 'segment')} at least, {counted(windows, 'window')} "
        f"{'has' if windows == 1 else 'have'} room for {places:,}"
    )
    more = -(-need // problem.chiplets)
    remedy = (
        f"at least {counted(more, 'window')} (task.windows), maybe more; more SRAM or a smaller mini-batch: {EXPLAIN}"
    )
    return [_infeasible("C2", "chiplets", need, places, "segments", message, remedy)]


def clash(problem: MultiProblem) -> list[Infeasibility]:
    """The reason after a proof that no schedule exists, though each demand alone could be met."""
    instance, task = problem.instance, problem.instance.task
    windows = counted(task.windows, "window")
    limits = [name for name in ("latency_limit_ns", "energy_limit_pj") if getattr(task, name) is not None]
    asked = [f"task.{name}" for name in limits]
    asked += [f"deadline_ns of {model.name!r}" for model in instance.models if model.deadline_ns is not None]
    if asked:
        message = f"no schedule keeps {' and '.join(asked)}"
        return [_infeasible("C4", "limits", 1, 0, "limits", message, f"a higher {' or '.join(asked)}: {EXPLAIN}")]
    if any(chiplet.sram_bytes is not None for chiplet in instance.module.chiplets):
        message = f"the layers don't fit the chiplets' SRAM in {windows}"
        remedy = f"more SRAM, windows or links: {EXPLAIN}"
        return [_infeasible("C5", "SRAM", 1, 0, "windows", message, remedy)]
    message = f"{counted(len(instance.models), 'model')} need more than {windows} of linked chiplets"
    return [_infeasible("C2", "chiplets", 1, 0, "windows", message, f"more windows: {EXPLAIN}")]


def _infeasible(
    label: str, resource: str, demand: int, limit: int, unit: str, message: str, remedy: str
) -> Infeasibility:
    return Infeasibility(
        label=label, resource=resource, demand=demand, limit=limit, unit=unit, message=message, remedies=(remedy,)
    )
