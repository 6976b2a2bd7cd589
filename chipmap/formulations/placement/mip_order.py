"""Precedence and disjunctions of the MIP of family ``placement`` (objective ``step_time``): C2 to C5 and T1.

A row that holds only if some binaries are 1 has a big M: the most that T1 may be, and what a gap adds.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pyomo.environ as pyo

from chipmap.deadline import look
from chipmap.formulations.placement.choices import edges, send_time
from chipmap.instances.placement.problem import PlacementProblem


def c2_order(block: pyo.Block, problem: PlacementProblem) -> None:
    """C2: start(w) >= end(u) where reader w and producer u share a device d: unless x[u, d] or x[w, d] is 0."""
    rows = block.c2_order = pyo.Constraint(pyo.Any)
    for s, u, w in edges(problem):
        for d in range(problem.devices):
            look()
            if (u, d) in block.x and (w, d) in block.x:
                slack = 2 - block.x[u, d] - block.x[w, d]
                rows[s, w, d] = block.start[w] >= block.end[u] - block.most * slack


def c3_transfer(block: pyo.Block, problem: PlacementProblem) -> None:
    """C3: no transfer without a route; at >= end(u) and start(w) >= at + c, where the transfer takes place."""
    rows, most = pyo.Constraint(pyo.Any), block.most
    block.c3_transfer = rows
    for s, a, d in block.route:
        time, route = send_time(problem, s, a, d), block.route[s, a, d]
        if time is None:
            rows[s, a, d] = route == 0
            continue
        rows[s, a, d] = block.at[s, d] >= block.end[int(problem.storages.producer[s])] - most * (1 - route)
        length = time / block.time_unit
        for w in problem.storages.read_by(s):
            look()
            if (w, d) in block.x:
                slack = (most + length) * (2 - route - block.x[w, d])
                rows[s, a, d, w] = block.start[w] >= block.at[s, d] + length - slack


def c4_device(block: pyo.Block, problem: PlacementProblem) -> None:
    """C4: first[u, v] + first[v, u] >= 1 if u and v share a device; start(v) >= end(u) + gap if u is first there."""
    pairs = [
        (u, v, d)
        for u, v in combinations(range(problem.operations), 2)
        for d in range(problem.devices)
        if _running(block, problem, u, d) is not None and _running(block, problem, v, d) is not None
    ]
    block.first = pyo.Var(sorted({key for u, v, _ in pairs for key in ((u, v), (v, u))}), domain=pyo.Binary)
    rows = block.c4_device = pyo.Constraint(pyo.Any)
    for u, v, d in pairs:
        there = _running(block, problem, u, d) + _running(block, problem, v, d)
        rows[u, v, d] = block.first[u, v] + block.first[v, u] >= there - 1
        gap = int(problem.gap[d]) / block.time_unit
        for a, b in ((u, v), (v, u)):
            look()
            slack = (block.most + gap) * (3 - block.first[a, b] - there)
            rows[a, b, d, "behind"] = block.start[b] >= block.end[a] + gap - slack


def _running(block: pyo.Block, problem: PlacementProblem, v: int, d: int) -> Any:
    """[operation v takes time on device d]: x, or what fetches where it takes none by itself; None if it never does."""
    if (v, d) in block.x and problem.time[v, d] > 0:
        return block.x[v, d]
    return block.fetches.get((v, d))


def c5_channel(block: pyo.Block, problem: PlacementProblem) -> None:
    """C5: as C4, for transfers that may share a channel, with c + gap."""
    held: dict[int, list[tuple[int, int, int, float]]] = {}
    for s, a, d in block.route:
        time = send_time(problem, s, a, d)
        size = 0.0 if time is None else (time + int(problem.network.gap[a, d])) / block.time_unit
        for channel in problem.network.held(a, d) if size else ():
            held.setdefault(channel, []).append((s, a, d, size))
    pairs = {}
    for listed in held.values():
        for one, other in combinations(listed, 2):
            if one[0] != other[0] or one[2] != other[2]:
                pairs[one[:3], other[:3]] = (one, other)
    keys = {key for one, other in pairs for key in ((one[0], one[2], other[0], other[2]),)}
    keys |= {(s, d, r, c) for r, c, s, d in keys}
    block.sooner = pyo.Var(sorted(keys), domain=pyo.Binary)
    rows = block.c5_channel = pyo.Constraint(pyo.Any)
    for number, (one, other) in enumerate(pairs.values()):
        there = block.route[one[:3]] + block.route[other[:3]]
        ends = ((one, other), (other, one))
        sooner = [block.sooner[a[0], a[2], b[0], b[2]] for a, b in ends]
        rows[number] = sooner[0] + sooner[1] >= there - 1
        for (a, b), binary in zip(ends, sooner, strict=True):
            look()
            slack: Any = (block.most + a[3]) * (3 - binary - there)
            rows[number, a[:3]] = block.at[b[0], b[2]] >= block.at[a[0], a[2]] + a[3] - slack


def t1_step(block: pyo.Block, problem: PlacementProblem) -> None:
    """T1 >= each end."""
    rows = block.t1_step = pyo.Constraint(pyo.Any)
    for v in range(problem.operations):
        look()
        rows[v] = block.step >= block.end[v]
