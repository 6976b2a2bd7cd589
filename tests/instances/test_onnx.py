"""The reader of ONNX models: shipped models against counts by formula, small models by hand, and refusals."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from chipmap.cli import main
from chipmap.inputs.reading import dimensions
from chipmap.instances.ring.contraction import contract
from chipmap.instances.ring.from_graph import from_graph
from chipmap.instances.ring.problem import ring_problem
from chipmap.networks.importers import onnx_model
from chipmap.networks.importers.common import ImportedGraph
from chipmap.networks.importers.program import Program, imported
from chipmap.networks.importers.reading import import_graph
from chipmap.records import InputError
from tests.instances.programs import ONNX

onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
from onnx import TensorProto, helper  # noqa: E402 (after the check that it is there)

from tests.instances.onnx_models import model, tensor, weight  # noqa: E402

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
SHIPPED = sorted(LIGHT.glob("*.onnx"))


def flop(imported: ImportedGraph, *kinds: str) -> int:
    return sum(op.flop for op in imported.graph.operations if not kinds or op.kind in kinds)


def conv(out: int, size: int, inner: int, kernel: int) -> int:
    """2 per multiply-add of a convolution to ``out`` channels of ``size`` × ``size``."""
    return 2 * out * size * size * inner * kernel * kernel


def test_nine_models_are_shipped() -> None:
    assert len(SHIPPED) == 9


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_models(path: Path) -> None:
    imported = import_graph(str(path))
    assert imported.format == "onnx"
    assert imported.notes == ()
    assert imported.graph == import_graph(str(path), path.read_bytes()).graph
    assert contract(from_graph(imported, path.stem)).report["left"] > 0
    assert sum(op.role == "input" for op in imported.graph.operations) == 1
    assert all(op.flop > 0 for op in imported.graph.operations if op.role == "compute")


def resnet50() -> tuple[int, int]:
    """FLOP of convolutions and the classifier of ResNet-50 (strides in the 3 × 3 convolutions), and parameters."""
    total, parameters = conv(64, 112, 3, 7), 64 * 3 * 49 + 4 * 64
    inner = 64
    for blocks, width, size in ((3, 64, 56), (4, 128, 28), (6, 256, 14), (3, 512, 7)):
        for block in range(blocks):
            before = size * 2 if block == 0 and width > 64 else size
            layers = [(width, before, inner, 1), (width, size, width, 3), (4 * width, size, width, 1)]
            layers += [(4 * width, size, inner, 1)] if block == 0 else []
            total += sum(conv(*layer) for layer in layers)
            parameters += sum(out * i * k * k + 4 * out for out, _, i, k in layers)
            inner = 4 * width
    return total + 2 * 2048 * 1000, parameters + 2048 * 1000 + 1000


def alexnet() -> tuple[int, int]:
    """FLOP of convolutions (the second, fourth and fifth in two groups) and classifier of AlexNet, and parameters."""
    layers = ((96, 54, 3, 11), (256, 26, 48, 5), (384, 12, 256, 3), (384, 12, 192, 3), (256, 12, 192, 3))
    dense = ((9216, 4096), (4096, 4096), (4096, 1000))
    total = sum(conv(*layer) for layer in layers) + sum(2 * a * b for a, b in dense)
    return total, sum(o * i * k * k + o for o, _, i, k in layers) + sum(a * b + b for a, b in dense)


@pytest.mark.parametrize(("name", "count"), [("resnet50", resnet50), ("bvlc_alexnet", alexnet)])
def test_flop_and_weights_equal_a_count_by_formula(name: str, count: Any) -> None:
    imported = import_graph(str(LIGHT / f"light_{name}.onnx"))
    expected, parameters = count()
    assert flop(imported, "Conv", "Gemm") == expected
    assert flop(imported) == pytest.approx(expected, rel=0.01)
    assert sum(op.weight_bytes for op in imported.graph.operations) == 4 * parameters


def test_a_small_model() -> None:
    imported = import_graph("small.onnx", ONNX)
    assert [(op.name, op.role, op.flop, op.weight_bytes) for op in imported.graph.operations] == [
        ("x", "input", 0, 0),
        ("conv", "compute", 2 * 32 * 9, 80),
        ("r", "compute", 32, 0),
        ("p", "compute", 32, 0),
        ("f", "view", 0, 0),
        ("fc", "compute", 2 * 3 * 8, 96),
        ("z", "compute", 3, 0),
        ("out", "compute", 3, 0),
    ]
    assert [t.bytes for t in imported.graph.tensors] == [144, 128, 128, 32, 32, 12, 12, 12]
    assert [t.readers for t in imported.graph.tensors if t.producer == 5] == [(6, 7)]
    assert [t.producer for t in imported.graph.tensors if t.output] == [7]
    said = "FLOP of 1 operator not known: mine.Blend (1, 2.5% of all bytes moved); one per element was counted"
    assert imported.notes == (said,)


def test_products_and_recurrent_cells() -> None:
    node = helper.make_node
    cases: list[tuple[Any, list[tuple[int, ...]], int]] = [
        (node("MatMul", ["a", "b"], ["y"]), [(2, 5, 3), (2, 3, 4)], 2 * 2 * 5 * 3 * 4),
        (node("Gemm", ["a", "b"], ["y"], transA=1), [(3, 5), (3, 4)], 2 * 3 * 5 * 4),
        (node("Einsum", ["a", "b"], ["y"], equation="bij,bjk->bik"), [(2, 5, 3), (2, 3, 4)], 2 * 2 * 5 * 3 * 4),
        (node("ConvTranspose", ["a", "b"], ["y"]), [(1, 3, 4, 4), (3, 2, 2, 2)], 2 * 48 * 8),
        (node("Conv", ["a", "b"], ["y"], group=2), [(1, 4, 5, 5), (6, 2, 3, 3)], 2 * 54 * 18),
        (node("ReduceSum", ["a", "s"], ["y"]), [(7, 6)], 42),
        (node("Softmax", ["a"], ["y"]), [(7, 6)], 42),
    ]
    for call, shapes, expected in cases:
        inputs = [tensor(name, *shape) for name, shape in zip("ab", shapes, strict=False)]
        constants = [helper.make_tensor("s", TensorProto.INT64, [1], [1])]
        assert flop(import_graph("m.onnx", model([call], inputs, constants))) == expected, call.op_type
    weights = [weight("w", 1, 32, 5), weight("r", 1, 32, 8)]
    lstm = model([node("LSTM", ["a", "w", "r"], ["y"], hidden_size=8)], [tensor("a", 6, 2, 5)], weights)
    assert flop(import_graph("m.onnx", lstm)) == 2 * 6 * 2 * 4 * 8 * (5 + 8)


def test_a_shared_initializer_is_a_constant_that_views_rename() -> None:
    nodes = [
        helper.make_node("Transpose", ["w"], ["t"]),
        helper.make_node("MatMul", ["x", "t"], ["h"]),
        helper.make_node("MatMul", ["h", "w"], ["y"]),
    ]
    imported = import_graph("m.onnx", model(nodes, [tensor("x", 2, 3)], [weight("w", 4, 3)]))
    assert [(op.name, op.kind, op.role, op.weight_bytes) for op in imported.graph.operations] == [
        ("x", "input", "input", 0),
        ("w", "parameter", "constant", 0),
        ("t", "Transpose", "view", 0),
        ("h", "MatMul", "compute", 0),
        ("y", "MatMul", "compute", 0),
    ]
    assert [(t.producer, t.readers, t.bytes) for t in imported.graph.tensors] == [
        (0, (3,), 24),
        (1, (2, 4), 48),
        (2, (3,), 48),
        (3, (4,), 32),
        (4, (), 24),
    ]
    assert "that several operations read: w" in imported.notes[0]
    on_one = ring_problem(from_graph(imported, "m"))
    assert on_one.ticks[3] == on_one.ticks[4] == -(-(24 + 48 + 32) * 100 // 200)  # each reads it


def test_dimensions_are_given_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = model([helper.make_node("Relu", ["x"], ["y"])], [tensor("x", "batch", 4)])
    with pytest.raises(InputError, match="the dimension 'batch' of tensor 'x' has no value") as error:
        import_graph("m.onnx", data)
    assert "--dim batch=8" in error.value.remedy
    assert [t.bytes for t in import_graph("m.onnx", data, {"batch": (8,)}).graph.tensors] == [128, 128]
    assert [t.bytes for t in import_graph("m.onnx", data, {"x": (3, 4)}).graph.tensors] == [48, 48]
    two = model([helper.make_node("Add", ["x", "z"], ["y"])], [tensor("x", "batch", 4), tensor("z", "batch", 1)])
    assert [t.bytes for t in import_graph("m.onnx", two, {"x": (3, 4)}).graph.tensors] == [48, 12, 48]
    with pytest.raises(InputError, match="there is no dimension or tensor 'size'") as error:
        import_graph("m.onnx", data, {"size": (8,)})
    assert "batch" in error.value.remedy
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    convert = ["convert", str(path), "--family", "ring", "--out", "-"]
    assert main([*convert, "--dim", "batch=8"]) == 0
    assert '"schema"' in capsys.readouterr().out
    assert main([*convert, "--dim", "batch=many"]) == 1
    assert "gives no dimension a value" in capsys.readouterr().err


def suggested(error: InputError) -> dict[str, tuple[int, ...]]:
    """What a remedy says of dimensions, read as a shell and the command line read it."""
    words = shlex.split(error.remedy.partition("add ")[2].partition(" to the command")[0])
    assert words[0] == "--dim"
    return dimensions(words[1:])


def test_shape_of_a_custom_operator() -> None:
    nodes = [helper.make_node("Blend", ["x"], ["z"], domain="mine"), helper.make_node("Relu", ["z"], ["y"])]
    data = model(nodes, [tensor("x", 4)])
    with pytest.raises(InputError, match=r"the shape of tensor 'z' \(made by Blend 'z'\) is not known") as error:
        import_graph("m.onnx", data)
    assert suggested(error.value)["z"]
    imported = import_graph("m.onnx", data, {"z": (2, 8)})
    assert [t.bytes for t in imported.graph.tensors] == [16, 64, 64]
    assert "mine.Blend (1, " in imported.notes[0]


def test_shape_of_a_custom_operator_in_a_loop() -> None:
    """Each step would ask for one: the remedy says so."""
    step = [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Blend", ["s"], ["t"], domain="mine")]
    parts = [tensor("i"), tensor("go"), helper.make_tensor_value_info("s", 1, [4])]
    body = helper.make_graph(step, "body", parts, [tensor("on"), helper.make_tensor_value_info("t", 1, None)])
    nodes = [helper.make_node("Constant", [], ["n"], value=helper.make_tensor("n", 7, [], [2]))]
    nodes += [helper.make_node("Loop", ["n", "", "x"], ["y"], name="loop", body=body)]
    with pytest.raises(InputError, match=r"the shape of tensor 'loop/0/t'") as error:
        import_graph("m.onnx", model(nodes, [tensor("x", 4)]))
    assert "an EmbeddingBag as one operator" in error.value.remedy


def test_shapes_that_depend_on_data() -> None:
    nodes = [helper.make_node("NonZero", ["x"], ["n"], name="find"), helper.make_node("Cast", ["n"], ["y"], to=1)]
    with pytest.raises(InputError, match=r"tensor 'n' \(made by NonZero 'find'\) is not known"):
        import_graph("m.onnx", model(nodes, [tensor("x", 4)]))


def test_control_flow_that_inputs_decide_is_refused_until_the_model_has_a_value() -> None:
    body = helper.make_graph([helper.make_node("Identity", ["c"], ["d"])], "body", [], [tensor("d", 1)])
    loop = helper.make_node("Loop", ["n", "", "x"], ["y"], name="steps", body=body)
    with pytest.raises(InputError, match="control flow: what the Loop 'steps' does depends on 'n'") as error:
        import_graph("m.onnx", model([loop], [tensor("n", kind=TensorProto.INT64), tensor("x", 1)]))
    assert "unrolled" in error.value.remedy


def test_data_in_other_files_need_not_be_there() -> None:
    data = model([helper.make_node("MatMul", ["x", "w"], ["y"])], [tensor("x", 2, 3)], [weight("w", 3, 4)])
    parsed = onnx.ModelProto.FromString(data)
    parsed.graph.initializer[0].ClearField("float_data")
    parsed.graph.initializer[0].data_location = TensorProto.EXTERNAL
    parsed.graph.initializer[0].external_data.add(key="location", value="nowhere.bin")
    imported = import_graph("m.onnx", parsed.SerializeToString())
    assert imported.graph.operations[1].weight_bytes == 48
    assert "the data of 1 initializer lies in other files" in imported.notes[0]


def test_functions_are_inlined_and_recursion_refused() -> None:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    twice = helper.make_function(
        "mine", "Twice", ["a"], ["c"], [helper.make_node("Add", ["a", "a"], ["c"])], opsets[:1]
    )
    parsed = onnx.ModelProto.FromString(
        model([helper.make_node("Twice", ["x"], ["y"], domain="mine")], [tensor("x", 4)])
    )
    parsed.functions.append(twice)
    assert [op.kind for op in import_graph("m.onnx", parsed.SerializeToString()).graph.operations] == ["input", "Add"]
    parsed.functions[0].node[0].CopyFrom(helper.make_node("Twice", ["a"], ["c"], domain="mine"))
    with pytest.raises(InputError, match="calls itself"):
        import_graph("m.onnx", parsed.SerializeToString())


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"hello", "not an ONNX model"),
        (b"\x08\x09", "without operators"),
        (ONNX.replace(b"Blend", b"Bl\xffnd"), "is not UTF-8"),
        (model([helper.make_node("Relu", ["u"], ["y"])], [tensor("x", 4)]), "reads 'u', which nothing before"),
        (model([helper.make_node("Relu", ["x"], ["y"])], [tensor("x", -5)]), "has no value"),
        (model([helper.make_node("Relu", ["x"], ["y"])], [tensor("x", 2**62)]), "has the shape"),
        (model([helper.make_node("Relu", ["x"], ["y"])], [tensor("x", None)]), "input 'x' has no shape"),
        (model([helper.make_node("Identity", ["x"], ["y"])], [tensor("x", 2, kind=8)]), "tensor 'x' holds strings"),
        (model([helper.make_node("Relu", ["w"], ["y"])], [], [weight("w", 2)]), "nothing in it computes"),
        (model([helper.make_node("Relu", ["x"], ["y"])], [tensor("x", 2)] * 2), "two inputs 'x'"),
        (model([helper.make_node("Relu", ["x"], ["y"])] * 2, [tensor("x", 2)]), "tensor 'y' is made twice"),
        (model([helper.make_node("Add", ["x", "y"], ["y"])], [tensor("x", 2)]), "which nothing before"),
        (
            model([helper.make_node("Add", ["x", "w"], ["y"])], [tensor("x", 2)], [TensorProto(name="w", dims=[2])]),
            "unknown type 0",
        ),
    ],
)
def test_refusals_name_what_is_wrong(data: bytes, said: str) -> None:
    with pytest.raises(InputError) as error:
        import_graph("m.onnx", data)
    assert said in str(error.value)
    assert error.value.where.startswith("m.onnx")
    assert error.value.remedy


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(InputError, match=r'pip install "chipmap\[onnx\]"'):
        import_graph("m.onnx", ONNX)


def test_arguments_are_attributes_defaults_and_constant_operands(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = {"starts": [1], "ends": [9], "axes": [2], "split": [2, 1], "where": [0, 1], "last": [-1]}
    constants = [helper.make_tensor(n, TensorProto.INT64, [len(v)], v) for n, v in numbers.items()]
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1], name="transpose"),
        helper.make_node("Slice", ["t", "starts", "ends", "axes"], ["s"], name="slice"),
        helper.make_node("Constant", [], ["c"], name="c", value_ints=[1]),
        helper.make_node("ReduceSum", ["s", "last"], ["r"], keepdims=0, name="sum"),
        helper.make_node("Softmax", ["r"], ["o"], name="softmax"),
        helper.make_node("Split", ["o", "split"], ["y", "z"], axis=1, name="split"),
    ]
    seen = arguments_by_name(model(nodes, [tensor("x", 2, 4, 3)], constants), monkeypatch)
    assert seen["transpose"] == {"perm": [0, 2, 1]}
    assert seen["slice"] == {"starts": [1], "ends": [9], "axes": [2]}
    assert seen["sum"] == {"keepdims": 0, "noop_with_empty_axes": 0, "axes": [-1]}
    assert seen["softmax"] == {"axis": -1}
    assert seen["split"] == {"axis": 1, "split": [2, 1]}
    gelu = model([helper.make_node("Elu", ["x"], ["y"], alpha=0.5, name="elu")], [tensor("x", 2)])
    assert arguments_by_name(gelu, monkeypatch)["elu"] == {"alpha": 0.5}


def arguments_by_name(data: bytes, monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    """The arguments of each step that the reader hands on."""
    found: dict[str, dict[str, Any]] = {}

    def listed(program: Program, *rest: Any) -> ImportedGraph:
        found.update({step.name: dict(step.arguments) for step in program.steps})
        return imported(program, *rest)

    monkeypatch.setattr(onnx_model, "imported", listed)
    import_graph("m.onnx", data)
    return found


def test_every_node_has_an_operation_of_its_name() -> None:
    """Nodes without a name have that of their first result; a name that several nodes have gets a number."""
    nodes = [
        helper.make_node("Split", ["x"], ["", "right"]),
        helper.make_node("Relu", ["right"], ["a"], name="same"),
        helper.make_node("Relu", ["a"], ["b"], name="same"),
        helper.make_node("Shape", ["b"], ["s"], name="shape"),
        helper.make_node("Reshape", ["b", "s"], ["y"], name="reshape"),
    ]
    imported = import_graph("m.onnx", model(nodes, [tensor("x", 4, 3)]))
    names = [op.name for op in imported.graph.operations]
    assert names[:3] == ["x", "right", "same"]
    assert names[3].startswith("same")
    assert names[4:] == ["shape", "reshape"]
    assert names == [op.name for op in import_graph("m.onnx", model(nodes, [tensor("x", 4, 3)])).graph.operations]


def test_equal_weights_of_different_names_are_different_weights() -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("MatMul", ["h", "v"], ["y"])]
    imported = import_graph("m.onnx", model(nodes, [tensor("x", 2, 3)], [weight("w", 3, 3), weight("v", 3, 3)]))
    assert [op.weight_bytes for op in imported.graph.operations] == [0, 36, 36]


def test_open_dimensions_without_names_have_a_command_that_parses() -> None:
    data = model([helper.make_node("Relu", ["the input"], ["y"])], [tensor("the input", None, 4)])
    with pytest.raises(InputError, match="has no value") as error:
        import_graph("m.onnx", data)
    given = suggested(error.value)
    assert [t.bytes for t in import_graph("m.onnx", data, given).graph.tensors] == [given["the input[0]"][0] * 16] * 2
    shapeless = model([helper.make_node("Relu", ["it's"], ["y"])], [tensor("it's", None)])
    with pytest.raises(InputError, match="has no shape") as error:
        import_graph("m.onnx", shapeless)
    assert len(import_graph("m.onnx", shapeless, suggested(error.value)).graph.operations) == 2
