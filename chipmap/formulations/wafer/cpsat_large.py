"""Whether the largest kernels alone have a place on the fabric at a target time, with room left for the others."""

from __future__ import annotations

from typing import Any

from chipmap.formulations.built import Built
from chipmap.formulations.wafer.cpsat import build
from chipmap.instances.wafer.instance import WaferInstance
from chipmap.instances.wafer.problem import wafer_problem


def large(some: WaferInstance, tau: int, free: int) -> Built:
    """CP-SAT for the kernels of ``some``, an instance without edges, in Pareto-minimal boxes at ``tau`` quarters.

    ``free``: tiles of the fabric beyond the least boxes of all kernels, those of ``some`` and the others.
    """
    model = build(some, {"tau": tau, "options": "front", "symmetry": "none"})
    native, literals = model.native, model.variables.option
    native.clear_objective()  # it is the time of the slowest kernel
    tiles = [[one.width * one.height for one in options] for options in model.variables.decisions.sizing.options]
    native.add(
        sum(
            (area - min(areas)) * literal
            for areas, own in zip(tiles, literals, strict=True)
            for area, literal in zip(areas, own, strict=True)
        )
        <= free
    )
    last = dict[int, Any]()
    for t, own in zip(wafer_problem(some).types.tolist(), literals, strict=True):
        number = sum(i * literal for i, literal in enumerate(own))
        if t in last:  # kernels of one type may take each other's places
            native.add(last[t] <= number)
        last[t] = number
    return model
