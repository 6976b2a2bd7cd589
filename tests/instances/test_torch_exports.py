"""Real exports: the file and the object give one graph, and the torch graph can be split by a mapping."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chipmap.instances.ring.contraction import lift
from chipmap.instances.ring.from_graph import from_graph
from chipmap.networks.importers.reading import import_graph
from chipmap.networks.importers.torch_program import import_exported

torch: Any = pytest.importorskip("torch", reason="needs the extra learned")


class Held(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A layer, a buffer and the function that runs."""

    def __init__(self, run: Callable[..., Any]) -> None:
        super().__init__()
        self.layer, self.norm = torch.nn.Linear(4, 4), torch.nn.LayerNorm(4)
        self.register_buffer("cache", torch.zeros(3, 4))
        self.run = run

    def forward(self, x: Any) -> Any:
        return self.run(self, x)


def regions(held: Any, x: Any) -> Any:
    """Gradients off, autocast in autocast."""
    with torch.no_grad():
        y = held.layer(x)
    with torch.enable_grad():
        z = held.layer(y)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        w = held.layer(z)
        with torch.autocast("cpu", enabled=False):
            return held.layer(z) * 2 + x, w


def several(held: Any, x: Any) -> Any:
    """Operators with several results, some of them unread; nested outputs."""
    a, _ = torch.split(held.norm(x), 2, 1)
    values, places = torch.topk(a, 1)
    return {"a": [torch.relu(a), None], "b": (values * 2, places), "c": torch.stack(x.unbind(1)), "d": x.permute(1, 0)}


def in_place(held: Any, x: Any) -> Any:
    """A cache that is written and read, and a copy that is changed after it was viewed."""
    held.cache[1:2] = held.layer(x)[1:2]
    read = held.cache.view(4, 3) * 2
    held.cache.add_(1)
    y = x.clone()
    flat = y.view(-1)
    y.mul_(2)
    return read, flat + 1, held.cache + y


def data(held: Any, x: Any) -> Any:
    """Sizes that depend on data, and a constant in the shape of something computed."""
    where = torch.nonzero(x > 0)
    torch._check(where.shape[0] > 1)
    h = held.layer(x)
    return torch.zeros(where.shape[0] * 2) + 1, where * 2, h @ (torch.zeros_like(h).mT + x.mT)


CASES: list[tuple[Callable[..., Any], dict[str, tuple[int, ...]]]] = [
    (regions, {}),
    (several, {}),
    (in_place, {}),
    (data, {"u0": (4,)}),
]


def exported(run: Callable[..., Any]) -> Any:
    return torch.export.export(Held(run), (torch.ones(3, 4),))


@pytest.mark.parametrize("level", ["plain", "inlined", "core"])
@pytest.mark.parametrize(("run", "given"), CASES)
def test_file_and_object_agree(
    run: Callable[..., Any], given: dict[str, tuple[int, ...]], level: str, tmp_path: Path
) -> None:
    program = exported(run)
    if level != "plain":
        program = program.run_decompositions(*([{}] if level == "inlined" else []))
    path = tmp_path / "net.pt2"
    torch.export.save(program, path)
    file, whole = import_graph(str(path), dimensions=given), import_exported(program, "net", given, decompose=False)
    assert (file.graph.operations, file.graph.tensors) == (whole.graph.operations, whole.graph.tensors)
    names = {operation.name for operation in file.graph.operations}
    nodes = {node.name: str(node.target) for node in torch.export.load(path).graph.nodes if node.op == "call_function"}
    assert {name for name in nodes.keys() - names if not nodes[name].startswith("wrap_")} == set()


@pytest.mark.parametrize(("run", "given"), CASES)
def test_a_torch_graph_can_be_split_by_a_mapping(run: Callable[..., Any], given: dict[str, tuple[int, ...]]) -> None:
    """Computing operations in order on three chips; torch refuses to split a graph into parts that form a cycle."""
    from torch.fx.passes.split_module import split_module

    program = exported(run).run_decompositions({})
    instance = from_graph(import_exported(program, "net", given, decompose=False), "net")
    computing = [i for i, operation in enumerate(instance.graph.operations) if operation.role == "compute"]
    chips = lift(instance, {v: 3 * i // len(computing) for i, v in enumerate(computing)}).chips
    part = dict(zip((operation.name for operation in instance.graph.operations), chips, strict=True))
    module = program.graph_module
    assert {node.name for node in module.graph.nodes if node.op == "call_function"} <= part.keys()
    parts = split_module(module, module, lambda node: part[node.name])
    assert len(list(parts.children())) == len({part[n.name] for n in module.graph.nodes if n.op == "call_function"}) > 1


def test_several_open_dimensions(tmp_path: Path) -> None:
    """The shape of an input settles both symbols, and with them what is computed from these."""

    def run(_: Any, x: Any) -> Any:
        return x.view(x.shape[0] * 2, -1)[:, :2] + x.shape[0], x.mT @ x

    dims = {"x": {0: torch.export.Dim("batch", min=2, max=64), 1: torch.export.Dim.AUTO}}
    path = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(Held(run), (torch.ones(6, 4),), dynamic_shapes=dims), path)
    by_shape = import_graph(str(path), dimensions={"x": (10, 6)}).graph
    made = {by_shape.operations[tensor.producer].name: tensor.bytes for tensor in by_shape.tensors if tensor.output}
    assert made == {"add": 4 * 20 * 2, "matmul": 4 * 6 * 6}
