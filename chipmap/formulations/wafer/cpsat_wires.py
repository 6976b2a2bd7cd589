"""Sides that kernels border on and limits on lines in the CP-SAT models: C6 and C7."""

from __future__ import annotations

from typing import Any

from chipmap.formulations.wafer.cpsat_boxes import Builder


def c6_sides(builder: Builder) -> None:
    """C6: x <= 0, x + width >= W, y <= 0 or y + height >= H of a kernel that borders on a side."""
    problem = builder.problem
    for v, side in problem.touching:
        corner, sizes, extent = (
            (builder.x[v], builder.width[v], problem.width),
            (builder.y[v], builder.height[v], problem.height),
        )[side // 2]
        row = corner + sizes >= extent if side % 2 else corner <= 0
        builder.enforce("c6_sides", builder.model.add(row))


def c7_crossing(builder: Builder) -> None:
    """C7: for each line and kernel a literal that its centre lies behind, for each pair with an edge one that just one
    of the two does; the sum of the traffic of these, and of wires to sides, is at most the limit."""
    problem, model = builder.problem, builder.model
    for number, line in enumerate(problem.instance.crossing):
        axis = "xy".index(line.axis)
        corner, sizes = ((builder.x, builder.width), (builder.y, builder.height))[axis]
        behind: list[Any] = []
        for v in range(problem.n):
            behind.append(builder.literal(f"behind[{number},{v}]"))
            centre = 2 * corner[v] + sizes[v]
            model.add(centre >= 2 * line.at).only_enforce_if(behind[v])
            model.add(centre <= 2 * line.at - 1).only_enforce_if(~behind[v])
        crosses, total = dict[tuple[int, int], Any](), list[Any]()
        for (u, v), traffic in zip(problem.edges.tolist(), problem.traffic.tolist(), strict=True):
            pair = (min(u, v), max(u, v))
            if pair not in crosses:
                crosses[pair] = builder.literal(f"crosses[{number},{pair[0]},{pair[1]}]")
                model.add_bool_or([~behind[u], behind[v], crosses[pair]])
                model.add_bool_or([behind[u], ~behind[v], crosses[pair]])
            total.append(traffic * crosses[pair])
        for v, side, traffic in problem.stubs.tolist():
            if side // 2 == axis:
                total.append(traffic * (1 - behind[v] if side % 2 else behind[v]))
        builder.enforce("c7_crossing", model.add(sum(total) <= line.most))
