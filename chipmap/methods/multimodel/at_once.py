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
from chipmap.heuristics.multimodel.frames.bounds import dropped_at_once
from chipmap.heuristics.multimodel.frames.timetable import Rated
from chipmap.instances.multimodel.instance import MultiInstance
from chipmap.instances.multimodel.pinned import narrowed, pinned
from chipmap.instances.multimodel.problem import ModelCosts, MultiProblem, multi_problem
from chipmap.methods.multimodel.frames import rated
from chipmap.records import counted
from chipmap.result import Infeasibility
from chipmap.run import Run


def at_once(instance: MultiInstance, run: Run) -> None:
    """Report the bound in closed form, or why there is no schedule."""
    plain = multi_problem(instance)
    if rated(instance):
        return of_frames(plain, run)
    reasons = too_large(plain) or [*too_few_links(plain), *too_few_places(plain), *limits(plain)]
    problem = narrowed(plain)
    if not reasons and problem.allowed is not None:
        reasons = [*too_few_chiplets(problem), *too_large(problem), *limits(problem)]
    if reasons:
        run.infeasible(*reasons)
    else:
        run.bound(least_objective(problem), "least latency and energy")


def of_frames(plain: MultiProblem, run: Run) -> None:
    """Report the bound by the least latency of frames, or why there is no mapping."""
    reasons, problem = too_large(plain) or too_few_links(plain), narrowed(plain)
    if not reasons and problem.allowed is not None:
        reasons = [*too_few_chiplets(problem), *too_large(problem)]
    if reasons:
        run.infeasible(*reasons)
    else:
        run.bound(dropped_at_once(Rated(problem)), "least latency of frames")


def too_few_chiplets(problem: MultiProblem) -> list[Infeasibility]:
    """Groups of layers apart (C6) that have fewer chiplets than layers, those that are together counted once."""
    asked, found = pinned(problem), list[Infeasibility]()
    assert asked is not None
    share = {layer: group for group in asked.groups for layer in group}
    for group in asked.apart:
        units = {share.get(layer, (layer,)) for layer in group}
        room = len({int(c) for m, k in group for c in asked.allowed[m][k].nonzero()[0]})
        if len(units) > room:
            message = f"{counted(len(units), 'layer')} are to be apart, {counted(room, 'chiplet')} may run them"
            remedy = f"a smaller group, or more chiplets for its layers: {EXPLAIN}"
            need = len(units), room, "chiplets"
            found.append(Infeasibility.of("C6", "chiplets", need, message, remedy, labels=("C1", "C6")))
    return found


def limits(problem: MultiProblem) -> list[Infeasibility]:
    """Limits and deadlines (C4) below the least.

    C2 takes part where chiplets that run one segment at a time make it so long."""
    task, found = problem.instance.task, []
    lone = [_unshared(model) for model in problem.models]
    asked = [
        (least_time(problem), task.latency_limit_ns, "latency", "ns", max(lone)),
        (least_energy(problem), task.energy_limit_pj, "energy", "pJ", least_energy(problem)),
    ]
    for costs, model, own in zip(problem.models, problem.instance.models, lone, strict=True):
        asked.append((least_latency(problem, costs), model.deadline_ns, f"latency of {model.name!r}", "ns", own))
    for least, limit, what, unit, plain in asked:
        if limit is not None and least > limit:
            message = f"the {what} is at least {least:,} {unit}, its limit is {limit:,} {unit}"
            remedy = f"a limit of at least {least:,} {unit}, maybe more: {EXPLAIN}"
            labels: tuple[str, ...] = ("C1", "C4") if plain > limit else ("C1", "C2", "C4")
            if problem.allowed is not None:
                message, labels = f"{message} (on the chiplets that its layers may run on)", (*labels, "C6")
            found.append(Infeasibility.of("C4", what, (least, limit, unit), message, remedy, labels=labels))
    return found


def _unshared(model: ModelCosts) -> int:
    """A lower bound on the model's latencies in ns, however many segments a chiplet runs at a time."""
    layers = model.time.min(axis=1)
    ends = int(model.read_time[0].min() + model.write_time[-1].min() + model.weight_time.sum())
    return int(layers.sum()) + ends + (model.q - 1) * int(layers.max())


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
    sizes = [chiplet.sram_bytes or 0 for chiplet in problem.instance.module.chiplets]
    pins = problem.allowed
    most = max(size for c, size in enumerate(sizes) if pins is None or pins[m][k, c])
    name = f"layer {problem.instance.models[m].layers[k].name!r} of {problem.models[m].name!r}"
    more = f" ({counted(len(needs) - 1, 'other layer')} too large as well)" if len(needs) > 1 else ""
    where = "no chiplet has more than" if pins is None else "no chiplet that may run it has more than"
    message = f"{name} needs {need:,} bytes, {where} {most:,}{more}"
    labels: tuple[str, ...] = ("C1", "C5") if pins is None else ("C1", "C5", "C6")
    remedy = f"a chiplet with at least {need:,} bytes, maybe more; a smaller mini-batch, or smaller layers: {EXPLAIN}"
    return [Infeasibility.of("C5", "SRAM", (need, most, "bytes"), message, remedy, labels=labels)]


def too_few_links(problem: MultiProblem) -> list[Infeasibility]:
    """Models that need more chiplets than links join (C3), in as many windows as there are."""
    windows, joined, found = problem.windows, longest_path(problem), []
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
            labels: tuple[str, ...] = ("C1", "C3", "C5") if joined == 1 else ("C1", "C2", "C3", "C5")
            found.append(
                Infeasibility.of("C3", "chiplets", (need, windows * joined, "segments"), message, remedy, labels=labels)
            )
    return found


def too_few_places(problem: MultiProblem) -> list[Infeasibility]:
    """More segments than windows have chiplets (C2): all models in as few segments as fit the largest SRAM."""
    windows, models = problem.instance.task.windows, len(problem.models)
    need, places = sum(least_segments(problem, model) for model in problem.models), windows * problem.chiplets
    if need <= places:
        return []
    room = f"{counted(windows, 'window')} {'has' if windows == 1 else 'have'} room for {places:,}"
    least = f"at least {counted(-(-need // problem.chiplets), 'window')} (task.windows), maybe more"
    if models > places:
        message = f"{counted(models, 'model')} need a segment each, {room}"
        labels: tuple[str, ...] = ("C1", "C2")
        remedy = f"{least}, or more chiplets: {EXPLAIN}"
    else:
        message = f"the models fit the SRAM in {counted(need, 'segment')} at least, {room}"
        labels, remedy = ("C1", "C2", "C5"), f"{least}; more SRAM or a smaller mini-batch: {EXPLAIN}"
    return [Infeasibility.of("C2", "chiplets", (need, places, "segments"), message, remedy, labels=labels)]
