"""A tiny sweep that ends in a moment, and one whose points take a while."""

from __future__ import annotations

from typing import Any

from chipmap.bench.sweep import Point, Sweep, points

PLAIN: dict[str, Any] = {
    "schema": "sweep/1",
    "name": "tiny",
    "instance": "dataflow/tiny-chain",
    "axes": [
        {"name": "sram", "path": "system.chip.sram_bytes", "values": [50_000, 150_000, 400_000]},
        {"name": "memory", "path": "system.memory.bytes_per_ns", "values": [100.0, 200.0]},
    ],
    "time_limit_s": 60,
}


def tiny(**changes: Any) -> Sweep:
    """The sweep of six points: two of them have no mapping."""
    return Sweep.make(**PLAIN | changes)


def tiny_points() -> list[Point]:
    """Its points."""
    return points(tiny())
