"""Stages of ``torch-pipeline`` in training: gradients of the unsplit network, and what family ``placement`` charges.

PyTorch runs the stages by 1F1B and by GPipe over gloo on loopback (:mod:`.trained_stages`). Four networks: a decoder
with grouped keys and a tied head, one whose table is read under ``no_grad``, ConvNeXt's blocks with a scale each, and a
frozen, partly detached one.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from chipmap.instances.placement import PlacementSolution
from chipmap.instances.placement.from_graph import from_graph, training_step
from chipmap.instances.placement.presets import system
from chipmap.networks.importers.reading import import_graph
from chipmap.plans.plan import EmitOptions
from chipmap.plans.torch_pipeline import format as form
from chipmap.validation.placement.checker import check
from tests.docs.pages import ROOT, blocks
from tests.plans.test_torch_pipeline import ring

torch: Any = pytest.importorskip("torch", reason="needs the extra torch")
cutting: Any = pytest.importorskip("chipmap.plans.torch_pipeline.script.cutting")
functional = torch.nn.functional


def networks() -> dict[str, Any]:
    """Name -> network and what it takes."""
    nn = torch.nn

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, width: int) -> None:
            super().__init__()
            self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
            self.query, self.pair, self.out = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)
            self.gate, self.up, self.down = (nn.Linear(width, width, bias=False) for _ in range(3))

        def forward(self, x: Any) -> Any:
            y = self.norms[0](x)
            query = self.query(y).unflatten(-1, (4, -1)).transpose(1, 2)
            key, value = self.pair(y).unflatten(-1, (2, 2, -1)).permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
            x = x + self.out(mixed.transpose(1, 2).flatten(2))
            y = self.norms[1](x)
            return x + self.down(functional.silu(self.gate(y)) * self.up(y))

    class Tied(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.layers = nn.Embedding(40, 16), nn.ModuleList(Block(16) for _ in range(3))
            self.head = nn.Linear(16, 40, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, tokens: Any) -> Any:
            x = self.embed(tokens)
            for layer in self.layers:
                x = layer(x)
            return self.head(x)

    class Aside(Tied):
        def forward(self, tokens: Any) -> Any:
            with torch.no_grad():
                x = self.embed(tokens)
            return self.head(self.layers[0](x))

    class Scaled(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.head = nn.Conv2d(3, 8, 4, 4), nn.Linear(8, 5)
            self.wide = nn.ModuleList(nn.Conv2d(8, 8, 7, padding=3, groups=8) for _ in range(3))
            self.norm = nn.ModuleList(nn.LayerNorm(8) for _ in range(3))
            self.up = nn.ModuleList(nn.Linear(8, 32) for _ in range(3))
            self.down = nn.ModuleList(nn.Linear(32, 8) for _ in range(3))
            self.scale = nn.ParameterList(torch.full((8,), 0.5) for _ in range(3))

        def forward(self, image: Any) -> Any:
            x = self.stem(image)
            for wide, norm, up, down, scale in zip(self.wide, self.norm, self.up, self.down, self.scale, strict=True):
                y = down(functional.gelu(up(norm(wide(x).permute(0, 2, 3, 1)))))
                x = x + (scale * y).permute(0, 3, 1, 2)
            return self.head(x.mean((2, 3)))

    class Frozen(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.eye = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 16))
            self.embed, self.base, self.out = nn.Embedding(20, 16), nn.Linear(16, 16), nn.Linear(16, 6)
            self.base.requires_grad_(False)
            self.low, self.high = nn.Linear(16, 2, bias=False), nn.Linear(2, 16, bias=False)

        def forward(self, tokens: Any, seen: Any) -> Any:
            mask = (tokens != 0).float()[..., None]
            with torch.no_grad():
                seen = self.eye(seen)
            x = (self.embed(tokens) + seen) * mask
            return self.out(functional.relu(self.base(x) + self.high(self.low(x))) * mask)

    torch.manual_seed(0)
    words = torch.randint(0, 20, (1, 6))
    return {
        "tied": (Tied(), (words,)),
        "aside": (Aside(), (words,)),
        "scaled": (Scaled(), (torch.randn(1, 3, 16, 16),)),
        "frozen": (Frozen(), (words, torch.randn(1, 6, 8))),
    }


def cut(path: Path, stages: int) -> list[list[str]]:
    """The operators in order, in so many equal parts."""
    order = [one.name for one in import_graph(str(path)).graph.operations if one.role == "compute"]
    at = [len(order) * s // stages for s in range(stages + 1)]
    return [order[a:b] for a, b in pairwise(at)]


def charged(path: Path, stages: list[list[str]], batches: int) -> list[int]:
    """Bytes that C6 counts of each stage beyond a single micro-batch; gradients stand beside forward operations."""
    device = {name: s for s, names in enumerate(stages) for name in names}
    step = training_step(from_graph(import_graph(str(path)), "net")).instance.replace(
        system=system(f"p100-nvlink-{len(stages)}")
    )
    graph, home, found = step.graph, dict[str, int](), list[list[int]]()
    reads: dict[str, list[str]] = {one.name: [] for one in graph.operations}
    for tensor in graph.tensors:
        reads[graph.operations[tensor.producer].name] += [graph.operations[v].name for v in tensor.readers]
    for one in graph.operations:
        name = one.name.removesuffix("/update")
        readers = [device[reader] for reader in reads[name] if reader in device]
        home[one.name] = device.get(name.split("/")[0], min(readers, default=0))
    names = [one.name for one in step.system.devices]
    placed = {one.name: names[home[one.name]] for one in graph.operations if one.role in ("compute", "constant")}
    for most in (1, batches):
        task = step.task.replace(objective="throughput", memory="static", contiguous=True, micro_batches=most)
        figures = check(step.replace(task=task), PlacementSolution(devices=placed)).figures
        found.append([int(figures[f"peak_bytes {name}"]) for name in names])
    return [more - once for once, more in zip(*found, strict=True)]


def run(tmp_path: Path, path: Path, stages: list[list[str]], schedule: str, batches: int) -> Any:
    """What comes out of PyTorch's run."""
    asked = {"program": str(path), "stages": stages, "schedule": schedule, "batches": batches}
    (tmp_path / "asked.json").write_text(json.dumps(asked))
    command = [sys.executable, "-W", "ignore", "-m", "tests.plans.trained_stages", str(tmp_path / "asked.json")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("name", "stages", "schedule", "batches"),
    [
        *(("tied", 3, "1f1b", 4), ("aside", 2, "gpipe", 2), ("scaled", 4, "1f1b", 6), ("scaled", 2, "gpipe", 3)),
        ("frozen", 2, "1f1b", 3),
    ],
)
def test_stages_train_as_the_whole_network(tmp_path: Path, name: str, stages: int, schedule: str, batches: int) -> None:
    """Gradients, the micro-batches under way, and the bytes that further ones keep."""
    network, example = networks()[name]
    torch.export.save(torch.export.export(network, example), tmp_path / "net.pt2")
    parts = cut(tmp_path / "net.pt2", stages)
    found = run(tmp_path, tmp_path / "net.pt2", parts, schedule, batches)
    assert found["worst"] < 1e-4 and found["alone"] == []
    assert found["copies"] == (name in ("tied", "aside"))
    expected = [min(batches, stages - s) for s in range(stages)] if schedule == "1f1b" else [batches] * stages
    assert found["under_way"] == expected
    if schedule == "1f1b":
        more = [(most - 1) * max(kept) for most, kept in zip(expected, found["kept"], strict=True)]
        ours = charged(tmp_path / "net.pt2", parts, batches)
        # a float of each row of attention isn't counted, and a mean and deviation of the last rows are
        assert all(a <= b <= 1.05 * a + 64 for a, b in zip(ours, more, strict=True)), (ours, more)


