"""Sizes that an export leaves open: expressions, values by name and by the shape of an input, commands that work."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from chipmap.cli import main
from chipmap.networks.importers.dimensions import symbols, value_of
from chipmap.networks.importers.reading import import_graph
from chipmap.records import InputError
from tests.instances.programs import TORCH, pt2

A, B = "Symbol('s77', positive=True, integer=True)", "Symbol('u0', integer=True)"


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (A, 6),
        (f"Mul(Integer(2), {A})", 12),
        (f"Add({A}, Mul(Integer(-1), {B}), Integer(1))", 3),
        (f"FloorDiv({A}, Integer(4))", 1),
        (f"Mod({A}, {B})", 2),
        (f"PythonMod(Mul(Integer(-1), {A}), {B})", 2),
        (f"Max(Integer(1), {A}, {B})", 6),
        (f"Min(Integer(5), {A})", 5),
        (f"Pow({A}, Integer(2))", 36),
        (f"Mul(Pow(Integer(2), Integer(-1)), {A})", 3),
        (f"Mul(Rational(3, 2), {B})", 6),
        (f"CeilToInt(IntTrueDiv({A}, {B}))", 2),
        (f"ceiling(Mul(Rational(1, 4), {A}))", 2),
        (f"floor(Mul(Float('0.5', precision=53), {A}))", 3),
        (f"TruncToInt(FloatTrueDiv(Mul(Integer(-1), {A}), {B}))", -1),
        (f"RoundToInt(IntTrueDiv({A}, {B}))", 2),
        (f"ModularIndexing({A}, Integer(2), Integer(2))", 1),
        (f"Where(StrictGreaterThan({A}, {B}), {A}, Integer(0))", 6),
        (f"CleanDiv({A}, Integer(3))", 2),
        ("2*s77 + 1", 13),
        ("(s77*u0)//5", 4),
        ("Max(1, s77 - u0)", 2),
        ("s77**2", 36),
        ("(s77//2)*(s77 % u0)", 6),
        ("CeilToInt(IntTrueDiv(s77, 4))", 2),
    ],
)
def test_expressions_of_torch(expression: str, value: int) -> None:
    """s77 = 6, u0 = 4."""
    assert value_of(expression, {"s77": (6,), "u0": (4,)}) == value
    assert set(symbols(expression)) <= {"s77", "u0"}
    assert value_of(expression, {}) is None


@pytest.mark.parametrize(
    "text", ["s77/4", "0**-s77", "s77**s77**s77", "__import__('os')", "s77.real", "", "1 if s77 else 2"]
)
def test_expressions_without_a_value(text: str) -> None:
    assert value_of(text, {"s77": (6,)}) is None


def dynamic(*sizes: int | str, fixed: int = 4) -> dict[str, Any]:
    """The small program with an input of [sizes..., 4] whose first size all others follow."""
    tree: Any = json.loads(json.dumps(TORCH))
    values = tree["graph_module"]["graph"]["tensor_values"]
    hint = {"expr_str": A, "hint": {"as_int": 6}}
    for name, meta in values.items():
        if not name.startswith("p_"):
            meta["sizes"][0] = {"as_expr": hint}
    values["x"]["sizes"] = [{"as_int": n} if isinstance(n, int) else {"as_expr": {"expr_str": n}} for n in sizes]
    tree["range_constraints"] = {"s77": {"min_val": 2, "max_val": 64}}
    return tree


def test_the_command_that_an_error_suggests_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What stands between `add` and `to the command` is copied to the command."""
    model, out = tmp_path / "small.pt2", tmp_path / "out.json"
    model.write_bytes(pt2(dynamic(A, B)))
    command = ["convert", str(model), "--family", "ring", "--out", str(out)]
    assert main(command) == 1
    said = capsys.readouterr().err
    added = shlex.split(said.partition(": add ")[2].partition(" to the command")[0])
    assert added == ["--dim", "s77=6", "--dim", "u0=8"]
    assert main([*command, *added]) == 0
    assert json.loads(out.read_text())["graph"]["tensors"][0]["bytes"] == 4 * 6 * 8


def test_the_shape_of_an_input_settles_its_symbols() -> None:
    """size(n) = 2 n + 1: 13 -> 6; then all tensors follow."""
    data = pt2(dynamic(f"Add(Mul(Integer(2), {A}), Integer(1))", 4))
    made = import_graph("m.pt2", data, {"x": (13, 4)}).graph
    assert made.tensors[0].bytes == 4 * 13 * 4
    assert made == import_graph("m.pt2", data, {"s77": (6,)}).graph
    one = pt2(dynamic(f"Add({A}, {B})", B))
    assert (
        import_graph("m.pt2", one, {"x": (9, 3)}).graph == import_graph("m.pt2", one, {"s77": (6,), "u0": (3,)}).graph
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"x": (13, 5)}, "size 1 of 'x' is 4 in this program, not 5"),
        ({"x": (12, 4)}, "size 0 of 'x' is 11 in this program, not 12"),
        ({"x": (13,)}, "tensor 'x' has 2 dimensions, not 1"),
        ({"x": (13, 4), "s77": (7,)}, "size 0 of 'x' is 15 in this program, not 13"),
        ({"s77": (65,)}, "'s77' is 65, but the program was exported for sizes from 2 to 64"),
        ({"batch": (6,)}, "there is no dimension or tensor 'batch'"),
        ({}, "the dimension 's77' of tensor 'x' has no value"),
    ],
)
def test_values_that_do_not_fit(given: dict[str, tuple[int, ...]], said: str) -> None:
    with pytest.raises(InputError) as error:
        import_graph("m.pt2", pt2(dynamic(f"Add(Mul(Integer(2), {A}), Integer(1))", 4)), given)
    assert said in error.value.what
    assert error.value.remedy


def test_a_shape_that_does_not_tell_its_symbols() -> None:
    data = pt2(dynamic(f"Mul({A}, {B})", 4))
    with pytest.raises(InputError, match="size 0 of 'x' doesn't tell its symbols") as error:
        import_graph("m.pt2", data, {"x": (12, 4)})
    assert "s77, u0" in error.value.remedy
    assert import_graph("m.pt2", data, {"x": (12, 4), "u0": (2,)}).graph.tensors[3].bytes == 4 * 6 * 6
