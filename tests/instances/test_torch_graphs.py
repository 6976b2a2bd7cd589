"""Graphs inside graphs, changes in place and bookkeeping of PyTorch programs, in files made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chipmap.inputs.reading import read
from chipmap.instances.ring.instance import RingInstance
from chipmap.networks.graph import OperationGraph
from chipmap.networks.importers.counting import Counting
from chipmap.networks.importers.reading import import_graph
from chipmap.networks.importers.steps import Program, Step
from chipmap.networks.importers.torch.file import read_file
from chipmap.networks.importers.torch.steps import WRAPPERS, Steps
from chipmap.records import InputError, Source
from chipmap.solve import solve
from tests.instances.programs import TORCH, pt2


def argument(value: Any) -> dict[str, Any]:
    """An argument as files have it; a text names a tensor, one in brackets a symbolic number."""
    if isinstance(value, bool):
        return {"as_bool": value}
    if isinstance(value, int | float):
        return {"as_int" if isinstance(value, int) else "as_float": value}
    if isinstance(value, str):
        return {"as_sym_int": {"as_name": value[1:-1]}} if value[:1] == "[" else {"as_tensor": {"name": value}}
    if isinstance(value, dict):
        return {"as_graph": {"name": "body", "graph": value}}
    if all(isinstance(item, str) for item in value):
        return {"as_tensors": [{"name": item} for item in value]}
    return {"as_ints": value}


def call(name: str, target: str, *values: Any, makes: Any = None, single: bool | None = None, **named: Any) -> Any:
    """A node; it makes a tensor of its own name unless ``makes`` says otherwise."""
    higher = target if "." in target else f"higher_order.{target}"
    inputs = [{"name": "" if "." not in target else f"a{i}", "arg": argument(v)} for i, v in enumerate(values)]
    inputs += [{"name": key, "arg": argument(value)} for key, value in named.items()]
    outputs = [argument(item) for item in ([name] if makes is None else makes)]
    node = {"target": f"torch.ops.{higher}", "inputs": inputs, "outputs": outputs, "name": name, "metadata": {}}
    return node | {"is_hop_single_tensor_return": single}


def graph(inputs: list[str], nodes: list[Any], outputs: list[Any], tensors: dict[str, Any], **more: Any) -> Any:
    """A graph; ``tensors`` are the shapes, sizes in text being expressions."""
    size = {int: lambda n: {"as_int": n}, str: lambda n: {"as_expr": {"expr_str": n, "hint": None}}}
    values = {
        name: {"dtype": 7, "sizes": [size[type(n)](n) for n in shape], "layout": 7} for name, shape in tensors.items()
    }
    texts = {"inputs": [argument(name) for name in inputs], "outputs": [argument(name) for name in outputs]}
    return {**texts, "nodes": nodes, "tensor_values": values, "sym_int_values": {}, **more}


def program(inner: Any, stored: tuple[str, ...] = ()) -> bytes:
    """The file of a graph whose inputs of these names are parameters."""
    specs = [{"parameter": {"arg": {"name": name}, "parameter_name": name}} for name in stored]
    return pt2({"graph_module": {"graph": inner, "signature": {"input_specs": specs}}, "torch_version": "2.13.0"})


def steps_of(data: bytes, given: Any = None) -> list[Step]:
    made = Program("m", "")
    Steps(made, given or {}, "m", Counting()).run(read_file(Source("m.pt2", data))[0].graph)
    return made.steps


def edges(made: OperationGraph) -> set[tuple[str, str]]:
    names = [operation.name for operation in made.operations]
    return {(names[t.producer], names[v]) for t in made.tensors for v in t.readers}


def roles(data: bytes) -> dict[str, str]:
    return {op.name: op.role for op in import_graph("m.pt2", data).graph.operations}


SQUARE = [3, 3]


def wrapped(wrapper: str, *before: Any, single: bool = False) -> bytes:
    """linear -> a wrapper around linear and relu -> add; the wrapper's graph calls its tensors by outer names."""
    body = graph(
        ["linear", "w"],
        [call("linear_1", "aten.linear.default", "linear", "w"), call("relu", "aten.relu.default", "linear_1")],
        ["relu"],
        {"linear": SQUARE, "w": SQUARE, "linear_1": SQUARE, "relu": SQUARE},
        is_single_tensor_return=single,
    )
    makes = ["outer"] if single else ["relu"]
    nodes = [
        call("linear", "aten.linear.default", "x", "w"),
        call("outer", wrapper, *before, body, "linear", "w", makes=makes, single=single),
        call("add", "aten.add.Tensor", makes[0], "linear"),
    ]
    shapes = dict.fromkeys(("x", "w", "linear", "outer", "relu", "add"), SQUARE)
    return program(graph(["w", "x"], nodes, ["add"], shapes), ("w",))


