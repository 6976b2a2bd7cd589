"""The CP-SAT model of family ``placement``, for both objectives: optional intervals of operations and transfers.

Statement: ``docs/families/placement-models.md``. Times are whole ns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from chipmap.family import Scope
from chipmap.formulations.built import Built, Statement, stated
from chipmap.formulations.placement.choices import (
    Decisions,
    edges,
    send_time,
)
from chipmap.formulations.placement.cpsat_builder import PLAIN, Builder, PlacementCpChoices
from chipmap.formulations.placement.cpsat_load import c7_contiguous, def_under_way, t2_load
from chipmap.formulations.placement.narrowing import NearPlacements
from chipmap.instances.placement.instance import PlacementInstance, PlacementSolution
from chipmap.instances.placement.problem import placement_problem


@dataclass(frozen=True, eq=False)
class PlacementCpVariables:
    """What :func:`add_placement` added, for constraints and costs of your own.

    ``x[v, d]``: operation v is on device d; ``start[v]`` and ``sent[s, d]``: starts of operations and transfers in ns;
    ``cost`` in ticks (T1 or T2).
    """

    x: dict[tuple[int, int], Any]
    start: dict[int, Any]
    sent: dict[tuple[int, int], Any]
    cost: Any
    decisions: Decisions
    assumptions: dict[str, Any]
    statement: Statement

    def decode(self, value: Callable[[Any], float]) -> PlacementSolution:
        """The placement that the variables stand for."""
        return self.decisions.decode(value)


def build(instance: PlacementInstance, choices: PlacementCpChoices | Mapping[str, Any] = PLAIN) -> Built:
    """The CP-SAT model of ``instance``, minimising its objective in ticks."""
    chosen = stated(PlacementCpChoices, choices)
    model = cp_model.CpModel()
    model.name = instance.name
    variables = add_placement(model, instance, chosen)
    model.minimize(variables.cost)
    decisions = variables.decisions
    scope = Scope.WHOLE if chosen.near is None else Scope.SUBSET
    return Built("cpsat", instance, model, variables.statement, scope, decisions.encode, decisions.decode, variables)


def add_placement(
    model: cp_model.CpModel,
    instance: PlacementInstance,
    choices: PlacementCpChoices = PLAIN,
    prefix: str = "",
) -> PlacementCpVariables:
    """Add ``instance`` to ``model``, with ``prefix`` before its variables' names and without an objective."""
    problem = placement_problem(instance)
    if choices.near is not None:
        problem = choices.near.within(problem)
    builder, state = Builder(model, problem, prefix, choices), Statement()
    state(c0_domain, builder)
    def_sent(builder)
    state(c1_together, builder)
    if problem.timed:
        def_starts(builder)
        for function in (c2_order, c3_transfer, c4_device, c5_channel, t1_step):
            state(function, builder)
    else:
        if instance.task.contiguous:
            state(c7_contiguous, builder)
        state(t2_load, builder)
    if instance.task.memory != "none":
        state(c6_memory, builder)
    if choices.near is not None:
        def_near(builder, choices.near)
    decisions = Decisions(
        problem, builder.x, builder.start, builder.at, 1, builder.earliest, builder.leaders, builder.fetch
    )
    made = builder.x, builder.start, builder.at, builder.cost
    return PlacementCpVariables(*made, decisions, builder.assumptions, state)


def c0_domain(builder: Builder) -> None:
    """C0: Σ_d x[v, d] = 1 over the devices that are allowed. (Starts from 0 up to the limit are domains.)"""
    problem = builder.problem
    for v in range(problem.operations):
        here = [builder.x[v, d] for d in range(problem.devices) if (v, d) in builder.x]
        builder.enforce("c0_domain", builder.model.add(sum(here) == 1))


def def_near(builder: Builder, near: NearPlacements) -> None:
    """Σ over groups of C1 of 1 - x[its first operation, home] <= moves (local branching, Fischetti and Lodi 2003);
    |start(v) - its start| <= shift; start(w) >= end(v) + gap for neighbours in the order of what stays on a device."""
    problem, model = builder.problem, builder.model
    if near.moves is not None:
        first = [group[0] for group in problem.groups]
        stay = [builder.on(v, int(near.home[v])) for v in first]
        model.add(sum(stay) >= len(first) - near.moves)
    if near.start is None:
        return
    if near.shift is not None:
        for v, at in enumerate(near.start.tolist()):
            model.add_linear_constraint(builder.start[v], at - near.shift, at + near.shift)
    if near.ordered:
        stays = (problem.allowed.sum(axis=1) == 1) & (problem.time[np.arange(problem.operations), near.home] > 0)
        for d in range(problem.devices):
            here = np.flatnonzero(stays & (near.home == d))
            here = here[np.argsort(near.start[here], kind="stable")]
            for v, w in pairwise(here.tolist()):
                model.add(builder.start[w] >= builder.end[v] + int(problem.gap[d]))


