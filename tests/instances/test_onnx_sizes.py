"""Open dimensions of ONNX models: sizes that a user gives mean what he says, and a stated size is no other one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from chipmap.cli import main
from chipmap.networks.importers.reading import import_graph
from chipmap.records import InputError
from tests.instances.test_onnx import suggested

pytest.importorskip("onnx", reason="needs the extra onnx")
from onnx import helper, numpy_helper

from tests.instances.onnx_models import model, tensor, weight


def product(*rows: int | str | None, made: str = "h", read: str = "x") -> bytes:
    """Rows of four numbers times a square matrix, then a relu."""
    nodes = [helper.make_node("MatMul", [read, "w"], [made]), helper.make_node("Relu", [made], ["y"])]
    return model(nodes, [tensor(read, *rows, 4)], [weight("w", 4, 4)])


def made(data: bytes, **given: tuple[int, ...]) -> list[int]:
    """Bytes of all tensors."""
    return [one.bytes for one in import_graph("m.onnx", data, given).graph.tensors]


def test_an_open_dimension_without_a_name_is_asked_for_by_a_command_that_keeps_the_rank(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The tensor itself isn't asked for a single number, which would be another shape."""
    path = tmp_path / "m.onnx"
    for rows in (None, -1, 0):
        path.write_bytes(product(rows))
        assert main(["convert", str(path), "--family", "ring", "--out", "-"]) == 1
        assert "--dim 'x[0]=8'" in capsys.readouterr().err
        with pytest.raises(InputError) as error:
            import_graph("m.onnx", product(rows))
        assert made(product(rows), **suggested(error.value)) == [128, 128, 128]
    assert made(product(0), **{"x[0]": (0,)}) == [0, 0, 0]


@pytest.mark.parametrize("shape", [(4,), (2, 3, 4)])
def test_a_shape_of_another_rank_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=f"tensor 'x' has 2 dimensions, not {len(shape)}"):
        made(product("rows"), x=shape)


def test_a_dimension_may_be_called_like_a_tensor() -> None:
    assert made(product("rows", made="rows"), rows=(3,)) == [48, 48, 48]
    assert made(product("rows", read="rows"), rows=(3,)) == [48, 48, 48]


def test_symbols_of_an_expression_have_values_of_their_own() -> None:
    """As in models with a cache: its tokens and those before them."""
    data = product("past + tokens")
    with pytest.raises(InputError, match="the dimension 'past' of tensor 'x' has no value") as error:
        made(data)
    assert made(data, **suggested(error.value), tokens=(2,)) == [160, 160, 160]
    assert made(data, **{"past + tokens": (10,)}) == [160, 160, 160]


def test_a_shape_in_the_file_follows_the_dimensions_that_are_given() -> None:
    nodes = [helper.make_node("Blend", ["x"], ["h"], domain="mine"), helper.make_node("Relu", ["h"], ["y"])]
    data = model(nodes, [tensor("x", "rows", 4)], infos=[tensor("h", "2*rows", 4)])
    assert made(data, rows=(3,)) == [48, 96, 96]


def test_a_size_that_the_model_fixes_is_not_taken_for_the_one_that_is_given() -> None:
    """Exported for one sample, whatever its input's shape says: eight would be counted as one."""
    nodes = [helper.make_node("Reshape", ["x", "flat"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    data = model(nodes, [tensor("x", "batch", 2, 2)], [numpy_helper.from_array(np.array([1, 4]), "flat")])
    assert made(data, batch=(1,)) == [16, 16, 16]
    with pytest.raises(InputError, match=r"Reshape 'h' makes \[1, 4\] of \[8, 2, 2\]"):
        made(data, batch=(8,))
