"""Objective throughput in the CP-SAT model of family ``placement``: blocks (C7) and loads (T2).

Statement: ``docs/families/placement-models.md``. Loads are whole ns.
"""

from __future__ import annotations

from typing import Any

from chipmap.formulations.placement.choices import edges, load_time, waits
from chipmap.formulations.placement.cpsat_builder import Builder


def c7_contiguous(builder: Builder) -> None:
    """C7: position(d) < position(e) where a forward operation on e reads one on d."""
    problem, model = builder.problem, builder.model
    position = [builder.integer(0, problem.devices - 1, f"position[{d}]") for d in range(problem.devices)]
    before = builder.before
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
        work = sum(builder.busy(v, e) for v, e in builder.x if e == d)
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


def def_under_way(builder: Builder) -> list[tuple[int, int, Any]]:
    """(s, d, literal): storage s, which a backward operation on device d reads, is held there for one more micro-batch
    under way. There are as many of these as devices stand on the longest way from d to the end."""
    problem, model = builder.problem, builder.model
    most, found = min(problem.instance.task.micro_batches, problem.devices), list[tuple[int, int, Any]]()
    if most == 1:
        return found
    levels = range(2, most + 1)
    way = {(d, k): builder.literal(f"under way[{d},{k}]") for d in range(problem.devices) for k in levels}
    for (d, e), before in builder.before.items():
        for k in levels:
            model.add_bool_or([~before, *([~way[e, k - 1]] if k > 2 else []), way[d, k]])
    for s, readers in waits(problem).items():
        for d in range(problem.devices):
            here = [builder.x[w, d] for w in readers if (w, d) in builder.x]
            for k in levels if here else ():
                again = builder.literal(f"again[{s},{d},{k}]")
                for x in here:
                    model.add_bool_or([~x, ~way[d, k], again])
                found.append((s, d, again))
    return found
