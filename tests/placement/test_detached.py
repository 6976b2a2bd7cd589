"""Where autograd is off, and what nothing needs: no gradient, no update, nothing kept; computed weights."""

from __future__ import annotations

from typing import Any

import pytest

from chipmap.instances.placement.training import Training, training
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.networks.importers.operators.calls import Value
from chipmap.networks.importers.steps import Program, Step
from chipmap.networks.importers.unreached import unreached


def _chain(**marks: dict[str, Any]) -> OperationGraph:
    """x -> a (weights) -> cut, a view -> b (weights) -> out; ``marks`` are fields of operations by name."""
    operations = [
        Operation(name="x", kind="input", role="input"),
        Operation(name="a", kind="linear", flop=512, weight_bytes=64),
        Operation(name="cut", kind="view", role="view", **marks.get("cut", {})),
        Operation(name="b", kind="linear", flop=512, weight_bytes=64, **marks.get("b", {})),
    ]
    ends = [(1,), (2,), (3,), ()]
    tensors = [Tensor(producer=v, readers=one, bytes=64, output=v == 3) for v, one in enumerate(ends)]
    return OperationGraph.checked("chain", operations, tensors)


def _updates(step: Training) -> list[str]:
    return [one.name for one in step.graph.operations if one.kind == "update"]


@pytest.mark.parametrize(
    ("marks", "updates"),
    [
        ({}, ["a/weight/update", "b/weight/update"]),
        ({"cut": {"detached": True}}, ["b/weight/update"]),
        ({"b": {"detached": True}}, []),
    ],
)
def test_no_gradient_passes_what_is_detached(marks: dict[str, Any], updates: list[str]) -> None:
    step = training(_chain(**marks))
    assert _updates(step) == updates
    if "cut" in marks:
        assert not any(one.name.startswith("a/") and one.name != "a/weight" for one in step.graph.operations)


def test_what_is_returned_detached_is_no_loss_and_what_is_not_returned_is_not_there() -> None:
    operations = [
        Operation(name="x", kind="input", role="input"),
        *(Operation(name=name, kind="linear", flop=512, weight_bytes=64) for name in ("kept", "logged", "dead")),
        Operation(name="log", kind="detach", role="view", detached=True),
    ]
    ends = [(1, 2, 3), (), (4,), (), ()]
    tensors = [Tensor(producer=v, readers=one, bytes=64, output=v in (1, 4)) for v, one in enumerate(ends)]
    step = training(OperationGraph.checked("logs", operations, tensors))
    assert _updates(step) == ["kept/weight/update"]
    names = [one.name for one in step.graph.operations]
    assert "logged" in names and "dead" not in names


def _product(kind: str, others: tuple[int, int], weight: int, made: int, flop: int) -> int:
    """FLOP of the gradient of a weight beside two computed operands; all sizes in numbers."""
    operations = [
        Operation(name="x", kind="input", role="input"),
        Operation(name="y", kind="input", role="input"),
        Operation(name="w", kind="parameter", role="constant", weight_bytes=4 * weight),
        Operation(name="z", kind=kind, flop=flop),
    ]
    sizes = (*others, weight, made)
    tensors = [
        Tensor(producer=v, readers=(3,) if v < 3 else (), bytes=4 * size, output=v == 3) for v, size in enumerate(sizes)
    ]
    step = training(OperationGraph.checked("product", operations, tensors))
    (found,) = (one.flop for one in step.graph.operations if "/gradient" in one.name)
    return found


@pytest.mark.parametrize(("m", "k", "n"), [(64, 16, 8), (8, 16, 64), (16, 16, 16), (2, 32, 32)])
def test_the_weight_beside_two_computed_operands_is_a_factor_or_what_is_added(m: int, k: int, n: int) -> None:
    """Of z = y + x w and z = w + x y, whatever the sizes: m × k by k × n."""
    flop = 2 * m * k * n
    assert _product("addmm", (m * k, m * n), k * n, m * n, flop) == flop
    assert _product("linear", (m * k, n), k * n, m * n, flop) == flop
    for kind in ("addmm", "linear"):
        assert _product(kind, (m * k, k * n), n, m * n, flop) == m * n


