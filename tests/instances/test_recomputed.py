"""What each run computes of parameters alone: tables of positions stay parameters, and are trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chipmap.instances.placement.from_graph import from_graph, training_step
from chipmap.networks.graph import OperationGraph
from chipmap.networks.importers.common import ImportedGraph
from chipmap.networks.importers.program import imported
from chipmap.networks.importers.reading import import_graph
from chipmap.networks.importers.steps import Program, Step, Value
from tests.instances.programs import pt2

WORD, ROWS, WIDTH, LENGTH = 4, 16, 8, 4


def positions(recomputes: Any, buffers: tuple[str, ...] = ()) -> ImportedGraph:
    """Words and positions are looked up and added; positions are 0, 1, … whatever the words are."""
    shapes: dict[str, tuple[int, ...]] = {"ids": (1, LENGTH), "wte": (100, WIDTH), "wpe": (ROWS, WIDTH)}
    shapes |= {"places": (LENGTH,), "words": (1, LENGTH, WIDTH), "rows": (LENGTH, WIDTH), "wide": (1, LENGTH, WIDTH)}
    program = Program("p", "by hand", recomputes=recomputes)
    program.values = {name: Value(name, shape, 8 * WORD) for name, shape in {**shapes, "y": shapes["words"]}.items()}
    program.inputs, program.parameters, program.outputs = ["ids"], ["wte", "wpe"], ["y"]
    program.buffers = {*buffers}
    program.states = {"wte": "words.weight", "wpe": "places.weight"}
    size = LENGTH * WIDTH
    program.steps = [
        Step("words", "embedding", ("wte", "ids"), ("words",), size, moved=2 * size * WORD),
        Step("places", "arange", (), ("places",), fixed=True),
        Step("rows", "embedding", ("wpe", "places"), ("rows",), size, moved=2 * size * WORD),
        Step("wide", "unsqueeze", ("rows",), ("wide",), view=True),
        Step("y", "add", ("words", "wide"), ("y",), size),
    ]
    return imported(program, "here", "test")


def weights(graph: OperationGraph) -> dict[str, tuple[str, int]]:
    return {one.name: (one.role, one.weight_bytes) for one in graph.operations}


@pytest.mark.parametrize("recomputes", ["look-ups", "all"])
def test_a_look_up_of_fixed_rows_computes_and_holds_the_whole_table(recomputes: str) -> None:
    found = weights(positions(recomputes).graph)
    assert found["rows"] == ("compute", ROWS * WIDTH * WORD)
    assert found["wide"] == ("view", 0)


def test_a_look_up_in_a_buffer_and_in_a_folded_network_is_known_beforehand() -> None:
    assert weights(positions("all", ("wpe",)).graph)["rows"] == ("constant", 0)
    assert weights(positions("nothing").graph)["rows"] == ("constant", 0)


def test_a_table_of_positions_is_trained_whole() -> None:
    """Its gradient has all rows, as PyTorch's dense gradients do, and so has its optimiser state."""
    step = training_step(from_graph(positions("all"), "p")).instance
    assert step.states == {"words.weight": "words/weight", "places.weight": "rows/weight"}
    assert ("rows/weight", "rows/weight/update") in step.together
    names = {one.name: v for v, one in enumerate(step.graph.operations)}
    made = {v: sum(t.bytes for t in step.graph.tensors if t.producer == v) for v in names.values()}
    assert made[names["rows/weight"]] == ROWS * WIDTH * WORD
    gradients = [name for name in names if name.startswith("rows/") and "gradient" in name]
    assert gradients and all(made[names[name]] == ROWS * WIDTH * WORD for name in gradients)


def of_a_norm(recomputes: Any) -> dict[str, tuple[str, int]]:
    """A weight over its norm, transposed and multiplied; a mask cut out of a buffer and inverted."""
    shapes: dict[str, tuple[int, ...]] = {"x": (2, 8), "w": (4, 8), "norm": (4, 1), "unit": (4, 8), "t": (8, 4)}
    shapes |= {"mask": (4, 8), "cut": (2, 4), "not": (2, 4), "y": (2, 4), "z": (2, 4)}
    program = Program("p", "by hand", recomputes=recomputes)
    program.values = {name: Value(name, shape, 8 * WORD) for name, shape in shapes.items()}
    program.inputs, program.parameters, program.outputs, program.buffers = ["x"], ["w", "mask"], ["z"], {"mask"}
    program.steps = [
        Step("norm", "linalg_vector_norm", ("w",), ("norm",), 32),
        Step("unit", "div", ("w", "norm"), ("unit",), 32),
        Step("t", "t", ("unit",), ("t",), view=True),
        Step("cut", "slice", ("mask",), ("cut",), view=True),
        Step("not", "logical_not", ("cut",), ("not",), 8),
        Step("y", "mm", ("x", "t"), ("y",), 128),
        Step("z", "where", ("not", "y"), ("z",), 8),
    ]
    return weights(imported(program, "here", "test").graph)


