"""Training steps of forward graphs: which gradients there are, of what, and at how many FLOP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from chipmap.instances.placement.training import Recipe, Training, training
from chipmap.networks.graph import Operation, OperationGraph
from chipmap.networks.importers.program import imported
from chipmap.networks.importers.steps import Program, Step, Value

N, D = 5, 8
OLD = Recipe(saved="operands")
PRODUCT = 2 * N * D * D


def program(
    steps: Sequence[Step], shapes: Mapping[str, tuple[int, ...]], buffers: Sequence[str] = ()
) -> OperationGraph:
    """The graph of a program with the input ``x`` [N, D]; what no step makes are parameters. Results are [N, D]."""
    made = Program("p", "by hand")
    results = {name: (N, D) for step in steps for name in step.makes}
    made.values = {name: Value(name, shape, 32) for name, shape in {"x": (N, D), **shapes, **results}.items()}
    made.inputs, made.parameters, made.steps, made.outputs = ["x"], list(shapes), list(steps), [steps[-1].makes[0]]
    made.buffers = {*buffers}
    return imported(made, "here", "test").graph


def linear(name: str, *reads: str) -> Step:
    return Step(name, "linear", reads, (name,), PRODUCT)


def of(operations: Sequence[Operation], part: str) -> list[int]:
    """FLOP of the operations whose names have this part."""
    return [one.flop for one in operations if part in one.name]


def test_a_layer_with_a_bias_has_one_gradient_of_its_weights_and_one_of_what_it_reads() -> None:
    """Parameters of a file are nodes without bytes; the bytes stand in the operation's weights, bias included."""
    shapes = {"w": (D, D), "b": (D,), "v": (D, D), "c": (D,)}
    step = training(program([linear("y", "x", "w", "b"), linear("z", "y", "v", "c")], shapes))
    assert of(step.graph.operations, "y/gradient") == [PRODUCT]  # x is an input
    assert of(step.graph.operations, "z/gradient") == [PRODUCT, PRODUCT]
    assert step.together == (("y/weight", "y/weight/update"), ("z/weight", "z/weight/update"))
    states = [one.weight_bytes for one in step.graph.operations if one.kind == "update"]
    assert states == [2 * 4 * (D * D + D)] * 2


def test_a_bias_that_several_layers_share_is_no_matrix() -> None:
    """Its gradient sums up the result's, a FLOP for each number; the matrix has that of a product."""
    step = training(program([linear("y", "x", "w", "b"), linear("z", "y", "w", "b")], {"w": (D, D), "b": (D,)}))
    assert sorted(of(step.graph.operations, "y/gradient")) == [N * D, PRODUCT]
    made = [(step.graph.operations[one.producer], one.bytes) for one in step.graph.tensors]
    assert {one.flop: size for one, size in made if "y/gradient" in one.name} == {N * D: 4 * D, PRODUCT: 4 * D * D}
    assert sorted(of(step.graph.operations, "z/gradient")) == [N * D, PRODUCT, PRODUCT]


def test_buffers_and_what_shapes_give_are_not_trained() -> None:
    steps = [
        Step("mask", "ones", (), ("mask",), fixed=True),
        Step("y", "mul", ("x", "scale"), ("y",), N * D),
        Step("u", "mul", ("y", "mask"), ("u",), N * D),
        Step("z", "mul", ("u", "scale"), ("z",), N * D),
        linear("out", "z", "w"),
    ]
    step = training(program(steps, {"scale": (N, D), "w": (D, D)}, ["scale"]))
    assert step.together == (("out/weight", "out/weight/update"),)
    shared = training(program(steps, {"scale": (N, D), "w": (D, D)}))
    assert ("scale", "scale/update") in shared.together


def held(step: Training) -> dict[str, int]:
    """Bytes of what the forward operations make and the backward pass reads, by operation."""
    graph, backward = step.graph, set(step.backward)
    found: dict[str, int] = {}
    for tensor in graph.tensors:
        made = graph.operations[tensor.producer]
        readers = [graph.operations[v] for v in tensor.readers]
        kept = any(one.name in backward and one.kind != "loss" for one in readers)
        if made.role == "compute" and made.name not in backward and kept:
            found[made.name] = found.get(made.name, 0) + tensor.bytes
    return found


@pytest.mark.parametrize(
    ("kind", "of_h", "own"),
    [
        ("relu", 0, 4),
        ("gelu", 4, 0),
        ("dropout", 0, 1),
        ("add", 0, 0),
        ("max_pool2d", 4, 8),
        ("somebody.s", 4, 0),
        ("where", 0, 0),
        ("gt", 0, 0),
    ],
)
def test_what_an_operation_keeps(kind: str, of_h: int, own: int) -> None:
    """Bytes per number of its operand h, a layer's result, and of its own: results, masks, places."""
    steps = [linear("h", "x", "w"), Step("y", kind, ("h", "h"), ("y",), N * D), Step("z", "neg", ("y",), ("z",), N * D)]
    found = held(training(program(steps, {"w": (D, D)})))
    assert found == {name: size * N * D for name, size in (("h", of_h), ("y", own)) if size}


