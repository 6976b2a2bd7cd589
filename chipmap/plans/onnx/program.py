"""An ONNX model's file as a program: what each node reads and makes, and the types of its tensors.

Functions are inlined as the reader of graphs does, so that nodes are called as operations are. Types are those that
ONNX's own inference and the file state, else those of the reader. Dimensions may be symbolic.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chipmap.networks.graph import OperationGraph
from chipmap.networks.importers.onnx.keys import node_keys
from chipmap.networks.importers.onnx.shapes import BITS, STANDARD, first_line, shape_of
from chipmap.networks.importers.onnx_model import parsed, read_typed
from chipmap.records import InputError, Source

if TYPE_CHECKING:
    import onnx

#: The release whose format (IR version 11) has devices of nodes.
NEEDED = "1.18"
#: Operators that need the shape of what they read, not its numbers.
SHAPES = frozenset({"Shape", "Size"})


class OnnxProgram:
    """A model by positions of its nodes.

    ``keys``: what nodes are called; ``at``: that -> position. ``reads``: the tensors that each reads, those that graphs
    inside it read as well; ``makers``: tensor -> position. ``stored``: initializers by name; ``inputs`` and ``outputs``
    those of the model; ``types``: tensor -> type. ``read`` is its graph; None where it takes more than the file to read
    it (dimensions, branches).
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.model = _loaded(path)
        graph = self.model.graph
        self.nodes = list(graph.node)
        self.keys = node_keys(self.nodes)
        self.at = {key: i for i, key in enumerate(self.keys)}
        self.reads = [list(dict.fromkeys(_read(node))) for node in self.nodes]
        self.makers = {name: i for i, node in enumerate(self.nodes) for name in node.output if name}
        self.stored = {tensor.name: tensor for tensor in graph.initializer}
        self.inputs = {info.name: info for info in graph.input if info.name not in self.stored}
        self.outputs = [info.name for info in graph.output]
        self.read: OperationGraph | None = None
        self.types = _types(path)
        with suppress(InputError):
            imported, types = read_typed(Source(path))
            self.read = imported.graph
            self.types |= {name: kind for name, kind in types.items() if self.shape(name) is None}

    def kind(self, i: int) -> str:
        """The operator of a node as the reader of graphs calls it."""
        node = self.nodes[i]
        return node.op_type if node.domain in STANDARD else f"{node.domain}.{node.op_type}"

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of a tensor; None where it isn't known, or has symbolic dimensions."""
        return shape_of(self.types.get(name))

    def size(self, name: str) -> int | None:
        """The bytes of a tensor, where they are known."""
        shape = self.shape(name)
        bits = BITS.get(self.types[name].tensor_type.elem_type) if shape is not None else None
        return None if shape is None or bits is None else -(-prod(shape) * bits // 8)

    def known(self, i: int) -> onnx.TensorProto | None:
        """The result of a node that asks for the shape of a tensor, where that is known."""
        import numpy as np
        from onnx import numpy_helper

        node = self.nodes[i]
        if node.op_type not in SHAPES or node.domain not in STANDARD or not node.input:
            return None
        shape = self.shape(node.input[0])
        if shape is None:
            return None
        ends = {one.name: one.i for one in node.attribute}
        value: Any = prod(shape) if node.op_type == "Size" else shape[ends.get("start", 0) : ends.get("end")]
        return numpy_helper.from_array(np.asarray(value, np.int64), node.output[0])

    def typed(self, name: str) -> onnx.ValueInfoProto:
        """The tensor ``name`` as an input or output of a model; :class:`InputError` where its type isn't known."""
        import onnx

        if name in self.inputs:
            return self.inputs[name]
        if name not in self.types:
            what = f"the type of tensor {name!r} isn't known, and it goes from a chip to another"
            raise InputError(what, self.path, "Save the model with the types of its tensors (value_info).")
        return onnx.ValueInfoProto(name=name, type=self.types[name])


def _loaded(path: str) -> onnx.ModelProto:
    """The model with all of its data, its functions inlined."""
    import onnx
    import onnx.external_data_helper
    import onnx.inliner

    if "configuration" not in onnx.ModelProto.DESCRIPTOR.fields_by_name:
        what = f"the package onnx {onnx.__version__} knows no devices of nodes"
        raise InputError(what, path, f'Install a newer one: pip install "onnx>={NEEDED}"')
    parsed(Source(path))  # says what is wrong with the file
    try:
        model = onnx.load(path, load_external_data=False)
        if model.functions:
            model = onnx.inliner.inline_local_functions(model)
        onnx.external_data_helper.load_external_data_for_model(model, str(Path(path).parent))
    except Exception as error:  # of several classes, protobuf's and onnx's own
        what = f"its data can't be read: {first_line(error)}"
        raise InputError(what, path, "Put the files with its weights beside it, as it was saved.") from None
    return model


def _types(path: str) -> dict[str, onnx.TypeProto]:
    """The type of each tensor of the graph that the file or the inference states."""
    import onnx.shape_inference

    model = parsed(Source(path))
    with suppress(Exception):  # errors from C++: what the file states remains
        model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    graph = model.graph
    found = {info.name: info.type for info in (*graph.value_info, *graph.output, *graph.input)}
    return {name: kind for name, kind in found.items() if kind.WhichOneof("value") is not None}


def _read(node: onnx.NodeProto) -> Iterator[str]:
    """The tensors of the graph around it that a node reads, by itself or by graphs in it."""
    yield from filter(None, node.input)
    for attribute in node.attribute:
        for graph in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
            own = {one.name for one in (*graph.input, *graph.initializer)}
            own |= {name for inner in graph.node for name in inner.output}
            for inner in graph.node:
                yield from (name for name in _read(inner) if name not in own)
            yield from (info.name for info in graph.output if info.name not in own)