@pytest.mark.parametrize("wrapper", sorted(WRAPPERS))
def test_wrappers_that_just_run_their_graph_are_inlined(wrapper: str) -> None:
    """Names stay unique, and every product is there: the second layer's input is the first's result."""
    imported = import_graph("m.pt2", wrapped(wrapper, *((True,) if "grad" in wrapper else ())))
    assert [op.name for op in imported.graph.operations] == [
        "x",
        "w",
        "linear",
        "outer.linear_1",
        "outer.relu",
        "relu",
        "add",
    ]
    assert {
        ("linear", "outer.linear_1"),
        ("outer.linear_1", "outer.relu"),
        ("outer.relu", "relu"),
        ("relu", "add"),
    } < edges(imported.graph)
    assert sum(op.flop for op in imported.graph.operations) == 2 * 2 * 27 + 9 + 9


def test_wrappers_that_return_a_tensor_itself() -> None:
    made = import_graph("m.pt2", wrapped("wrap", single=True)).graph
    assert ("outer.relu", "add") in edges(made)
    assert "outer" not in {op.name for op in made.operations}


def test_wrappers_in_wrappers() -> None:
    data: Any = graph(["x"], [call("relu", "aten.relu.default", "x")], ["relu"], {"x": SQUARE, "relu": SQUARE})
    for _ in range(3):
        nodes = [call("relu", "wrap_with_autocast", True, data, "x", makes=["getitem"], single=False)]
        data = graph(["x"], nodes, ["getitem"], {"x": SQUARE, "getitem": SQUARE})
    names = [op.name for op in import_graph("m.pt2", program(data)).graph.operations]
    assert names == ["x", "relu.relu.relu.relu", "relu.relu.getitem", "relu.getitem", "getitem"]


@pytest.mark.parametrize(
    ("hop", "remedy"),
    [
        ("cond", "torch.cond(True"),
        ("while_loop", "range(3)"),
        ("associative_scan", "loop over"),
    ],
)
def test_control_flow_is_refused_with_what_to_write_instead(hop: str, remedy: str) -> None:
    with pytest.raises(InputError, match="control flow: node 'outer'") as error:
        import_graph("m.pt2", wrapped(hop))
    assert remedy in error.value.remedy


def test_operators_that_wrappers_call_are_counted() -> None:
    node = call("out_dtype", "out_dtype", "x", "x", single=True)
    node["inputs"].insert(0, {"name": "", "arg": {"as_operator": "torch.ops.aten.mm.default"}})
    data = program(graph(["x"], [node], ["out_dtype"], {"x": [3, 4], "out_dtype": [3, 4]}))
    (op,) = [op for op in import_graph("m.pt2", data).graph.operations if op.role == "compute"]
    assert (op.name, op.kind, op.flop) == ("out_dtype", "mm", 2 * 12 * 4)


