"""What operators keep for their gradients: the table beside PyTorch's own derivative formulas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chipmap.instances.saved import _TABLE, CONSTANT, saves
from chipmap.networks.importers.steps import words

#: Overloads whose formulas name more or less than a kind tells: other forms of an operator that the table has, and
#: statistics of a channel, which have next to no bytes.
OTHER_FORMS = words(
    """div.Scalar div.Scalar_mode mul.Scalar native_batch_norm
    _native_batch_norm_legit _native_batch_norm_legit_no_training _native_batch_norm_legit.no_stats native_group_norm
    norm.Scalar norm.ScalarOpt_dim norm.ScalarOpt_dtype norm.ScalarOpt_dim_dtype pow.Tensor_Tensor pow.Scalar
    _embedding_bag max_pool2d"""
)


def test_no_operator_stands_twice() -> None:
    kinds = [kind for _, named in _TABLE for kind in named.split()]
    assert len(kinds) == len(set(kinds)) and not CONSTANT & set(kinds)


@pytest.mark.parametrize(
    ("kind", "operands", "result"),
    [
        ("aten.relu_", "none", True),
        ("Relu", "none", True),
        ("add_", "none", False),
        ("Gelu", "inputs", False),
        ("com.microsoft.Gelu", "inputs", False),
        ("mine.op", "all", False),
        ("", "all", False),
    ],
)
def test_names_of_operators(kind: str, operands: str, result: bool) -> None:
    """In place, of ONNX and of other libraries; of what isn't listed everything is kept."""
    assert saves(kind)[:2] == (operands, result)


def test_the_table_agrees_with_the_formulas_of_torch() -> None:
    """Whether the formulas of an operator name operands and results, by PyTorch's own reader of them."""
    torchgen = pytest.importorskip("torchgen", reason="needs the extra learned")
    reader = pytest.importorskip("torchgen.packaged.autograd.load_derivatives", reason="needs PyYAML")
    root = Path(torchgen.__file__).parent / "packaged"
    native = root / "ATen" / "native"
    files = (root / "autograd" / "derivatives.yaml", native / "native_functions.yaml", native / "tags.yaml")
    found, _ = reader.load_derivatives(*map(str, files))
    listed, compared = {kind for _, named in _TABLE for kind in named.split()}, 0
    for schema, formulas in found.items():
        kind, name = schema.name.name.base, str(schema.name)
        formula = formulas.get("Default")
        if kind not in listed or name in OTHER_FORMS or schema.name.name.inplace or formula is None:
            continue
        read = sum(one.type.is_tensor_like() for one in schema.arguments.flat_all)
        table = saves(kind, len(schema.returns), read)
        operands, results = (_tensors(formula, part) for part in ("saved_inputs", "saved_outputs"))
        assert bool(results) == (table.result or bool(table.extra)), (name, results)
        assert bool(operands) == (table.operands != "none"), (name, operands)
        compared += 1
    assert compared > 190


def _tensors(formula: Any, part: str) -> list[str]:
    """The tensors among what a formula keeps, without sizes and types."""
    kept = [one.nctype for derivative in formula.derivatives for one in getattr(derivative, part)]
    tensors = [str(one.name) for one in kept if "Tensor" in one.type.cpp_type()]
    return [name for name in tensors if not name.endswith(("_options", "_geometry"))]
