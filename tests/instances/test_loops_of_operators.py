"""Rules of single operators, in PyTorch's and ONNX's names: NumPy executes each in parts (:mod:`.executed`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.instances.executed import Array, Net, trials

#: What the operator reads: [2, 3, 4, 6], split along its last axis, second axis and so on by a product and a view.
B, T, H, D = 2, 3, 4, 6


def features(net: Net) -> str:
    """[2, 3, 24], split along its last axis."""
    return net.linear(net.input(B, T, 5), H * D)


def channels(net: Net) -> str:
    """[2, 8, 5, 5], split along its second axis."""
    return net.convolution(net.input(B, 3, 5, 5), 8, side=1)


def heads(net: Net) -> str:
    """[2, 4, 3, 6], split along its second axis."""
    return net.transpose(net.view(features(net), B, T, H, D), 1, 2)


def positions(net: Net, count: int) -> str:
    """An input of whole numbers below ``count``."""
    name = net.input(T)
    net.arrays[name] = np.arange(T, dtype=np.float64) % count
    return name


def taken(axis: int) -> Callable[..., Array]:
    """A look-up along an axis."""
    return lambda data, at: np.take(data, at.astype(int), axis)


def group_norm(groups: int) -> Callable[..., Array]:
    """Normalised over groups of channels."""

    def run(x: Array, w: Array, b: Array) -> Array:
        parts = x.reshape(len(x), groups, -1)
        parts = (parts - parts.mean(-1, keepdims=True)) / (parts.std(-1, keepdims=True) + 1e-3)
        return parts.reshape(x.shape) * w.reshape(-1, 1, 1) + b.reshape(-1, 1, 1)

    return run


def grouped(x: Array, w: Array) -> Array:
    """The first half of the rows times the first matrix, the second half times the second."""
    half = len(x) // 2
    return np.concatenate([x[:half] @ w[0], x[half:] @ w[1]])


CASES: dict[str, tuple[tuple[str, ...], Callable[[Net], Any]]] = {
    "Gemm": (
        ("rows", "inner"),
        lambda n: n.call("Gemm", lambda x, w, b: x @ w.T + b, n.view(features(n), 6, 24), n.parameter(8, 24),
                         n.parameter(8), transA=0, transB=1),
    ),
    "Gemm, turned": (
        ("rows", "inner"),
        lambda n: n.call("Gemm", lambda x, w: x.T @ w, n.transpose(n.view(features(n), 6, 24), 0, 1),
                         n.parameter(24, 8), transA=1, transB=0),
    ),
    "MatMul, parameter first": (
        ("rows",),
        lambda n: n.call("MatMul", np.matmul, n.parameter(4, T), features(n)),
    ),
    "addmm": (
        ("rows", "inner"),
        lambda n: n.call("addmm", lambda b, x, w: b + x @ w, n.parameter(8), n.view(features(n), 6, 24),
                         n.parameter(24, 8)),
    ),
    "addmm of an activation": (
        ("rows",),
        lambda n: n.call("addmm", lambda b, x, w: b + x @ w, n.view(features(n), 6, 24), n.view(features(n), 6, 24),
                         n.parameter(24, 24)),
    ),
    "baddbmm": (
        ("outer",),
        lambda n: n.call("baddbmm", lambda c, a, b: c + a @ b, n.parameter(1, T, T), n.view(heads(n), 8, T, D),
                         n.transpose(n.view(heads(n), 8, T, D), 1, 2)),
    ),
    "bmm by experts": (
        ("outer",),
        lambda n: n.call("bmm", np.matmul, n.permute(n.view(features(n), 6, 4, 6), 1, 0, 2), n.parameter(4, 6, 5)),
    ),
    "einsum of a parameter": (
        ("rows", "inner"),
        lambda n: n.call("einsum", lambda x, w: np.einsum("btk,khd->bthd", x, w), features(n), n.parameter(24, 4, 3),
                         equation="btk,khd->bthd"),
    ),
    "einsum of activations": (
        ("outer",),
        lambda n: n.call("Einsum", lambda a, b: np.einsum("bhid,bhjd->bhij", a, b), heads(n), heads(n),
                         equation="bhid,bhjd->bhij"),
    ),
    "einsum that sums over heads": (
        (),
        lambda n: n.call("einsum", lambda a, b: np.einsum("bhid,bhjd->bij", a, b), heads(n), heads(n),
                         equation="bhid,bhjd->bij"),
    ),
    "grouped_mm": (
        ("rows", "inner"),
        lambda n: n.call("_grouped_mm", grouped, n.view(features(n), 6, 24), n.parameter(2, 24, 8)),
    ),
    "conv1d": (
        ("rows", "inner"),
        lambda n: n.convolution(n.view(channels(n), B, 8, 25), 4, side=3),
    ),
    "grouped convolution": (("outer",), lambda n: n.convolution(channels(n), 8, side=2, groups=4)),
    "convolution of the wrong axis": (
        ("rows",),
        lambda n: n.convolution(n.transpose(channels(n), 1, 2), 4, side=2),
    ),
    "embedding": (("rows",), lambda n: n.call("embedding", taken(0), n.parameter(7, 8), positions(n, 7))),
    "Gather of a parameter": (
        ("rows",),
        lambda n: n.call("Gather", taken(0), n.parameter(7, 8), positions(n, 7), axis=0),
    ),
    "Gather along the split axis": ((), lambda n: n.call("Gather", taken(2), features(n), positions(n, 5), axis=2)),
    "Gather along another": (("rows",), lambda n: n.call("Gather", taken(1), features(n), positions(n, 2), axis=1)),
    "index_select": (
        ("rows",),
        lambda n: n.call("index_select", taken(2), heads(n), positions(n, 3), dim=2),
    ),
    "group norm": (
        ("rows",),
        lambda n: n.call("group_norm", group_norm(4), channels(n), n.parameter(8), n.parameter(8), num_groups=4),
    ),
    "group norm of all": (
        (),
        lambda n: n.call("group_norm", group_norm(1), channels(n), n.parameter(8), n.parameter(8), num_groups=1),
    ),
    "pad": (
        ("rows",),
        lambda n: n.call("constant_pad_nd", lambda x: np.pad(x, ((0, 0), (0, 0), (1, 1), (0, 2))), channels(n),
                         pad=[0, 2, 1, 1]),
    ),
    "Pad of channels": (
        (),
        lambda n: n.call("Pad", lambda x: np.pad(x, ((0, 0), (0, 8), (0, 0), (0, 0))), channels(n),
                         pads=[0, 0, 0, 0, 0, 8, 0, 0]),
    ),
    "Pad that turns channels": (
        (),
        lambda n: n.call("Pad", lambda x: np.pad(x[:, 1:], ((0, 0), (0, 1), (0, 0), (0, 0))), channels(n),
                         pads=[0, -1, 0, 0, 0, 1, 0, 0]),
    ),
    "stack": (("rows",), lambda n: n.call("stack", lambda *x: np.stack(x, 1), *[features(n)] * 2, dim=1)),
    "repeat": (("rows",), lambda n: n.call("repeat", lambda x: np.tile(x, (2, 3, 1)), features(n), repeats=[2, 3, 1])),
    "repeat of the split axis": (
        (),
        lambda n: n.call("repeat", lambda x: np.tile(x, (1, 1, 2)), features(n), repeats=[1, 1, 2]),
    ),
    "cumsum": (("rows",), lambda n: n.call("cumsum", lambda x: x.cumsum(1), features(n), dim=1)),
    "cumsum of the split axis": ((), lambda n: n.call("cumsum", lambda x: x.cumsum(2), features(n), dim=2)),
    "flip of heads": ((), lambda n: n.call("flip", lambda x: x[:, ::-1], heads(n), dims=[1])),
    "Softmax": (("rows",), lambda n: n.call("Softmax", _softmax, heads(n), axis=-1)),
    "ReduceMean": (
        ("rows",),
        lambda n: n.call("ReduceMean", lambda x: x.mean((2, 3), keepdims=True), channels(n), axes=[2, 3], keepdims=1),
    ),
    "sum of batches": (("rows",), lambda n: n.call("sum", lambda x: x.sum(0), heads(n), dim=[0], keepdim=False)),
    "sum of all": ((), lambda n: n.call("sum", np.sum, heads(n))),
    "LayerNormalization": (
        ("rows",),
        lambda n: n.call("LayerNormalization", _normed, heads(n), n.parameter(D), axis=-1),
    ),
    "LayerNormalization from heads on": (
        (),
        lambda n: n.call("LayerNormalization", _normed, heads(n), n.parameter(D), axis=1),
    ),
    "prelu": (
        ("rows",),
        lambda n: n.call("prelu", lambda x, w: np.where(x > 0, x, x * w.reshape(-1, 1, 1)), channels(n),
                         n.parameter(8)),
    ),
    "where of a mask": (
        ("rows",),
        lambda n: n.call("Where", lambda m, x, y: np.where(m > 0, x, y), n.input(T, D), heads(n), heads(n)),
    ),
    "a sum of turned heads": (
        (),
        lambda n: n.add(n.view(heads(n), B, 12, 6), n.view(n.transpose(heads(n), 1, 2), B, 12, 6)),
    ),
}  # fmt: skip


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def _normed(x: Array, w: Array) -> Array:
    return (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + 1e-3) * w


@pytest.mark.parametrize("name", CASES)
def test_what_an_operator_names_is_true(name: str) -> None:
    expected, build = CASES[name]
    net = Net()
    build(net)
    assert trials(net) > 0
    found = net.loops()[net.program.steps[-1].name]
    assert (found.splits if found else ()) == expected


def test_views_carry_a_split_as_they_move_elements() -> None:
    """Every kind of view, in both frameworks' names."""
    net = Net()
    x = heads(net)
    net.call("movedim", lambda x: np.moveaxis(x, 1, 3), x, view=True, source=1, destination=3)
    net.call("Transpose", lambda x: x.transpose(3, 1, 0, 2), x, view=True, perm=[3, 1, 0, 2])
    net.call("Transpose", lambda x: x.T, x, view=True)
    net.call("mT", lambda x: x.swapaxes(-1, -2), x, view=True)
    net.call("unsqueeze", lambda x: x[:, None], x, view=True, dim=1)
    net.call("Squeeze", lambda x: x[:, 0], net.view(x, B, 1, H, T * D), view=True, axes=[1])
    net.call("Expand", lambda x: np.broadcast_to(x, (B, H, 2, T, D)), net.view(x, B, H, 1, T, D), view=True)
    net.call("Slice", lambda x: x[:, :, ::2], x, view=True, starts=[0], ends=[9], axes=[2], steps=[2])
    net.call("Slice", lambda x: x[:, ::-1], x, view=True, starts=[-1], ends=[-9], axes=[1], steps=[-1])
    net.call("narrow", lambda x: x[:, 1:3], x, view=True, dim=1, start=1, length=2)
    net.call("chunk", lambda x: np.split(x, 2, 3), x, view=True, several=True, chunks=2, dim=3)
    net.call("unbind", list, x, view=True, several=True)
    net.call("flatten", lambda x: x.reshape(B, -1), x, view=True, start_dim=1)
    net.call("diagonal", lambda x: np.diagonal(x, 0, 2, 3), x, view=True, dim1=2, dim2=3)
    assert trials(net) > 20