def test_arguments_by_name() -> None:
    """Numbers, texts and lists of whole numbers, symbolic ones with their values."""
    nodes = [
        call("sym_size", "aten.sym_size.int", "x", makes=["[sym_size]"], dim=0),
        call("view", "aten.view.default", "x"),
        call("permute", "aten.permute.default", "view", dims=[1, 0], scale=0.5, flag=True, tensors=["x", "x"]),
    ]
    nodes[1]["inputs"].append({"name": "size", "arg": {"as_sym_ints": [{"as_name": "sym_size"}, {"as_int": -1}]}})
    nodes[2]["inputs"].append({"name": "mode", "arg": {"as_string": "same"}})
    size = {"sym_size": {"as_expr": {"expr_str": "Symbol('s0', integer=True)", "hint": None}}}
    shapes = {"x": ["s0", 2], "view": ["s0", 2], "permute": [2, "s0"]}
    data = program(graph(["x"], nodes, ["permute"], shapes, sym_int_values=size))
    found = {step.name: dict(step.arguments) for step in steps_of(data, {"s0": (5,)})}
    assert found == {
        "sym_size": {"dim": 0},
        "view": {"size": [5, -1]},
        "permute": {"dims": [1, 0], "scale": 0.5, "flag": True, "mode": "same"},
    }


def loaded(data: dict[str, Any]) -> tuple[set[str], set[tuple[str, str]]]:
    """The nodes of a file's top graph as ``torch.export.load`` makes them, and which reads which."""
    names, pairs = set(), set()
    for node in data["nodes"]:
        own = node["name"]
        names.add(own)
        made = [item["name"] for out in node["outputs"] for item in _tensors(out)]
        if made != [own]:
            names |= set(made)
            pairs |= {(own, name) for name in made}
        pairs |= {(item["name"], own) for read in node["inputs"] for item in _tensors(read["arg"])}
    return names, {(a, b) for a, b in pairs if a in names}


def _tensors(value: dict[str, Any]) -> list[Any]:
    return [*value.get("as_tensors", []), *([value["as_tensor"]] if "as_tensor" in value else [])]


def test_a_graph_split_by_the_mapping_has_no_cycle(tmp_path: Path) -> None:
    """Every node of the torch graph has a chip, and no edge of that graph leads back."""
    data = TORCH["graph_module"]["graph"]
    path = tmp_path / "small.pt2"
    path.write_bytes(pt2(TORCH))
    instance = read(path, ["package.chips=3", "package.link_bytes_per_ns=null"], family="ring")
    result = solve(instance)
    assert isinstance(instance, RingInstance)
    assert result.solution is not None
    chip = dict(zip((op.name for op in instance.graph.operations), result.solution["chips"], strict=True))
    assert len(set(chip.values())) > 1
    names, pairs = loaded(data)
    assert {"split", "left", "right"} < names <= chip.keys()
    assert all(chip[a] <= chip[b] for a, b in pairs)
    assert {("split", "left"), ("split", "right")} < edges(instance.graph)


def test_a_shape_that_could_come_before_its_tensor_is_computed() -> None:
    """``zeros_like(h)`` is a constant where its readers depend on h anyway; else it reads h."""
    shapes = dict.fromkeys(("x", "h", "zeros_like", "add", "mul", "where"), SQUARE)
    like = call("zeros_like", "aten.zeros_like.default", "h")
    head = [call("h", "aten.mm.default", "x", "x"), like]
    reader = [call("where", "aten.where.self", "h", "zeros_like")]
    same = program(graph(["x"], [*head, *reader], ["where"], shapes))
    assert roles(same)["zeros_like"] == "constant"
    apart = [call("add", "aten.add.Tensor", "x", "zeros_like"), call("mul", "aten.mul.Tensor", "h", "add")]
    other = import_graph("m.pt2", program(graph(["x"], [*head, *apart], ["mul"], shapes)))
    made = {op.name: op for op in other.graph.operations}
    assert (made["zeros_like"].role, made["zeros_like"].flop, made["zeros_like"].moved_bytes) == ("compute", 9, 36)
    assert ("h", "zeros_like") in edges(other.graph)


