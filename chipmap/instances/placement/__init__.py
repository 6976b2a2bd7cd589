"""Family ``placement``: which device runs each operation of a graph, and when."""

from chipmap.instances.placement.instance import (
    Forbidden,
    Pin,
    PlacementInstance,
    PlacementSolution,
    Task,
    Transfer,
)
from chipmap.instances.placement.system import Device, DeviceClass, Links, Route, System

__all__ = ["Device", "DeviceClass", "Forbidden", "Links", "Pin", "PlacementInstance", "PlacementSolution", "Route"]
__all__ += ["System", "Task", "Transfer"]