def test_whatever_is_made_of_a_parameter_is_computed_and_what_is_made_of_buffers_is_not() -> None:
    found = of_a_norm("all")
    assert [found[name][0] for name in ("w", "norm", "unit", "t", "not", "y")] == [
        *("constant", "compute", "compute", "view", "constant", "compute")
    ]
    assert all(role != "compute" for role, _ in [of_a_norm("look-ups")[name] for name in ("norm", "unit", "not")])


def _node(target: str, name: str, *reads: str, **plain: Any) -> dict[str, Any]:
    inputs = [{"name": f"a{i}", "arg": {"as_tensor": {"name": read}}, "kind": 1} for i, read in enumerate(reads)]
    inputs += [{"name": key, "arg": {"as_int": value}, "kind": 1} for key, value in plain.items()]
    stack = {"nn_module_stack": f"a,,Net;b,{name},Inner"}
    made = [{"as_tensor": {"name": name}}]
    return {"target": f"torch.ops.{target}", "inputs": inputs, "outputs": made, "metadata": stack, "name": name}


def test_a_file_of_torch_keeps_its_table_and_says_whose_it_is(tmp_path: Path) -> None:
    def tensor(kind: int, *shape: int) -> dict[str, Any]:
        return {"dtype": kind, "sizes": [{"as_int": n} for n in shape], "requires_grad": False}

    graph = {
        "inputs": [{"as_tensor": {"name": name}} for name in ("p_wpe", "b_scale", "x")],
        "outputs": [{"as_tensor": {"name": "add"}}],
        "nodes": [
            _node("aten.arange.default", "arange", end=LENGTH),
            _node("aten.embedding.default", "wpe", "p_wpe", "arange"),
            _node("aten.exp.default", "exp", "b_scale"),
            _node("aten.mul.Tensor", "mul", "x", "exp"),
            _node("aten.add.Tensor", "add", "mul", "wpe"),
        ],
        "tensor_values": {
            "p_wpe": tensor(7, ROWS, WIDTH),
            "arange": tensor(5, LENGTH),
            **{name: tensor(7, LENGTH, WIDTH) for name in ("wpe", "x", "mul", "add")},
            **{name: tensor(7, WIDTH) for name in ("b_scale", "exp")},
        },
    }
    specs = [
        {"parameter": {"arg": {"name": "p_wpe"}, "parameter_name": "wpe.weight"}},
        {"buffer": {"arg": {"name": "b_scale"}, "buffer_name": "scale"}},
    ]
    path = tmp_path / "net.pt2"
    path.write_bytes(pt2({"graph_module": {"graph": graph, "signature": {"input_specs": specs}}}))
    found = import_graph(str(path))
    assert weights(found.graph)["wpe"] == ("compute", ROWS * WIDTH * WORD)
    assert weights(found.graph)["exp"] == ("constant", 0)
    assert found.states == {"wpe.weight": "p_wpe", "scale": "b_scale"}


def test_a_model_of_onnx_keeps_its_table(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
    from tests.instances.onnx_models import model, tensor, weight

    rows = onnx.helper.make_tensor("rows", onnx.TensorProto.INT64, (1, LENGTH), range(LENGTH))
    nodes = [
        onnx.helper.make_node("Gather", ["wpe", "rows"], ["place"], name="place"),
        onnx.helper.make_node("Add", ["x", "place"], ["y"], name="add"),
    ]
    path = tmp_path / "net.onnx"
    path.write_bytes(model(nodes, [tensor("x", 1, LENGTH, WIDTH)], [weight("wpe", ROWS, WIDTH), rows]))
    found = {one.name: one for one in import_graph(str(path)).graph.operations}
    held = ROWS * WIDTH * WORD + LENGTH * 8  # and the numbers of the rows
    assert (found["place"].role, found["place"].weight_bytes) == ("compute", held)
    assert found["add"].weight_bytes == 0
