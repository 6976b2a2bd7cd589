"""What moves between chips, and the objective: T1 and T2."""

from __future__ import annotations

import numpy as np
import pyomo.environ as pyo

from chipmap.instances.ring.precedence import last_readers
from chipmap.instances.ring.problem import RingProblem


def def_link(block: pyo.Block, problem: RingProblem) -> None:
    """``link[t, c]`` >= step[u, c] - step[v, c] for producer u and every reader v: storage t crosses link c -> c + 1.

    Continuous. ``link_load[c]``: ticks on link c. With C1, the readers that no other reader follows suffice.
    """
    step = block.step
    paid = [t for t, storage in enumerate(problem.storages) if storage.ticks]
    links = range(problem.chips - 1)
    link = block.link = pyo.Var(paid, links, bounds=(0, 1))
    rows = block.def_link = pyo.Constraint(pyo.Any)
    for t in paid:
        u = problem.storages[t].producer
        for v in last_readers(problem, problem.storages[t].readers):
            for c in links:
                rows[t, v, c] = link[t, c] >= step[u, c] - step[v, c]
    block.link_load = pyo.Expression(
        links, rule=lambda _, c: pyo.quicksum(problem.storages[t].ticks * link[t, c] for t in paid)
    )


def def_cross(block: pyo.Block, problem: RingProblem) -> None:
    """``cross[t, c]`` >= |on[u, c] - on[v, c]| for producer u and every reader v: storage t crosses c's boundary."""
    on = block.on
    moved = [t for t, storage in enumerate(problem.storages) if storage.ticks or storage.bytes]
    cross = block.cross = pyo.Var(moved, range(problem.chips), bounds=(0, 1))
    rows = block.def_cross = pyo.Constraint(pyo.Any)
    for t in moved:
        u = problem.storages[t].producer
        for v in problem.storages[t].readers:
            for c in range(problem.chips):
                rows[t, u, v, c] = cross[t, c] >= on[u, c] - on[v, c]
                rows[t, v, u, c] = cross[t, c] >= on[v, c] - on[u, c]


def def_work(block: pyo.Block, problem: RingProblem) -> None:
    """``chip_work[c]`` = Σ_v time(v) · on[v, c], in ticks."""
    busy = [(v, int(problem.ticks[v])) for v in np.flatnonzero(problem.ticks).tolist()]
    block.chip_work = pyo.Expression(
        range(problem.chips), rule=lambda _, c: pyo.quicksum(ticks * block.on[v, c] for v, ticks in busy)
    )


def t1_chip(block: pyo.Block, problem: RingProblem, scale: int) -> None:
    """T1 >= what each chip takes: its work, and in modes ``sum`` and ``sum_forward`` the transfers that it pays."""
    rows = block.t1_chip = pyo.Constraint(pyo.Any)
    for c in range(problem.chips):
        parts = [(int(problem.ticks[v]), block.on[v, c]) for v in np.flatnonzero(problem.ticks).tolist()]
        if problem.cost_mode == "sum":
            parts += [(s.ticks, block.cross[t, c]) for t, s in enumerate(problem.storages) if s.ticks]
        if problem.cost_mode == "sum_forward":
            ends = [link for link in (c - 1, c) if 0 <= link < problem.chips - 1]
            parts += [(s.ticks, block.link[t, e]) for t, s in enumerate(problem.storages) if s.ticks for e in ends]
        rows[c] = pyo.quicksum(ticks / scale * variable for ticks, variable in parts) <= block.slowest["T1"]


def t2_link(block: pyo.Block, problem: RingProblem, scale: int) -> None:
    """T2 >= the load of each link in mode ``period``; T2 = 0 in the others."""
    if problem.cost_mode != "period":
        block.slowest["T2"].fix(0)
        return
    rows = block.t2_link = pyo.Constraint(pyo.Any)
    paid = [(t, storage.ticks) for t, storage in enumerate(problem.storages) if storage.ticks]
    for c in range(problem.chips - 1) if paid else ():
        load = pyo.quicksum(ticks / scale * block.link[t, c] for t, ticks in paid)
        rows[c] = load <= block.slowest["T2"]
