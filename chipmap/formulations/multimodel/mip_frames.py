"""The MIP of frames: the flow of :mod:`.mip_mapping`, and an order of every two runs on a chiplet, by big-M.

Statement: ``docs/families/multimodel-frames.md``. Times are in ns. It is meant for tiny instances.
"""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import pyomo.environ as pyo

from chipmap.deadline import look
from chipmap.family import Scope
from chipmap.formulations.built import Built, Statement, unit
from chipmap.formulations.multimodel.choices import MultiChoices
from chipmap.formulations.multimodel.frame_choices import FrameDecisions
from chipmap.formulations.multimodel.mip_mapping import (
    c1_chain,
    c3_path,
    c5_memory,
    c6_pins,
    def_places,
    layer_time,
)
from chipmap.instances.multimodel.instance import MultiInstance, in_force
from chipmap.instances.multimodel.problem import MultiProblem, multi_problem
from chipmap.instances.multimodel.rates import ahead_of, frames_of, hyperperiod

#: Implied by the domains: there is one window, and every frame is one of the hyperperiod's.
BY_DOMAIN = ("C0",)


def build(instance: MultiInstance, choices: MultiChoices) -> Built:
    """The MIP of an instance with objective ``frames``."""
    model, problem = pyo.ConcreteModel(name=instance.name), multi_problem(instance)
    block = model.multi = pyo.Block()
    state = block.statement = Statement(*BY_DOMAIN)
    block.time_unit, block.energy_unit = 1, unit(problem.most_energy)
    def_places(block, problem)
    for function in (c3_path, c1_chain, c5_memory):
        state(function, block, problem)
    if "C6" in in_force(instance):
        state(c6_pins, block, problem)
    def_mapping(block, problem)
    def_runs(block, problem)
    for stated in (c2_apart_models, c2_apart_runs, c7_order):
        state(stated, block, problem)
    if "C8" in in_force(instance):
        state(c8_follow, block, problem)
    state(t2_energy_frames, block, problem)
    state(c4_limits_frames, block, problem)
    block.cost = pyo.Expression(expr=state(t3_dropped, block, problem))
    if choices.upper is not None:
        block.def_upper = pyo.Constraint(expr=block.cost <= choices.upper)
    model.objective = pyo.Objective(expr=block.cost)
    run, start, turn = (dict(variable.items()) for variable in (block.run, block.start_of, block.turn))
    decisions = FrameDecisions(problem, lambda m, k, w, c: block.x[m, k, w, c], run, start, turn)
    return Built("mip", instance, model, state, Scope.WHOLE, decisions.encode, decisions.decode)


def def_mapping(block: pyo.Block, problem: MultiProblem) -> None:
    """Of each model and chiplet: ``begun``, its segments that begin there; ``span``, their time in ns; ``moved``."""
    models, chiplets = range(len(problem.models)), range(problem.chiplets)

    def begun(b: Any, m: int, c: int) -> Any:
        look()
        layers = range(problem.models[m].layers)
        came = [b.start[m, k, 0, c] for k in layers]
        return pyo.quicksum(came + [b.move[m, k, 0, d, c] for k in layers[:-1] for d in problem.neighbours[c]])

    def span(b: Any, m: int, c: int) -> Any:
        model = problem.models[m]
        layers = range(model.layers)
        weights = (int(model.weight_time[k]) * b.x[m, k, 0, c] for k in layers)
        return pyo.quicksum(layer_time(b, problem, m, k, 0, c) for k in layers) + pyo.quicksum(weights)

    def moved(b: Any, m: int, c: int, d: int) -> Any:
        return pyo.quicksum(b.move[m, k, 0, c, d] for k in range(problem.models[m].layers - 1))

    links = [(m, c, d) for m in models for c in chiplets for d in problem.neighbours[c]]
    block.begun = pyo.Expression(models, chiplets, rule=begun)
    block.span = pyo.Expression(models, chiplets, rule=span)
    block.moved = pyo.Expression(links, rule=moved)


