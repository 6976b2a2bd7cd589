"""What all devices together may pay for cut nets below a target load, and the units that share a device for that.

Let A(d) be prices of devices, and w(u) the least A(d) · p(u, d) of unit u (``price_bound.py``). Where all loads are
below a target T, and X(d) is what device d pays for nets that are cut,

    Σ w(u) + Σ A(d) · X(d) <= Σ A(d) · (T - 1).

The *budget* is what that leaves for Σ A(d) · X(d). A net that is cut is paid by two devices at least (by one where the
other is a host). So a net that costs more than the budget isn't cut, and its units can be joined. And as all others pay
at least what device d pays, X(d) is at most the budget over A(d) plus the least price of the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chipmap.heuristics.placement.bounds.price_bound import costs, prices
from chipmap.instances.placement.load_graph import LoadGraph
from chipmap.instances.placement.problem import IntArray


@dataclass(frozen=True, eq=False)
class CutBudget:
    """``budget`` for Σ A(d) · X(d), and ``most`` [K]: what a device of each kind pays at most; ``price``: A [D], and
    ``work``: w [U].
    """

    budget: int
    least: int
    most: tuple[int, ...]
    price: IntArray
    work: IntArray


def cut_budget(graph: LoadGraph, target: int) -> CutBudget:
    """The budget of placements with loads below ``target``; ``least``: what cutting a net of 1 ns takes of it."""
    kind = graph.kind_of
    time, allowed = graph.time[:, kind], graph.allowed[:, kind]
    tried = [np.ones(len(kind), dtype=np.int64), prices(graph.problem, time, allowed)]
    found: CutBudget | None = None
    for price in tried:
        work = costs(time, allowed, price)
        budget = int(price.sum()) * (target - 1) - int(work.sum())
        paying = sorted(int(a) for a, k in zip(price, kind, strict=True) if graph.paying[k])
        hosts = len(kind) - len(paying)
        least = sum(paying[: 1 if hosts else 2])
        most = []
        for k, devices in enumerate(graph.kinds):
            own = int(price[devices[0]])
            other = 0 if hosts or len(paying) < 2 else paying[1] if own == paying[0] else paying[0]
            pays = graph.paying[k] and own + other > 0
            most.append(min(target - 1, max(-1, budget) // (own + other)) if pays else target - 1)
        one = CutBudget(budget, least, tuple(most), price, work)
        if found is None or one.budget * max(1, found.least) < found.budget * max(1, one.least):
            found = one
    assert found is not None
    return found


def joined_by_budget(graph: LoadGraph, target: int) -> LoadGraph:
    """``graph`` with the units of each net joined that no placement with loads below ``target`` can cut."""
    while graph.placeable:
        budget = cut_budget(graph, target)
        pairs = [
            (units[0], u)
            for units, cost, _ in graph.nets
            if cost * budget.least > budget.budget or cost >= target
            for u in units[1:]
        ]
        if not pairs or not budget.least:
            break
        graph = graph.joined(pairs)
    return graph
