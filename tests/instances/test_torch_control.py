"""Branches and loops of PyTorch programs: `scan` and `map` are unrolled, a `cond` is the branch that is asked for."""

from __future__ import annotations

from typing import Any

import pytest

from chipmap.cli import main
from chipmap.networks.importers.common import ImportedGraph
from chipmap.networks.importers.reading import import_graph
from chipmap.networks.importers.torch import control
from chipmap.records import InputError
from tests.instances.test_torch_graphs import call, edges, graph, program

ROW, ROWS = [4, 8], [3, 4, 8]
WEIGHT = [8, 8]


def scan(rows: Any = 3, hop: str = "scan") -> bytes:
    """c = c · w + x[i], of which each row is returned, doubled: what `torch.export` writes of it."""
    body = graph(
        ["c", "r", "w1"],
        [
            call("mm", "aten.mm.default", "c", "w1"),
            call("add", "aten.add.Tensor", "mm", "r"),
            call("mul", "aten.mul.Tensor", "add", 2),
        ],
        ["add", "mul"] if hop == "scan" else ["mul"],
        {"c": ROW, "r": ROW, "w1": WEIGHT, "mm": ROW, "add": ROW, "mul": ROW},
    )
    groups = [["c0"], ["x"], ["w"]] if hop == "scan" else [["x"], ["c0", "w"]]
    if hop == "map_impl":
        body["inputs"] = body["inputs"][1::-1] + body["inputs"][2:]
    makes = [["last", "all"]] if hop == "scan" else [["all"]]
    node = call("loop", hop, body, *groups, makes=makes, single=False)
    relu = call("relu", "aten.relu.default", "all")
    shapes = {"c0": ROW, "x": [rows, 4, 8], "w": WEIGHT, "last": ROW, "all": [rows, 4, 8], "relu": [rows, 4, 8]}
    return program(
        graph(["w", "c0", "x"], [node, relu], [*(["last"] if hop == "scan" else []), "relu"], shapes), ("w",)
    )


def computing(imported: ImportedGraph) -> list[tuple[str, int]]:
    return [(op.name, op.flop) for op in imported.graph.operations if op.role == "compute"]


def test_a_scan_of_known_length_is_unrolled() -> None:
    """Three rows, each with a product of 2 · 4 · 8 · 8 FLOP; all rows are put together as `torch.stack` does."""
    imported = import_graph("m.pt2", scan())
    rows = [(f"loop.{i}.{name}", flop) for i in range(3) for name, flop in (("mm", 512), ("add", 32), ("mul", 32))]
    assert computing(imported) == [*rows, ("loop.stack0", 96), ("relu", 96)]
    assert {
        ("c0", "loop.0.mm"),
        ("loop.0.add", "loop.1.mm"),
        ("loop.1.add", "loop.2.mm"),
        ("loop.2.mul", "loop.stack0"),
        ("loop.2.part0", "loop.2.add"),
    } < edges(imported.graph)
    names = [op.name for op in imported.graph.operations]
    weight = next(t for t in imported.graph.tensors if names[t.producer] == "w")
    assert (weight.bytes, len(weight.readers)) == (256, 3), "the matrix is one, and three rows read it"
    outputs = {names[t.producer]: t.bytes for t in imported.graph.tensors if t.output}
    assert outputs == {"last": 128, "relu": 384}


def test_the_length_of_a_scan_may_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"'s0' .*has no value"):
        import_graph("m.pt2", scan("s0"))
    given = import_graph("m.pt2", scan("s0"), {"s0": (5,)})
    assert sum(flop == 512 for _, flop in computing(given)) == 5
    monkeypatch.setattr(control, "MAX_UNROLLED", 500)
    with pytest.raises(InputError, match="unrolled it has more than 500 operators"):
        import_graph("m.pt2", scan("s0"), {"s0": (1000,)})


def test_a_map_is_unrolled() -> None:
    imported = import_graph("m.pt2", scan(hop="map_impl"))
    assert sum(flop == 512 for _, flop in computing(imported)) == 3
    assert ("loop.1.part0", "loop.1.add") in edges(imported.graph)
    assert ("loop.0.add", "loop.1.mm") not in edges(imported.graph)


