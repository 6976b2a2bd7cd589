"""Family ``wafer``: kernels with free execution arguments on the fabric of a wafer-scale engine."""

from chipmap.instances.wafer.fabric import Fabric, Rectangle
from chipmap.instances.wafer.instance import (
    Choice,
    Forbidden,
    Kernel,
    Pin,
    Placement,
    WaferInstance,
    WaferSolution,
    Weights,
)

__all__ = [
    "Choice",
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
