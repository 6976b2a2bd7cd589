"""Where the bytes of parameters stand: parameters with one reader, with several, read in parts, and never read."""

from __future__ import annotations

import pytest

from chipmap.instances.ring.from_graph import from_graph
from chipmap.instances.ring.problem import ring_problem
from chipmap.networks.importers.common import ImportedGraph
from chipmap.networks.importers.program import Program, Step, Value, imported


def read(
    shapes: dict[str, tuple[int, ...]], steps: list[Step], outputs: tuple[str, ...], **also: bool
) -> ImportedGraph:
    """The graph of a program with the input ``x``; what no step makes are parameters. Numbers have 4 bytes."""
    program = Program("p", "by hand", **also)  # type: ignore[arg-type]
    program.values = {name: Value(name, shape, 32) for name, shape in shapes.items()}
    made = {name for step in steps for name in step.makes}
    program.inputs = ["x"]
    program.parameters = [name for name in shapes if name not in made and name != "x"]
    program.steps, program.outputs = steps, list(outputs)
    return imported(program, "here", "test")


def view(name: str, of: str, *makes: str) -> Step:
    return Step(name, "view", (of,), makes or (name,), view=True)


def compute(name: str, *reads: str) -> Step:
    return Step(name, "compute", reads, (name,))


def bytes_of(graph: ImportedGraph) -> dict[str, tuple[str, int, list[int]]]:
    """Of each operation: role, own weights, bytes of the tensors that it makes."""
    made: dict[int, list[int]] = {}
    for tensor in graph.graph.tensors:
        made.setdefault(tensor.producer, []).append(tensor.bytes)
    return {op.name: (op.role, op.weight_bytes, made.get(v, [])) for v, op in enumerate(graph.graph.operations)}


GPT: dict[str, tuple[int, ...]] = {
    "table": (1000, 8),
    "x": (4,),
    "rows": (4, 8),
    "turned": (8, 1000),
    "head": (4, 1000),
}


