"""The networks that come with the package onnx, and what its models of operators taught the reader."""

from __future__ import annotations

from typing import Any

import pytest

from chipmap.networks.importers.reading import import_graph
from chipmap.records import InputError

onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
from onnx import TensorProto, helper  # noqa: E402 (after the check that it is there)

from benchmarks import onnx_package  # noqa: E402
from tests.instances.onnx_models import model, tensor  # noqa: E402
from tests.instances.test_onnx_control import graph, named, number  # noqa: E402

BOOL, INT64 = TensorProto.BOOL, TensorProto.INT64


def test_every_network_of_the_package_is_read_or_has_a_remedy_that_works() -> None:
    """`python -m benchmarks.onnx_package` does so for the models of operators, which take ten seconds to make."""
    made = [onnx_package.outcome(case) for case in onnx_package.networks()]
    assert len(made) > 100
    left = [one for one in made if one.refused and one.steps[-1] != onnx_package.TEXT_ALONE]
    assert not left
    assert sum(not one.steps for one in made) > 110


def values(*items: Any) -> list[str]:
    """Nodes that make the sequence ``s`` of x and y, with an item z more or less."""
    return [helper.make_node("SequenceConstruct", ["x", "z"], ["s"], name="make"), *items]


@pytest.mark.parametrize(("at", "items"), [([], "xzw"), (["zero"], "wxz"), (["one"], "xwz"), (["last"], "xwz")])
def test_an_item_more_in_a_sequence(at: list[str], items: str) -> None:
    """Items of 4, 8 and 12 numbers: the sum of their bytes and their order tell where the new one is."""
    nodes = values(
        helper.make_node("SequenceInsert", ["s", "w", *at], ["t"], name="insert"),
        helper.make_node("ConcatFromSequence", ["t"], ["c"], name="concat", axis=0),
        helper.make_node("SequenceErase", ["t", "zero"], ["u"], name="erase"),
        helper.make_node("SequenceLength", ["u"], ["n"], name="length"),
        helper.make_node("SequenceAt", ["u", "zero"], ["y"], name="at"),
    )
    sizes = {"x": 4, "z": 8, "w": 12}
    inputs = [tensor(name, size) for name, size in sizes.items()]
    weights = [number("zero", 0), number("one", 1), number("last", -1)]
    imported = import_graph("m.onnx", model(nodes, inputs, weights))
    assert [op.flop for op in imported.graph.operations if op.name == "concat"] == [24]
    assert [t.bytes for t in imported.graph.tensors if t.output] == [4 * sizes[items[1]]]


def test_a_body_for_each_item_of_a_sequence() -> None:
    """Items of 4 and 8 numbers, to each of which one number is added; the sequence is an output."""
    add = graph(
        [helper.make_node("Add", ["item", "w"], ["o"], name="add")], ["o"], [tensor("item", None), tensor("w", 1)]
    )
    nodes = values(helper.make_node("SequenceMap", ["s", "w"], ["y"], name="map", body=add))
    imported = import_graph("m.onnx", model(nodes, [tensor("x", 4), tensor("z", 8), tensor("w", 1)]))
    assert [(op.name, op.flop) for op in imported.graph.operations if op.kind == "Add"] == [
        ("map/0/add", 4),
        ("map/1/add", 8),
    ]
    assert sorted(t.bytes for t in imported.graph.tensors if t.output) == [16, 32]


def test_what_hands_on_a_sequence() -> None:
    nodes = values(
        helper.make_node("Identity", ["s"], ["a"], name="same"),
        helper.make_node("Optional", ["a"], ["b"], name="maybe"),
        helper.make_node("OptionalHasElement", ["b"], ["c"], name="asked"),
        helper.make_node("OptionalGetElement", ["b"], ["d"], name="got"),
        helper.make_node("SequenceAt", ["d", "zero"], ["e"], name="at"),
        helper.make_node("Relu", ["e"], ["y"], name="relu"),
    )
    imported = import_graph("m.onnx", model(nodes, [tensor("x", 4), tensor("z", 8)], [number("zero", 0)]))
    assert ("relu", "Relu", "compute") in named(imported)


def test_the_shape_of_a_tensor_inside_a_branch_may_be_given() -> None:
    """The remedy names it with its branch, and a name that no branch makes is refused."""
    inner = graph([helper.make_node("Expand", ["x", "n"], ["o"], name="grow")], ["o"])
    node = helper.make_node("If", ["c"], ["y"], name="choice", then_branch=inner, else_branch=inner)
    after = helper.make_node("Relu", ["y"], ["z"], name="relu")
    inputs = [tensor("x", 1, 4), tensor("n", 2, kind=INT64)]
    data = model([node, after], inputs, [number("c", True, BOOL)])
    with pytest.raises(InputError, match="the shape of tensor 'choice/o'") as refused:
        import_graph("m.onnx", data)
    assert "--dim choice/o=" in refused.value.remedy
    found = import_graph("m.onnx", data, {"choice/o": (6, 4)})
    assert [op.flop for op in found.graph.operations if op.name == "relu"] == [24]
    with pytest.raises(InputError, match="no dimension or tensor 'choice/p'"):
        import_graph("m.onnx", data, {"choice/o": (6, 4), "choice/p": (6, 4)})


def test_the_remedy_for_a_shape_has_its_rank_and_the_sizes_that_are_known() -> None:
    """What is unique along the second axis of 3 x 5: a matrix of 3 rows."""
    node = helper.make_node("Unique", ["x"], ["y"], name="unique", axis=1)
    with pytest.raises(InputError, match="shape of tensor 'y'") as refused:
        import_graph("m.onnx", model([node], [tensor("x", 3, 5)]))
    assert "--dim y=3x8 " in refused.value.remedy


def test_a_list_is_cut_into_so_many_parts() -> None:
    """Seven numbers in three parts: of 3, 3 and 1, which are known, as are the shapes that they tell."""
    nodes = [
        helper.make_node("Split", ["n"], ["a", "b", "c"], name="split", num_outputs=3),
        helper.make_node("Expand", ["x", "c"], ["e"], name="expand"),
        helper.make_node("Relu", ["e"], ["y"], name="relu"),
    ]
    sizes = helper.make_tensor("n", INT64, [7], [1, 2, 3, 4, 5, 6, 7])
    made = model(nodes, [tensor("x", 1)], [sizes])
    parsed = onnx.ModelProto.FromString(made)
    parsed.opset_import[0].version = 18
    imported = import_graph("m.onnx", parsed.SerializeToString())
    assert [op.flop for op in imported.graph.operations if op.name == "relu"] == [7]