def test_a_factor_that_is_cut_has_no_gradient_beside_the_same_one_that_is_not() -> None:
    operations = [
        Operation(name="x", kind="input", role="input"),
        Operation(name="q", kind="linear", flop=512, weight_bytes=64),
        Operation(name="cut", kind="detach", role="view", detached=True),
        Operation(name="z", kind="matmul", flop=256),
    ]
    ends = [(1,), (2, 3), (3,), ()]
    tensors = [Tensor(producer=v, readers=one, bytes=64, output=v == 3) for v, one in enumerate(ends)]
    step = training(OperationGraph.checked("own", operations, tensors))
    assert [one.flop for one in step.graph.operations if one.name.startswith("z/gradient")] == [256]


def _program(*steps: Step) -> Program:
    sizes = {name: Value(name, (4, 4), 4) for name in ("x", "w", "v", *(made for step in steps for made in step.makes))}
    return Program("cut", "x", sizes, ["x"], ["w", "v"], list(steps), [steps[-1].makes[0]])


def test_a_parameter_that_is_read_detached_alone_has_no_gradient() -> None:
    """Unless it is read otherwise too, changed in place, or without autograd only for a view of it that is read."""

    def step(kind: str, *ends: str, **more: Any) -> Step:
        return Step(ends[-1], kind, ends[:-1], ends[-1:], **more)

    cut = step("detach", "w", "c", view=True, detached=True)
    turned = step("t", "c", "d", view=True)
    product = step("mm", "x", "d", "y")
    assert unreached(_program(cut, turned, product)) == {"w"}
    assert unreached(_program(cut, turned, product, step("mm", "y", "w", "z"))) == set()
    assert unreached(_program(step("t", "w", "c", view=True), turned, product)) == set()
    assert unreached(_program(cut, turned, step("add_", "d", "x", "y"))) == set()
    assert unreached(_program(step("mm", "x", "w", "y", detached=True), step("mm", "y", "v", "z"))) == {"w"}


def test_each_weight_of_a_product_of_weights_has_a_gradient() -> None:
    """x (a b), then a layer: PyTorch has 12,504 FLOP of products for a step, two gradients of a b among them."""
    torch = pytest.importorskip("torch", reason="needs the extra learned")
    from chipmap.networks.importers.torch_program import import_exported

    class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, twice: bool) -> None:
            super().__init__()
            self.a, self.b = (torch.nn.Parameter(torch.randn(shape)) for shape in ((16, 4), (4, 12)))
            self.last, self.twice = torch.nn.Linear(12, 5), twice

        def forward(self, x: Any) -> Any:
            made = self.last(x @ (self.a @ self.b))
            return (made, self.a.sum(), self.b.sum()) if self.twice else made

    for twice in (False, True):  # weights of one operation, or of two
        exported = torch.export.export(Net(twice), (torch.randn(7, 16),))
        step = training(import_exported(exported, "net", decompose=False).graph)
        products = [one.flop for one in step.graph.operations if one.kind in ("matmul", "linear")]
        assert sum(products) == 12504 and products.count(1536) + 2 * products.count(3072) == 3


def test_a_detached_weight_is_not_trained() -> None:
    """x w.detach(), then a layer: PyTorch has 4,368 FLOP of products for a step, and no gradient of w."""
    torch = pytest.importorskip("torch", reason="needs the extra learned")
    from chipmap.networks.importers.torch_program import import_exported

    class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.w, self.last = torch.nn.Parameter(torch.randn(16, 12)), torch.nn.Linear(12, 5)

        def forward(self, x: Any) -> Any:
            return self.last(x @ self.w.detach())

    exported = torch.export.export(Net(), (torch.randn(7, 16),))
    graph = import_exported(exported, "net", decompose=False).graph
    step = training(graph)
    assert _updates(step) == ["linear/weight/update"]
    products = [one.flop for one in step.graph.operations if one.kind in ("matmul", "linear")]
    assert sum(products) == 4368 and sorted(products) == [840, 840, 2688]


