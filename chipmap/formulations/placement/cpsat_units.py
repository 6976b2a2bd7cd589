"""Throughput by units and nets in CP-SAT: made to refute loads below a known one.

x[u, d]: unit u is on device d; z[n, d]: net n is cut and device d touches it (see
:mod:`chipmap.instances.placement.load_graph`). With ``below`` the model holds only placements of a smaller load: units
that such a placement can't separate are joined, and a device that can't run a unit in that time isn't offered (mostly
the host). Equal devices are put in an order, kind by kind, so that no two placements differ by their names alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from chipmap.family import Scope
from chipmap.formulations.built import Built, Statement
from chipmap.instances.placement.instance import PlacementInstance, PlacementSolution
from chipmap.instances.placement.load_dominance import joined_by_dominance
from chipmap.instances.placement.load_graph import LoadGraph
from chipmap.instances.placement.problem import placement_problem
from chipmap.records import InputError

#: A unit is on one device, with all of its group (those apart by rows, :func:`c1_together_but_apart`).
BY_DOMAIN: tuple[str, ...] = ("C1",)
#: The share of all time from which on a unit is large: equal devices are told apart by their large units.
LARGE = 0.01


@dataclass(frozen=True, eq=False)
class UnitVariables:
    """What :func:`add_units` added: ``x[u, d]`` and ``cost``, T2 in ns, for the units of ``graph``."""

    graph: LoadGraph
    x: Mapping[tuple[int, int], Any]
    cost: Any
    statement: Statement

    def decode(self, value: Callable[[Any], float]) -> PlacementSolution:
        """The placement that the variables stand for."""
        of_unit = np.zeros(self.graph.units, dtype=np.int64)
        for (u, d), variable in self.x.items():
            if value(variable) > 0.5:
                of_unit[u] = d
        return self.graph.problem.solution(self.graph.devices_of(of_unit))

    def encode(self, solution: PlacementSolution) -> list[tuple[Any, float]] | None:
        """(variable, value) of a placement; None where it separates a unit or uses a device that isn't offered."""
        devices = self.graph.problem.devices_of(solution)
        for members in self.graph.members:
            if len({int(devices[v]) for v in members}) > 1:
                return None
        of_unit = [int(devices[members[0]]) for members in self.graph.members]
        of_unit = _in_order(self.graph, of_unit)
        if any((u, d) not in self.x for u, d in enumerate(of_unit)):
            return None
        return [(variable, float(of_unit[u] == d)) for (u, d), variable in self.x.items()]


def build(instance: PlacementInstance, below: int | None = None) -> Built:
    """The model of ``instance`` (objective throughput), of placements with a load below ``below``, minimising."""
    if instance.task.fetch_bytes_per_ns is not None:
        what = "placement/units doesn't choose what is fetched"
        raise InputError(what, "task.fetch_bytes_per_ns", "Take placement/cpsat or placement/mip.")
    model = cp_model.CpModel()
    model.name = instance.name
    variables = add_units(model, joined_by_dominance(placement_problem(instance), below), below)
    model.minimize(variables.cost)
    coders = variables.encode, variables.decode
    return Built("cpsat", instance, model, variables.statement, Scope.WHOLE, *coders, variables)


def add_units(model: cp_model.CpModel, graph: LoadGraph, below: int | None = None, prefix: str = "") -> UnitVariables:
    """Add the units of ``graph`` to ``model``, without an objective."""
    most = int(graph.time.max(axis=1, initial=0).sum()) + sum(cost for _, cost, _ in graph.nets)
    most = most if below is None else min(most, below - 1)
    kinds = [(k, d) for k, devices in enumerate(graph.kinds) for d in devices]
    x = {
        (u, d): model.new_bool_var(f"{prefix}x[{u},{d}]")
        for u in range(graph.units)
        for k, d in kinds
        if graph.allowed[u, k] and graph.time[u, k] <= most
    }
    state = Statement(*BY_DOMAIN)
    state(c0_domain_of_units, model, graph, x)
    state(c1_together_but_apart, model, graph, x)
    z = def_cut(model, graph, x, prefix)
    cost = model.new_int_var(0, max(0, most), f"{prefix}load")
    state(t2_load_of_units, model, graph, x, z, cost)
    if graph.problem.instance.task.contiguous:
        state(c7_contiguous_units, model, graph, x, prefix)
    else:
        sym_first_units(model, graph, x)
    state(c6_memory_of_units, model, graph, x, prefix)
    return UnitVariables(graph, x, cost, state)


def c0_domain_of_units(model: cp_model.CpModel, graph: LoadGraph, x: Mapping[tuple[int, int], Any]) -> None:
    """C0: each unit is on one of the devices that it may run on."""
    for u in range(graph.units):
        model.add_exactly_one(x[u, d] for devices in graph.kinds for d in devices if (u, d) in x)


def c1_together_but_apart(model: cp_model.CpModel, graph: LoadGraph, x: Mapping[tuple[int, int], Any]) -> None:
    """C1: at most one unit on a device of those with operations that are to be apart; none in one unit."""
    unit = {v: u for u, members in enumerate(graph.members) for v in members}
    for group in graph.problem.apart:
        units = [unit[v] for v in group]
        if len(set(units)) < len(units):
            model.add_bool_or([])
        for d in range(graph.problem.devices):
            model.add_at_most_one(x[u, d] for u in set(units) if (u, d) in x)


