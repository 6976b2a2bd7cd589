"""What a network keeps for its gradients, here and by PyTorch's ``saved_tensors_hooks``."""

from __future__ import annotations

from typing import Any

import pytest

from chipmap.instances.placement.training import training
from chipmap.networks.graph import OperationGraph
from chipmap.networks.importers.torch_program import import_exported


def exported(net: Any, given: Any) -> tuple[Any, OperationGraph]:
    """The exported program of a network with one input, and its graph."""
    torch = pytest.importorskip("torch", reason="needs the extra torch")
    program = torch.export.export(net, (given,))
    return program, import_exported(program, "net", decompose=False).graph


def kept_here(graph: OperationGraph) -> int:
    """Bytes that a training step of the graph keeps."""
    memory = pytest.importorskip("benchmarks.training_memory")
    return int(memory.saved_bytes(training(graph)))


def kept_by_torch(net: Any, given: Any) -> int:
    """Bytes that PyTorch keeps between the network's forward and backward pass."""
    memory = pytest.importorskip("benchmarks.training_memory")
    return int(memory.torch_holds(net, {"x": given}).saved)
