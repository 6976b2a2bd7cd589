"""Objective throughput in the CP-SAT model of family ``placement``: blocks (C7) and loads (T2).

Statement: ``docs/families/placement-models.md``. Loads are whole ns.
"""

from __future__ import annotations

from typing import Any

from chipmap.formulations.placement.choices import edges, load_time
from chipmap.formulations.placement.cpsat_builder import Builder


def c7_contiguous(builder: Builder) -> None:
    """C7: position(d) < position(e) where a forward operation on e reads one on d."""
    problem, model = builder.problem, builder.model
    position = [builder.integer(0, problem.devices - 1, f"position[{d}]") for d in range(problem.devices)]
    before: dict[tuple[int, int], Any] = {}
    for d in range(problem.devices):
        for e in range(problem.devices):
            if d != e:
                before[d, e] = builder.literal(f"before[{d},{e}]")
                builder.implied("c7_contiguous", [before[d, e]], model.add(position[d] + 1 <= position[e]))
    for _, u, w in edges(problem):
        if u in problem.backward or w in problem.backward:
            continue
        for (d, e), literal in before.items():
            if (u, d) in builder.x and (w, e) in builder.x:
                model.add_bool_or([~builder.x[u, d], ~builder.x[w, e], literal])


def t2_load(builder: Builder) -> None:
    """T2 >= Σ p + Σ c of each device (with ``overlap`` each sum by itself): c of what it receives, and once of what it
    sends."""
    problem, model = builder.problem, builder.model
    builder.cost = builder.integer(0, builder.most, "load")
    crossing = {}
    for s in range(len(problem.storages)):
        sent = [literal for (t, _), literal in builder.sent.items() if t == s]
        if sent:
            crossing[s] = builder.literal(f"crosses[{s}]")
            model.add_max_equality(crossing[s], sent)
    for d in range(problem.devices):
        work = sum(int(problem.time[v, d]) * x for (v, e), x in builder.x.items() if e == d)
        moved = []
        for s in range(len(problem.storages)) if problem.paying[d] else ():
            if (s, d) in builder.sent:
                moved.append(load_time(problem, s) * builder.sent[s, d])
            home = builder.on(int(problem.storages.producer[s]), d)
            if home is not False and s in crossing:
                out = builder.literal(f"out[{s},{d}]")
                model.add_bool_or([~home, ~crossing[s], out])
                model.add_implication(out, home)
                model.add_implication(out, crossing[s])
                moved.append(load_time(problem, s) * out)
        if problem.instance.task.overlap:
            model.add(builder.cost >= work)
            model.add(builder.cost >= sum(moved))
        else:
            model.add(builder.cost >= work + sum(moved))
