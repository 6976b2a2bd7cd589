"""The reader of PyTorch programs: a small file by hand, refusals, and (with PyTorch) real exports."""

from __future__ import annotations

import io
import json
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest

from chipmap.inputs.reading import read
from chipmap.networks.importers.common import ImportedGraph
from chipmap.networks.importers.operators.sums import einsum
from chipmap.networks.importers.reading import import_graph
from chipmap.networks.importers.steps import Value
from chipmap.networks.importers.torch import file as torch_file
from chipmap.records import InputError
from tests.instances.programs import TORCH, pt2


def program(*path: str | int, to: Any) -> bytes:
    """The small program with the value at ``path`` replaced."""
    tree = json.loads(json.dumps(TORCH))
    place = tree["graph_module"]
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = to
    return pt2(tree)


BODY = {"name": "body", "graph": {"inputs": [], "outputs": [], "nodes": [], "tensor_values": {}}}


def computing(imported: ImportedGraph) -> list[tuple[str, int, int]]:
    return [(op.kind, op.flop, op.weight_bytes) for op in imported.graph.operations if op.role == "compute"]


def test_a_small_program() -> None:
    imported = import_graph("small.pt2", pt2(TORCH))
    assert (imported.format, imported.graph.name) == ("torch", "small")
    assert [(op.name, op.role) for op in imported.graph.operations] == [
        ("x", "input"),
        ("p_w", "constant"),
        ("p_b", "constant"),
        ("linear", "compute"),
        ("relu", "compute"),
        ("split", "view"),
        ("left", "view"),
        ("right", "view"),
        ("mix", "compute"),
        ("add", "compute"),
    ]
    assert computing(imported) == [
        ("linear", 2 * 2 * 6 * 4, 4 * (24 + 6)),
        ("relu", 12, 0),
        ("mine.mix", 6, 0),
        ("add", 6, 0),
    ]
    assert [(t.producer, t.readers, t.bytes, t.output) for t in imported.graph.tensors] == [
        (0, (3,), 32, False),
        (1, (3,), 0, False),
        (2, (3,), 0, False),
        (3, (4,), 48, False),
        (4, (5,), 48, False),
        (5, (6,), 24, False),
        (5, (7,), 24, False),
        (6, (8,), 24, False),
        (7, (8, 9), 24, False),
        (8, (9,), 24, False),
        (9, (), 24, True),
    ]
    assert "mine.mix (1, " in imported.notes[0]


SIZES = ("graph", "tensor_values", "x", "sizes")


def test_symbolic_dimensions() -> None:
    data = program(*SIZES, to=[{"as_expr": {"expr_str": "2*s0"}}, {"as_int": 4}])
    with pytest.raises(InputError, match="the dimension 's0' of tensor 'x' has no value") as error:
        import_graph("m.pt2", data)
    assert "--dim s0=8" in error.value.remedy
    assert import_graph("m.pt2", data, {"s0": (5,)}).graph.tensors[0].bytes == 4 * 10 * 4
    for text in ("s0**-s0", "__import__('os')", "s0//0", "(" * 90, "9" * 150, "s0.real", "Max(s0, t)", "s0**s0**s0"):
        wrong = program(*SIZES, to=[{"as_expr": {"expr_str": text}}])
        with pytest.raises(InputError, match=r"has no value|has the shape|no whole number"):
            import_graph("m.pt2", wrong, {"s0": (5,)} if "s0" in text else {})


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"PK\x03\x04", "the zip archive is broken"),
        (pt2(TORCH)[:-30], "the zip archive is broken"),
        (pt2(TORCH, "small/other.json"), "holds no exported program"),
        (pt2(b"{"), "not valid JSON"),
        (
            program("graph", "nodes", 0, "outputs", to=[{"as_tensor": {"name": "none"}}]),
            "nothing tells the shape of 'none'",
        ),
        (program("graph", "nodes", 0, "name", to=7), "graph_module.graph.nodes[0].name: is a whole number"),
        (program("graph", "nodes", to=TORCH["graph_module"]["graph"]["nodes"][1:]), "which nothing before it makes"),
        (program(*SIZES, to=[{"as_int": -1}]), "tensor 'x' has the shape [-1]"),
        (program("graph", "tensor_values", "x", "dtype", to=77), "unknown type 77"),
        (
            program("graph", "nodes", 1, "inputs", to=[{"name": "f", "arg": {"as_graph": BODY}}]),
            "control flow",
        ),
    ],
)
def test_refusals_name_what_is_wrong(data: bytes, said: str) -> None:
    with pytest.raises(InputError) as error:
        import_graph("m.pt2", data)
    assert said in str(error.value)
    assert error.value.where.startswith("m.pt2")
    assert error.value.remedy


def test_a_graph_that_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_file, "MAX_JSON", 2**20)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("m/models/model.json", b" " * (2**20 + 1))
    with pytest.raises(InputError, match="more than 1 MiB"):
        import_graph("m.pt2", file.getvalue())