def test_numbers_that_depend_on_data_are_followed() -> None:
    """item -> arithmetic -> a slice of that length: the slice comes after what its length is computed from."""
    size = {"as_expr": {"expr_str": "Symbol('u0', integer=True)", "hint": None}}
    nodes = [
        call("sum", "aten.sum.default", "x"),
        call("item", "aten.item.default", "sum", makes=["[item]"]),
        {**call("mul", "aten.mul", "[item]", 2, makes=["[mul]"]), "target": "_operator.mul"},
        call("check", "aten._assert_scalar.default", "[mul]", makes=[]),
        call("y", "aten.mm.default", "x", "x"),
        call("narrow", "aten.narrow.default", "y", dim=0, start=0, length="[mul]"),
        call("relu", "aten.relu.default", "narrow"),
    ]
    shapes = {"x": SQUARE, "y": SQUARE, "sum": [], "narrow": ["2*u0", 3], "relu": ["2*u0", 3]}
    inner = graph(["x"], nodes, ["relu"], shapes, sym_int_values={"item": size, "mul": size})
    made = import_graph("m.pt2", program(inner), {"u0": (1,)}).graph
    assert {("item", "mul"), ("mul", "check"), ("mul", "narrow"), ("y", "narrow")} < edges(made)
    assert {op.name: op.role for op in made.operations if op.name in ("item", "mul", "check", "narrow")} == {
        "item": "compute",
        "mul": "view",
        "check": "view",
        "narrow": "view",
    }


def changed(*nodes: Any, stored: tuple[str, ...] = (), output: str = "out") -> OperationGraph:
    shapes = {"x": [4, 3], "y": [4, 3], "flat": [12], "row": [3], "cache": [4, 3], "copy_": [3], "add_": [4, 3]}
    shapes |= {"out": [12], "whole": [4, 3], "h": [3]}
    inputs = [*stored, "x", "h"]
    return import_graph("m.pt2", program(graph(inputs, list(nodes), [output], shapes), stored)).graph


def test_a_change_of_all_is_seen_through_earlier_views() -> None:
    made = changed(
        call("y", "aten.clone.default", "x"),
        call("flat", "aten.view.default", "y"),
        call("add_", "aten.add_.Tensor", "y", "x"),
        call("out", "aten.relu.default", "flat"),
    )
    assert {("add_", "flat_after_add_"), ("flat_after_add_", "out")} < edges(made)
    assert ("flat", "out") not in edges(made)


def test_a_change_of_a_part_is_seen_by_readers_of_the_whole() -> None:
    made = changed(
        call("y", "aten.clone.default", "x"),
        call("row", "aten.select.int", "y", dim=0, index=0),
        call("copy_", "aten.copy_.default", "row", "h"),
        call("whole", "aten.relu.default", "y"),
        output="whole",
    )
    assert {("y", "y_after_copy_"), ("copy_", "y_after_copy_"), ("y_after_copy_", "whole")} < edges(made)
    assert {op.name: op.role for op in made.operations}["y_after_copy_"] == "view"


def test_a_cache_that_is_written_is_kept_and_read_with_what_was_written() -> None:
    nodes = [
        call("row", "aten.select.int", "cache", dim=0, index=0),
        call("copy_", "aten.copy_.default", "row", "h"),
    ]
    made = changed(*nodes, call("whole", "aten.relu.default", "cache"), stored=("cache",), output="whole")
    assert {("copy_", "cache_after_copy_"), ("cache_after_copy_", "whole")} < edges(made)
    ops = {op.name: op for op in made.operations}
    assert (ops["cache_after_copy_"].role, ops["cache_after_copy_"].moved_bytes) == ("compute", 0)
    unread = changed(*nodes, call("whole", "aten.relu.default", "x"), stored=("cache",), output="whole")
    names = [op.name for op in unread.operations]
    assert {names[t.producer] for t in unread.tensors if t.output} == {"copy_", "whole"}


