"""What chipmap's importers say of a file of the zoo, beside what PyTorch says of it. Needs no PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chipmap.networks.graph import OperationGraph

#: Products, as operators of ATen and of ONNX: what PyTorch's counter counts.
PRODUCTS = frozenset({"MatMul", "Gemm", "Conv", "Einsum", "Attention", "FusedMatMul"}) | {
    *("mm", "bmm", "matmul", "linear", "addmm", "baddbmm", "einsum", "conv1d", "conv2d", "convolution"),
    *("scaled_dot_product_attention", "transformers.grouped_mm_fallback"),
}


def parameter_bytes(graph: OperationGraph) -> int:
    """Bytes of all parameters: weights of operations, and constants that the file stores."""
    stored = {v for v, operation in enumerate(graph.operations) if operation.kind in ("parameter", "initializer")}
    shared = sum(tensor.bytes for tensor in graph.tensors if tensor.producer in stored)
    return shared + sum(operation.weight_bytes for operation in graph.operations)


def product_flop(graph: OperationGraph) -> int:
    """FLOP of all products."""
    return sum(operation.flop for operation in graph.operations if operation.kind in PRODUCTS)


def differing_nodes(graph: OperationGraph, counted: Mapping[str, int]) -> dict[str, tuple[int | None, int]]:
    """Nodes whose FLOP differ by more than 1% from PyTorch's count: (chipmap's, PyTorch's) by name."""
    found: dict[str, tuple[int | None, int]] = {}
    own = {operation.name: operation for operation in graph.operations}
    for name, flop in counted.items():
        operation = own.get(name)
        if operation is None or (operation.role == "compute" and abs(operation.flop - flop) > flop / 100):
            found[name] = (None if operation is None else operation.flop, flop)
    return found


def expected_parameter_bytes(said: Mapping[str, Any]) -> int:
    """Bytes of all parameters that the exported program reads, tied ones once."""
    return sum(said["parameters"].values())