def def_sent(builder: Builder) -> None:
    """sent[s, d] = [its producer isn't on d, a reader is]; route[s, a, d] = sent[s, d] and x[producer, a]."""
    problem, model = builder.problem, builder.model
    for (s, d), sent in builder.sent.items():
        home = builder.on(int(problem.storages.producer[s]), d)
        readers = [builder.x[w, d] for w in problem.storages.read_by(s) if (w, d) in builder.x]
        for reader in readers:
            model.add_bool_or([~reader, sent, *([home] if home is not False else [])])
        model.add_bool_or([~sent, *readers])
        if home is not False:
            model.add_implication(sent, ~home)
    for (s, a, d), route in builder.route.items():
        made = builder.x[int(problem.storages.producer[s]), a]
        model.add_bool_or([~made, ~builder.sent[s, d], route])
        model.add_implication(route, made)
        model.add_implication(route, builder.sent[s, d])


def c1_together(builder: Builder) -> None:
    """C1: x[v, d] = x[w, d] for the operations of a group; Σ_v x[v, d] <= 1 over those that are to be apart."""
    for group in builder.problem.groups:
        for v in group[1:]:
            for d in range(builder.problem.devices):
                one, other = builder.on(group[0], d), builder.on(v, d)
                if one is not False or other is not False:
                    builder.enforce("c1_together", builder.model.add(one == other))
    for apart in builder.problem.apart:
        for d in range(builder.problem.devices):
            here = [builder.x[v, d] for v in apart if (v, d) in builder.x]
            if len(here) > 1:
                builder.enforce("c1_together", builder.model.add(sum(here) <= 1))


def def_starts(builder: Builder) -> None:
    """start and end = start + p of each operation, and the start of each transfer, within their windows."""
    for v in range(builder.problem.operations):
        low, high = builder.window(v)
        builder.start[v] = builder.integer(low, high, f"start[{v}]")
        builder.end[v] = builder.integer(low, high, f"end[{v}]")
        builder.model.add(builder.end[v] == builder.start[v] + builder.time(v))
    for s, d in builder.sent:
        low = builder.earliest[s, d] = builder.window(int(builder.problem.storages.producer[s]))[0]
        builder.at[s, d] = builder.integer(low, builder.most, f"at[{s},{d}]")


def c2_order(builder: Builder) -> None:
    """C2: start(w) >= end(u) where reader w and producer u share a device."""
    for _, u, w in edges(builder.problem):
        if "path" in builder.cuts:
            builder.enforce("cut_path", builder.model.add(builder.start[w] >= builder.end[u]))
            continue
        for d in range(builder.problem.devices):
            if (u, d) in builder.x and (w, d) in builder.x:
                row = builder.model.add(builder.start[w] >= builder.end[u])
                builder.implied("c2_order", [builder.x[u, d], builder.x[w, d]], row)


def c3_transfer(builder: Builder) -> None:
    """C3: no transfer without a route; at >= end(u); start(w) >= at + c for its readers there."""
    problem, model = builder.problem, builder.model
    for (s, a, d), route in builder.route.items():
        time = send_time(problem, s, a, d)
        if time is None:
            builder.enforce("c3_transfer", model.add(route == 0))
            continue
        behind = model.add(builder.at[s, d] >= builder.end[int(problem.storages.producer[s])])
        builder.implied("c3_transfer", [route], behind)
        for w in problem.storages.read_by(s):
            if (w, d) in builder.x:
                row = model.add(builder.start[w] >= builder.at[s, d] + time)
                builder.implied("c3_transfer", [route, builder.x[w, d]], row)


def c4_device(builder: Builder) -> None:
    """C4: the intervals [start, start + p + gap) on a device don't overlap, where p > 0."""
    problem, model = builder.problem, builder.model
    for d in range(problem.devices):
        here = []
        for v in range(problem.operations):
            for literal, time in builder.runs(v, d) if (v, d) in builder.x else ():
                if time > 0:
                    size, name = time + int(problem.gap[d]), f"{builder.prefix}run[{v},{d},{time}]"
                    here.append(model.new_optional_fixed_size_interval_var(builder.start[v], size, literal, name))
        if len(here) > 1:
            builder.enforce("c4_device", model.add_no_overlap(here))
    parts: dict[int, list[Any]] = {}  # what shares a device runs one after the other, on whichever
    for v in range(problem.operations) if builder.narrowing is not None else ():
        size = int(problem.time[v].min())
        if size > 0:
            name = f"{builder.prefix}part[{v}]"
            parts.setdefault(builder.part[v], []).append(
                model.new_fixed_size_interval_var(builder.start[v], size, name)
            )
    for listed in parts.values():
        if len(listed) > 1:
            model.add_no_overlap(listed)


def c5_channel(builder: Builder) -> None:
    """C5: the intervals [at, at + c + gap) on a channel don't overlap, where c + gap > 0."""
    problem, model = builder.problem, builder.model
    held: dict[int, list[Any]] = {}
    for (s, a, d), route in builder.route.items():
        time = send_time(problem, s, a, d)
        size = 0 if time is None else time + int(problem.network.gap[a, d])
        for channel in problem.network.held(a, d) if size else ():
            name = f"{builder.prefix}hold[{s},{a},{d},{channel}]"
            held.setdefault(channel, []).append(
                model.new_optional_fixed_size_interval_var(builder.at[s, d], size, route, name)
            )
    for listed in held.values():
        if len(listed) > 1:
            builder.enforce("c5_channel", model.add_no_overlap(listed))