def _nets() -> dict[str, tuple[Any, tuple[int, ...]]]:
    torch = pytest.importorskip("torch", reason="needs the extra learned")
    nn, F = torch.nn, torch.nn.functional

    class Backbone(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.back = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 16))
            self.head = nn.Linear(16, 8)

        def forward(self, x):  # type: ignore[no-untyped-def]
            with torch.no_grad():
                y = self.back(x)
            return self.head(y)

    class Quantised(nn.Module):  # type: ignore[misc, name-defined]
        """A straight-through estimator, and a loss whose one side is fixed."""

        def __init__(self) -> None:
            super().__init__()
            self.into, self.book, self.out = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16)

        def forward(self, x):  # type: ignore[no-untyped-def]
            z = self.into(x)
            q = self.book(z.detach())
            return self.out(z + (q - z).detach()), (q - z.detach()).pow(2).sum()

    class Standard(nn.Module):  # type: ignore[misc, name-defined]
        """A convolution whose kernel is computed, with a bias; a product with one that is."""

        def __init__(self) -> None:
            super().__init__()
            self.conv, self.last = nn.Conv1d(16, 16, 3), nn.Linear(16, 16)
            self.shift = nn.Parameter(torch.randn(16, 16))

        def forward(self, x):  # type: ignore[no-untyped-def]
            kernel = self.conv.weight
            y = F.conv1d(x.mT, kernel - kernel.mean((1, 2), keepdim=True), self.conv.bias)
            return F.linear(y.mT, self.last.weight + self.shift, self.last.bias)

    class Turned(nn.Module):  # type: ignore[misc, name-defined]
        """Queries whose halves are changed in place, before a product of two activations."""

        def __init__(self) -> None:
            super().__init__()
            self.q, self.k = nn.Linear(16, 16), nn.Linear(16, 16)

        def forward(self, x):  # type: ignore[no-untyped-def]
            q, k = self.q(x).clone(), self.k(x)
            left, right = q[..., :8].clone(), q[..., 8:].clone()
            q[..., :8] = left - right
            q[..., 8:] = right + left
            return q @ k.mT

    class Scattered(nn.Module):  # type: ignore[misc, name-defined]
        """Experts whose results are added to rows."""

        def __init__(self) -> None:
            super().__init__()
            self.experts = nn.ModuleList(nn.Linear(16, 16) for _ in range(2))

        def forward(self, x):  # type: ignore[no-untyped-def]
            rows, scale = x.flatten(0, 1), 0.5
            total = torch.zeros_like(rows)
            for i, expert in enumerate(self.experts):
                index = torch.arange(i, len(rows), 2)
                total.index_add_(0, index, expert(rows[index]) * scale)
            return total

    class Mixing(nn.Module):  # type: ignore[misc, name-defined]
        """A product with a parameter between two Fourier transforms."""

        def __init__(self) -> None:
            super().__init__()
            self.into, self.out = nn.Linear(16, 16), nn.Linear(16, 16)
            self.scale = nn.Parameter(torch.randn(4, 16, dtype=torch.complex64))

        def forward(self, x):  # type: ignore[no-untyped-def]
            found = torch.fft.rfft(self.into(x), dim=1)
            return self.out(torch.fft.irfft(found * self.scale, n=6, dim=1))

    every = (Backbone, Quantised, Standard, Turned, Scattered, Mixing)
    return {net.__name__: (net, (2, 6, 16)) for net in every}


@pytest.mark.parametrize("name", ["Backbone", "Quantised", "Standard", "Turned", "Scattered", "Mixing"])
def test_a_step_has_the_products_gradients_and_states_of_torch(name: str) -> None:
    """FLOP of products to 1.5% (biases are sums here), bytes of gradients and of states; kept bytes to 6%, where no
    part is changed in place and no input copied."""
    net, shape = _nets()[name]
    torch = pytest.importorskip("torch", reason="needs the extra learned")
    memory = pytest.importorskip("benchmarks.training_memory")
    from torch.utils.flop_counter import FlopCounterMode

    from chipmap.networks.importers.torch_program import import_exported

    module, x = net(), torch.randn(*shape)
    with FlopCounterMode(display=False) as counter:
        made = module(x)
        sum(one.sum() for one in (made if isinstance(made, tuple) else (made,))).backward()
    module.zero_grad()
    graph = import_exported(torch.export.export(module, (x,)), name, decompose=False).graph
    kinds = {one.kind for one in graph.operations if one.kind in ("linear", "matmul", "conv1d")}
    found = sum(one.flop for one in training(graph).graph.operations if one.kind in kinds)
    assert found == pytest.approx(counter.get_total_flops(), rel=0.015)
    ours, theirs = memory.ours_holds(graph, 4), memory.torch_holds(module, {"x": x})
    assert (ours.gradients, ours.momentum) == (theirs.gradients, theirs.momentum)
    if name not in ("Turned", "Standard"):
        assert ours.saved == pytest.approx(theirs.saved, rel=0.06)
