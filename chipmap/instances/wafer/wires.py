"""Wires beside their length: the sides to which inputs and outputs lead (C6), traffic, limits on lines (C7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from chipmap.instances.wafer.fabric import Fabric
from chipmap.records import InputError, Record, choices

SideName = Literal["left", "right", "bottom", "top"]
#: The sides by number.
SIDES: tuple[SideName, ...] = ("left", "right", "bottom", "top")
#: Largest traffic of an edge times the weight of wires, and largest limit: beyond them 64-bit counts overflow.
MAX_TRAFFIC, MAX_CROSSING = 10**8, 10**12


class Side(Record, frozen=True, kw_only=True):
    """The input or output ``kernel`` lies at that ``side`` of the fabric: T2 counts the wires to it. With ``touch``
    every kernel with an edge to or from it borders on the side (C6)."""

    kernel: str
    side: SideName
    touch: bool = False


class Crossing(Record, frozen=True, kw_only=True):
    """At most ``most`` traffic crosses a line (C7): ``axis`` x is the line left of column ``at``, y that below row
    ``at``."""

    axis: Literal["x", "y"]
    at: int
    most: int


def check_sides(sides: Sequence[Side], placed: Mapping[str, bool]) -> None:
    """Raise :class:`InputError` for what is no input or output (``placed`` by name), and for one named twice."""
    ends, seen = [name for name, room in placed.items() if not room], set[str]()
    for i, one in enumerate(sides):
        if one.kernel not in placed or placed[one.kernel]:
            remedy = choices(one.kernel, ends[:50]) if ends else "The instance has no input and no output."
            raise InputError(f"no input or output is called {one.kernel!r}", f"sides[{i}].kernel", remedy)
        if one.kernel in seen:
            raise InputError(f"{one.kernel!r} has a side already", f"sides[{i}].kernel", "Leave out one of the two.")
        seen.add(one.kernel)


def check_traffic(traffic: Sequence[int], edges: int, weight: int) -> None:
    """Raise :class:`InputError` unless there is a number for each edge, from 0 on and not too large."""
    if traffic and len(traffic) != edges:
        what = f"has {len(traffic)} numbers for {edges} edges"
        raise InputError(what, "traffic", "Give one number per edge, in the order of edges.")
    most = MAX_TRAFFIC // max(weight, 1)
    for i, value in enumerate(traffic):
        if not 0 <= value <= most:
            remedy = f"Give 0 to {most:,}: count in larger units, such as kilobytes, or lower weights.wire."
            raise InputError(f"is {value}", f"traffic[{i}]", remedy)


def check_crossing(crossing: Sequence[Crossing], fabric: Fabric) -> None:
    """Raise :class:`InputError` for a line outside the fabric, and for a limit below 0."""
    for i, one in enumerate(crossing):
        last = (fabric.width if one.axis == "x" else fabric.height) - 1
        if not 1 <= one.at <= last:
            where = f"Give 1 to {last}." if last else "A fabric of one tile has no line."
            raise InputError(f"the fabric has no line {one.axis} = {one.at}", f"crossing[{i}].at", where)
        if not 0 <= one.most <= MAX_CROSSING:
            raise InputError(f"is {one.most}", f"crossing[{i}].most", f"Give 0 to {MAX_CROSSING:,}.")
