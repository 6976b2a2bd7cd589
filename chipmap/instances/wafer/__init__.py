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
from chipmap.instances.wafer.wires import Crossing, Side

__all__ = [
    "Choice",
    "Crossing",
    "Fabric",
    "Forbidden",
    "Kernel",
    "Pin",
    "Placement",
    "Rectangle",
    "Side",
    "WaferInstance",
    "WaferSolution",
    "Weights",
]
