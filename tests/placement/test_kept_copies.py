"""Copies that products of PyTorch make of operands, and keep: by hand, and beside ``saved_tensors_hooks``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chipmap.instances.placement.beside import UNTOLD, copies
from chipmap.instances.saved import saves
from chipmap.networks.graph import Operation
from chipmap.networks.importers.operators.kept import kept_bytes
from chipmap.networks.importers.steps import Step, Value
from tests.placement.kept import exported, kept_by_torch, kept_here

FILE = ("linear", "slice", "attention")


def _kept(kind: str, *operands: tuple[tuple[int, ...], tuple[int, ...] | None], equation: str = "") -> int:
    """Bytes beside operands of four bytes a number, given by shape and strides."""
    values = {str(i): Value(str(i), shape, 32, strides) for i, (shape, strides) in enumerate(operands)}
    return kept_bytes(Step("p", kind, tuple(values), ("y",), arguments={"equation": equation}), values)


def test_a_product_copies_what_it_cannot_merge() -> None:
    """Of 2 sentences of 3 words of 4 numbers: in order, swapped, cut after the first word, one sentence, a matrix."""
    weights = ((5, 4), (4, 1))
    assert _kept("linear", ((2, 3, 4), (12, 4, 1)), weights) == 0
    assert _kept("linear", ((3, 2, 4), (4, 12, 1)), weights) == 96
    assert _kept("linear", ((2, 2, 4), (12, 4, 1)), weights) == 64
    assert _kept("linear", ((3, 1, 4), (4, 12, 1)), weights) == 0
    assert _kept("linear", ((3, 4), (1, 3)), weights) == 0
    assert _kept("linear", ((3, 2, 4), None), weights) == 0
    assert _kept("matmul", ((5, 4), (4, 1)), ((2, 4, 3), (12, 3, 1))) == 96  # multiplied transposed


def test_an_einsum_copies_what_it_cannot_merge() -> None:
    """Scores of 2 sentences, 3 words, 4 heads of 5 numbers: both operands; of sums alone neither."""
    words = ((2, 3, 4, 5), (60, 20, 5, 1))
    assert _kept("einsum", words, words, equation="bqhd,bkhd->bhqk") == 2 * 480
    heads = ((2, 4, 3, 5), (60, 15, 5, 1))
    assert _kept("einsum", heads, heads, equation="bhqd,bhkd->bhqk") == 0
    assert _kept("einsum", words, words, equation="bqhd,bqhd->bqhd") == 0


def _product(kept: int, kind: str = "matmul") -> Operation:
    return Operation(name="p", kind=kind, kept_bytes=kept)


def test_copies_are_of_the_operands_that_add_up_to_them() -> None:
    sizes = [8, 12, 8, 5]
    assert copies(_product(8), [2, 0], sizes, {2}, {0, 2}) == {0: 8}
    assert copies(_product(20), [0, 1], sizes, set(), {0, 1}) == {0: 8, 1: 12}
    assert copies(_product(8), [0, 1], sizes, {1}, {0}) == {}  # weights without a gradient: nothing reads the copy
    assert copies(_product(9), [0, 1], sizes, set(), {0, 1}) == {UNTOLD: 9}


def test_an_rms_norm_keeps_one_number_of_a_row_and_other_norms_two() -> None:
    values = {"x": Value("x", (3, 5, 8), 16), "w": Value("w", (8,), 16), "b": Value("b", (8,), 16)}
    for kind, reads, wanted in (
        ("rms_norm", ("x",), 4 * 15),
        ("rms_norm", ("x", "w"), 4 * 15),
        ("layer_norm", ("x", "w"), 2 * 4 * 15),
    ):
        assert kept_bytes(Step("n", kind, reads, ("y",), arguments={"normalized_shape": [8]}), values) == wanted
    assert saves("SimplifiedLayerNormalization").extra == saves("rms_norm").extra == "deviation"


def _nets() -> dict[str, Callable[[Any, Any, Any], Any]]:
    def einsums(torch: Any, net: Any, x: Any) -> Any:
        q, k, v = (one.unflatten(-1, (4, 8)) for one in (x.sin(), x.cos(), x.tanh()))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k).softmax(-1)
        return net.out(torch.einsum("bhqk,bkhd->bqhd", scores, v).flatten(2))

    return {
        "linear": lambda torch, net, x: net.out(x.tanh().transpose(0, 1)),
        "slice": lambda torch, net, x: net.out(x.tanh()[:, 1:]),
        "frozen": lambda torch, net, x: torch.nn.functional.linear(x.tanh().transpose(0, 1), net.fixed),
        "attention": einsums,
        "experts": lambda torch, net, x: torch.einsum("bshd,hdo->bso", x.sin().unflatten(-1, (4, 8)), net.experts),
        "norm": lambda torch, net, x: net.out(net.norm(x).sin()),
        "rms": lambda torch, net, x: net.out(torch.nn.functional.rms_norm(x, (32,))),
        "encoder": lambda torch, net, x: net.out(net.encoder(x)),
    }


@pytest.mark.parametrize("name", list(_nets()))
def test_kept_bytes_are_those_of_torch(name: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="needs the extra torch")
    body = _nets()[name]

    class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.into, self.out, self.norm = (
                torch.nn.Linear(8, 32),
                torch.nn.Linear(32, 8),
                torch.nn.LayerNorm(32, bias=False),
            )
            self.encoder = torch.nn.TransformerEncoderLayer(32, 2, 32, dropout=0.0, batch_first=True)
            self.experts = torch.nn.Parameter(torch.randn(4, 8, 16))
            self.fixed = torch.nn.Parameter(torch.randn(5, 32), requires_grad=False)

        def forward(self, x: Any) -> Any:
            return body(torch, self, self.into(x))

    net, given = Net(), torch.randn(2, 12, 8)
    (program, graph), wanted = exported(net, given), kept_by_torch(net, given)
    assert kept_here(graph) == wanted
    if name in FILE:  # a file says strides as the object does
        from chipmap.networks.importers.reading import import_graph

        torch.export.save(program, tmp_path / "net.pt2")
        assert kept_here(import_graph(str(tmp_path / "net.pt2")).graph) == wanted
