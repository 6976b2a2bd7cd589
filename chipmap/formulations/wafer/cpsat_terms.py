"""What a floorplan costs, for CP-SAT: time, wires, adapters, and the cuts on wires."""

from __future__ import annotations

from typing import Any

from ortools.sat.python import cp_model

from chipmap.formulations.wafer.choices import triangle_length, triangles
from chipmap.formulations.wafer.cpsat_boxes import Builder
from chipmap.instances.wafer.problem import to_side


def t1_time(builder: Builder) -> Any:
    """T1: time >= the time of every kernel's option, in quarters (a given tau: that)."""
    sizing = builder.sizing
    if sizing.choices.tau is not None:
        return sizing.choices.tau
    levels = sorted({option.time for chosen in sizing.options for option in chosen if option.time >= sizing.earliest})
    domain = cp_model.Domain.from_values(levels or [sizing.earliest])
    time = builder.model.new_int_var_from_domain(domain, f"{builder.prefix}time")
    for v, chosen in enumerate(sizing.options):
        if any(option.time > sizing.earliest for option in chosen):
            builder.model.add(time >= builder.picked(v, [option.time for option in chosen]))
    return time


def t2_wire(builder: Builder) -> list[Any]:
    """T2: for each edge the distance of the centres in half tiles, |2x + width - ...| + |2y + height - ...|."""
    problem, lengths = builder.problem, {}
    for u, v in problem.edges.tolist():
        pair = (min(u, v), max(u, v))
        if pair in lengths:
            continue
        parts = []
        for corner, sizes, extent, name in (
            (builder.x, builder.width, problem.width, "dx"),
            (builder.y, builder.height, problem.height, "dy"),
        ):
            distance = builder.integer(0, 2 * extent, f"{name}[{pair[0]},{pair[1]}]")
            difference = 2 * corner[u] + sizes[u] - 2 * corner[v] - sizes[v]
            builder.model.add(distance >= difference)
            builder.model.add(distance >= -difference)
            parts.append(distance)
        lengths[pair] = parts[0] + parts[1]
    return [lengths[min(u, v), max(u, v)] for u, v in problem.edges.tolist()]


def weighted(builder: Builder, wires: list[Any]) -> Any:
    """The wires of the edges times their traffic, and those to sides of the fabric."""
    problem = builder.problem
    total = [traffic * wire for traffic, wire in zip(problem.traffic.tolist(), wires, strict=True)]
    for v, side, traffic in problem.stubs.tolist():
        centre = (2 * builder.x[v] + builder.width[v], 2 * builder.y[v] + builder.height[v])
        total.append(traffic * to_side(problem, side, *centre))
    return sum(total)


def t3_adapters(builder: Builder) -> Any:
    """T3: for each edge 1[h differs] + 1[w differs] + 1[c_out of the producer differs from c_in of the consumer].

    For every value a: [label of u = a] - [label of v = a] <= differs, both ways. Left out at kernels with a table, and
    where adapters cost nothing: 0, and options don't keep their labels.
    """
    problem, total = builder.problem, []
    if problem.instance.weights.adapter == 0:
        return 0
    for e, (u, v) in enumerate(problem.edges.tolist()):
        if not (problem.convs[u] and problem.convs[v]):
            continue
        for name, ours, theirs in (("h", 0, 0), ("w", 1, 1), ("c", 3, 2)):
            left, right = builder.sizing.by_label(u, ours), builder.sizing.by_label(v, theirs)
            differs = builder.model.new_bool_var(f"{builder.prefix}adapter {name}[{e}]")
            for value in sorted(left.keys() | right.keys()):
                a = sum(builder.option[u][i] for i in left.get(value, ()))
                b = sum(builder.option[v][i] for i in right.get(value, ()))
                builder.model.add(a - b <= differs)
                builder.model.add(b - a <= differs)
            total.append(differs)
    return sum(total)


def cut_pairwise(builder: Builder, wires: list[Any]) -> None:
    """The wire of an edge is at least the sum of the shorter sides of its two boxes (half tiles)."""
    sides = [builder.picked(v, [option.thin for option in chosen]) for v, chosen in enumerate(builder.sizing.options)]
    for (u, v), wire in zip(builder.problem.edges.tolist(), wires, strict=True):
        builder.model.add(wire >= sides[u] + sides[v])


def cut_triangles(builder: Builder, wires: list[Any]) -> None:
    """The wires of three connected kernels are at least :func:`triangle_length` of their shorter sides."""
    joined = {frozenset(edge): wire for edge, wire in zip(builder.problem.edges.tolist(), wires, strict=True)}
    thinnest = builder.sizing.thinnest
    for a, b, c in triangles(builder.problem):
        length = joined[frozenset((a, b))] + joined[frozenset((b, c))] + joined[frozenset((a, c))]
        builder.model.add(length >= triangle_length([thinnest[a], thinnest[b], thinnest[c]]))
