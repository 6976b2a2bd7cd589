"""Family ``wafer``: kernels with free execution arguments on the fabric of a wafer-scale engine."""

from chipmap.instances.wafer.fabric import Fabric, Rectangle
from chipmap.instances.wafer.instance import (
    Forbidden,
    Kernel,
    Pin,
    Placement,
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
