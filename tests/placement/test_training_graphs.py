"""Training steps of forward graphs: which gradients there are, of what, and at how many FLOP."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from chipmap.instances.graph import Operation, OperationGraph
from chipmap.instances.importers.program import imported
from chipmap.instances.importers.steps import Program, Step, Value
from chipmap.instances.placement.training import STATE, training

N, D = 5, 8
PRODUCT = 2 * N * D * D


def program(steps: Sequence[Step], shapes: dict[str, tuple[int, ...]], buffers: Sequence[str] = ()) -> OperationGraph:
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
    assert states == [STATE * 4 * (D * D + D)] * 2


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


@pytest.mark.parametrize(("kind", "times"), [("scaled_dot_product_attention", 5 / 2), ("lstm", 2), ("softmax", 1)])
def test_gradients_of_fused_operations(kind: str, times: float) -> None:
    """Attention's four products and the scores again, a recurrent layer's two products for each of its own."""
    steps = [*(linear(name, "x", f"w{name}") for name in "qkv"), Step("y", kind, ("q", "k", "v"), ("y",), 1000)]
    step = training(program(steps, {f"w{name}": (D, D) for name in "qkv"}))
    assert of(step.graph.operations, "y/gradient") == [times * 1000]


def test_products_of_a_training_step_are_those_that_torch_counts() -> None:
    torch = pytest.importorskip("torch", reason="needs the extra learned")
    from torch.utils.flop_counter import FlopCounterMode

    from chipmap.instances.importers.torch_program import import_exported

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
