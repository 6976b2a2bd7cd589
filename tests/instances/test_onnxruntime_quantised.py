"""A network that ONNX Runtime quantised in three ways, shapes free: bytes of tensors and weights are those there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chipmap.networks.importers.reading import import_graph

torch: Any = pytest.importorskip("torch", reason="needs the extra judges")
onnx: Any = pytest.importorskip("onnx", reason="needs the extra judges")
runtime: Any = pytest.importorskip("onnxruntime", reason="needs the extra judges")
quantised: Any = pytest.importorskip("onnxruntime.quantization", reason="needs the extra judges")


def _words() -> Any:
    return torch.arange(8)[None]


def _bytes(one: Any) -> int:
    """Of an initializer; NumPy has a byte for each number of four bits."""
    halves = one.data_type in (onnx.TensorProto.INT4, onnx.TensorProto.UINT4)
    return int(onnx.numpy_helper.to_array(one).nbytes) // (2 if halves else 1)


class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.table, self.norm = torch.nn.Embedding(50, 32), torch.nn.LayerNorm(32)
        self.up, self.down = torch.nn.Linear(32, 64), torch.nn.Linear(64, 32)

    def forward(self, words: Any) -> Any:
        found = self.table(words)
        return self.norm(found + self.down(torch.nn.functional.gelu(self.up(found))))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", ["float", "dynamic", "QDQ", "QOperator", "QDQ by channel", "QDQ in blocks"])
def test_quantised_tensors_have_the_bytes_of_onnx_runtime(form: str, tmp_path: Path) -> None:
    """Each computed tensor; weights to within a scale and a zero point (5 bytes) for each operation that reads them."""
    plain, path = tmp_path / "float.onnx", tmp_path / f"{form}.onnx"
    axes = {"x": {0: "b", 1: "t"}}
    torch.onnx.export(
        Net().eval(), (_words(),), str(plain), opset_version=20, dynamo=False, input_names=["x"], dynamic_axes=axes
    )

    class Reader(quantised.CalibrationDataReader):  # type: ignore[misc, name-defined]
        left = [{"x": _words().numpy()}]

        def get_next(self) -> Any:
            return self.left.pop() if self.left else None

    if form == "dynamic":
        quantised.quantize_dynamic(str(plain), str(path), weight_type=quantised.QuantType.QInt8)
    elif form == "QDQ in blocks":
        from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

        blocks = MatMulNBitsQuantizer(str(plain), bits=4, block_size=16, quant_format=quantised.QuantFormat.QDQ)
        blocks.process()
        blocks.model.save_model_to_file(str(path))
    elif form != "float":
        how, _, channels = form.partition(" by ")
        Reader.left = [{"x": _words().numpy()}]
        form = getattr(quantised.QuantFormat, how)
        quantised.quantize_static(str(plain), str(path), Reader(), quant_format=form, per_channel=bool(channels))
    graph = import_graph(str(path), dimensions={"b": (1,), "t": (8,)}).graph
    model = onnx.load(str(path))
    stored = sum(map(_bytes, model.graph.initializer))
    ours = sum(one.weight_bytes for one in graph.operations)
    ours += sum(one.bytes for one in graph.tensors if graph.operations[one.producer].role == "constant")
    assert stored <= ours <= stored + 5 * len(graph.operations)
    named = {one.name for one in model.graph.output}
    made = {node.name: [one for one in node.output if one] for node in model.graph.node}
    model.graph.output.extend(
        onnx.ValueInfoProto(name=one) for some in made.values() for one in some if one not in named
    )
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(model.SerializeToString(), options)
    results = session.run(None, {"x": _words().numpy()})
    sizes = {one.name: value.nbytes for one, value in zip(session.get_outputs(), results, strict=True)}
    compared = 0
    for tensor in graph.tensors:
        one = graph.operations[tensor.producer]
        if one.role == "compute" and (one.node or one.name) in made:
            assert tensor.bytes in [sizes[name] for name in made[one.node or one.name]], one.name
            compared += 1
    assert compared >= 8
