"""Tiny wafer instances for the conformance suite and for random tests."""

from __future__ import annotations

from random import Random
from typing import Any

from chipmap.instances.wafer import Crossing, Pin, Rectangle, Side, WaferInstance
from chipmap.instances.wafer.generators import explicit

A = {"H": 4, "W": 4, "C": 4, "K": 4}
B = {"H": 2, "W": 2, "C": 8, "K": 2}
STRIDED = {"H": 5, "W": 4, "C": 3, "K": 5, "R": 3, "S": 2, "T": 2}
THREE_BY_THREE = {"H": 6, "W": 3, "C": 2, "K": 6, "R": 3, "S": 3}
END = {"kind": "output", "shape": [1, 1, 1]}
START = {"kind": "input", "shape": [4, 4, 4]}


def made(width: int, height: int, edges: str, kernels: dict[str, dict[str, Any]], **parameters: Any) -> WaferInstance:
    """An instance on a small fabric; ``edges`` in words such as ``ab bc``."""
    pairs = [list(pair) for pair in edges.split()]
    return explicit(kernels=kernels, edges=pairs, width=width, height=height, **{"name": "variant", **parameters})


def variants() -> dict[str, WaferInstance]:
    """Each feature of the problem in a tiny instance."""
    pins = (Pin(kernel="b", x=0, y=0),)
    two = made(8, 3, "ab", {"a": A, "b": B}, wire_weight=3)
    fabric = two.fabric.replace(keep_out=(Rectangle(x=-1, y=1, width=3, height=9),), defects=((5, 2),))
    ends = made(9, 3, "xa ab by", {"x": START, "a": A, "b": B, "y": END}, wire_weight=3)
    sides = (Side(kernel="x", side="left", touch=True), Side(kernel="y", side="bottom"))
    lines = (Crossing(axis="x", at=4, most=4), Crossing(axis="y", at=2, most=1))
    own = {
        "sides": ends.replace(sides=sides),
        "traffic": ends.replace(traffic=(1, 4, 2)),
        "lines": ends.replace(sides=sides, traffic=(1, 4, 2), crossing=lines),
    }
    return {**free(), "pins": two.replace(pins=pins), "kept out": two.replace(fabric=fabric), **own}


def free() -> dict[str, WaferInstance]:
    """Those without pins, which searches that know nothing of C4 solve."""
    return {
        "one kernel": made(7, 5, "", {"a": A}),
        "strides and filters": made(9, 3, "ab", {"a": STRIDED, "b": THREE_BY_THREE}, wire_weight=3),
        "protocol min(c, k)": made(8, 3, "ab", {"a": A, "b": B}, adapter_weight=30, protocol="min_c_k"),
        "protocol c": made(8, 3, "ab", {"a": A, "b": B}, adapter_weight=30),
        "inputs and outputs": made(8, 3, "xa ab by", {"x": START, "a": A, "b": B, "y": END}, wire_weight=5),
        "an edge twice and one back": made(9, 3, "ab ab ba", {"a": A, "b": B}, wire_weight=4, adapter_weight=3),
        "wires only": made(6, 4, "ab", {"a": A, "b": B}, time_weight=0, wire_weight=1),
        "adapters only": made(8, 3, "ab", {"a": A, "b": STRIDED}, time_weight=0, wire_weight=0, adapter_weight=1),
        "memory binds": made(8, 3, "ab", {"a": A, "b": B}, memory_words=40),
        "no edges": made(6, 5, "", {"a": A, "b": STRIDED}),
        "three upright": made(6, 4, "ab bc", {"a": A, "b": B, "c": THREE_BY_THREE}, wire_weight=7),
        "a cycle": made(9, 2, "ab bc ca", {"a": A, "b": B, "c": B}, wire_weight=2),
        "cblock": made(12, 2, "", {"a": {"kind": "cblock", "H": 2, "W": 2, "F": 4}}),
    }


def infeasible() -> dict[str, tuple[tuple[str, ...], WaferInstance]]:
    """(labels that can't hold together, instance); without one of them there would be floorplans."""
    both = (Pin(kernel="a", x=0, y=0), Pin(kernel="b", x=1, y=0))
    touching = made(12, 3, "xa", {"x": START, "a": A}).replace(sides=(Side(kernel="x", side="left", touch=True),))
    apart = made(12, 3, "ab", {"a": B, "b": B}).replace(crossing=(Crossing(axis="x", at=6, most=0),))
    ends = Pin(kernel="a", x=0, y=0), Pin(kernel="b", x=8, y=0)
    return {
        "pinned off its side": (("C4", "C6"), touching.replace(pins=(Pin(kernel="a", x=2, y=0),))),
        "pinned beside a line": (("C4", "C7"), apart.replace(pins=ends)),
        "pinned on each other": (("C2", "C4"), made(8, 3, "ab", {"a": A, "b": B}).replace(pins=both)),
        "a wall between": (
            ("C2", "C5"),
            (walled := made(7, 2, "ab", {"a": A, "b": B})).replace(
                fabric=walled.fabric.replace(keep_out=(Rectangle(x=4, y=0, width=1, height=2),))
            ),
        ),
        "a row too low for any box": (("C0", "C1"), made(30, 1, "", {"a": A})),
        "memory that only a larger fabric has": (("C1", "C3"), made(4, 3, "", {"a": A}, memory_words=8)),
        "too little room for both": (("C1", "C2"), made(5, 2, "ab", {"a": A, "b": B})),
        "boxes that don't nest": (("C2", "C3"), made(5, 5, "ab", {"a": A, "b": A}, memory_words=50)),
    }


def tiny_instance(random: Random) -> WaferInstance:
    """A random instance of one to three kernels on a fabric of a few tiles."""
    count = random.choice((1, 2, 2, 3))
    width, height = random.choice(((6, 3), (7, 3), (9, 2), (5, 5), (4, 4), (3, 8), (12, 2), (6, 4)))
    kernels = {}
    for name in "abc"[:count]:
        sides = {key: random.randint(1, 6) for key in "HWCK"}
        kernels[name] = sides | {"R": random.choice((1, 3)), "S": random.choice((1, 2)), "T": random.choice((1, 1, 2))}
    pairs = [a + b for a in kernels for b in kernels if a != b and random.random() < 0.4]
    return made(
        width,
        height,
        " ".join(pairs),
        kernels,
        memory_words=random.choice((12, 40, 200, 24576)),
        time_weight=random.choice((0, 1, 1)),
        wire_weight=random.choice((0, 1, 20)),
        adapter_weight=random.choice((0, 5, 60)),
        protocol=random.choice(("c_n", "min_c_k")),
    )
