"""Pins, forbidden tiles and groups of kernels in the CP-SAT models: C4."""

from __future__ import annotations

from typing import Any

from ortools.sat.python import cp_model

from chipmap.formulations.wafer.cpsat_boxes import Builder


def c4_pins(builder: Builder) -> None:
    """C4: corners and sides of pins; a side of each rectangle on which the kernel is; pairs that touch, or don't."""
    instance = builder.problem.instance
    at = {name: v for v, name in enumerate(builder.problem.names)}
    for pin in instance.pins:
        v = at[pin.kernel]
        sides = (builder.x[v], builder.y[v], builder.width[v], builder.height[v])
        for variable, value in zip(sides, (pin.x, pin.y, pin.width, pin.height), strict=True):
            if value is not None:
                builder.enforce("c4_pins", builder.model.add(variable == value))
    for one in instance.forbidden:
        x, y, right, top = _box(builder, at[one.kernel])
        for r in one.rectangles:
            ways = [[right <= r.x], [x >= r.x + r.width], [top <= r.y], [y >= r.y + r.height]]
            builder.clause("c4_pins", [_if(builder, "beside", way) for way in ways])
    for group in instance.together:
        for i, name in enumerate(group[1:], start=1):
            pairs = ((at[name], at[other]) for other in group[:i])
            builder.clause("c4_pins", [literal for u, v in pairs for literal in _touching(builder, u, v)])
    for group in instance.apart:
        for i, name in enumerate(group):
            for other in group[:i]:
                builder.clause("c4_pins", _not_touching(builder, at[name], at[other]))


def _box(builder: Builder, v: int) -> tuple[Any, Any, Any, Any]:
    """Left, lower, right and upper edge of a kernel."""
    x, y = builder.x[v], builder.y[v]
    return x, y, x + builder.width[v], y + builder.height[v]


def _if(builder: Builder, name: str, rows: list[cp_model.BoundedLinearExpression | bool]) -> Any:
    """A literal under which all of ``rows`` hold."""
    literal = builder.literal(name)
    for row in rows:
        builder.model.add(row).only_enforce_if(literal)
    return literal


def _touching(builder: Builder, u: int, v: int) -> list[Any]:
    """A literal per side on which the kernels share a border of one tile at least."""
    a, b = _box(builder, u), _box(builder, v)
    level = [a[1] + 1 <= b[3], b[1] + 1 <= a[3]]
    above = [a[0] + 1 <= b[2], b[0] + 1 <= a[2]]
    ways = ([a[2] == b[0], *level], [b[2] == a[0], *level], [a[3] == b[1], *above], [b[3] == a[1], *above])
    return [_if(builder, f"touch[{u},{v}]", way) for way in ways]


def _not_touching(builder: Builder, u: int, v: int) -> list[Any]:
    """A literal per way to share no border: a gap on one side, or no more than a corner."""
    a, b = _box(builder, u), _box(builder, v)
    x, y = (a[2] <= b[0], b[2] <= a[0]), (a[3] <= b[1], b[3] <= a[1])
    gaps = (a[2] + 1 <= b[0], b[2] + 1 <= a[0], a[3] + 1 <= b[1], b[3] + 1 <= a[1])
    ways = [[gap] for gap in gaps] + [[across, up] for across in x for up in y]
    return [_if(builder, f"apart[{u},{v}]", way) for way in ways]