def test_weights_are_not_read(tmp_path: Path) -> None:
    """A file with 64 MiB of weights: less than 4 MiB of memory is needed, whether or not an instance is made of it."""
    path = tmp_path / "large.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("large/data/weights/w", bytes(2**26))
        archive.writestr("large/models/model.json", json.dumps(TORCH))
    import_graph(str(path))  # what is imported on the way
    tracemalloc.start()
    try:
        assert len(import_graph(str(path)).graph.operations) == 10
        assert read(path, family="ring").graph.name == "large"  # type: ignore[attr-defined]
        with pytest.raises(InputError, match="is a network, not an instance"):
            read(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2**22


def test_einsum() -> None:
    a, b = Value("a", (2, 5, 3), 32), Value("b", (3, 4), 32)
    assert einsum("...ij,jk->...ik", [a, b]) == 2 * 2 * 5 * 3 * 4
    assert einsum("bij->b", [a]) == 30
    assert einsum("ij,jk->ik", [a, b]) is None


def test_einsum_of_several_operands_multiplies_pairs() -> None:
    """The order that the program says, else the first two; PyTorch's counter has 1,248 and 240 + 120 FLOP too."""
    three = [Value(name, shape, 4) for name, shape in (("a", (2, 3)), ("b", (3, 50)), ("c", (50, 4)))]
    assert einsum("ij,jk,kl->il", three) == 2 * 2 * 3 * 50 + 2 * 2 * 50 * 4
    assert einsum("ij,jk,kl", three, [1, 2, 0, 1]) == 2 * 3 * 50 * 4 + 2 * 2 * 3 * 4 == 1248
    four = [Value(name, shape, 4) for name, shape in (("a", (3, 4, 5)), ("b", (5, 6)), ("c", (4, 6)), ("d", (7,)))]
    found = einsum("abc,cd,bd,e->ae", four, [1, 2, 0, 2, 0, 1])
    assert found == 240 + 120 + 21  # the last pair adds nothing up: a multiplication for each number
    behind, front = (einsum("abc,cd,bd,e->ae", four, front=front) for front in (False, True))
    assert behind == 2 * 3 * 4 * 5 * 6 + 4 * 6 * 7 + 2 * 3 * 4 * 6 * 7
    assert front == 2 * 3 * 4 * 5 * 6 + 2 * 3 * 4 * 6 + 3 * 7
    assert (
        einsum("...i,i,...i->...", [Value("x", (2, 5, 3), 4), Value("w", (3,), 4), Value("y", (2, 5, 3), 4)]) == 30 + 60
    )
    for wrong in ([0, 0, 0, 1], [0, 5, 0, 1], [0, 1], [0]):
        assert einsum("ij,jk,kl->il", three, wrong) is None


def test_real_exports(tmp_path: Path) -> None:
    """A network of convolutions and attention: the file and the object, at both levels of operators."""
    torch = pytest.importorskip("torch", reason="needs the extra learned")
    from chipmap.networks.importers.torch_program import import_exported

    class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 8, 3, padding=1, groups=1)
            self.up = torch.nn.ConvTranspose2d(8, 4, 2, stride=2)
            self.norm = torch.nn.BatchNorm2d(8)
            self.lin = torch.nn.Linear(16, 12)
            self.act = torch.nn.ReLU(inplace=True)

        def forward(self, x: Any, q: Any) -> Any:
            image = self.up(self.act(self.norm(self.conv(x))))
            a, b, c = torch.split(self.lin(q), 4, -1)
            return image, torch.nn.functional.scaled_dot_product_attention(a, b, c), a @ a.mT

    net = Net().eval()
    exported = torch.export.export(net, (torch.zeros(2, 3, 6, 6), torch.zeros(2, 7, 16)))
    path = tmp_path / "net.pt2"
    torch.export.save(exported, path)
    file = import_graph(str(path))
    whole = import_exported(exported, "net", decompose=False)
    assert computing(file) == computing(whole)
    assert not file.notes
    by_kind = {op.kind: op.flop for op in file.graph.operations}
    assert by_kind["conv2d"] == 2 * (2 * 8 * 36) * 27
    assert by_kind["conv_transpose2d"] == 2 * (2 * 8 * 36) * 16
    assert by_kind["linear"] == 2 * 2 * 7 * 16 * 12
    assert by_kind["matmul"] == 2 * 2 * 7 * 7 * 4
    assert by_kind["scaled_dot_product_attention"] == 4 * 2 * 7 * 7 * 4
    core = import_exported(exported, "net")
    assert not core.notes
    heavy = ("convolution", "addmm", "mm", "bmm")
    products = sum(op.flop for op in core.graph.operations if op.kind in heavy)
    named = ("conv2d", "conv_transpose2d", "linear", "matmul", "scaled_dot_product_attention")
    assert products == sum(by_kind[kind] for kind in named)
    bytes_of = [sum(op.weight_bytes for op in g.graph.operations) for g in (file, core)]
    counted = sum(4 * p.numel() for p in net.parameters()) + 2 * 4 * 8
    assert bytes_of == [counted, counted]


def test_control_flow_of_a_real_export() -> None:
    torch = pytest.importorskip("torch", reason="needs the extra learned")
    from chipmap.networks.importers.torch_program import import_exported

    class Branch(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (x,))

    with pytest.raises(InputError, match="control flow"):
        import_exported(torch.export.export(Branch(), (torch.zeros(3),)), "branch")


def test_symbolic_dimensions_of_a_real_export() -> None:
    torch = pytest.importorskip("torch", reason="needs the extra learned")
    from chipmap.networks.importers.torch_program import import_exported

    batch = torch.export.Dim("batch", min=2, max=64)
    exported = torch.export.export(torch.nn.Linear(4, 3), (torch.zeros(5, 4),), dynamic_shapes={"input": {0: batch}})
    with pytest.raises(InputError, match="has no value") as error:
        import_exported(exported, "linear")
    symbol = error.value.what.split("'")[1]
    assert computing(import_exported(exported, "linear", {symbol: (8,)}))[0][1] == 2 * 8 * 4 * 3
