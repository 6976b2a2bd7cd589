"""The MIP of family ``multimodel``: a layered flow without big-M, as one Pyomo block, alone or inside a larger model.

Statement: ``docs/families/multimodel-models.md``. Times are in units of ``block.time_unit`` ns and energies in
units of ``block.energy_unit`` pJ, powers of two that keep coefficients small; nothing is rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import pyomo.environ as pyo
from pyomo.common.gc_manager import PauseGC

from chipmap.deadline import look
from chipmap.family import Scope
from chipmap.formulations.built import Built, Statement, require_empty, stated, unit
from chipmap.formulations.multimodel import mip_frames
from chipmap.formulations.multimodel.choices import Decisions, MultiChoices, places, refuse_frames
from chipmap.formulations.multimodel.mip_mapping import (
    c1_chain,
    c3_path,
    c5_memory,
    c6_pins,
    def_places,
    layer_time,
)
from chipmap.formulations.multimodel.shared import Flow, stated_loads
from chipmap.instances.multimodel.instance import MultiInstance, MultiSolution, in_force
from chipmap.instances.multimodel.problem import MultiProblem, multi_problem, static_power, watts
from chipmap.instances.multimodel.sharing import Sharing


@dataclass(frozen=True)
class MultiMipChoices(MultiChoices):
    """``rate``: the weight of T1 in thousandths of a pJ per ns, for objective ``edp`` (None: the greatest T2 / T1)."""

    rate: int | None = None


def build(instance: MultiInstance, choices: MultiMipChoices | Mapping[str, Any] = MultiMipChoices()) -> Built:
    """The MIP of ``instance``, minimising its objective in ticks (of an EDP instance a weighted sum, in pJ)."""
    chosen = stated(MultiMipChoices, choices)
    if instance.task.objective == "frames":
        return mip_frames.build(instance, chosen)
    model = pyo.ConcreteModel(name=instance.name)
    model.multi = pyo.Block()
    add_multimodel(model.multi, instance, chosen)
    model.objective = pyo.Objective(expr=model.multi.cost)
    problem, weighted = multi_problem(instance), instance.task.objective == "edp"
    scope = Scope.QUESTION if weighted else Scope.WHOLE
    text = f"T2 + {rate_of(problem, chosen.rate) / 1000:.12g} · T1 in pJ, with T1 in ns" if weighted else ""
    coders = decisions_of(model.multi, problem).encode, decisions_of(model.multi, problem).decode
    return Built("mip", instance, model, model.multi.statement, scope, *coders, stated_for=text)


def decisions_of(block: pyo.Block, problem: MultiProblem) -> Decisions:
    """The decision variables of a block made by :func:`add_multimodel`."""
    return Decisions(problem, lambda m, layer, w, c: block.x[m, layer, w, c])


def decode(block: pyo.Block, instance: MultiInstance, value: Callable[[Any], float]) -> MultiSolution:
    """The schedule that the variables of a block made by :func:`add_multimodel` stand for."""
    return decisions_of(block, multi_problem(instance)).decode(value)


def add_multimodel(block: pyo.Block, instance: MultiInstance, choices: MultiMipChoices = MultiMipChoices()) -> None:
    """Fill the empty ``block`` with the MIP of ``instance``, without an Objective.

    Afterwards the block has the binaries ``x[m, l, w, c]`` (layer l of model m runs in window w on chiplet c), and the
    linear expressions ``terms["T1"]`` (ns; exact or above, but not rounded up where chiplets share), ``terms["T2"]``
    (pJ) and ``cost`` (ticks; for ``edp`` the weighted sum of :class:`MultiMipChoices`). ``statement`` has the labels
    that it states. Raises :class:`InputError` for a block in use, and for objective ``frames``.
    """
    require_empty(block, "add_multimodel")
    refuse_frames(instance)
    problem, state = multi_problem(instance), Statement()
    block.statement = state
    block.time_unit, block.energy_unit = unit(problem.most_time), unit(problem.most_energy)
    with PauseGC():
        def_places(block, problem)
        for function in (c0_domain, c3_path, c1_chain, c2_apart, c5_memory):
            state(function, block, problem)
        time, energy = state(t1_latency, block, problem), state(t2_energy, block, problem)
        if "busy" in choices.cuts:
            cut_busy(block, problem)
        if "layer" in choices.cuts:
            cut_layer(block, problem)
        block.terms = pyo.Expression(("T1", "T2"), rule=lambda _, term: {"T1": time, "T2": energy}[term])
        state(c4_limits, block, problem)
        if "C6" in in_force(instance):
            state(c6_pins, block, problem)
        block.cost = pyo.Expression(expr=cost(block, problem, choices.rate))
        if choices.upper is not None and instance.task.objective != "edp":
            block.def_upper = pyo.Constraint(expr=block.cost / block.energy_unit <= choices.upper / block.energy_unit)


def rate_of(problem: MultiProblem, rate: int | None) -> int:
    """The weight of T1 in thousandths of a pJ per ns."""
    if problem.instance.task.objective == "weighted":
        return watts(problem.instance)
    return rate if rate is not None else max(1, 1000 * problem.most_energy // max(1, problem.most_time))


def cost(block: pyo.Block, problem: MultiProblem, rate: int | None) -> Any:
    """The objective: T1, T2, or rate / 1000 · T1 + T2."""
    objective = problem.instance.task.objective
    if objective in ("latency", "energy"):
        return block.terms["T1" if objective == "latency" else "T2"]
    return rate_of(problem, rate) / 1000 * block.terms["T1"] + block.terms["T2"]


def c0_domain(block: pyo.Block, problem: MultiProblem) -> None:
    """C0: runs[m, l, w + 1] <= Σ_{m', l'} runs[m', l', w], no empty window before a used one."""
    rows = block.c0_domain = pyo.Constraint(pyo.Any)
    layers = [(m, k) for m, model in enumerate(problem.models) for k in range(model.layers)]
    for w in range(problem.windows - 1):
        used = pyo.quicksum(block.runs[m, k, w] for m, k in layers)
        for m, k in layers:
            look()
            rows[m, k, w] = block.runs[m, k, w + 1] <= used


def c2_apart(block: pyo.Block, problem: MultiProblem) -> None:
    """C2: at most one segment begins on a chiplet in a window: starts, and moves into it."""
    rows = block.c2_apart = pyo.Constraint(pyo.Any)
    for w in range(problem.windows):
        for c in range(problem.chiplets):
            look()
            begun = []
            for m, model in enumerate(problem.models):
                begun += [block.start[m, k, w, c] for k in range(model.layers)]
                begun += [block.move[m, k, w, d, c] for k in range(model.layers - 1) for d in problem.neighbours[c]]
            rows[w, c] = pyo.quicksum(begun) <= 1


def t1_latency(block: pyo.Block, problem: MultiProblem) -> Any:
    """T1 = Σ T[w]; T[w] >= Σ_c t[m, w, c] + weights + (q - 1) · M[m, w] and M[m, w] >= t[m, w, c], in ns.

    T[w] >= V[w] where chiplets share (:func:`def_shared`).
    """
    windows, chiplets, scale = range(problem.windows), range(problem.chiplets), block.time_unit
    models = range(len(problem.models))
    most = problem.most_time / scale
    block.window = pyo.Var(windows, bounds=(0, most))
    block.bottleneck = pyo.Var(models, windows, bounds=(0, most))
    block.segment = pyo.Expression(
        models,
        windows,
        chiplets,
        rule=lambda b, m, w, c: pyo.quicksum(
            layer_time(b, problem, m, k, w, c) for k in range(problem.models[m].layers)
        ),
    )
    block.latency = pyo.Expression(models, windows, rule=lambda b, m, w: _latency(b, problem, m, w))
    rows, slowest = pyo.Constraint(pyo.Any), pyo.Constraint(pyo.Any)
    block.t1_latency, block.def_bottleneck = rows, slowest
    for m, w in product(models, windows):
        rows[m, w] = block.latency[m, w] <= block.window[w]
        for c in chiplets:
            look()
            slowest[m, w, c] = block.segment[m, w, c] <= block.bottleneck[m, w]
    if problem.sharing is not None:
        def_shared(block, problem, problem.sharing)
        block.t1_shared = pyo.Constraint(windows, rule=lambda b, w: b.shared[w] <= b.window[w])
    return scale * pyo.quicksum(block.window[w] for w in windows)


def def_shared(block: pyo.Block, problem: MultiProblem, sharing: Sharing) -> None:
    """V[w] >= the window's bytes over the rate of DRAM, and each channel's over that of a link, not rounded up.

    Whole numbers so far from 1 would mislead a MIP solver: its tolerances are those of small ones.
    """
    block.shared = pyo.Var(range(problem.windows), bounds=(0, problem.most_time / block.time_unit))
    rows = block.def_shared = pyo.Constraint(pyo.Any)
    flow = Flow(block.x, block.start, block.end, block.move)
    for w in range(problem.windows):
        for name, load, rate in stated_loads(problem, sharing, flow, w):
            look()
            scale = unit(rate.denominator * sharing.bytes + rate.numerator)
            time = rate.numerator * block.time_unit / scale * block.shared[w]
            rows[w, name] = rate.denominator / scale * load <= time


def _latency(block: pyo.Block, problem: MultiProblem, m: int, w: int) -> Any:
    """Lat[m, w]: Σ t + weights + (q - 1) · max t, in units of ``block.time_unit``."""
    model, scale = problem.models[m], block.time_unit
    weights = (int(model.weight_time[k]) / scale * block.runs[m, k, w] for k in range(model.layers))
    pipeline = pyo.quicksum(block.segment[m, w, c] for c in range(problem.chiplets))
    return pipeline + pyo.quicksum(weights) + (model.q - 1) * block.bottleneck[m, w]


def cut_busy(block: pyo.Block, problem: MultiProblem) -> None:
    """T[w] >= Σ_m q · t[m, w, c]: a chiplet runs one segment in a window, once per mini-batch."""
    rows = block.cut_busy = pyo.Constraint(pyo.Any)
    for w, c in product(range(problem.windows), range(problem.chiplets)):
        look()
        work = (model.q * block.segment[m, w, c] for m, model in enumerate(problem.models))
        rows[w, c] = pyo.quicksum(work) <= block.window[w]


def cut_layer(block: pyo.Block, problem: MultiProblem) -> None:
    """M[m, w] >= Σ_c (the time of layer l on c, with the transfers beside it): it lies in one of the segments."""
    rows = block.cut_layer = pyo.Constraint(pyo.Any)
    for m, model in enumerate(problem.models):
        for k, w in product(range(model.layers), range(problem.windows)):
            look()
            parts = (layer_time(block, problem, m, k, w, c) for c in range(problem.chiplets))
            rows[m, k, w] = pyo.quicksum(parts) <= block.bottleneck[m, w]


def t2_energy(block: pyo.Block, problem: MultiProblem) -> Any:
    """T2: layers with their weights, reads, writes and transfers, and static energy of T1 (not rounded up), in pJ."""
    parts, scale = [], block.energy_unit
    for m, k, w, c in places(problem):
        model = problem.models[m]
        parts.append(int(model.energy[k, c] + model.weight_energy[k, c]) / scale * block.x[m, k, w, c])
        parts.append(int(model.read_energy[k, c]) / scale * block.start[m, k, w, c])
        parts.append(int(model.write_energy[k, c]) / scale * block.end[m, k, w, c])
        for d in problem.neighbours[c] if k < model.layers - 1 else ():
            parts.append(int(model.send_energy[k]) / scale * block.move[m, k, w, c, d])
    if power := static_power(problem.instance):
        parts += [power / 1000 * block.time_unit / scale * block.window[w] for w in range(problem.windows)]
    return scale * pyo.quicksum(parts)


def c4_limits(block: pyo.Block, problem: MultiProblem) -> None:
    """C4: T1 and T2 within their limits; Σ_{v < w} T[v] + Lat[m, w] <= deadline, unless the model ended before w.

    Where chiplets share, V[w] stands for Lat[m, w] once more. After that window the row's left side is at most
    ``most_time``, if every T[w] is as small as it can be.
    """
    task, rows = problem.instance.task, pyo.Constraint(pyo.Any)
    block.c4_limits = rows
    for term, limit, scale in (
        ("T1", task.latency_limit_ns, block.time_unit),
        ("T2", task.energy_limit_pj, block.energy_unit),
    ):
        if limit is not None:
            rows[term] = block.terms[term] / scale <= limit / scale
    for m, (given, model) in enumerate(zip(problem.instance.models, problem.models, strict=True)):
        if given.deadline_ns is None:
            continue
        late, scale = max(0, problem.most_time - given.deadline_ns), block.time_unit
        for w in range(problem.windows):
            look()
            before = pyo.quicksum(block.window[v] for v in range(w))
            later = pyo.quicksum(block.runs[m, model.layers - 1, v] for v in range(w, problem.windows))
            limit = given.deadline_ns / scale + late / scale * (1 - later)
            rows[m, w] = before + block.latency[m, w] <= limit
            if problem.sharing is not None:
                rows[m, w, "shared"] = before + block.shared[w] <= limit
