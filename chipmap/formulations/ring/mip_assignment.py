"""Who sits where, in step variables: C0, C1, C2 and the window fixings."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyomo.environ as pyo

from chipmap.deadline import look
from chipmap.instances.ring.problem import RingProblem


def def_step(block: pyo.Block, problem: RingProblem) -> None:
    """Binary ``step[v, c]`` = [f(v) <= c], with step[v, c] <= step[v, c + 1] and step[v, C - 1] = 1 (fixed)."""
    last = problem.chips - 1
    step = block.step = pyo.Var(range(problem.n), range(problem.chips), domain=pyo.Binary)
    rows = block.def_step = pyo.Constraint(pyo.Any)
    for v in range(problem.n):
        step[v, last].fix(1)
        for c in range(last):
            look()
            rows[v, c] = step[v, c] <= step[v, c + 1]


def def_on(block: pyo.Block, problem: RingProblem) -> None:
    """``on[v, c]`` = [f(v) = c] = step[v, c] - step[v, c - 1] of computing operations; continuous."""
    computing = np.flatnonzero(problem.computing).tolist()
    step = block.step
    on = block.on = pyo.Var(computing, range(problem.chips), bounds=(0, 1))
    rows = block.def_on = pyo.Constraint(pyo.Any)
    for v in computing:
        rows[v, 0] = on[v, 0] == step[v, 0]
        for c in range(1, problem.chips):
            look()
            rows[v, c] = on[v, c] == step[v, c] - step[v, c - 1]


def def_windows(block: pyo.Block, problem: RingProblem, windows: Mapping[int, tuple[int, int]]) -> None:
    """Fix step[v, c] to 0 below the window of v and to 1 from its end on, and ``on`` to 0 outside."""
    for v, (lo, hi) in windows.items():
        for c in range(problem.chips):
            if c < lo or c >= hi:
                block.step[v, c].fix(int(c >= hi))
            if not lo <= c <= hi and (v, c) in block.on:
                block.on[v, c].fix(0)


def c0_domain(block: pyo.Block, problem: RingProblem) -> None:
    """C0: on[v, c] = 0 where pins or forbidden chips leave c out."""
    rows = block.c0_domain = pyo.Constraint(pyo.Any)
    for v, chips in enumerate(problem.allowed):
        for c in set(range(problem.chips)) - chips if chips is not None else ():
            look()
            rows[v, c] = block.on[v, c] == 0


def c0_domain_together(block: pyo.Block, problem: RingProblem) -> None:
    """C0: step[u, c] = step[v, c] for u, v of one keep-together group."""
    rows = block.c0_domain_together = pyo.Constraint(pyo.Any)
    for g, group in enumerate(problem.groups):
        for v in group[1:]:
            look()
            for c in range(problem.chips - 1):
                rows[g, v, c] = block.step[group[0], c] == block.step[v, c]


def c0_domain_apart(block: pyo.Block, problem: RingProblem) -> None:
    """C0: Σ_v on[v, c] <= 1 over a group of which no two share a chip."""
    rows = block.c0_domain_apart = pyo.Constraint(pyo.Any)
    for g, group in enumerate(problem.apart):
        look()
        for c in range(problem.chips):
            rows[g, c] = pyo.quicksum(block.on[v, c] for v in group) <= 1


def c1_flow(block: pyo.Block, problem: RingProblem) -> None:
    """C1: step[u, c] >= step[v, c], that is f(u) <= f(v), on every edge of the graph (equation 2)."""
    step = block.step
    rows = block.c1_flow = pyo.Constraint(pyo.Any)
    for u, v in problem.edges.tolist():
        for c in range(problem.chips - 1):
            look()
            rows[u, v, c] = step[u, c] >= step[v, c]


def c2_no_skipping(block: pyo.Block, problem: RingProblem) -> None:
    """C2: the used chips are 0, …, K - 1 (equation 3).

    used[0] = 1, used[c] >= used[c + 1], used[c] <= Σ_v on[v, c] over computing v, and step[v, c - 1] + used[c] >= 1
    for every computing v: whoever isn't before chip c finds it in use. With C1, those that feed none speak for all.
    """
    computing = np.flatnonzero(problem.computing).tolist()
    if not computing:
        return
    step = block.step
    used = block.used = pyo.Var(range(problem.chips), bounds=(0, 1))
    used[0].fix(1)
    rows = block.c2_no_skipping = pyo.Constraint(pyo.Any)
    reach = block.c2_no_skipping_reach = pyo.Constraint(pyo.Any)
    inner = set(problem.flows[:, 0].tolist()) if problem.has("C1") else set()
    for c in range(problem.chips):
        look()
        rows["used", c] = used[c] <= pyo.quicksum(block.on[v, c] for v in computing)
        if c:
            rows["order", c] = used[c - 1] >= used[c]
            for v in computing:
                if v not in inner:
                    reach[v, c] = step[v, c - 1] + used[c] >= 1
