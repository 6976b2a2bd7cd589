"""Models are read without the data of their weights: memory, what stays, and broken files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from chipmap.networks.importers.onnx.wire import KEPT_BYTES, without_data
from chipmap.networks.importers.reading import import_graph
from chipmap.records import InputError, Source

onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
from onnx import TensorProto, helper  # noqa: E402 (after the check that it is there)

from tests.instances.onnx_models import model, tensor, weight  # noqa: E402


def varint(number: int) -> bytes:
    """A whole number as protobuf writes it."""
    return bytes([number & 127 | 128]) + varint(number >> 7) if number > 127 else bytes([number])


def field(number: int, content: bytes, more: int = 0) -> bytes:
    """A field with a length, of which ``more`` bytes follow elsewhere."""
    return varint(number << 3 | 2) + varint(len(content) + more) + content


def sparse_file(path: Path, rows: int) -> None:
    """A model x · w with ``rows`` × 4096 weights, whose bytes are a hole in the file."""
    head = onnx.ModelProto.FromString(model([helper.make_node("MatMul", ["x", "w"], ["y"])], [tensor("x", 2, rows)]))
    size = rows * 4096 * 4
    held = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[rows, 4096]).SerializeToString()
    held += field(9, b"", size)
    graph = head.graph.SerializeToString() + field(5, held, size)
    head.ClearField("graph")
    with path.open("wb") as file:
        file.write(head.SerializeToString() + field(7, graph, size))
        file.truncate(file.tell() + size)


READ = """
import resource, sys
from chipmap.networks.importers.reading import import_graph
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
graph = import_graph(sys.argv[1]).graph
print(graph.operations[-1].weight_bytes, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_memory_does_not_grow_with_the_weights(tmp_path: Path) -> None:
    path = tmp_path / "large.onnx"
    sparse_file(path, 65536)
    assert path.stat().st_size > 2**30
    done = subprocess.run([sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=True)
    weights, grown = map(int, done.stdout.split())
    assert weights == 65536 * 4096 * 4
    assert grown < 200 * 1024  # KiB: the library and the graph


def large(name: str, **data: Any) -> Any:
    made = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[2 * KEPT_BYTES])
    for key, value in data.items():
        made.raw_data = value if key == "raw_data" else b""
        if key != "raw_data":
            getattr(made, key).extend(value)
    return made


def test_only_the_data_of_large_tensors_is_left_out(tmp_path: Path) -> None:
    count = 2 * KEPT_BYTES
    weights = [
        weight("small", 4),
        large("raw", raw_data=b"\1" * 4 * count),
        large("floats", float_data=[1.0] * count),
        large("numbers", int64_data=[2**62] * count),
        large("halves", int32_data=[7] * count),
    ]
    inner = helper.make_graph([helper.make_node("Identity", ["raw2"], ["z"])], "then", [], [tensor("z", count)], [])
    inner.initializer.append(large("raw2", raw_data=b"\2" * 4 * count))
    nodes = [
        helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner),
        helper.make_node("Constant", [], ["k"], value=large("", raw_data=b"\3" * 4 * count)),
    ]
    nodes[1].doc_string = "where it comes from"
    data = model(nodes, [tensor("c", 1, kind=TensorProto.BOOL)], weights)
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    kept = onnx.ModelProto.FromString(without_data(Source(path)))
    assert kept.ByteSize() < 1500
    assert without_data(Source("m.onnx", data)) == without_data(Source(path))
    expected = onnx.ModelProto.FromString(data)
    branches = [attribute.g.initializer[0] for attribute in expected.graph.node[0].attribute]
    for held in (*list(expected.graph.initializer)[1:], *branches, expected.graph.node[1].attribute[0].t):
        for name in ("raw_data", "float_data", "int64_data", "int32_data"):
            held.ClearField(name)
    kept.graph.node[1].doc_string = nodes[1].doc_string  # short nodes keep it
    assert kept == expected


def test_texts_for_people_are_left_out_of_long_nodes() -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    node.metadata_props.add(key="stack", value="line\n" * 1000)
    kept = onnx.ModelProto.FromString(without_data(Source("m.onnx", model([node], [tensor("x", 2)]))))
    node.ClearField("metadata_props")
    assert kept.graph.node[0] == node


def test_broken_files_are_refused_in_words() -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"], doc_string="long " * 200)
    data = model([node], [tensor("x", 2, 64)], [weight("w", 64, 64)])
    random = Random(3)
    for length in [*range(2, 60), *(random.randrange(60, len(data)) for _ in range(100))]:
        with pytest.raises(InputError) as error:
            import_graph("m.onnx", data[:length])
        assert error.value.remedy
    for cut, said in [
        (b"\x08" + b"\xff" * 11, "more than 10 bytes"),
        (b"\x08\x09\x3b\x00", "unknown kind 3"),
        (b"\x08\x09\x3a\x7f", "reaches beyond"),
        (b"\x08\x09\x3d\x00", "in the middle of a field"),
    ]:
        with pytest.raises(InputError, match=said):
            import_graph("m.onnx", cut)


def test_graphs_nested_without_end_are_refused() -> None:
    nested = b""
    for _ in range(200):
        nested = field(1, field(5, field(6, nested) + b"\x50\x00" * 300))
    with pytest.raises(InputError, match="nested too deeply"):
        import_graph("m.onnx", b"\x08\x09" + field(7, nested))
