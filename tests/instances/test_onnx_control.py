"""Control flow of ONNX models: what is settled beforehand becomes a straight program, what inputs decide is refused."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import pytest

from chipmap.networks.importers.common import ImportedGraph
from chipmap.networks.importers.onnx import control as onnx_control
from chipmap.networks.importers.reading import import_graph
from chipmap.records import InputError

onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
from onnx import TensorProto, helper  # noqa: E402 (after the check that it is there)

from tests.instances.mutations import mutated_bytes, mutated_structure  # noqa: E402
from tests.instances.onnx_models import model, tensor, weight  # noqa: E402
from tests.instances.programs import ONNX_CONTROL  # noqa: E402

BOOL, INT64 = TensorProto.BOOL, TensorProto.INT64


def graph(nodes: list[Any], outputs: list[str], inputs: list[Any] = [], weights: list[Any] = []) -> Any:  # noqa: B006
    return helper.make_graph(nodes, "inner", inputs, [tensor(name, None) for name in outputs], weights)


def number(name: str, value: int | bool, kind: int = INT64) -> Any:
    return helper.make_tensor(name, kind, [], [value])


def named(imported: ImportedGraph) -> list[tuple[str, str, str]]:
    return [(op.name, op.kind, op.role) for op in imported.graph.operations]


def choice(**made: Any) -> Any:
    """An If with a product in one branch and a Relu in the other."""
    then = graph([helper.make_node("MatMul", ["x", "w"], ["a"], name="product")], ["a"], weights=[weight("w", 4, 6)])
    other = graph([helper.make_node("Relu", ["x"], ["b"], name="relu")], ["b"])
    return helper.make_node("If", ["c"], ["y"], name="choice", then_branch=then, else_branch=other)


@pytest.mark.parametrize("value", [True, False])
def test_a_branch_whose_condition_is_stored(value: bool) -> None:
    imported = import_graph("m.onnx", model([choice()], [tensor("x", 2, 4)], [number("c", value, BOOL)]))
    inner = ("choice/product", "MatMul", "compute") if value else ("choice/relu", "Relu", "compute")
    assert named(imported) == [("x", "input", "input"), inner, ("choice", "If", "view")]
    assert imported.graph.operations[1].weight_bytes == (96 if value else 0)
    assert [t.bytes for t in imported.graph.tensors if t.output] == [48 if value else 32]


def test_a_branch_whose_condition_follows_from_shapes() -> None:
    """What an export of `squeeze` with an open dimension looks like: is this dimension 1?"""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Equal", ["n", "one"], ["c"]),
        choice(),
    ]
    data = model(nodes, [tensor("x", "batch", 4)], [number("zero", 0), number("one", 1)])
    assert "choice/product" in [name for name, _, _ in named(import_graph("m.onnx", data, {"batch": (1,)}))]
    assert "choice/relu" in [name for name, _, _ in named(import_graph("m.onnx", data, {"batch": (2,)}))]


def parsed(data: bytes) -> Any:
    return onnx.ModelProto.FromString(data)


def mended(data: bytes, error: InputError) -> bytes:
    """The model after what the remedy says: without the input or node that makes the tensor, and with a value."""
    model = parsed(data)
    code = re.search(r"`(.*?)`", error.remedy)
    name = re.search(r"[Gg]ive '(.*?)' a value", error.remedy)
    assert code and name
    for makers in (model.graph.input, model.graph.node):
        for maker in list(makers):
            if name[1] in (getattr(maker, "output", None) or [maker.name]):
                makers.remove(maker)
    exec(code[1], {"model": model, "onnx": onnx})
    result: bytes = model.SerializeToString()
    return result


def test_a_branch_that_an_input_decides_is_refused_with_a_remedy_that_works() -> None:
    data = model([choice()], [tensor("x", 2, 4), tensor("c", kind=BOOL)])
    with pytest.raises(InputError, match="control flow: what the If 'choice' does depends on 'c'") as error:
        import_graph("m.onnx", data)
    imported = import_graph("m.onnx", mended(data, error.value))
    assert named(imported)[1:] == [("choice/product", "MatMul", "compute"), ("choice", "If", "view")]
    # made by an operator: the same remedy, in place of that operator
    nodes = [helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0), helper.make_node("Cast", ["m"], ["c"], to=BOOL)]
    data = model([*nodes, choice()], [tensor("x", 2, 4)])
    with pytest.raises(InputError, match="depends on 'c', which the inputs decide") as error:
        import_graph("m.onnx", data)
    assert ("choice/product", "MatMul", "compute") in named(import_graph("m.onnx", mended(data, error.value)))


def loop(**more: Any) -> Any:
    """x -> x · w, n times, and the products of all iterations."""
    nodes = [
        helper.make_node("Constant", [], ["k"], name="k", value=weight("", 4)),
        helper.make_node("MatMul", ["before", "w"], ["p"], name="product"),
        helper.make_node("Add", ["p", "k"], ["after"], name="add"),
        helper.make_node("Identity", ["going"], ["still"], name="still"),
    ]
    inputs = [tensor("i", kind=INT64), tensor("going", kind=BOOL), tensor("before", 2, 4)]
    body = graph(nodes, ["still", "after", "p"], inputs, [weight("w", 4, 4)])
    return helper.make_node("Loop", ["n", more.get("condition", ""), "x"], ["y", "all"], name="steps", body=body)


def test_a_loop_with_a_known_number_of_iterations() -> None:
    data = model([loop()], [tensor("x", 2, 4)], [number("n", 3)])
    imported = import_graph("m.onnx", data)
    operations = {op.name: op for op in imported.graph.operations}
    assert [name for name, op in operations.items() if op.kind == "MatMul"] == [f"steps/{i}/product" for i in range(3)]
    assert all(operations[f"steps/{i}/product"].flop == 2 * 2 * 4 * 4 for i in range(3))
    # the matrix and the constant are the same ones in all iterations: each is one tensor with three readers
    sizes = [(operations_of(imported, t.producer), t.bytes, len(t.readers)) for t in imported.graph.tensors]
    assert ("steps/w", 64, 3) in sizes
    assert ("steps/k", 16, 3) in sizes
    assert sum(op.weight_bytes for op in operations.values()) == 0
    assert operations["steps"].role == "view"
    assert [(t.bytes, operations_of(imported, t.producer)) for t in imported.graph.tensors if t.output] == [
        (32, "steps")
    ]
    stacked = operations["steps/stack0"]
    assert (stacked.role, stacked.flop) == ("compute", 3 * 8)


def operations_of(imported: ImportedGraph, v: int) -> str:
    return imported.graph.operations[v].name


def test_loops_that_inputs_decide_or_that_never_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_control, "MAX_UNROLLED", 500)
    data = model([loop()], [tensor("x", 2, 4), tensor("n", kind=INT64)])
    with pytest.raises(InputError, match="what the Loop 'steps' does depends on 'n'") as error:
        import_graph("m.onnx", data)
    assert len(import_graph("m.onnx", mended(data, error.value)).graph.operations) > 8 * 2
    with pytest.raises(InputError, match="depends on 'c'"):
        inputs = [tensor("x", 2, 4), tensor("c", kind=BOOL)]
        import_graph("m.onnx", model([loop(condition="c")], inputs, [number("n", 3)]))
    endless = helper.make_node("Loop", ["", "", "x"], ["y"], name="steps", body=loop().attribute[0].g)
    del endless.attribute[0].g.output[2:]
    with pytest.raises(InputError, match="unrolled it has more than 500 operators"):
        import_graph("m.onnx", model([endless], [tensor("x", 2, 4)]))
    never = import_graph(
        "m.onnx", model([loop(), helper.make_node("Relu", ["x"], ["z"])], [tensor("x", 2, 4)], [number("n", 0)])
    )
    assert [name for name, _, _ in named(never)][-2:] == ["steps", "z"]


def test_a_scan_is_unrolled() -> None:
    nodes = [
        helper.make_node("Add", ["state", "part"], ["next"], name="add"),
        helper.make_node("Relu", ["next"], ["out"], name="relu"),
    ]
    body = graph(nodes, ["next", "out"], [tensor("state", 4), tensor("part", 4)])
    scan = helper.make_node("Scan", ["s", "x"], ["last", "y"], name="scan", body=body, num_scan_inputs=1)
    imported = import_graph("m.onnx", model([scan], [tensor("s", 4), tensor("x", 3, 4)]))
    assert [name for name, kind, _ in named(imported) if kind == "Add"] == ["scan/0/add", "scan/1/add", "scan/2/add"]
    assert [t.bytes for t in imported.graph.tensors if t.output] == [48]


def test_a_scan_along_other_axes_and_backwards() -> None:
    """Five columns of 3 numbers, the last one first; what they yield is put together along the last axis."""
    nodes = [
        helper.make_node("Add", ["state", "part"], ["next"], name="add"),
        helper.make_node("Relu", ["next"], ["out"]),
    ]
    body = graph(nodes, ["next", "out"], [tensor("state", 3), tensor("part", 3)])
    said: dict[str, Any] = {
        "scan_input_axes": [-1],
        "scan_output_axes": [1],
        "scan_input_directions": [1],
        "scan_output_directions": [1],
    }
    scan = helper.make_node("Scan", ["s", "x"], ["last", "y"], name="scan", body=body, num_scan_inputs=1, **said)
    imported = import_graph("m.onnx", model([scan], [tensor("s", 3), tensor("x", 3, 5)]))
    assert [op.flop for op in imported.graph.operations if op.kind == "Add"] == [3] * 5
    assert [t.bytes for t in imported.graph.tensors if t.output] == [60]


@pytest.mark.parametrize(("asked", "kind"), [("true", "MatMul"), ("false", "Relu"), ("heavier", "MatMul")])
def test_a_branch_that_an_input_decides_may_be_chosen(asked: str, kind: str) -> None:
    """The product has 2 · 2 · 4 · 6 FLOP, the other branch 8: read on trial, which leaves nothing behind."""
    data = model([choice()], [tensor("x", 2, 4), tensor("c", kind=BOOL)])
    found = import_graph("m.onnx", data, branch=asked)
    assert [one for _, one, role in named(found) if role == "compute"] == [kind]
    told = "choice (true: 96 FLOP, the other 8 FLOP)" if asked == "heavier" else f"choice ({asked})"
    assert found.notes[0] == f"inputs decide between branches; read were {told}"


def test_sequences_whose_items_are_known() -> None:
    nodes = [
        helper.make_node("SplitToSequence", ["x", "sizes"], ["parts"], name="split", axis=1),
        helper.make_node("SequenceAt", ["parts", "one"], ["second"], name="at"),
        helper.make_node("Relu", ["second"], ["r"], name="relu"),
        helper.make_node("SequenceConstruct", ["r", "r"], ["pair"], name="pair"),
        helper.make_node("ConcatFromSequence", ["pair"], ["y"], name="concat", axis=1),
    ]
    sizes = helper.make_tensor("sizes", INT64, [2], [1, 3])
    imported = import_graph("m.onnx", model(nodes, [tensor("x", 2, 4)], [sizes, number("one", 1)]))
    assert [(name, role) for name, _, role in named(imported)] == [
        ("x", "input"),
        ("split", "view"),
        ("at", "view"),
        ("relu", "compute"),
        ("pair", "view"),
        ("pair:1", "view"),
        ("concat", "compute"),
    ]
    operations = imported.graph.operations
    assert [t.bytes for t in imported.graph.tensors if operations[t.producer].name == "split"] == [8, 24]
    assert [t.bytes for t in imported.graph.tensors if t.output] == [48]
    unknown = model(nodes, [tensor("x", 2, 4), tensor("one", kind=INT64)], [sizes])
    with pytest.raises(InputError, match="which items the SequenceAt 'at' takes depends on the inputs"):
        import_graph("m.onnx", unknown)


def test_mutated_models_are_read_or_refused_in_words() -> None:
    assert len(import_graph("m.onnx", ONNX_CONTROL).graph.operations) > 20
    read = 0
    for seed in range(200):
        change = mutated_structure if seed % 2 else mutated_bytes
        try:
            read += len(import_graph("m.onnx", change(ONNX_CONTROL, Random(seed))).graph.operations) > 0
        except InputError as error:
            assert error.remedy
    assert read
