"""ONNX models before ONNX Runtime: every tensor has the shape and bytes that it has when the model runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from chipmap.networks.importers.reading import import_graph

onnx: Any = pytest.importorskip("onnx", reason="needs the extra judges")
onnxruntime: Any = pytest.importorskip("onnxruntime", reason="needs the extra judges")

MODELS, OPERATORS = 40, 14


class GrowingModel:
    """A model that grows by random operators on a tensor [rows, columns]; weights are random as well."""

    def __init__(self, random: Random) -> None:
        self.random, self.rows, self.columns = random, random.randint(2, 6), random.randint(2, 6)
        self.given = (self.rows, self.columns)
        self.nodes: list[Any] = []
        self.stored: list[Any] = []
        self.last = "x"

    def number(self, *values: int) -> str:
        """A stored list of whole numbers."""
        return self._store(np.array(values, dtype=np.int64))

    def weight(self, *shape: int) -> str:
        return self._store(np.random.default_rng(len(self.stored)).normal(size=shape).astype(np.float32))

    def _store(self, data: Any) -> str:
        self.stored.append(onnx.numpy_helper.from_array(data, f"w{len(self.stored)}"))
        return f"w{len(self.stored) - 1}"

    def node(self, kind: str, *reads: str, made: int = 1, **arguments: Any) -> None:
        """Add an operator; the model goes on with its first result."""
        results = [f"t{len(self.nodes)}" + (f"_{i}" if i else "") for i in range(made)]
        self.nodes.append(onnx.helper.make_node(kind, [self.last, *reads], results, name=results[0], **arguments))
        self.last = results[0]

    def product(self) -> None:
        columns = self.random.randint(2, 6)
        self.node("MatMul", self.weight(self.columns, columns))
        self.columns = columns

    def gemm(self) -> None:
        columns = self.random.randint(2, 6)
        self.node("Gemm", self.weight(columns, self.columns), self.weight(columns), transB=1)
        self.columns = columns

    def transposed(self) -> None:
        self.node("Transpose", perm=[1, 0])
        self.rows, self.columns = self.columns, self.rows

    def reshaped(self) -> None:
        self.node("Reshape", self.number(-1, self.rows))
        self.rows, self.columns = self.columns, self.rows

    def joined(self) -> None:
        self.node("Concat", self.weight(2, self.columns), axis=0)
        self.rows += 2

    def looked_up(self) -> None:
        self.node("Gather", self.number(*(self.random.randrange(self.rows) for _ in range(3))), axis=0)
        self.rows = 3

    def cut(self) -> None:
        self.node("Slice", self.number(0), self.number(2), self.number(1))
        self.columns = 2

    def padded(self) -> None:
        self.node("Pad", self.number(0, 1, 0, 1))
        self.columns += 2

    def parted(self) -> None:
        if self.columns % 2 == 0:
            self.node("Split", made=2, axis=1, num_outputs=2)
            self.columns //= 2

    def largest(self) -> None:
        self.node("TopK", self.number(2), made=2, axis=1)
        self.columns = 2

    def pointwise(self) -> None:
        kind = self.random.choice(("Relu", "Softmax", "Tanh", "Add", "Mul", "LayerNormalization"))
        extra = {"Add": 1, "Mul": 1, "LayerNormalization": 1}.get(kind, 0)
        self.node(kind, *(self.weight(self.columns) for _ in range(extra)))

    def repeated(self) -> None:
        self.node("Tile", self.number(2, 1))
        self.rows *= 2

    def steps(self) -> list[Callable[[], None]]:
        return [
            *(self.product, self.gemm, self.transposed, self.reshaped, self.joined, self.looked_up, self.cut),
            *(self.padded, self.parted, self.largest, self.pointwise, self.repeated),
        ]

    def model(self) -> Any:
        value = onnx.helper.make_tensor_value_info
        outputs = [onnx.helper.make_empty_tensor_value_info(name) for node in self.nodes for name in node.output]
        graph = onnx.helper.make_graph(
            self.nodes, "g", [value("x", onnx.TensorProto.FLOAT, self.given)], outputs, self.stored
        )
        return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10)


def test_every_tensor_has_the_bytes_that_it_has_at_run_time(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    compared = 0
    for seed in range(MODELS):
        growing = GrowingModel(Random(seed))
        for _ in range(OPERATORS):
            growing.random.choice(growing.steps())()
        data = growing.model().SerializeToString()
        (tmp_path / "model.onnx").write_bytes(data)
        graph = import_graph(str(tmp_path / "model.onnx")).graph
        session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
        names = [one.name for one in session.get_outputs()]
        made = dict(zip(names, session.run(names, {"x": np.zeros(growing.given, dtype=np.float32)}), strict=True))
        found: dict[str, list[int]] = {}
        for tensor in graph.tensors:
            found.setdefault(graph.operations[tensor.producer].name, []).append(tensor.bytes)
        for node in growing.nodes:
            assert found[node.name] == [made[name].nbytes for name in node.output], (seed, node.op_type)
            compared += len(node.output)
    record_property("tensors whose bytes are those of ONNX Runtime", compared)
