"""What single operators cost: FLOP and bytes moved by hand, of operators of both frameworks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from chipmap.instances.importers import aten, onnx_operators
from chipmap.instances.importers.program import Program, Step, imported
from chipmap.instances.importers.rules import Work
from chipmap.instances.importers.steps import Value
from chipmap.instances.ring.from_graph import from_graph
from chipmap.instances.ring.problem import ring_problem

Shapes = list[tuple[int, ...]]


def values(shapes: Shapes, bits: int = 32) -> list[Value]:
    return [Value(f"v{i}", shape, bits) for i, shape in enumerate(shapes)]


def indices(*shape: int) -> Value:
    return Value("indices", shape, 64)


def of_aten(kind: str, read: Sequence[Value | tuple[int, ...]], made: Shapes, **arguments: Any) -> Work:
    operands = [v if isinstance(v, Value) else values([v])[0] for v in read]
    return aten.work(kind, operands, values(made), arguments)


def of_onnx(kind: str, read: Sequence[Value | tuple[int, ...] | None], made: Shapes, **arguments: Any) -> Work:
    operands = [v if isinstance(v, Value) or v is None else values([v])[0] for v in read]
    return onnx_operators.work(kind, operands, values(made), arguments)


TABLE, ROWS = Value("table", (1000, 8), 32), Value("rows", (2, 3, 8), 32)


@pytest.mark.parametrize(
    ("kind", "read", "made", "elements", "moved"),
    [
        ("embedding", [TABLE, indices(2, 3)], (2, 3, 8), 48, 6 * 8 + 2 * 48 * 4),
        ("index", [TABLE, indices(5)], (5, 8), 40, 5 * 8 + 2 * 40 * 4),
        ("index_select", [TABLE, indices(5)], (5, 8), 40, 5 * 8 + 2 * 40 * 4),
        ("gather", [TABLE, indices(1, 8)], (1, 8), 8, 8 * 8 + 2 * 8 * 4),
        ("take", [TABLE, indices(7)], (7,), 7, 7 * 8 + 2 * 7 * 4),
        # two bags of three rows each: six rows are read, two made
        ("embedding_bag", [TABLE, indices(6), indices(2)], (2, 8), 48, 8 * 8 + 48 * 4 + 16 * 4),
        # updates in place: indices, and numbers read and written; what is added to is read as well
        ("index_copy_", [TABLE, indices(5), Value("new", (5, 8), 32)], (1000, 8), 40, 5 * 8 + 2 * 40 * 4),
        ("index_put_", [TABLE, indices(5), Value("new", (5, 8), 32)], (1000, 8), 40, 5 * 8 + 2 * 40 * 4),
        ("index_add_", [TABLE, indices(5), Value("new", (5, 8), 32)], (1000, 8), 40, 5 * 8 + 3 * 40 * 4),
        ("scatter_", [TABLE, indices(3, 8), Value("new", (5, 8), 32)], (1000, 8), 24, 24 * 8 + 2 * 24 * 4),
        ("scatter_add_", [TABLE, indices(3, 8), Value("new", (5, 8), 32)], (1000, 8), 24, 24 * 8 + 3 * 24 * 4),
        ("copy_", [ROWS, Value("new", (2, 3, 8), 16)], (2, 3, 8), 48, 48 * 2 + 48 * 4),
        # an update that makes a new tensor moves all of it, as does one whose number of rows isn't told
        ("index_copy", [TABLE, indices(5), Value("new", (5, 8), 32)], (1000, 8), 8000, None),
        ("slice_scatter", [TABLE, Value("new", (5, 8), 32)], (1000, 8), 8000, None),
        ("index_put_", [TABLE, indices(5), Value("one", (), 32)], (1000, 8), 8000, None),
        ("masked_scatter", [TABLE, indices(1000, 8), Value("new", (5, 8), 32)], (1000, 8), 8000, None),
        ("slice", [TABLE], (5, 8), 8000, None),
    ],
)
def test_look_ups_and_updates(kind: str, read: list[Value], made: tuple[int, ...], elements: int, moved: int) -> None:
    work = of_aten(kind, read, [made])
    assert (work.flop, work.moved) == (elements, moved)
    assert work.known


@pytest.mark.parametrize("kind", ["Gather", "GatherElements", "GatherND"])
def test_look_ups_of_onnx(kind: str) -> None:
    work = of_onnx(kind, [TABLE, indices(5, 1)], [(5, 8)])
    assert (work.flop, work.moved, work.known) == (40, 40 + 320, True)


def test_a_cache_that_is_updated_in_place() -> None:
    cache, new = Value("cache", (1, 4, 100, 8), 16), Value("new", (1, 4, 1, 8), 16)
    work = of_onnx("TensorScatter", [cache, new, indices(1)], [(1, 4, 100, 8)])
    assert (work.flop, work.moved) == (32, 8 + 2 * 64)
    assert of_onnx("ScatterND", [cache, indices(1, 4), new], [(1, 4, 100, 8)]).moved is None


def test_a_look_up_takes_the_time_of_its_rows() -> None:
    """The table rests in memory and counts there; the time is that of indices and rows."""
    program = Program("p", "by hand")
    program.values = {v.name: v for v in (TABLE, Value("x", (2, 3), 64), ROWS, Value("part", (2, 8), 32))}
    program.inputs, program.parameters, program.outputs = ["x"], ["table"], ["rows"]
    work = of_aten("embedding", [TABLE, indices(2, 3)], [(2, 3, 8)])
    program.steps = [Step("rows", "embedding", ("table", "x"), ("rows",), work.flop, moved=work.moved)]
    problem = ring_problem(from_graph(imported(program, "here", "test"), "p"))
    assert problem.weight_bytes.tolist()[-1] == 32000
    assert problem.ticks.tolist()[-1] == (48 + 384) * 100 // 200
    # a part of a table that an input chooses is a look-up as well, whatever makes it
    program.steps = [Step("part", "slice", ("table", "x"), ("part",), 8000, view=True)]
    program.outputs = ["part"]
    made = imported(program, "here", "test").graph.operations[-1]
    assert (made.role, made.flop, made.moved_bytes, made.weight_bytes) == ("compute", 16, 48 + 128, 32000)