def t1_step(builder: Builder) -> None:
    """T1 >= each end; ``load``: T1 >= Σ p of each device."""
    problem = builder.problem
    known = builder.narrowing
    low = 0 if known is None else min(known.lower, builder.most)
    builder.cost = builder.integer(low, builder.most, "step")
    for v, end in builder.end.items():
        builder.model.add(builder.cost >= end + (0 if known is None else known.tail[v]))
    for d in range(problem.devices) if "load" in builder.cuts else ():
        work = sum(builder.busy(v, e) for v, e in builder.x if e == d)
        builder.enforce("cut_load", builder.model.add(builder.cost >= work))


def c6_memory(builder: Builder) -> None:
    """C6: what a device holds for the whole step, and with rule ``live`` what it holds at each time, fits."""
    problem, model = builder.problem, builder.model
    storages, live = problem.storages, problem.instance.task.memory == "live"
    homes, again = _freed(builder) if live else {}, def_under_way(builder)
    for d in range(problem.devices):
        memory = int(problem.memory[d])
        if memory < 0:
            continue
        intervals, demands = [], []
        held: list[Any] = [
            int(problem.weights[v]) * (x - builder.fetch.get((v, d), 0)) for (v, e), x in builder.x.items() if e == d
        ]
        buffer: Any = 0
        for v, literal in ((v, literal) for (v, e), literal in builder.fetch.items() if e == d):
            size = int(problem.weights[v])
            if live:
                ((_, time),) = (one for one in builder.runs(v, d) if one[0] is literal)
                name = f"{builder.prefix}fetched[{v},{d}]"
                intervals.append(model.new_optional_fixed_size_interval_var(builder.start[v], time, literal, name))
                demands.append(size)
            else:
                buffer = builder.integer(0, memory, f"buffer[{d}]") if isinstance(buffer, int) else buffer
                model.add(buffer >= size * literal)
        held.append(buffer)
        for k, (size, readers) in enumerate(problem.copies):
            copy = builder.literal(f"copy[{k},{d}]")
            for w in readers:
                if (w, d) in builder.x:
                    model.add_implication(builder.x[w, d], copy)
            held.append(size * copy)
        held += [int(storages.bytes[s]) * literal for s, e, literal in again if e == d]
        for s in range(len(storages)):
            size, home = int(storages.bytes[s]), builder.on(int(storages.producer[s]), d)
            sent = builder.sent.get((s, d), False)
            if home is not False and (not live or storages.resident[s]):
                held.append(size * home)
            elif home is not False and size:
                intervals.append(
                    _kept(builder, f"kept[{s},{d}]", builder.start[int(storages.producer[s])], homes[s], home)
                )
                demands.append(size)
            if sent is not False and not live:
                held.append(size * sent)
            elif sent is not False and size:
                until = builder.integer(0, builder.most, f"until[{s},{d}]")
                for w in storages.read_by(s):
                    if (w, d) in builder.x:
                        model.add(until >= builder.end[w]).only_enforce_if([sent, builder.x[w, d]])
                intervals.append(_kept(builder, f"copied[{s},{d}]", builder.at[s, d], until, sent))
                demands.append(size)
        free = builder.integer(0, memory, f"free[{d}]")
        builder.enforce("c6_memory", model.add(free + sum(held) == memory))
        if intervals:
            builder.enforce("c6_memory", model.add_cumulative(intervals, demands, free))


def _kept(builder: Builder, name: str, start: Any, end: Any, here: Any) -> Any:
    """The interval from ``start`` to ``end`` during which a device holds something, if ``here``."""
    size = builder.integer(0, builder.most, f"size of {name}")
    return builder.model.new_optional_interval_var(start, size, end, here, builder.prefix + name)


def _freed(builder: Builder) -> dict[int, Any]:
    """When the output of each storage is freed at home: behind its producer, its readers there, transfers out; outputs
    of the network at the end of the step."""
    problem, model, found = builder.problem, builder.model, dict[int, Any]()
    for s, u in enumerate(problem.storages.producer.tolist()):
        found[s] = builder.integer(0, builder.most, f"freed[{s}]")
        model.add(found[s] >= builder.end[u])
        if problem.storages.output[s]:
            model.add(found[s] >= builder.cost)
        for w in problem.storages.read_by(s):
            for d in range(problem.devices):
                if (u, d) in builder.x and (w, d) in builder.x:
                    model.add(found[s] >= builder.end[w]).only_enforce_if([builder.x[u, d], builder.x[w, d]])
    for (s, a, d), route in builder.route.items():
        if (time := send_time(problem, s, a, d)) is not None:
            model.add(found[s] >= builder.at[s, d] + time).only_enforce_if(route)
    return found
