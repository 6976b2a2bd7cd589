"""One device of a throughput instance by itself, in CP-SAT: what it pays at least for nets that are cut.

Units S are on the device. It pays for the nets that have units in S and others. What is minimised is that sum, where
the time of S and the sum together stay below a load, and S holds at least so much work.
"""

from __future__ import annotations

from ortools.sat.python import cp_model

from chipmap.family import Scope
from chipmap.formulations.built import Built, Statement
from chipmap.instances.placement.load_graph import LoadGraph
from chipmap.instances.placement.problem import IntArray

#: A unit is on one side, with all of its group.
BY_DOMAIN: tuple[str, ...] = ("C1",)


def build_device(graph: LoadGraph, kind: int, below: int, work: IntArray, least: int) -> Built:
    """The model of a device of a kind: Σ time + Σ cut < ``below``, and Σ ``work`` [U] of its units >= ``least``."""
    model = cp_model.CpModel()
    inside = [model.new_bool_var(f"inside[{u}]") for u in range(graph.units)]
    paid = []
    for n, (units, cost, _) in enumerate(graph.nets):
        if not cost:
            continue
        cut = model.new_bool_var(f"cut[{n}]")
        for other in units[1:]:  # all units are on the side of the first one, or the net is cut
            model.add_bool_or([~inside[units[0]], inside[other], cut])
            model.add_bool_or([inside[units[0]], ~inside[other], cut])
        paid.append(cost * cut)
    for u in range(graph.units):
        if not graph.allowed[u, kind]:
            model.add(inside[u] == 0)
    unit = {v: u for u, members in enumerate(graph.members) for v in members}
    for group in graph.problem.apart:
        model.add_at_most_one(inside[u] for u in {unit[v] for v in group})
    model.add(sum(int(graph.time[u, kind]) * inside[u] for u in range(graph.units)) + sum(paid) <= below - 1)
    model.add(sum(int(work[u]) * inside[u] for u in range(graph.units)) >= least)
    model.minimize(sum(paid))
    statement, instance = Statement(*BY_DOMAIN), graph.problem.instance
    return Built("cpsat", instance, model, statement, Scope.QUESTION, lambda _: None, lambda _: None)