def test_a_factor_is_kept_where_its_partner_has_a_gradient() -> None:
    """Of h · m, with a mask m made of an input alone, the mask is; of h · g both are."""
    steps = [linear("h", "x", "w"), linear("g", "x", "v"), Step("m", "gt", ("x",), ("m",), N * D)]
    weights = {"w": (D, D), "v": (D, D)}
    both = [*steps, Step("y", "mul", ("h", "g"), ("y",), N * D)]
    assert held(training(program(both, weights))) == {"h": 4 * N * D, "g": 4 * N * D}
    masked = [*steps, Step("u", "add", ("h", "g"), ("u",), 0), Step("y", "mul", ("u", "m"), ("y",), N * D)]
    assert held(training(program(masked, weights))) == {"m": 4 * N * D}


def test_residual_additions_keep_nothing_and_hand_their_gradient_on() -> None:
    steps = [linear("a", "x", "w"), linear("b", "a", "v"), Step("y", "add", ("a", "b"), ("y",), N * D)]
    step = training(program([*steps, linear("z", "y", "u")], {"w": (D, D), "v": (D, D), "u": (D, D)}))
    assert held(step) == {"a": 4 * N * D, "y": 4 * N * D}  # for the matrices of b and of z
    assert not of(step.graph.operations, "y/gradient")
    before = training(program([*steps, linear("z", "y", "u")], {"w": (D, D), "v": (D, D), "u": (D, D)}), OLD)
    assert held(before) == {"a": 4 * N * D, "b": 4 * N * D, "y": 4 * N * D}


def test_gradients_of_a_tensor_are_added_one_after_the_other() -> None:
    """However many readers there are, an addition reads two tensors; by the rule before a sum reads all."""
    readers = [linear(f"r{i}", "h", f"u{i}") for i in range(7)]
    total = Step("y", "cat", tuple(one.name for one in readers), ("y",), 0)
    shapes = {"w": (D, D), **{f"u{i}": (D, D) for i in range(7)}}
    graph = program([linear("h", "x", "w"), *readers, total], shapes)

    def widest(step: Training) -> tuple[int, int]:
        reads = step.graph.reads()
        sums = [v for v, one in enumerate(step.graph.operations) if one.kind == "sum"]
        return len(sums), max(len(reads[v]) for v in sums)

    assert widest(training(graph)) == (6, 2)
    assert widest(training(graph, OLD)) == (1, 7)


def test_copies_have_bytes_of_their_own() -> None:
    """After a swap of dimensions; a view of all, or a part of the same storage, isn't copied."""
    swapped = [linear("h", "x", "w"), Step("t", "transpose", ("h",), ("t",), view=True)]
    copied = Step("c", "contiguous", ("t",), ("c",), view=True)
    for steps, kept in (
        ([*swapped, copied, Step("y", "gelu", ("c",), ("y",), N * D)], {"c": 4 * N * D}),
        ([*swapped, Step("y", "gelu", ("t",), ("y",), N * D)], {"h": 4 * N * D}),
    ):
        assert held(training(program(steps, {"w": (D, D)}))) == kept


@pytest.mark.parametrize(
    ("recipe", "per_number"),
    [
        (Recipe(), 8),
        (Recipe(optimizer="sgd"), 0),
        (Recipe(optimizer="momentum"), 4),
        (Recipe(state_bytes=1), 2),
        (Recipe(optimizer="sgd", master_weights=True), 4),
        (Recipe(state_bytes=2, master_weights=True), 8),
    ],
)
def test_the_state_of_an_optimizer(recipe: Recipe, per_number: int) -> None:
    step = training(program([linear("y", "x", "w")], {"w": (D, D)}), recipe)
    assert [one.weight_bytes for one in step.graph.operations if one.kind == "update"] == [per_number * D * D]


def test_without_an_optimizer_gradients_are_outputs() -> None:
    step = training(program([linear("y", "x", "w")], {"w": (D, D)}), Recipe(optimizer="none"))
    assert not step.together and not any(one.kind == "update" for one in step.graph.operations)
    assert [step.graph.operations[t.producer].name for t in step.graph.tensors if t.output] == ["y/gradient 1"]