def test_a_tied_table_is_a_constant_that_both_readers_share() -> None:
    """The head of a language model reads the table of its embedding, transposed."""
    steps = [compute("rows", "table", "x"), view("turned", "table"), compute("head", "rows", "turned")]
    graph = read(GPT, steps, ("head",))
    assert bytes_of(graph) == {
        "x": ("input", 0, [16]),
        "table": ("constant", 0, [32000]),
        "rows": ("compute", 0, [128]),
        "turned": ("view", 0, [32000]),
        "head": ("compute", 0, [16000]),
    }
    assert graph.notes == ("parameters that several operations read: table",)
    problem = ring_problem(from_graph(graph, "p"))
    assert problem.ticks[4] == -(-(128 + 32000 + 16000) * 100 // 200)


def test_a_parameter_with_one_reader_is_that_readers() -> None:
    """However often and through whatever views the operation reads it."""
    steps = [compute("rows", "x"), view("turned", "table"), compute("head", "rows", "turned", "table", "table")]
    graph = read(GPT, steps, ("head",))
    assert bytes_of(graph) == {
        "x": ("input", 0, [16]),
        "table": ("constant", 0, [0]),
        "rows": ("compute", 0, [128]),
        "turned": ("constant", 0, [0]),
        "head": ("compute", 32000, [16000]),
    }
    assert graph.notes == ()


@pytest.mark.parametrize("nodes", [True, False])
def test_a_stack_that_is_read_in_parts_rests_in_parts(nodes: bool) -> None:
    """Each expert of a stack is a parameter of its own; one that two operations read is a constant that they share."""
    shapes = {"stack": (3, 2, 4), "x": (4,), "a": (2, 4), "b": (2, 4), "c": (2, 4), "y": (2,), "z": (2,), "sum": (2,)}
    steps = [
        view("cut", "stack", "a", "b", "c"),
        compute("y", "x", "a"),
        compute("z", "x", "b"),
        compute("sum", "y", "z", "b"),
    ]
    graph = read(shapes, steps, ("sum",), parameter_nodes=nodes)
    found = bytes_of(graph)
    assert found.pop("stack", ("constant", 0, [0])) == ("constant", 0, [0])
    assert found == {
        "x": ("input", 0, [16]),
        "cut": ("constant", 0, [0, 32, 0]),
        "y": ("compute", 32, [8]),
        "z": ("compute", 0, [8]),
        "sum": ("compute", 0, [8]),
    }


@pytest.mark.parametrize("readers", [1, 2])
def test_of_a_table_that_is_cut_only_the_rows_rest_that_are_read(readers: int) -> None:
    """A table of positions, cut to the length of the sequence: however many operations read rows of it, the rows are
    what rests and what moves. The table itself is read by nothing.
    """
    shapes: dict[str, tuple[int, ...]] = {
        "table": (100, 4),
        "x": (3, 4),
        "a": (3, 4),
        "y": (3, 4),
        "b": (3, 4),
        "z": (3, 4),
    }
    steps = [view("a", "table"), compute("y", "x", "a"), view("b", "table"), compute("z", "y", "b")][: 2 * readers]
    last = steps[-1].name
    if readers == 1:
        del shapes["b"], shapes["z"]
    graph = read(shapes, steps, (last,))
    found = bytes_of(graph)
    assert (found["table"], found["y"], found[last]) == (("constant", 0, [0]), ("compute", 48, [48]), found["y"])
    problem = ring_problem(from_graph(graph, "p"))
    assert problem.ticks[[op.name for op in graph.graph.operations].index("y")] == -(-3 * 48 * 100 // 200)


def test_parts_that_overlap_rest_whole() -> None:
    shapes = {"table": (4, 4), "x": (4,), "a": (3, 4), "b": (3, 4), "y": (3,), "z": (3,)}
    steps = [view("a", "table"), view("b", "table"), compute("y", "x", "a"), compute("z", "x", "b", "y")]
    found = bytes_of(read(shapes, steps, ("z",)))
    assert found["table"] == ("constant", 0, [64])
    assert found["a"] == found["b"] == ("view", 0, [48])


def test_what_is_made_of_a_parameter_beforehand_is_stored_instead() -> None:
    """A cast of a table, read as it is, transposed, and in part: one storage for the first two, a part of its own."""
    shapes = {"p": (4, 4), "cast": (4, 4), "t": (4, 4), "row": (1, 4), "x": (4,), "y": (4,), "z": (4,), "w": (4,)}
    steps = [
        compute("cast", "p"),
        view("t", "cast"),
        view("row", "cast"),
        compute("y", "x", "cast"),
        compute("z", "y", "t"),
        compute("w", "z", "row"),
    ]
    found = bytes_of(read(shapes, steps, ("w",)))
    assert {name: found[name] for name in ("p", "cast", "t", "row", "y", "z", "w")} == {
        "p": ("constant", 0, [0]),
        "cast": ("constant", 0, [64]),
        "t": ("view", 0, [64]),
        "row": ("constant", 0, [16]),
        "y": ("compute", 0, [16]),
        "z": ("compute", 0, [16]),
        "w": ("compute", 0, [16]),
    }


def test_a_single_number_is_copied_to_every_reader() -> None:
    shapes: dict[str, tuple[int, ...]] = {"two": (1,), "x": (4,), "y": (4,), "z": (4,)}
    found = bytes_of(read(shapes, [compute("y", "x", "two"), compute("z", "y", "two")], ("z",), parameter_nodes=False))
    assert found == {"x": ("input", 0, [16]), "y": ("compute", 4, [16]), "z": ("compute", 4, [16])}


def test_a_parameter_that_is_returned_stays() -> None:
    graph = read({"p": (4,), "x": (4,), "y": (4,)}, [compute("y", "x")], ("y", "p"), parameter_nodes=False)
    assert bytes_of(graph) == {"x": ("input", 0, [16]), "p": ("constant", 0, [0]), "y": ("compute", 0, [16])}
    assert [tensor.output for tensor in graph.graph.tensors] == [False, True, True]


def test_weights_that_are_dequantised_rest_quantised() -> None:
    """Of a model with quantised weights the dequantised numbers are a view, and their scales rest with them.

    Dequantised activations are computed.
    """
    shapes = {"q": (4, 8), "scale": (4,), "w": (4, 8), "t": (8, 4), "x": (2, 8), "y": (2, 4), "z": (2, 4), "d": (2, 4)}
    program = Program("p", "by hand", parameter_nodes=False)
    program.values = {name: Value(name, shape, 8 if name == "q" else 32) for name, shape in shapes.items()}
    program.inputs, program.parameters, program.outputs = ["x"], ["q", "scale"], ["d"]
    program.steps = [
        Step("w", "DequantizeLinear", ("q", "scale"), ("w",)),
        view("t", "w"),
        compute("y", "x", "t"),
        Step("d", "DequantizeLinear", ("y", "scale"), ("d",)),
    ]
    found = bytes_of(imported(program, "here", "test"))
    assert (found["w"], found["y"], found["d"]) == (("constant", 0, [0]), ("compute", 48, [32]), ("compute", 16, [32]))
    program.steps.insert(3, compute("z", "y", "w"))
    found = bytes_of(imported(program, "here", "test"))
    assert (found["q"], found["w"], found["y"]) == (("constant", 0, [48]), ("view", 0, [128]), ("compute", 0, [32]))


def test_scales_of_blocks_are_a_fifth_of_all_bytes() -> None:
    """Four-bit numbers in blocks of 32: 16 bytes, and a scale of four; a zero point for each block as well."""
    shapes = {"q": (64, 256), "scale": (64, 8), "zero": (64, 8), "w": (64, 256), "x": (1, 256), "y": (1, 64)}
    program = Program("p", "by hand", parameter_nodes=False)
    bits = {"q": 4, "zero": 4}
    program.values = {name: Value(name, shape, bits.get(name, 32)) for name, shape in shapes.items()}
    program.inputs, program.parameters, program.outputs = ["x"], ["q", "scale", "zero"], ["y"]
    program.steps = [Step("w", "DequantizeLinear", ("q", "scale", "zero"), ("w",)), compute("y", "x", "w")]
    graph = imported(program, "here", "test")
    assert bytes_of(graph)["y"] == ("compute", 8192 + 2048 + 256, [256])


def test_parts_of_parts_however_deep() -> None:
    """A slice of a slice of a slice … of a table, read by two operations: the innermost slice rests once."""
    deep = 3000
    shapes: dict[str, tuple[int, ...]] = {"t0": (deep + 1, 4), "x": (4,), "y": (4,), "z": (4,)}
    shapes |= {f"t{i}": (deep + 1 - i, 4) for i in range(1, deep)}
    steps = [view(f"t{i}", f"t{i - 1}") for i in range(1, deep)]
    last = f"t{deep - 1}"
    found = bytes_of(read(shapes, [*steps, compute("y", "x", last), compute("z", "y", last)], ("z",)))
    assert found[last] == ("constant", 0, [32])
    assert found["t0"] == ("constant", 0, [0])