def test_two_parameters_in_one_storage_are_no_copies(tmp_path: Path) -> None:
    """Two halves of a flat tensor, in a stage each: their gradients aren't summed."""

    class Halves(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = (torch.nn.Parameter(half) for half in torch.randn(2, 6, 6))

        def forward(self, x: Any) -> Any:
            return torch.relu(x @ self.first) @ self.second

    torch.export.save(torch.export.export(Halves(), (torch.randn(4, 6),)), tmp_path / "net.pt2")
    program = cutting.Program(torch.export.load(tmp_path / "net.pt2"))
    assert len({one.untyped_storage().data_ptr() for one in program.tensors.values()}) == 1
    assert cutting.shared(cutting.split(program, [["matmul", "relu"], ["matmul_1"]])) == []


def test_the_script_of_the_page_trains_as_it_stands(tmp_path: Path) -> None:
    """The page's network in two stages, the script as pasted."""
    page = ROOT / "docs" / "tutorials" / "torch-pipeline.md"
    names: dict[str, Any] = {}
    (model,) = (block.text for block in blocks(page, "python"))
    (script,) = (block.text for block in blocks(page, "py") if "Schedule1F1B" in block.text)
    path = tmp_path / "decoder.pt2"
    exec(compile(re.sub("decoder.pt2", str(path), model), "model.py", "exec"), names)
    instance = ring(path, 2)
    places = {one: s for s, part in enumerate(cut(path, 2)) for one in part}
    from chipmap.instances.ring.contraction import lift

    solution = lift(
        instance, {v: places[one.name] for v, one in enumerate(instance.graph.operations) if one.name in places}
    )
    for file, text in form.emit(instance, solution, EmitOptions(str(path))).items():
        (tmp_path / file).write_text(str(text))
    (tmp_path / "train.py").write_text(script)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py"]
    plain = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=plain, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    losses = [float(line.split()[1]) for line in done.stdout.splitlines()]
    assert len(losses) == 5 and losses[-1] < losses[0]