@pytest.mark.parametrize("kind", ["swapdims", "ravel", "atleast_2d", "view_as_real", "conj", "hsplit"])
def test_views_under_their_rarer_names_move_nothing(kind: str) -> None:
    made = changed(
        call("y", "aten.clone.default", "x"),
        call("flat", f"aten.{kind}.default", "y"),
        call("out", "aten.relu.default", "flat"),
    )
    assert {op.name: (op.role, op.flop) for op in made.operations}["flat"] == ("view", 0)


def test_a_product_of_complex_numbers_is_said_to_count_as_one_of_real_ones() -> None:
    """PyTorch's counter has 2 FLOP for a multiply-add of any type; of complex numbers it is 8 real ones."""
    values = graph(["x", "w"], [call("y", "aten.mm.default", "x", "w")], ["y"], {"x": [4, 3], "w": [3, 2], "y": [4, 2]})
    assert import_graph("m.pt2", program(values)).notes == ()
    for value in values["tensor_values"].values():
        value["dtype"] = 10
    read = import_graph("m.pt2", program(values))
    assert read.graph.operations[2].flop == 2 * 4 * 3 * 2
    (note,) = read.notes
    assert note.startswith("48 FLOP on complex numbers count as on real ones (mm 48 FLOP)")


def test_a_transpose_in_place_changes_no_number() -> None:
    """``y.t_()`` gives the tensor another shape: later readers of ``y`` read the view, and nothing is computed."""
    made = changed(
        call("y", "aten.clone.default", "x"),
        call("flat", "aten.t_.default", "y"),
        call("out", "aten.relu.default", "y"),
    )
    assert {op.name: (op.role, op.flop) for op in made.operations}["flat"] == ("view", 0)
    assert {("y", "flat"), ("flat", "out")} < edges(made)


def test_an_operator_that_returns_nothing_is_refused() -> None:
    node = call("twist", "mine.twist.default", "x", "h", makes=[])
    with pytest.raises(InputError, match=r"'twist' \(mine.twist\) returns nothing") as error:
        changed(node, call("out", "aten.relu.default", "x"))
    assert "run_decompositions({})" in error.value.remedy


def test_shapes_inside_a_vmap_are_refused() -> None:
    node = call("_add_batch_dim", "aten.x", "x", 0, 1)
    node["target"] = "torch._functorch.predispatch._add_batch_dim"
    with pytest.raises(InputError, match="'_add_batch_dim' is part of a vmap"):
        import_graph("m.pt2", program(graph(["x"], [node], ["x"], {"x": SQUARE, "_add_batch_dim": [3]})))


@pytest.mark.parametrize(
    ("number", "bits"),
    [(1, 8), (3, 16), (5, 64), (6, 16), (9, 32), (10, 64), (11, 128), (12, 8), (13, 16), (29, 8), (33, 8), (35, 64)],
)
def test_bytes_of_each_type(number: int, bits: int) -> None:
    """Numbers of torch's schema: half, bfloat16, float8, complex …"""
    inner = graph(["x"], [call("relu", "aten.relu.default", "x")], ["relu"], {"x": [4], "relu": [4]})
    inner["tensor_values"]["x"]["dtype"] = number
    made = import_graph("m.pt2", program(inner)).graph
    assert made.tensors[0].bytes == 4 * bits // 8


def test_sparse_tensors_are_refused() -> None:
    inner = graph(["x"], [call("relu", "aten.relu.default", "x")], ["relu"], {"x": [4], "relu": [4]})
    inner["tensor_values"]["x"]["layout"] = 2
    with pytest.raises(InputError, match="tensor 'x' is sparse"):
        import_graph("m.pt2", program(inner))
