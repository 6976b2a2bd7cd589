"""Small ONNX models made by hand; import it after the check that onnx is there."""

from __future__ import annotations

from typing import Any

from onnx import TensorProto, helper


def tensor(name: str, *shape: int | str | None, kind: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, None if shape == (None,) else shape)


def weight(name: str, *shape: int) -> Any:
    count = 1
    for size in shape:
        count *= size
    return helper.make_tensor(name, TensorProto.FLOAT, shape, [0.0] * count)


def model(nodes: list[Any], inputs: list[Any], weights: list[Any] = [], infos: list[Any] = []) -> bytes:  # noqa: B006
    """A model whose output is ``y``."""
    graph = helper.make_graph(nodes, "g", inputs, [tensor("y", None)], weights, value_info=infos)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    data: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    return data
