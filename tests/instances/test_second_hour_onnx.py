"""Attention with functions of the scores, and a Scan of opset 8: FLOP by hand, and a cure that works."""

from __future__ import annotations

from typing import Any

import pytest

from chipmap.networks.importers.reading import import_graph
from chipmap.records import InputError

onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
BATCH, HEADS, QUERIES, KEYS, WIDTH, VALUES = 2, 4, 6, 10, 8, 12


def info(name: str, *shape: int) -> Any:
    return onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)


def attention(*functions: str, captured: bool = False) -> bytes:
    """FlexAttention with functions that multiply a score by itself, or by a tensor of the graph around."""
    helper, scores = onnx.helper, (BATCH, HEADS, QUERIES, KEYS)
    graphs = {}
    for name in functions:
        product = helper.make_node("Mul", ["s", "c" if captured else "s"], ["o"])
        graphs[name] = helper.make_graph([product], name, [info("s", *scores)], [info("o", *scores)])
    node = helper.make_node("FlexAttention", ["q", "k", "v"], ["y"], domain="ai.onnx.preview", **graphs)
    reads = [
        info("q", BATCH, HEADS, QUERIES, WIDTH),
        info("k", BATCH, 2, KEYS, WIDTH),
        info("v", BATCH, 2, KEYS, VALUES),
    ]
    reads += [info("c", 1)] if captured else []
    graph = helper.make_graph([node], "g", reads, [info("y", BATCH, HEADS, QUERIES, VALUES)])
    sets = [helper.make_opsetid("", 24), helper.make_opsetid("ai.onnx.preview", 1)]
    made: bytes = helper.make_model(graph, opset_imports=sets).SerializeToString()
    return made


@pytest.mark.parametrize("functions", [(), ("score_mod",), ("prob_mod",), ("score_mod", "prob_mod")])
@pytest.mark.parametrize("captured", [False, True])
def test_flex_attention_is_attention(functions: tuple[str, ...], captured: bool) -> None:
    found = import_graph("f.onnx", attention(*functions, captured=captured and bool(functions)))
    computing = [one for one in found.graph.operations if one.role == "compute"]
    by_hand = 2 * BATCH * HEADS * QUERIES * KEYS * (WIDTH + VALUES)
    assert [one.flop for one in computing] == [by_hand] and found.notes == ()
    read = [t for t in found.graph.tensors if found.graph.operations.index(computing[0]) in t.readers]
    assert len(read) == 3 + (captured and bool(functions)), "what a function reads of the graph around is an edge"


def test_a_scan_of_opset_8_has_a_cure_that_works() -> None:
    helper = onnx.helper
    add = [helper.make_node("Add", ["s", "x"], ["o"]), helper.make_node("Identity", ["o"], ["y"])]
    body = helper.make_graph(add, "b", [info("s", 2), info("x", 2)], [info("o", 2), info("y", 2)])
    node = helper.make_node("Scan", ["", "i", "xs"], ["f", "ys"], num_scan_inputs=1, body=body)
    graph = helper.make_graph(
        [node], "g", [info("i", 1, 2), info("xs", 1, 3, 2)], [info("f", 1, 2), info("ys", 1, 3, 2)]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 8)])
    with pytest.raises(InputError, match="is a Scan of opset 8") as refused:
        import_graph("s.onnx", model.SerializeToString())
    assert "`onnx.version_converter.convert_version(model, 11)`" in refused.value.remedy
    from onnx import version_converter

    mended = version_converter.convert_version(model, 11)
    found = import_graph("s.onnx", mended.SerializeToString())
    assert sum(one.kind == "Add" for one in found.graph.operations) == 3