def def_runs(block: pyo.Block, problem: MultiProblem) -> None:
    """present >= run + begun - 1; within = start - H · turn, from 0 to H - 1; longest[m]: a limit on the spans of m."""
    instance = problem.instance
    block.frames, block.length = frames_of(instance), hyperperiod(instance)
    places = list(product(range(len(block.frames)), range(problem.chiplets)))
    block.longest = [_longest(problem, m) for m in range(len(problem.models))]
    block.run = pyo.Var(range(len(block.frames)), domain=pyo.Binary)
    block.present = pyo.Var(places, bounds=(0, 1))
    block.start_of = pyo.Var(places, domain=pyo.Integers, bounds=lambda b, f, c: b.frames[f][2:])
    turns = [(frame.release // block.length, frame.due // block.length) for frame in block.frames]
    block.turn = pyo.Var(places, domain=pyo.Integers, bounds=lambda b, f, c: turns[f])
    block.within = pyo.Expression(places, rule=lambda b, f, c: b.start_of[f, c] - b.length * b.turn[f, c])
    block.def_within = pyo.Constraint(places, rule=lambda b, f, c: (0, b.within[f, c], b.length - 1))
    block.def_present = pyo.Constraint(
        places, rule=lambda b, f, c: b.present[f, c] >= b.run[f] + b.begun[b.frames[f].m, c] - 1
    )


def _longest(problem: MultiProblem, m: int) -> int:
    model = problem.models[m]
    parts = model.time + model.read_time + model.write_time
    return int(parts.max(axis=1).sum() + 2 * model.send_time.sum() + model.weight_time.sum())


def c2_apart_models(block: pyo.Block, problem: MultiProblem) -> None:
    """C2: a chiplet runs at most one segment of a model."""
    pairs = product(range(len(problem.models)), range(problem.chiplets))
    block.c2_apart_models = pyo.Constraint(list(pairs), rule=lambda b, m, c: b.begun[m, c] <= 1)


def c2_apart_runs(block: pyo.Block, problem: MultiProblem) -> None:
    """C2: of two runs on a chiplet one ends before the other begins, and this one before the first comes again.

    ``first[f, g, c]``: f before g. A run takes at most H.
    """
    rows, length = pyo.Constraint(pyo.Any), block.length
    block.c2_apart_runs = rows
    listed = list(combinations(range(len(block.frames)), 2))
    block.first = pyo.Var(listed, range(problem.chiplets), domain=pyo.Binary)
    for f, c in block.present:
        m = block.frames[f].m
        rows["alone", f, c] = block.span[m, c] <= length + block.longest[m] * (1 - block.present[f, c])
    for (f, g), c in product(listed, range(problem.chiplets)):
        look()
        of, within, present = (block.frames[f].m, block.frames[g].m), block.within, block.present
        most = length + max(block.longest[m] for m in of)
        free = most * (2 - present[f, c] - present[g, c])
        for a, b, first in ((f, g, block.first[f, g, c]), (g, f, 1 - block.first[f, g, c])):
            ends = within[a, c] + block.span[block.frames[a].m, c]
            again = within[b, c] + block.span[block.frames[b].m, c]
            rows["before", a, b, c] = ends <= within[b, c] + free + most * (1 - first)
            rows["again", a, b, c] = again <= within[a, c] + length + free + most * (1 - first)


def c7_order(block: pyo.Block, problem: MultiProblem) -> None:
    """C7: start[f, d] >= start[f, c] + span where the model moves from c to d; start >= release by its domain."""
    rows = block.c7_order = pyo.Constraint(pyo.Any)
    for f, (m, _, release, due) in enumerate(block.frames):
        most = due - release + block.longest[m]
        for c in range(problem.chiplets):
            look()
            for d in problem.neighbours[c]:
                ends = block.start_of[f, c] + block.span[m, c]
                rows[f, c, d] = ends <= block.start_of[f, d] + most * (2 - block.moved[m, c, d] - block.run[f])


def c8_follow(block: pyo.Block, problem: MultiProblem) -> None:
    """C8: run[g] <= run[f], and start[g, d] >= start[f, c] + span, where g comes after f."""
    rows, ahead = pyo.Constraint(pyo.Any), ahead_of(problem.instance)
    block.c8_follow = rows
    at = {frame[:2]: f for f, frame in enumerate(block.frames)}
    for g, (m, number, release, _) in enumerate(block.frames):
        before = ahead[m]
        if before is None:
            continue
        f = at[before, number]
        rows[g] = block.run[g] <= block.run[f]
        most = max(0, block.frames[f].due - release) + block.longest[before]
        for c, d in product(range(problem.chiplets), repeat=2):
            look()
            free = most * (2 - block.present[f, c] - block.present[g, d])
            rows[g, c, d] = block.start_of[f, c] + block.span[before, c] <= block.start_of[g, d] + free


def t2_energy_frames(block: pyo.Block, problem: MultiProblem) -> None:
    """T2 = Σ over frames that are run of their model's layers, weights and transfers, in units of ``energy_unit``."""
    scale, each = block.energy_unit, []
    for m, model in enumerate(problem.models):
        parts = []
        for k, c in product(range(model.layers), range(problem.chiplets)):
            key = m, k, 0, c
            parts.append(int(model.run_energy[k, c]) / scale * block.x[key])
            parts.append(int(model.read_energy[k, c]) / scale * block.start[key])
            parts.append(int(model.write_energy[k, c]) / scale * block.end[key])
            for d in problem.neighbours[c] if k < model.layers - 1 else ():
                parts.append(int(model.send_energy[k]) / scale * block.move[(*key, d)])
        each.append(pyo.quicksum(parts))
    most = problem.most_energy / scale
    block.spent = pyo.Var(range(len(block.frames)), bounds=(0, most))
    block.t2_energy_frames = pyo.Constraint(
        range(len(block.frames)), rule=lambda b, f: b.spent[f] >= each[b.frames[f].m] - most * (1 - b.run[f])
    )


def c4_limits_frames(block: pyo.Block, problem: MultiProblem) -> None:
    """C4: start + span <= deadline of each run, and T2 below its limit."""
    rows, limit = pyo.Constraint(pyo.Any), problem.instance.task.energy_limit_pj
    block.c4_limits_frames = rows
    for f, c in block.present:
        m, _, _, due = block.frames[f]
        late = block.longest[m] * (1 - block.present[f, c])
        rows[f, c] = block.start_of[f, c] + block.span[m, c] <= due + late
    if limit is not None:
        rows["T2"] = pyo.quicksum(block.spent.values()) <= limit / block.energy_unit


def t3_dropped(block: pyo.Block, problem: MultiProblem) -> Any:
    """T3 = Σ weight · (1 - run)."""
    models = problem.instance.models
    return pyo.quicksum(models[frame.m].frame_weight * (1 - block.run[f]) for f, frame in enumerate(block.frames))
