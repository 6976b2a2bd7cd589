"""Pins, forbidden tiles, groups of kernels and tiles that are kept free in the MIP: C4 and C5."""

from __future__ import annotations

from typing import Any

import pyomo.environ as pyo

from chipmap.deadline import look
from chipmap.formulations.wafer.choices import Sizing
from chipmap.instances.wafer.holes import obstacles

#: A row: expression <= 0.
Row = Any


def c4_pins(block: pyo.Block, made: Sizing) -> None:
    """C4: corners and sides of pins; a side of each rectangle on which the kernel is; pairs that touch, or don't.

    One binary per way, at least one of them 1; a row of a way is slack by M · (1 - binary), M above any coordinates.
    """
    instance = made.problem.instance
    at = {name: v for v, name in enumerate(made.problem.names)}
    rows = block.c4_pins = pyo.Constraint(pyo.Any)
    ways = block.c4_ways = pyo.Var(pyo.Any, domain=pyo.Binary, dense=False)
    boxes = [_box(block, v) for v in range(made.problem.n)]
    for i, pin in enumerate(instance.pins):
        v = at[pin.kernel]
        sides = (block.x[v], block.y[v], block.width[v], block.height[v])
        for side, (expression, value) in enumerate(zip(sides, (pin.x, pin.y, pin.width, pin.height), strict=True)):
            if value is not None:
                rows["pin", i, side] = expression == value
    for i, one in enumerate(instance.forbidden):
        x, y, right, top = boxes[at[one.kernel]]
        for j, r in enumerate(one.rectangles):
            _one_of((rows, ways), made, ("forbidden", i, j), _beside((x, y, right, top), (r.x, r.y, r.width, r.height)))
    for g, group in enumerate(instance.together):
        for i, name in enumerate(group[1:], start=1):
            pairs = [(boxes[at[name]], boxes[at[other]]) for other in group[:i]]
            _one_of((rows, ways), made, ("together", g, i), [way for a, b in pairs for way in _touching(a, b)])
    for g, group in enumerate(instance.apart):
        for i, name in enumerate(group):
            for j, other in enumerate(group[:i]):
                _one_of((rows, ways), made, ("apart", g, i, j), _not_touching(boxes[at[name]], boxes[at[other]]))


def c5_kept_out(block: pyo.Block, made: Sizing) -> None:
    """C5: each kernel is left of, right of, below or above each obstacle, by binaries as in C4."""
    stated = (pyo.Constraint(pyo.Any), pyo.Var(pyo.Any, domain=pyo.Binary, dense=False))
    block.c5_kept_out, block.c5_ways = stated
    for o, area in enumerate(obstacles(made.problem.instance.fabric)):
        for v in range(made.problem.n):
            _one_of(stated, made, (v, o), _beside(_box(block, v), area))


def _beside(box: tuple[Any, ...], area: tuple[int, int, int, int]) -> list[list[Row]]:
    """Per side of an area (x, y, width, height) on which the box may lie its row."""
    (x, y, right, top), (left, low, width, height) = box, area
    return [[right - left], [left + width - x], [top - low], [low + height - y]]


def _one_of(stated: tuple[Any, Any], made: Sizing, key: tuple[Any, ...], ways: list[list[Row]]) -> None:
    """All rows of one of the ways at least; ``stated`` are rows and binaries."""
    (rows, binaries), most = stated, _slack(made)
    for w, way in enumerate(ways):
        look()
        for i, row in enumerate(way):
            rows[(*key, w, i)] = row <= most * (1 - binaries[(*key, w)])
    rows[(*key, "any")] = pyo.quicksum(binaries[(*key, w)] for w in range(len(ways))) >= 1


def _slack(made: Sizing) -> int:
    """More than any two edges of boxes or forbidden rectangles are apart, also of options that break C1."""
    sides = [max(option.width, option.height) for chosen in made.options for option in chosen]
    far = [
        max(abs(edge) for edge in (r.x, r.y, r.x + r.width, r.y + r.height))
        for one in made.problem.instance.forbidden
        for r in one.rectangles
    ]
    return max(made.problem.width, made.problem.height) + max(sides, default=0) + max(far, default=0) + 1


def _box(block: pyo.Block, v: int) -> tuple[Any, Any, Any, Any]:
    """Left, lower, right and upper edge of a kernel."""
    x, y = block.x[v], block.y[v]
    return x, y, x + block.width[v], y + block.height[v]


def _touching(a: tuple[Any, ...], b: tuple[Any, ...]) -> list[list[Row]]:
    """Per side the rows of a shared border of one tile at least."""
    level = [a[1] + 1 - b[3], b[1] + 1 - a[3]]
    above = [a[0] + 1 - b[2], b[0] + 1 - a[2]]
    meets = ((a[2], b[0], level), (b[2], a[0], level), (a[3], b[1], above), (b[3], a[1], above))
    return [[one - other, other - one, *beside] for one, other, beside in meets]


def _not_touching(a: tuple[Any, ...], b: tuple[Any, ...]) -> list[list[Row]]:
    """Per way to share no border its rows: a gap on one side, or no more than a corner."""
    x, y = (a[2] - b[0], b[2] - a[0]), (a[3] - b[1], b[3] - a[1])
    return [[side + 1] for side in (*x, *y)] + [[across, up] for across in x for up in y]
