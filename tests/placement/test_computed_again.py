"""Modules that are computed again for their gradients (activation checkpointing): what is kept, and what it costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chipmap.cli import main
from chipmap.inputs.reading import read
from chipmap.instances.placement.from_graph import training_step
from chipmap.instances.placement.training import Training, training
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.records import InputError


def chain(*modules: int) -> OperationGraph:
    """x, then operations ``m0/a`` … of modules of so many: a product, then gelus, each of 64 bytes."""
    names = [f"m{m}.{'abcdefg'[i]}" for m, count in enumerate(modules) for i in range(count)]
    kinds = ["linear" if name.endswith("a") else "gelu" for name in names]
    operations = [Operation(name="x", kind="input", role="input")]
    operations += [
        Operation(name=name, kind=kind, flop=100, weight_bytes=256 * (kind == "linear"))
        for name, kind in zip(names, kinds, strict=True)
    ]
    last = len(operations) - 1
    tensors = [Tensor(producer=v, readers=(v + 1,) if v < last else (), bytes=64) for v in range(last + 1)]
    return OperationGraph.checked("chain", operations, tensors)


def reads(step: Training, name: str) -> list[str]:
    """The operations that make what an operation reads."""
    at = next(v for v, one in enumerate(step.graph.operations) if one.name == name)
    return sorted(step.graph.operations[u].name for u in step.graph.reads()[at])


def test_gradients_read_copies_that_begin_when_they_reach_the_module() -> None:
    """Of a product and two gelus: the first two are computed again, of what came in and with the gradient there."""
    step = training(chain(1, 3), again=[["m1.a", "m1.b", "m1.c"]])
    copies = [one for one in step.graph.operations if one.name.endswith("/again")]
    assert [one.name for one in copies] == ["m1.a/again", "m1.b/again"]
    assert [one.flop for one in copies] == [100, 100] and {one.name for one in copies} <= set(step.backward)
    loss = next(one.name for one in step.graph.operations if one.kind == "loss")
    assert reads(step, "m1.a/again") == sorted(["m0.a", "m1.a/weight", loss])
    assert reads(step, "m1.b/again") == ["m1.a/again"]
    assert reads(step, "m1.c/gradient") == sorted([loss, "m1.b/again"])
    assert reads(step, "m1.b/gradient") == ["m1.a/again", "m1.c/gradient"]
    kept = {one.name for one in step.graph.operations if one.name not in step.backward} & {
        name for one in step.backward if one != loss for name in reads(step, one)
    }
    assert kept == {"x", "m0.a", "m0.a/weight", "m1.a/weight"}
    assert training(chain(1, 3), again=[]).graph == training(chain(1, 3)).graph


def test_names_of_modules_are_those_of_no_split(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "chain.csv"
    lines = ["x,input,0,64,0,", "m.a,matmul,100,64,256,x", "m.b,gelu,100,64,0,m.a", "m.c,gelu,100,64,0,m.b"]
    path.write_text("\n".join(["name,kind,flop,bytes,weights,inputs", *lines]))
    convert = ["convert", str(path), "--family", "placement", "--out", str(tmp_path / "out.json")]
    assert main([*convert, "--recompute", "m"]) == 1
    assert "Ask for --training" in capsys.readouterr().err
    assert main([*convert, "--training", "--recompute", "n"]) == 1
    assert "--recompute: no module and no class of modules is called 'n'" in capsys.readouterr().err
    assert main([*convert, "--training", "--recompute", "m"]) == 0
    instance: Any = read(str(tmp_path / "out.json"))
    assert "computed again for gradients: m (1 module)" in instance.notes
    assert [one.name for one in instance.graph.operations if one.name.endswith("/again")]


def test_a_checkpointed_network_holds_and_computes_what_torch_does() -> None:
    """Bytes that saved_tensors_hooks sees, and FLOP of the products of both passes by PyTorch's counter."""
    torch = pytest.importorskip("torch", reason="needs the extra learned")
    memory = pytest.importorskip("benchmarks.training_memory")
    from torch.utils.checkpoint import checkpoint
    from torch.utils.flop_counter import FlopCounterMode

    from chipmap.instances.placement.from_graph import from_graph
    from chipmap.networks.importers.torch_program import import_exported

    nn = torch.nn

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 128), nn.Linear(128, 32)

        def forward(self, x: Any) -> Any:
            return x + self.down(nn.functional.gelu(self.up(self.norm(x))))

    class Net(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.layers = nn.Linear(32, 32), nn.ModuleList(Block() for _ in range(3))

        def forward(self, x: Any) -> Any:
            x = self.first(x)
            for layer in self.layers:
                x = checkpoint(layer, x, use_reentrant=False)
            return x

    net, given = Net(), torch.randn(16, 32)
    instance = from_graph(import_exported(torch.export.export(net, (given,)), "net", decompose=False), "net")
    for names in (["Block"], ["layers.*"]):
        step = training_step(instance, recompute=names).instance
        held = memory.saved_bytes(Training(step.graph, (), step.backward))
        assert held == memory.torch_holds(net, {"x": given}).saved == 3 * 16 * 32 * 4
    net.zero_grad()
    with FlopCounterMode(display=False) as counter:
        net(given).sum().backward()
    assert sum(one.flop for one in step.graph.operations if one.kind == "linear") == counter.get_total_flops()
    with pytest.raises(InputError, match="no module and no class of modules is called 'Blok'"):
        training_step(instance, recompute=["Blok"])
