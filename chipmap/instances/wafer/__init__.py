"""Family ``wafer``: kernels with free execution arguments on the fabric of a wafer-scale engine."""

from chipmap.instances.wafer.instance import (
    Fabric,
    Forbidden,
    Kernel,
    Pin,
    Placement,
    Rectangle,
    WaferInstance,
    WaferSolution,
    Weights,
)

__all__ = [
    "Fabric",
    "Forbidden",
    "Kernel",
    "Pin",
    "Placement",
    "Rectangle",
    "WaferInstance",
    "WaferSolution",
    "Weights",
]