def def_cut(
    model: cp_model.CpModel, graph: LoadGraph, x: Mapping[tuple[int, int], Any], prefix: str
) -> dict[tuple[int, int], Any]:
    """z[n, d] where one unit of net n is on d and another isn't (minimising, z needs no other side)."""
    z: dict[tuple[int, int], Any] = {}
    for n, (units, cost, _) in enumerate(graph.nets):
        for k, devices in enumerate(graph.kinds):
            for d in devices if cost and graph.paying[k] else ():
                if not any((u, d) in x for u in units):
                    continue
                z[n, d] = model.new_bool_var(f"{prefix}z[{n},{d}]")
                one = units[0]  # all units are on the side of the first one, or the net is cut
                for other in units[1:]:
                    here, there = x.get((one, d)), x.get((other, d))
                    if here is not None:
                        model.add_bool_or([~here, z[n, d], *([there] if there is not None else [])])
                    if there is not None:
                        model.add_bool_or([~there, z[n, d], *([here] if here is not None else [])])
    return z


def t2_load_of_units(
    model: cp_model.CpModel,
    graph: LoadGraph,
    x: Mapping[tuple[int, int], Any],
    z: Mapping[tuple[int, int], Any],
    cost: Any,
) -> None:
    """T2 >= Σ p + Σ c of each device (with ``overlap`` each sum by itself)."""
    work: dict[int, list[Any]] = {d: [] for devices in graph.kinds for d in devices}
    moved: dict[int, list[Any]] = {d: [] for d in work}
    kind = graph.kind_of
    for (u, d), variable in x.items():
        work[d].append(int(graph.time[u, kind[d]]) * variable)
    for (n, d), variable in z.items():
        moved[d].append(graph.nets[n][1] * variable)
    for d in work:
        if graph.problem.instance.task.overlap:
            model.add(cost >= sum(work[d]))
            model.add(cost >= sum(moved[d]))
        else:
            model.add(cost >= sum(work[d]) + sum(moved[d]))


def sym_first_units(model: cp_model.CpModel, graph: LoadGraph, x: Mapping[tuple[int, int], Any]) -> None:
    """Equal devices open in the order of their first large units: one of these on device i + 1 of a kind needs an
    earlier one on device i. Neighbours in the graph then tend to open devices that follow each other."""
    for devices in graph.kinds:
        for before, d in pairwise(devices):
            earlier: list[Any] = []
            for u in _large(graph):
                if (u, d) in x:
                    model.add_bool_or([~x[u, d], *earlier])
                if (u, before) in x:
                    earlier.append(x[u, before])


def _large(graph: LoadGraph) -> list[int]:
    """The units that take :data:`LARGE` of all time or more, in the order of the graph."""
    least = graph.time.min(axis=1)
    return [u for u in range(graph.units) if least[u] >= LARGE * least.sum()]


def c7_contiguous_units(
    model: cp_model.CpModel, graph: LoadGraph, x: Mapping[tuple[int, int], Any], prefix: str
) -> None:
    """C7: devices have positions, and no unit is before one that it reads; equal devices by their numbers."""
    count, of = graph.problem.devices, graph.kind_of
    position = [model.new_int_var(0, count - 1, f"{prefix}position[{d}]") for d in range(count)]
    for devices in graph.kinds:
        for d, e in pairwise(devices):
            model.add(position[d] + 1 <= position[e])
    before: dict[tuple[int, int], Any] = {}
    for d in range(count):
        for e in range(count):
            if of[d] != of[e]:
                before[d, e] = model.new_bool_var(f"{prefix}before[{d},{e}]")
                model.add(position[d] + 1 <= position[e]).only_enforce_if(before[d, e])
    for u, v in sorted(graph.before):
        for e in range(count):
            if (v, e) not in x:
                continue
            behind = [x[u, d] for d in range(count) if (u, d) in x and (of[d] != of[e] or d <= e)]
            model.add_bool_or([~x[v, e], *behind])
            for d in range(count):
                if (d, e) in before and (u, d) in x:
                    model.add_bool_or([~x[u, d], ~x[v, e], before[d, e]])


def c6_memory_of_units(
    model: cp_model.CpModel, graph: LoadGraph, x: Mapping[tuple[int, int], Any], prefix: str
) -> None:
    """C6 (static): bytes of the units of a device, and of the nets that it touches."""
    for k, devices in enumerate(graph.kinds):
        for d in devices if graph.memory[k] >= 0 else ():
            held = [int(graph.bytes[u]) * variable for (u, e), variable in x.items() if e == d]
            for n, (units, _, size) in enumerate(graph.nets):
                if size:
                    touched = model.new_bool_var(f"{prefix}touched[{n},{d}]")
                    for u in units:
                        if (u, d) in x:
                            model.add_implication(x[u, d], touched)
                    held.append(size * touched)
            model.add(sum(held) <= int(graph.memory[k]))


def _in_order(graph: LoadGraph, of_unit: list[int]) -> list[int]:
    """The same placement with equal devices in the order that the model asks for."""
    order = _large(graph)
    if graph.problem.instance.task.contiguous:
        rank = _depths(graph, of_unit)
        order = sorted(range(graph.units), key=lambda u: rank[of_unit[u]])
    renamed: dict[int, int] = {}
    for devices in graph.kinds:
        met = [d for d in dict.fromkeys(of_unit[u] for u in order) if d in devices]
        renamed |= dict(zip([*met, *(d for d in devices if d not in met)], devices, strict=True))
    return [renamed[d] for d in of_unit]


def _depths(graph: LoadGraph, of_unit: list[int]) -> dict[int, int]:
    """For each device how many devices in a row it has to come behind (C7)."""
    pairs = {(of_unit[u], of_unit[v]) for u, v in graph.before if of_unit[u] != of_unit[v]}
    depth = dict.fromkeys(of_unit, 0)
    for _ in depth:
        for d, e in pairs:
            depth[e] = max(depth[e], depth[d] + 1)
    return depth