def test_weights_of_two_bytes_have_states_of_two_bytes_unless_said_otherwise() -> None:
    """Numbers of a network in bfloat16: Adam of PyTorch keeps two of its numbers, mixed precision 12 bytes."""
    made = program([linear("y", "x", "w")], {"w": (D, D)})
    for recipe, state in (
        (Recipe(word_bytes=2), 4),
        (Recipe(state_bytes=4, master_weights=True, word_bytes=2), 12),
        (Recipe(state_bytes=1, word_bytes=2), 2),
    ):
        step = training(made, recipe)
        (found,) = (one.weight_bytes for one in step.graph.operations if one.kind == "update")
        assert found == state * (4 * D * D // 2)


@pytest.mark.parametrize(("kind", "times"), [("scaled_dot_product_attention", 5 / 2), ("lstm", 2), ("softmax", 1)])
def test_gradients_of_fused_operations(kind: str, times: float) -> None:
    """Attention's four products and the scores again, a recurrent layer's two products for each of its own."""
    steps = [*(linear(name, "x", f"w{name}") for name in "qkv"), Step("y", kind, ("q", "k", "v"), ("y",), 1000)]
    step = training(program(steps, {f"w{name}": (D, D) for name in "qkv"}))
    assert of(step.graph.operations, "y/gradient") == [times * 1000]


def test_products_of_a_training_step_are_those_that_torch_counts() -> None:
    torch = pytest.importorskip("torch", reason="needs the extra learned")
    from torch.utils.flop_counter import FlopCounterMode

    from chipmap.networks.importers.torch_program import import_exported

    class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.twice = torch.nn.Linear(6, 10), torch.nn.Linear(10, 10)
            self.conv, self.last = torch.nn.Conv1d(10, 4, 3), torch.nn.Linear(4, 7, bias=False)

        def forward(self, x):  # type: ignore[no-untyped-def]
            y = self.twice(self.twice(self.first(x)).relu())
            z = self.last(self.conv((y @ y.mT @ y).mT).mT)
            return z + z * z

    net, x = Net(), torch.randn(2, 9, 6)
    with FlopCounterMode(display=False) as counter:
        net(x).sum().backward()
    for decompose in (False, True):
        graph = import_exported(torch.export.export(net, (x,)), "net", decompose=decompose).graph
        products = {one.kind for one in graph.operations if one.loops is not None and one.loops.inner}
        step = training(graph).graph.operations
        counted = sum(one.flop for one in step if one.kind in products)
        biases = (
            2 * 2 * 9 * 10
        )  # of the layer that is applied twice, a sum for each time: its kind is that of a product
        assert counted == counter.get_total_flops() + biases


def test_saved_activations_are_those_that_torch_saves() -> None:
    """A block of a transformer, one of a convolutional network, gated and normalised: within 5% of the hooks' count."""
    torch = pytest.importorskip("torch", reason="needs the extra learned")
    memory = pytest.importorskip("benchmarks.training_memory")
    from chipmap.networks.importers.torch_program import import_exported

    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.table, self.norm, self.last = nn.Embedding(50, 128), nn.LayerNorm(128), nn.LayerNorm(128)
            self.qkv, self.out = nn.Linear(128, 384), nn.Linear(128, 128)
            self.up, self.gate, self.down = nn.Linear(128, 256), nn.Linear(128, 256), nn.Linear(256, 128)
            self.drop = nn.Dropout(0.1)

        def forward(self, words):  # type: ignore[no-untyped-def]
            x = self.table(words)
            parts = self.qkv(self.norm(x)).chunk(3, -1)
            q, k, v = (one.view(*one.shape[:-1], 2, 64).transpose(1, 2) for one in parts)
            y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
            x = x + self.drop(self.out(y))
            h = self.last(x)
            return x + self.drop(self.down(F.silu(self.gate(h)) * self.up(h)))

    class Picture(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1)
            self.norm, self.head = nn.BatchNorm2d(16), nn.Linear(16, 10)

        def forward(self, x):  # type: ignore[no-untyped-def]
            x = F.max_pool2d(F.relu(self.norm(self.a(x))), 2)
            x = F.relu(self.b(x) + x)
            return F.log_softmax(self.head(x.mean((2, 3))), -1)

    inputs = [{"words": torch.arange(48).view(1, 48)}, {"x": torch.randn(2, 3, 16, 16)}]
    for net, given in zip((Block(), Picture()), inputs, strict=True):
        graph = import_exported(torch.export.export(net, (), given), "net", decompose=False).graph
        ours, theirs = memory.ours_holds(graph, 4), memory.torch_holds(net, given)
        for name in ("saved", "gradients", "momentum", "adam"):
            assert getattr(ours, name) == pytest.approx(getattr(theirs, name), rel=0.05), name
        assert ours.sgd == theirs.sgd == 0


@pytest.mark.parametrize("name", ["gpt2", "convnext"])
def test_networks_of_the_zoo_hold_what_torch_holds(name: str) -> None:
    """A sample of ``python -m benchmarks.training_memory``, cut in width and depth."""
    pytest.importorskip("transformers", reason="needs the extra zoo")
    memory = pytest.importorskip("benchmarks.training_memory")
    found = memory.measured(name, small=True)
    for what in ("saved", "gradients", "momentum", "adam"):
        assert found["ours"][what] == pytest.approx(found["torch"][what], rel=0.05), what
