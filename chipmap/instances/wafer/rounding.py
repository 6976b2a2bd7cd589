"""How many quarters of a point rounding up may add to the objective of a floorplan."""

from __future__ import annotations

from collections.abc import Mapping

from chipmap.instances.wafer.instance import WaferInstance, scaled
from chipmap.instances.wafer.problem import wafer_problem


def rounding(instance: WaferInstance, objective: int, terms: Mapping[str, int]) -> int:
    """At most so many ticks: 0 where all strides are 1 or 2, whose times are whole quarters, and none is scaled."""
    convolutions = (one for kernel in wafer_problem(instance).convs for one in kernel)
    some = scaled(instance) or any(one.T not in (1, 2) for one in convolutions)
    return instance.weights.time if some else 0
