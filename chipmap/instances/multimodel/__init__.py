"""Family ``multimodel``: several models on a heterogeneous multi-chiplet module, in time windows."""

from chipmap.instances.multimodel.instance import (
    Chiplet,
    Forbidden,
    FrameRun,
    Layer,
    Model,
    Module,
    MultiInstance,
    MultiSolution,
    Piece,
    Pin,
    Task,
)

__all__ = [
    "Chiplet",
    "Forbidden",
    "FrameRun",
    "Layer",
    "Model",
    "Module",
    "MultiInstance",
    "MultiSolution",
    "Piece",
    "Pin",
    "Task",
]
