"""Family ``multimodel``: several models on a heterogeneous multi-chiplet module, in time windows."""

from chipmap.instances.multimodel.instance import (
    Chiplet,
    Layer,
    Model,
    Module,
    MultiInstance,
    MultiSolution,
    Piece,
    Task,
)

__all__ = ["Chiplet", "Layer", "Model", "Module", "MultiInstance", "MultiSolution", "Piece", "Task"]
