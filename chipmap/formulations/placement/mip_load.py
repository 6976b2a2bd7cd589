"""Loads and blocks in the MIP of family ``placement`` (objective ``throughput``): T2 and C7."""

from __future__ import annotations

import pyomo.environ as pyo

from chipmap.deadline import look
from chipmap.formulations.placement.choices import edges, load_time
from chipmap.instances.placement.problem import PlacementProblem


def t2_load(block: pyo.Block, problem: PlacementProblem) -> None:
    """T2 >= Σ p + Σ c of each device (with ``overlap`` each sum by itself): c of what it receives, and once of what it
    sends. crosses[s] >= sent[s, d]; out[s, d] >= x[producer, d] + crosses[s] - 1.
    """
    scale, storages = block.time_unit, problem.storages
    block.crosses = pyo.Var(range(len(storages)), bounds=(0, 1))
    made = [
        (s, d) for s, u in enumerate(storages.producer.tolist()) for d in range(problem.devices) if (u, d) in block.x
    ]
    block.out = pyo.Var(made, bounds=(0, 1))
    defined, rows = pyo.Constraint(pyo.Any), pyo.Constraint(pyo.Any)
    block.def_out, block.t2_load = defined, rows
    for s, d in block.sent:
        look()
        defined[s, d, "crosses"] = block.crosses[s] >= block.sent[s, d]
    for s, d in made:
        look()
        defined[s, d] = block.out[s, d] >= block.x[int(storages.producer[s]), d] + block.crosses[s] - 1
    for d in range(problem.devices):
        look()
        work = pyo.quicksum(busy for (_, e), busy in block.busy.items() if e == d)
        moved = pyo.quicksum(
            load_time(problem, s) / scale * one[s, e]
            for one in ((block.sent, block.out) if problem.paying[d] else ())
            for s, e in one
            if e == d
        )
        if problem.instance.task.overlap:
            rows[d, "work"] = block.load >= work
            rows[d, "moved"] = block.load >= moved
        else:
            rows[d] = block.load >= work + moved


def c7_contiguous(block: pyo.Block, problem: PlacementProblem) -> None:
    """C7: position(d) + 1 <= position(e) where a forward operation on e reads one on d."""
    count = problem.devices
    pairs = [(d, e) for d in range(count) for e in range(count) if d != e]
    block.position = pyo.Var(range(count), bounds=(0, count - 1))
    block.before = pyo.Var(pairs, domain=pyo.Binary)
    rows = block.c7_contiguous = pyo.Constraint(pyo.Any)
    for d, e in pairs:
        look()
        rows[d, e] = block.position[d] + 1 <= block.position[e] + count * (1 - block.before[d, e])
    for s, u, w in edges(problem):
        for d, e in pairs:
            look()
            forward = u not in problem.backward and w not in problem.backward
            if forward and (u, d) in block.x and (w, e) in block.x:
                rows[s, w, d, e] = block.before[d, e] >= block.x[u, d] + block.x[w, e] - 1
