"""Training steps of graphs with tables of indices, weights in parts, stacked recurrent layers and casts to another
tensor's type."""

from __future__ import annotations

from typing import Any

import pytest

from chipmap.instances.placement.training import training
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.records import InputError


def graph_of(kinds: dict[str, str], made: dict[str, list[tuple[list[str], int]]], **rest: Any) -> OperationGraph:
    """Operations by name with their kinds; of each the tensors: who reads them, and bytes."""
    roles = {"input": "input", "parameter": "constant", "unbind": "constant", "tril_indices": "constant"}
    at = {name: v for v, name in enumerate(kinds)}
    operations = [
        Operation(name=name, kind=kind, role=roles.get(kind, "compute"), flop=64, **rest.get(name, {}))  # type: ignore[arg-type]
        for name, kind in kinds.items()
    ]
    tensors = [
        Tensor(producer=at[name], readers=tuple(at[one] for one in readers), bytes=size)
        for name, each in made.items()
        for readers, size in each
    ]
    return OperationGraph.checked("net", operations, tensors)


def test_each_part_of_a_weight_that_several_read_has_an_update_of_its_own() -> None:
    graph = graph_of(
        {"x": "input", "w": "parameter", "parts": "unbind", "a": "mm", "b": "mm", "c": "mm", "d": "mm"},
        {
            "x": [(["a"], 64)],
            "w": [(["parts"], 0)],
            "parts": [(["a", "c"], 256), (["b", "d"], 256)],
            "a": [(["b"], 64)],
            "b": [(["c"], 64)],
            "c": [(["d"], 64)],
            "d": [([], 64)],
        },
    )
    step = training(graph)
    updates = [one for one in step.graph.operations if one.kind == "update"]
    assert [one.weight_bytes for one in updates] == [512, 512]
    assert step.together == tuple(("parts", one.name) for one in updates)


def test_indices_that_a_formula_makes_are_no_weights() -> None:
    graph = graph_of(
        {"x": "input", "f": "mm", "places": "tril_indices", "g": "index", "h": "gelu"},
        {"x": [(["f"], 64)], "f": [(["g"], 64)], "places": [(["g"], 96)], "g": [(["h"], 24)], "h": [([], 24)]},
        f={"weight_bytes": 64},
    )
    assert [pair[0] for pair in training(graph).together] == ["f/weight"]


def test_stacked_recurrent_layers_keep_what_each_of_them_keeps_alone() -> None:
    def kept(*layers: int) -> int:
        names = [f"l{i}" for i in range(len(layers))]
        made = {name: [([then], 80)] for name, then in zip(["x", *names], [*names, "end"], strict=True)}
        kinds = {"x": "input", **dict.fromkeys(names, "lstm"), "end": "gelu"}
        rest = {name: {"weight_bytes": 64, "layers": count} for name, count in zip(names, layers, strict=True)}
        step = training(graph_of(kinds, {**made, "end": [([], 80)]}, **rest))
        ops, backward = step.graph.operations, {*step.backward}
        return sum(
            one.bytes
            for one in step.graph.tensors
            if ops[one.producer].kind == "lstm"
            and ops[one.producer].name not in backward
            and any(ops[v].name in backward for v in one.readers)
        )

    assert kept(1) == 6 * 80
    assert kept(3) == kept(1, 1, 1) == kept(2, 1) == 18 * 80
    with pytest.raises(InputError, match="layers is 0"):
        kept(0)


def read(module: Any, *given: Any, decompose: bool = False) -> OperationGraph:
    torch = pytest.importorskip("torch", reason="needs the extra learned")
    from chipmap.networks.importers.torch_program import import_exported

    return import_exported(torch.export.export(module, given), "net", decompose=decompose).graph


def test_a_cast_to_the_type_of_another_tensor_reads_its_own_operand_alone() -> None:
    """Of RMS norms as language models write them: what was normalised isn't read again by who reads the norm."""
    torch = pytest.importorskip("torch", reason="needs the extra learned")

    class Norm(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, kind: Any) -> None:
            super().__init__()
            self.kind, self.first, self.last = kind, torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

        def forward(self, x: Any, like: Any) -> Any:
            y = self.first(x).to(self.kind)
            z = y.float() * torch.rsqrt(y.float().pow(2).mean(-1, keepdim=True))
            return self.last(z.type_as(y).float()), z.type_as(self.first(like).to(self.kind))

    for kind in (torch.float32, torch.bfloat16):
        graph = read(Norm(kind), torch.randn(4, 8), torch.randn(4, 8))
        names = [one.name for one in graph.operations]
        reads = graph.reads()
        inner, outer = ([names[u] for u in reads[names.index(one)]] for one in ("type_as", "type_as_1"))
        assert len(inner) == 1 and inner[0].startswith("mul")
        assert len(outer) == 2  # nothing else makes it wait for the other one
        cast = graph.operations[names.index("type_as")]
        assert cast.role == ("view" if kind == torch.float32 else "compute")
        assert cast.moved_bytes is None or cast.moved_bytes == 4 * 8 * (4 + 2)


def test_a_pool_to_a_single_number_keeps_nothing() -> None:
    torch = pytest.importorskip("torch", reason="needs the extra learned")
    memory = pytest.importorskip("benchmarks.training_memory")
    nn = torch.nn
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))
    given = torch.randn(2, 3, 9, 9)
    ours = memory.ours_holds(read(net, given), 4).saved
    assert ours == memory.torch_holds(net, {"input": given}).saved == 2 * 8 * 4
    half = nn.Sequential(nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d((1, 7)))
    assert memory.ours_holds(read(half, given), 4).saved == 2 * 8 * 7 * 7 * 4
    two = torch.nn.LSTM(8, 8, num_layers=2)
    assert [one.layers for one in read(two, torch.randn(3, 2, 8)).operations if one.kind == "lstm"] == [2]


def test_whole_numbers_of_an_onnx_model_are_no_weights() -> None:
    """A table of places that two look-ups read, and one of a single look-up."""
    pytest.importorskip("onnx", reason="needs the extra onnx")
    import numpy as np
    from onnx import helper, numpy_helper

    from chipmap.networks.importers.reading import import_graph
    from tests.instances.onnx_models import model, tensor, weight

    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Gather", ["a", "places"], ["b"]),
        helper.make_node("Gather", ["b", "places"], ["c"]),
        helper.make_node("Gather", ["c", "others"], ["y"]),
    ]
    stored = [numpy_helper.from_array(np.array([1, 0, 2]), name) for name in ("places", "others")]
    data = model(nodes, [tensor("x", 3, 3)], [weight("w", 3, 3), *stored])
    read = import_graph("m.onnx", data)
    assert [pair[0] for pair in training(read.graph).together] == ["a/weight"]
    assert read.totals is not None and (read.totals.tensors, read.totals.buffers[2]) == (1, 2)
