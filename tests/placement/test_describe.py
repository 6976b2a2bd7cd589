"""Figures of a placement instance, worked out by hand."""

from __future__ import annotations

from chipmap.instances.placement.describe import describe
from chipmap.instances.placement.instance import Forbidden
from tests.placement.random_instances import made


def test_sums_and_extremes() -> None:
    instance = made([(4, 3, 10), (7, 5, 2)], [(0, 1)], 2, memory=20)
    figures = describe(instance.replace(forbidden=(Forbidden(operation="v1", devices=("d0",)),)))
    assert (figures["operations"], figures["placed"], figures["edges"], figures["devices"]) == (2, 2, 1, 2)
    assert figures["weights_mib"] * 2**20 == 8 and figures["least_work_ms"] * 1e6 == 11
    assert figures["largest"] == {"name": "v1", "ms": 7e-6}
    assert figures["heaviest"] == {"name": "v1", "weights_mib": 5 / 2**20}
    assert (figures["memory_limit_mib"] * 2**20, figures["least_memory_limit_mib"] * 2**20) == (40, 20)
    assert (figures["fixed"], figures["forbidden"], figures["task"]["objective"]) == (1, 1, "step_time")
    assert describe(made([(1, 0, 0)], [], 1))["memory_limit_mib"] is None