def branches(*, nested: bool = False) -> bytes:
    """cond: a product (2 · 4 · 8 · 8 FLOP) if true, a sum of each number and 1 (32 FLOP) if false."""
    shapes = {"y": ROW, "w1": WEIGHT, "made": ROW}
    product = graph(["y", "w1"], [call("made", "aten.mm.default", "y", "w1")], ["made"], shapes)
    plain = graph(["y", "w1"], [call("made", "aten.add.Tensor", "y", 1)], ["made"], shapes)
    if nested:
        inner = call("made", "cond", "c", product, plain, ["y", "w1"], makes=[["made"]], single=False)
        product = graph(["y", "w1", "c"], [inner], ["made"], {**shapes, "c": []})
        plain = graph(["y", "w1", "c"], plain["nodes"], ["made"], {**shapes, "c": []})
    passed = ["x", "w", *(["gt"] if nested else [])]
    nodes = [
        call("gt", "aten.any.default", "x"),
        call("choice", "cond", "gt", product, plain, passed, makes=[["out"]], single=False),
        call("relu", "aten.relu.default", "out"),
    ]
    return program(
        graph(["w", "x"], nodes, ["relu"], {"w": WEIGHT, "x": ROW, "gt": [], "out": ROW, "relu": ROW}), ("w",)
    )


@pytest.mark.parametrize(("asked", "flop"), [("true", 512), ("false", 32), ("heavier", 512)])
@pytest.mark.parametrize("nested", [False, True])
def test_a_branch_is_chosen(asked: str, flop: int, nested: bool) -> None:
    with pytest.raises(InputError, match="control flow: node 'choice'") as refused:
        import_graph("m.pt2", branches(nested=nested))
    assert refused.value.remedy.startswith("Add --branch heavier (or true, false) to the command.")
    found = import_graph("m.pt2", branches(nested=nested), branch=asked)
    name = "choice.made.made" if nested and asked != "false" else "choice.made"
    assert computing(found) == [("gt", 32), (name, flop), ("relu", 32)]
    assert ("out", "relu") in edges(found.graph)
    assert found.notes[0].startswith("inputs decide between branches; read were choice (")
    if asked == "heavier":
        assert "choice (true: 512 FLOP, the other 32 FLOP)" in found.notes[0]


def test_the_command_takes_the_branch(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "net.pt2"
    file.write_bytes(branches())
    assert main(["convert", str(file), "--family", "ring", "--out", str(tmp_path / "a.json")]) == 1
    assert "Add --branch heavier" in capsys.readouterr().err
    command = ["convert", str(file), "--family", "ring", "--branch", "heavier", "--out", str(tmp_path / "a.json")]
    assert main(command) == 0
    assert "inputs decide between branches" in capsys.readouterr().err
    own = tmp_path / "own.csv"
    own.write_text("name,flop,bytes\na,1,1\n")
    assert main(["convert", str(own), "--family", "ring", "--branch", "true"]) == 1
    assert "Leave out --branch." in capsys.readouterr().err


def test_exports_with_scan_are_those_of_the_same_python_loop() -> None:
    """FLOP by operator, and the weights, of a `scan`, its Python loop, a reversed `scan` and a `map`."""
    torch = pytest.importorskip("torch", reason="needs the extra learned")
    from torch._higher_order_ops.scan import scan as torch_scan

    from chipmap.networks.importers.torch_program import import_exported

    class Loop(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, loop: bool) -> None:
            super().__init__()
            self.layer, self.loop = torch.nn.Linear(8, 8), loop

        def forward(self, x: Any) -> Any:
            def step(c: Any, row: Any) -> Any:
                made = torch.tanh(self.layer(c) + row)
                return made, made * 2

            carried, rows = torch.zeros(4, 8), []
            if not self.loop:
                return torch_scan(step, carried, x, dim=0)
            for i in range(x.shape[0]):
                carried, made = step(carried, x[i])
                rows.append(made)
            return carried, torch.stack(rows)

    for decompose in (False, True):
        counts = []
        for loop in (False, True):
            with torch.no_grad():
                exported = torch.export.export(Loop(loop), (torch.zeros(5, 4, 8),))
            found = import_exported(exported, "net", decompose=decompose)
            kinds = sorted((op.kind, op.flop) for op in found.graph.operations if op.role == "compute")
            tensors = [(t.bytes, len(t.readers)) for t in found.graph.tensors]
            counts.append((kinds, max(tensors)))
        if not decompose:
            assert counts[0] == counts[1]
        assert (
            sum(flop for _, flop in counts[0][0]) == sum(flop for _, flop in counts[1][0]) == 5 * (512 + 3 * 32) + 160
        )


def test_a_real_cond_takes_the_heavier_branch() -> None:
    torch = pytest.importorskip("torch", reason="needs the extra learned")
    from chipmap.networks.importers.torch_program import import_exported

    class Branch(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: torch.mm(y, y), (x,))

    exported = torch.export.export(Branch(), (torch.zeros(3, 3),))
    found = import_exported(exported, "branch", branch="heavier")
    assert [op.flop for op in found.graph.operations if op.kind == "mm"] == [54]
