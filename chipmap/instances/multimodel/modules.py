"""Modules of the paper: chiplets in a grid, their classes by pattern, links by topology.

Our readings where the paper is silent: interfaces to DRAM on the left and right columns (hops = columns to the nearest
one + 1); ``sides``, columns N S N; ``checkerboard``; ``cross``, S in the middle row and column; ``triangular``, the
mesh with one diagonal per cell. Source: SCAR, section V.
"""

from __future__ import annotations

from typing import Literal

from chipmap.instances.multimodel.instance import Chiplet, Module

Pattern = Literal["first", "second", "sides", "checkerboard", "cross"]
Topology = Literal["mesh", "triangular"]


def grid(
    rows: int = 3,
    columns: int = 3,
    pattern: Pattern = "sides",
    topology: Topology = "mesh",
    classes: tuple[str, str] = ("nvdla", "shidiannao"),
    sram_bytes: int | None = None,
) -> Module:
    """A module of rows × columns chiplets ``c00``, ``c01``, … (row, column) of two ``classes``.

    ``first`` and ``second``: all chiplets of that class; the other patterns mix them.
    """
    chiplets = []
    for y in range(rows):
        for x in range(columns):
            second = {
                "first": False,
                "second": True,
                "sides": 0 < x < columns - 1,
                "checkerboard": (x + y) % 2 == 1,
                "cross": y in _middle(rows) or x in _middle(columns),
            }[pattern]
            hops = min(x, columns - 1 - x) + 1
            name = f"c{y}{x}" if max(rows, columns) <= 10 else f"c{y}_{x}"
            chiplets.append(Chiplet(name=name, kind=classes[second], hops=hops, x=x, y=y, sram_bytes=sram_bytes))
    names = {(chiplet.y, chiplet.x): chiplet.name for chiplet in chiplets}
    steps = [(0, 1), (1, 0)] + ([(1, 1)] if topology == "triangular" else [])
    links = [
        (name, names[y + dy, x + dx]) for (y, x), name in names.items() for dy, dx in steps if (y + dy, x + dx) in names
    ]
    return Module(chiplets=tuple(chiplets), links=tuple(links))


def _middle(count: int) -> tuple[int, ...]:
    """The middle position of a row, two of an even one."""
    return (count // 2,) if count % 2 else (count // 2 - 1, count // 2)
