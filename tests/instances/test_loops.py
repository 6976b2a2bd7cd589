"""Loop nests of operators: NumPy executes small networks in parts, as their ``splits`` say that they can be."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from chipmap.networks.graph import Loops
from chipmap.networks.importers.loops import followed
from chipmap.networks.importers.steps import Value
from tests.instances.executed import Array, Net, softmax, trials

B, T, H, D, F = 2, 3, 4, 4, 8


def gelu(x: Array) -> Array:
    return x / (1.0 + np.exp(-1.702 * x))


def heads(net: Net, x: str, count: int = H) -> str:
    """[B, T, count · D] -> [B, count, T, D]."""
    return net.transpose(net.view(x, B, T, count, D), 1, 2)


def mixed(net: Net, x: str) -> str:
    """[B, H, T, D] -> [B, T, H · D]."""
    back = net.transpose(x, 1, 2)
    return net.view(net.point("clone", np.array, back), B, T, H * D)


def turned(net: Net, x: str, count: int) -> str:
    """A rotary embedding, with halves that are cut, negated and joined."""
    angles = net.parameter(T, D)
    left, right = net.slice(x, 3, 0, D // 2), net.slice(x, 3, D // 2, D)
    halves = net.cat(3, net.point("neg", np.negative, right), left)
    return net.add(net.mul(x, angles), net.mul(halves, angles))


def llama(net: Net, fused: bool) -> str:
    """A layer with grouped queries, rotary embeddings and a gated MLP; the last product's name."""
    x = net.input(B, T, F)
    scale = net.mean(net.point("pow", np.square, x), [2])
    normed = net.mul(net.mul(x, net.point("rsqrt", lambda s: 1 / np.sqrt(s + 1e-3), scale)), net.parameter(F))
    q = turned(net, heads(net, net.linear(normed, H * D, bias=False)), H)
    k = turned(net, heads(net, net.linear(normed, H * D // 2, bias=False), H // 2), H // 2)
    v = heads(net, net.linear(normed, H * D // 2, bias=False), H // 2)
    if fused:
        out = net.attention(q, k, v, net.parameter(1, 1, T, T))
    else:
        k, v = (net.view(net.expand(net.view(y, B, 2, 1, T, D), B, 2, 2, T, D), B, H, T, D) for y in (k, v))
        scores = net.add(net.matmul(q, net.transpose(k, 2, 3)), net.parameter(1, 1, T, T))
        out = net.matmul(net.softmax(scores), v)
    x = net.add(x, net.linear(mixed(net, out), F, bias=False))
    normed = net.layer_norm(x)
    gate = net.point("silu", lambda x: x / (1 + np.exp(-x)), net.linear(normed, 12, bias=False))
    return net.add(x, net.linear(net.mul(gate, net.linear(normed, 12, bias=False)), F, bias=False))


def joint(net: Net, pieces: str) -> str:
    """GPT-2 and ViT: one product for queries, keys and values, cut in three ways."""
    x = net.linear(net.layer_norm(net.input(B, T, F)), 3 * H * D)
    if pieces == "split":
        q, k, v = (heads(net, part) for part in net.split(x, H * D, 2))
    elif pieces == "slice":
        q, k, v = (heads(net, net.slice(x, 2, i * H * D, (i + 1) * H * D)) for i in range(3))
    else:
        x = net.permute(net.view(x, B, T, 3, H, D), 2, 0, 3, 1, 4)
        q, k, v = (net.select(x, 0, i) for i in range(3))
    scores = net.matmul(q, net.transpose(k, -2, -1))
    return net.linear(mixed(net, net.matmul(net.softmax(scores), v)), F)


def residual(net: Net) -> str:
    """Convolutions with normalisations per channel, a depthwise one, and what follows them."""
    x = net.input(B, 3, 7, 7)
    x = net.point("relu", lambda x: np.maximum(x, 0), norm(net, net.convolution(x, 8)))
    y = net.convolution(x, 8, groups=8, side=1)
    y = net.add(net.convolution(y, 8, side=1), x)
    y = net.call("max_pool2d", lambda x: np.maximum(x[:, :, ::2, ::2], x[:, :, ::2, ::2]), y)
    y = net.cat(1, y, y)
    y = net.transposed_convolution(y, 4)
    y = net.mean(y, [2, 3], keep=False)
    return net.linear(y, 6)


def norm(net: Net, x: str) -> str:
    """A batch norm at inference."""
    size = net.arrays[x].shape[1]

    def run(x: Array, w: Array, b: Array) -> Array:
        return x * w.reshape(1, -1, 1, 1) + b.reshape(1, -1, 1, 1)

    return str(net.call("batch_norm", run, x, net.parameter(size), net.parameter(size)))


def splits(net: Net, kind: str) -> list[tuple[str, ...]]:
    """The splits of all steps of a kind, in order."""
    found = net.loops()
    return [(loops.splits if loops else ()) for name, loops in found.items() if name.rstrip("0123456789") == kind]


@pytest.mark.parametrize("fused", [False, True])
def test_a_llama_layer_is_split_by_columns_heads_and_rows(fused: bool) -> None:
    net = Net()
    llama(net, fused)
    assert trials(net) > 40
    assert splits(net, "linear") == [("rows", "inner")] * 7  # of the normed input, which is whole, a part can be read
    named = splits(net, "scaled_dot_product_attention") if fused else splits(net, "matmul") + splits(net, "softmax")
    assert set(named) == ({("outer",)} if fused else {("outer",), ("rows",)})
    assert splits(net, "silu") == [("rows",)] and splits(net, "layer_norm") == [()]


@pytest.mark.parametrize("pieces", ["split", "slice", "select"])
def test_a_joint_projection_is_split_in_each_of_its_pieces(pieces: str) -> None:
    net = Net()
    joint(net, pieces)
    assert trials(net) > 20
    assert splits(net, "matmul") == [("outer",), ("outer",)]
    assert splits(net, "linear")[-1] == ("rows", "inner")


def test_a_convolutional_network_is_split_by_channels() -> None:
    net = Net()
    residual(net)
    assert trials(net) > 20
    assert splits(net, "convolution") == [("rows", "inner"), ("outer",), ("rows", "inner")]
    assert splits(net, "batch_norm") == splits(net, "relu") == splits(net, "max_pool2d") == [("rows",)]
    assert splits(net, "cat") == [("rows",)]
    assert splits(net, "conv_transpose2d") == [("rows", "inner")] and splits(net, "linear") == [("rows", "inner")]


def test_sizes_of_loop_nests_are_those_of_the_operators() -> None:
    net = Net()
    x = net.input(B, 6, 9, 8)
    net.convolution(x, 4, groups=2, stride=2)
    net.transposed_convolution(x, 5)
    q = net.linear(net.input(B, T, F), H * D)
    q = heads(net, q)
    net.attention(q, q, q)
    net.matmul(q, net.transpose(q, 2, 3))
    found = list(net.loops().values())
    assert found[0] == Loops(
        outer=2, rows=2, inner=27, columns=B * 12, weights=True, splits=("outer",), window=(3, 3), stride=(2, 2),
        places=(4, 3),
    )  # fmt: skip
    assert found[1] is not None and found[1].replace(splits=()) == Loops(
        rows=20, inner=6, columns=B * 72, weights=True, window=(2, 2), stride=(2, 2), places=(18, 16), transposed=True
    )
    assert found[2] == Loops(rows=H * D, inner=F, columns=B * T, weights=True, splits=("rows", "inner"))
    assert found[5] == Loops(outer=B * H, rows=D, inner=2 * T, columns=T, splits=("outer",), heads=H)
    assert found[7] == Loops(outer=B * H, rows=T, inner=D, columns=T, splits=("outer",), heads=H)


def test_what_mixes_or_lies_otherwise_names_nothing() -> None:
    """Softmax over heads, scores that are turned, a sum of a tensor and its transpose, pieces that overlap heads."""
    net = Net()
    x = net.linear(net.input(B, T, H * D), H * D)
    net.softmax(heads(net, x), 1)
    net.softmax(x)
    net.mean(x, [2])
    square = net.linear(net.input(6, 6), 6)
    net.add(square, net.transpose(square, 0, 1))
    net.point("neg", np.negative, net.slice(x, 2, 1, 6))
    net.point("exp", np.exp, net.call("flipped", lambda x: x[..., ::-1], x, view=True))
    net.cat(2, x, net.slice(x, 2, 0, 5))
    net.call("mine.op", lambda x: softmax(x), x)
    assert trials(net) > 0
    computing = [step.name for step in net.program.steps if not step.view and step.kind != "linear"]
    found = net.loops()
    assert [name for name in computing if found[name] is not None] == []


def test_queries_of_many_heads_and_keys_of_one() -> None:
    """Keys of one head can't be split as queries are: they are made whole."""
    net = Net()
    x = net.input(B, T, F)
    q, k = heads(net, net.linear(x, H * D)), heads(net, net.linear(x, D), 1)
    net.matmul(q, net.transpose(k, 2, 3))
    assert splits(net, "matmul") == [("rows",)] and splits(net, "linear") == [("rows", "inner"), ("inner",)]
    assert trials(net) > 0


def anything(net: Net, steps: int) -> None:
    """Random operators on random earlier results: all that is made is [2, 4, 6, 8] or another order of these axes."""
    made = [net.input(2, 4, 6, 8), net.input(2, 4, 6, 8)]
    for _ in range(steps):
        x = made[net.random.integers(max(0, len(made) - 4), len(made))]
        shape = net.arrays[x].shape
        alike = [name for name in made if net.arrays[name].shape == shape]
        other = alike[net.random.integers(len(alike))]
        axis = int(net.random.integers(len(shape)))
        match int(net.random.integers(12)):
            case 0 | 1 | 2:
                made.append(net.linear(x, int(net.random.choice([4, 8, 12]))))
            case 3 | 4:
                made.append(net.add(x, other))
            case 5:
                made.append(net.permute(x, *(int(a) for a in net.random.permutation(len(shape)))))
            case 6 if shape[-1] % 2 == 0 and len(shape) < 5:
                made.append(net.view(x, *shape[:-1], shape[-1] // 2, 2))
            case 6 if len(shape) == 5:
                made.append(net.view(x, *shape[:-2], -1))
            case 7:
                made.append(net.softmax(x, axis))
            case 8:
                made.append(net.mean(x, [axis]))
            case 9 if shape[axis] % 2 == 0:
                made += net.split(x, shape[axis] // 2, axis)
            case 10:
                made.append(net.matmul(x, net.transpose(other, -1, -2)))
            case 11:
                made.append(net.cat(axis, x, other))
            case _:
                made.append(net.mul(x, net.parameter(shape[-1])))


@pytest.mark.parametrize("seed", range(25))
def test_any_network_is_split_truthfully(seed: int) -> None:
    net = Net(seed)
    anything(net, 18)
    trials(net)


def test_blocks_of_different_sizes_do_not_agree() -> None:
    """Pieces that are asked for change the blocks of what makes them; who reads all of it must look at that."""
    net = Net()
    x, y = (net.linear(net.input(B, T, F), 8) for _ in range(2))
    net.point("exp", np.exp, net.slice(x, 2, 0, 4))  # asks for blocks of 4
    shifted = net.point("neg", np.negative, net.slice(x, 2, 1, 5))
    total = net.add(x, y)
    longer = net.cat(2, y, net.parameter(B, T, 4))
    image = net.convolution(net.input(B, 3, 2, 2), 8, side=1)
    net.point("exp", np.exp, net.slice(image, 1, 0, 4))
    grouped = net.convolution(image, 8, side=1, groups=4)
    flat = net.view(y, B, T, 2, 4)  # heads stand before the last but one axis, as they must not
    fused = net.attention(flat, flat, flat)
    assert trials(net) > 0
    found = net.loops()
    assert splits(net, "exp") == [("rows",), ("rows",)]
    for name in (shifted, total, longer, grouped, fused):
        loops = found[name.partition(".")[0]]
        assert loops is None or not loops.splits, name


JUNK: tuple[Any, ...] = (None, 0, -1, 7, 10**9, "x", [], [1, -1], [3, 2, 1, 0], ["a"], [None], True, 1.5, (0, 1))


@pytest.mark.parametrize("seed", range(40))
def test_arguments_and_shapes_that_make_no_sense_are_survived(seed: int) -> None:
    """A mutated program has loop nests or none, but no traceback."""
    net, random = Net(seed), Random(seed)
    match seed % 4:
        case 0 | 1:
            llama(net, fused=seed % 4 == 0)
        case 2:
            residual(net)
        case _:
            joint(net, "select")
    program = net.program
    for _ in range(10):
        i = random.randrange(len(program.steps))
        step = program.steps[i]
        match random.randrange(4):
            case 0:
                names = (*step.arguments, "dim", "axis", "perm", "stride", "start", "pads", "num_groups")
                step = replace(step, arguments={name: random.choice(JUNK) for name in names})
            case 1:
                step = replace(step, reads=step.reads[:-1])
            case 2:
                step = replace(step, kind=random.choice(program.steps).kind)
            case _:
                name = random.choice(list(program.values))
                shape = list(program.values[name].shape)
                shape[random.randrange(3) :] = [random.choice((0, 1, 2, 5, 8)) for _ in range(random.randrange(3))]
                program.values[name] = Value(name, tuple(shape), 32)
        program.steps[i] = step
    found, _ = followed(program)
    assert len(found) == len(program.steps)
