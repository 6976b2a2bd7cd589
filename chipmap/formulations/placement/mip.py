"""The MIP of family ``placement``, for both objectives, as one Pyomo block, alone or inside a larger model.

Statement: ``docs/families/placement-models.md``. Times are in units of ``block.time_unit`` ns, a power of
two that keeps coefficients small; nothing is rounded. Step time takes an order binary per pair of operations that may
share a device, so that the model is for some 30 operations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyomo.environ as pyo
from pyomo.common.gc_manager import PauseGC

from chipmap.deadline import look
from chipmap.family import Scope
from chipmap.formulations.built import Built, Statement, require_empty, stated, unit
from chipmap.formulations.placement.choices import (
    Decisions,
    PlacementChoices,
    edges,
    fetchings,
    horizon,
    most_load,
    placings,
    routes,
    sendings,
)
from chipmap.formulations.placement.mip_load import c7_contiguous, t2_load
from chipmap.formulations.placement.mip_memory import c6_memory
from chipmap.formulations.placement.mip_order import c2_order, c3_transfer, c4_device, c5_channel, t1_step
from chipmap.instances.placement.instance import PlacementInstance, PlacementSolution
from chipmap.instances.placement.problem import PlacementProblem, placement_problem


@dataclass(frozen=True)
class PlacementMipChoices(PlacementChoices):
    """As those of every model of the family."""


def build(
    instance: PlacementInstance, choices: PlacementMipChoices | Mapping[str, Any] = PlacementMipChoices()
) -> Built:
    """The MIP of ``instance``, minimising its objective in ticks."""
    chosen = stated(PlacementMipChoices, choices)
    model = pyo.ConcreteModel(name=instance.name)
    model.placement = pyo.Block()
    add_placement(model.placement, instance, chosen)
    model.objective = pyo.Objective(expr=model.placement.cost)
    decisions = decisions_of(model.placement, placement_problem(instance))
    statement = model.placement.statement
    return Built("mip", instance, model, statement, Scope.WHOLE, decisions.encode, decisions.decode)


def decisions_of(block: pyo.Block, problem: PlacementProblem) -> Decisions:
    """The decision variables of a block made by :func:`add_placement`."""
    start = {v: block.start[v] for v in range(problem.operations)} if problem.timed else {}
    at = {key: block.at[key] for key in block.sent} if problem.timed else {}
    x = {key: block.x[key] for key in block.x}
    return Decisions(problem, x, start, at, block.time_unit, fetch=block.fetches)


def decode(block: pyo.Block, instance: PlacementInstance, value: Callable[[Any], float]) -> PlacementSolution:
    """The placement that the variables of a block made by :func:`add_placement` stand for."""
    return decisions_of(block, placement_problem(instance)).decode(value)


def add_placement(
    block: pyo.Block, instance: PlacementInstance, choices: PlacementMipChoices = PlacementMipChoices()
) -> None:
    """Fill the empty ``block`` with the MIP of ``instance``, without an Objective.

    Afterwards the block has the binaries ``x[v, d]`` (operation v is on device d), with step time ``start[v]`` and
    ``at[s, d]`` (starts of operations and transfers, in units of ``time_unit`` ns), and the expression ``cost`` in
    ticks. ``statement`` has the labels that it states. Raises :class:`InputError` for a block in use.
    """
    require_empty(block, "add_placement")
    problem, state = placement_problem(instance), Statement()
    block.statement = state
    most = horizon(problem, choices.upper) if problem.timed else most_load(problem, choices.upper)
    block.time_unit = unit(most)
    block.most = most / block.time_unit
    with PauseGC():
        def_places(block, problem)
        def_fetch(block, problem)
        state(c0_domain, block, problem)
        state(c1_together, block, problem)
        if problem.timed:
            block.step = pyo.Var(bounds=(0, block.most))
            for function in (c2_order, c3_transfer, c4_device, c5_channel, t1_step):
                state(function, block, problem)
            def_cuts(block, problem, choices.cuts)
            block.cost = pyo.Expression(expr=block.time_unit * block.step)
        else:
            block.load = pyo.Var(bounds=(0, block.most))
            if instance.task.contiguous:
                state(c7_contiguous, block, problem)
            state(t2_load, block, problem)
            block.cost = pyo.Expression(expr=block.time_unit * block.load)
        if instance.task.memory != "none":
            state(c6_memory, block, problem)


def def_places(block: pyo.Block, problem: PlacementProblem) -> None:
    """x; sent[s, d] = [its producer isn't on d, a reader is]; route[s, a, d] = sent[s, d] · x[producer, a].

    With step time also ``at``.
    """
    storages = problem.storages
    block.x = pyo.Var(list(placings(problem)), domain=pyo.Binary)
    sent = list(sendings(problem))
    block.sent = pyo.Var(sent, bounds=(0, 1))
    block.route = pyo.Var([(s, a, d) for s, d in sent for a in routes(problem, s, d)], bounds=(0, 1))
    rows = block.def_sent = pyo.Constraint(pyo.Any)
    for s, d in sent:
        u = int(storages.producer[s])
        home = _placed(block, u, d)
        readers = [w for w in storages.read_by(s) if (w, d) in block.x]
        for w in readers:
            look()
            rows[s, d, w] = block.sent[s, d] >= block.x[w, d] - home
        rows[s, d, "readers"] = block.sent[s, d] <= pyo.quicksum(block.x[w, d] for w in readers)
        rows[s, d, "home"] = block.sent[s, d] <= 1 - home
    for s, a, d in block.route:
        look()
        made = block.x[int(storages.producer[s]), a]
        rows[s, a, d, "both"] = block.route[s, a, d] >= made + block.sent[s, d] - 1
        rows[s, a, d, "made"] = block.route[s, a, d] <= made
        rows[s, a, d, "sent"] = block.route[s, a, d] <= block.sent[s, d]
    if problem.timed:
        block.at = pyo.Var(sent, bounds=(0, block.most))


def def_fetch(block: pyo.Block, problem: PlacementProblem) -> None:
    """fetch[v, d]: operation v is on device d and fetches its weights, at most x[v, d]. ``busy[v, d]``: its time there.

    With step time also ``start`` and ``end`` = start + busy (an expression).
    """
    times = {(v, d): time / block.time_unit for v, d, time in fetchings(problem)}
    block.fetch = pyo.Var(list(times), domain=pyo.Binary)
    block.fetches = {key: block.fetch[key] for key in times}  # a Pyomo variable has no ``get``
    rows = block.def_fetch = pyo.Constraint(pyo.Any)
    for key in times:
        rows[key] = block.fetch[key] <= block.x[key]
    block.busy = {
        (v, d): int(problem.time[v, d]) / block.time_unit * x
        + (times[v, d] * block.fetch[v, d] if (v, d) in times else 0)
        for (v, d), x in block.x.items()
    }
    if problem.timed:
        operations = range(problem.operations)
        block.start = pyo.Var(operations, bounds=(0, block.most))
        block.end = pyo.Expression(
            operations,
            rule=lambda b, v: b.start[v] + pyo.quicksum(b.busy[v, d] for d in range(problem.devices) if (v, d) in b.x),
        )


def _placed(block: pyo.Block, v: int, d: int) -> Any:
    """x[v, d], or 0 where the device isn't allowed (a Pyomo variable has no ``get``)."""
    if (v, d) in block.x:
        return block.x[v, d]
    return 0


def c0_domain(block: pyo.Block, problem: PlacementProblem) -> None:
    """C0: Σ_d x[v, d] = 1 over the devices that are allowed. (Starts from 0 up to the limit are bounds.)"""
    rows = block.c0_domain = pyo.Constraint(pyo.Any)
    for v in range(problem.operations):
        look()
        rows[v] = pyo.quicksum(block.x[v, d] for d in range(problem.devices) if (v, d) in block.x) == 1


def c1_together(block: pyo.Block, problem: PlacementProblem) -> None:
    """C1: x[v, d] = x[w, d] for the operations of a group; Σ_v x[v, d] <= 1 over those that are to be apart."""
    rows = block.c1_together = pyo.Constraint(pyo.Any)
    for group in problem.groups:
        for v in group[1:]:
            look()
            for d in range(problem.devices):
                both = [_placed(block, w, d) for w in (group[0], v)]
                if not all(isinstance(one, int) for one in both):
                    rows[v, d] = both[0] - both[1] == 0
    for i, apart in enumerate(problem.apart):
        for d in range(problem.devices):
            here = [block.x[v, d] for v in apart if (v, d) in block.x]
            if len(here) > 1:
                rows["apart", i, d] = pyo.quicksum(here) <= 1


def def_cuts(block: pyo.Block, problem: PlacementProblem, cuts: tuple[str, ...]) -> None:
    """``load``: T1 >= Σ p of each device. ``path``: start(w) >= end(u) for each reader w of u."""
    if "load" in cuts:
        rows = block.cut_load = pyo.Constraint(pyo.Any)
        for d in range(problem.devices):
            look()
            work = [busy for (_, e), busy in block.busy.items() if e == d]
            if work:
                rows[d] = pyo.quicksum(work) <= block.step
    if "path" in cuts:
        rows = block.cut_path = pyo.Constraint(pyo.Any)
        for s, u, w in edges(problem):
            look()
            rows[s, w] = block.start[w] >= block.end[u]
