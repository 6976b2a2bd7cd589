"""Modules: those of the paper by name, chiplets in a grid with classes by pattern and links by topology; and files.

Our readings where the paper is silent: interfaces to DRAM on the left and right columns (hops = columns to the nearest
one + 1); ``sides``, columns N S N; ``checkerboard``; ``cross``, S in the middle row and column; ``triangular``, the
mesh with one diagonal per cell. Source: SCAR, section V.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from chipmap.instances.multimodel.costs import Rates
from chipmap.instances.multimodel.instance import Chiplet, Module, check_module
from chipmap.instances.system_files import plain_system
from chipmap.records import InputError
from chipmap.records.fields import from_json

Pattern = Literal["first", "second", "sides", "checkerboard", "cross"]
Topology = Literal["mesh", "triangular"]

#: Named systems: the pattern of each name.
PATTERNS: dict[str, Pattern] = {
    "nvdla": "first",
    "shidiannao": "second",
    "het-sides": "sides",
    "het-cb": "checkerboard",
    "het-cross": "cross",
}
#: The system of converted graphs where none is named.
DEFAULT = "het-sides-3x3"
#: More rows or columns are taken for a mistake.
MOST = 16


@dataclass(frozen=True)
class System:
    """A module, and the roofline of each class that has one of its own."""

    module: Module
    classes: dict[str, Rates] = field(default_factory=dict)

    @property
    def kinds(self) -> list[str]:
        """The classes of its chiplets."""
        return sorted({chiplet.kind for chiplet in self.module.chiplets})


def system(text: str) -> System:
    """The system in a file (:func:`_read`), or that of a name such as ``het-cross-6x6`` or ``nvdla-3x3-triangular``."""
    if os.path.exists(text):
        return _read(text)
    found = re.fullmatch(r"([a-z-]+)-(\d{1,2})x(\d{1,2})(-triangular)?", text)
    if found is None or found[1] not in PATTERNS or not all(1 <= int(side) <= MOST for side in (found[2], found[3])):
        names = ", ".join(PATTERNS)
        remedy = f"Names are PATTERN-ROWSxCOLUMNS, with -triangular for diagonal links; patterns: {names}."
        raise InputError(f"no file and no system is called {text!r}", "--system", f"{remedy} An example: {DEFAULT}.")
    topology: Topology = "triangular" if found[4] else "mesh"
    return System(grid(int(found[2]), int(found[3]), PATTERNS[found[1]], topology))


def _read(path: str) -> System:
    """The system in a file: the ``module`` of an instance as JSON, or an instance, whose module is taken.

    ``classes`` beside the chiplets gives classes rates of their own for the roofline.
    """
    plain = plain_system(path, "multimodel", "module")
    classes: Any = plain.pop("classes", {})
    module = from_json(Module, msgspec.json.encode(plain), path)
    if not isinstance(classes, dict):
        raise InputError("`classes` is no JSON object", path, 'Write {"class": {"flop_per_ns": 4096, ...}}.')
    rates = {
        kind: from_json(Rates, msgspec.json.encode(given), f"{path}: classes.{kind}") for kind, given in classes.items()
    }
    try:
        check_module(module)
        for kind, one in rates.items():
            one.check(f"classes.{kind}")
    except InputError as error:
        raise InputError(error.what, f"{path}: {error.where}", error.remedy) from None
    return System(module, rates)


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
