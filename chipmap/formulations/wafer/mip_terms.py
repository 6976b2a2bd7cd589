"""What a floorplan costs in the MIP: time, wires, adapters, and the cuts on wires."""

from __future__ import annotations

from typing import Any

import pyomo.environ as pyo

from chipmap.deadline import look
from chipmap.formulations.wafer.choices import Sizing, triangle_length, triangles
from chipmap.formulations.wafer.mip_boxes import picked
from chipmap.instances.wafer.problem import to_side


def t1_time(block: pyo.Block, made: Sizing) -> Any:
    """T1: time >= Σ_i time of option i · option[v, i] for every kernel, in quarters (a given tau: that)."""
    if made.choices.tau is not None:
        return made.choices.tau
    block.time = pyo.Var(bounds=(made.earliest, made.latest))
    rows = block.t1_time = pyo.Constraint(pyo.Any)
    for v, chosen in enumerate(made.options):
        look()
        if any(option.time > made.earliest for option in chosen):
            rows[v] = block.time >= picked(block, v, [option.time for option in chosen])
    return block.time


def t2_wire(block: pyo.Block, made: Sizing) -> None:
    """T2: wire[e] = dx + dy in half tiles, with dx >= |2 x_u + width_u - 2 x_v - width_v| and dy alike."""
    edges = made.problem.edges.tolist()
    pairs = sorted({(min(edge), max(edge)) for edge in edges})
    block.distance = pyo.Var([(u, v, name) for u, v in pairs for name in "xy"], bounds=(0, None))
    rows = block.t2_wire = pyo.Constraint(pyo.Any)
    for u, v in pairs:
        for corner, sizes, name in ((block.x, block.width, "x"), (block.y, block.height, "y")):
            look()
            difference = 2 * corner[u] + sizes[u] - 2 * corner[v] - sizes[v]
            rows[u, v, name, "+"] = block.distance[u, v, name] >= difference
            rows[u, v, name, "-"] = block.distance[u, v, name] >= -difference
    block.wire = pyo.Expression(
        range(len(edges)), rule=lambda b, e: sum(b.distance[min(edges[e]), max(edges[e]), name] for name in "xy")
    )


def weighted(block: pyo.Block, made: Sizing) -> Any:
    """The wires of the edges times their traffic, and those to sides of the fabric."""
    problem = made.problem
    total = [traffic * block.wire[e] for e, traffic in enumerate(problem.traffic.tolist())]
    for v, side, traffic in problem.stubs.tolist():
        centre = (2 * block.x[v] + block.width[v], 2 * block.y[v] + block.height[v])
        total.append(traffic * to_side(problem, side, *centre))
    return pyo.quicksum(total)


def t3_adapters(block: pyo.Block, made: Sizing) -> Any:
    """T3: for each edge 1[h differs] + 1[w differs] + 1[c_out of the producer differs from c_in of the consumer].

    For every value a: [label of u = a] - [label of v = a] <= differs, both ways. Left out at kernels with a table, and
    where adapters cost nothing: 0, and options don't keep their labels.
    """
    if not made.labelled:
        return 0
    edges = made.problem.edges.tolist()
    labels = {"h": (0, 0), "w": (1, 1), "c": (3, 2)}
    block.adapter = pyo.Var(range(len(edges)), tuple(labels), bounds=(0, 1))
    rows = block.t3_adapters = pyo.Constraint(pyo.Any)
    for e, (u, v) in enumerate(edges):
        if not (made.problem.convs[u] and made.problem.convs[v]):
            continue
        for name, (ours, theirs) in labels.items():
            look()
            left, right = made.by_label(u, ours), made.by_label(v, theirs)
            for value in sorted(left.keys() | right.keys()):
                has = (block.option[u, i] for i in left.get(value, ()))
                difference = pyo.quicksum(has) - pyo.quicksum(block.option[v, i] for i in right.get(value, ()))
                rows[e, name, value, "+"] = difference <= block.adapter[e, name]
                rows[e, name, value, "-"] = -difference <= block.adapter[e, name]
    return pyo.quicksum(block.adapter.values())


def cut_pairwise(block: pyo.Block, made: Sizing) -> None:
    """The wire of an edge is at least the sum of the shorter sides of its two boxes (half tiles)."""
    rows = block.cut_pairwise = pyo.Constraint(pyo.Any)
    sides = [picked(block, v, [option.thin for option in chosen]) for v, chosen in enumerate(made.options)]
    for u, v in sorted({(min(edge), max(edge)) for edge in made.problem.edges.tolist()}):
        look()
        rows[u, v] = block.distance[u, v, "x"] + block.distance[u, v, "y"] >= sides[u] + sides[v]


def cut_triangles(block: pyo.Block, made: Sizing) -> None:
    """The wires of three connected kernels are at least :func:`triangle_length` of their shorter sides."""
    rows = block.cut_triangles = pyo.Constraint(pyo.Any)
    thinnest = made.thinnest
    for a, b, c in triangles(made.problem):
        look()
        length = pyo.quicksum(block.distance[u, v, name] for u, v in ((a, b), (b, c), (a, c)) for name in "xy")
        rows[a, b, c] = length >= triangle_length([thinnest[a], thinnest[b], thinnest[c]])
