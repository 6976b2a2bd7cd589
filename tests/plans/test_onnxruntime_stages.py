"""Format ``onnx`` with networks of transformers: the models of the stages in ONNX Runtime, one after the other.

Each network has random weights and is cut in depth and width. Each is mapped by ``ring`` and by ``placement`` with
objective ``throughput`` on two and four chips.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chipmap
from benchmarks.pipelines import NETWORKS, Network, crossing, export, on_devices, on_ring
from chipmap.family import family_of, resolve
from chipmap.instances.ring.instance import RingInstance
from chipmap.networks.importers.reading import import_graph
from chipmap.plans.onnx import format as form
from chipmap.plans.reading import solution_in

onnx: Any = pytest.importorskip("onnx", reason="needs the extra judges")
pytest.importorskip("onnxruntime", reason="needs the extra judges")
torch: Any = pytest.importorskip("torch", reason="needs the extra judges")
pytest.importorskip("transformers", reason="needs the extra judges")

SECONDS = 10.0
_BERT = {"hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024}
_CLIP: dict[str, Any] = {"num_hidden_layers": 2, **_BERT}
#: Settings that are smaller than those of the pipelines.
NARROW: dict[str, dict[str, Any]] = {
    "bert": {**_BERT, "vocab_size": 4000},
    "gpt2": {"n_embd": 256, "n_head": 4, "vocab_size": 4000},
    "llama": {"hidden_size": 256, "intermediate_size": 704, "vocab_size": 4000},
    "vit": _BERT,
    "resnet": {},
    "clip": {"text_config": {**_CLIP, "vocab_size": 4000, "eos_token_id": 3999}, "vision_config": _CLIP},
    "mixtral": {"hidden_size": 256, "intermediate_size": 512, "vocab_size": 4000},
}


@pytest.fixture(scope="module", params=list(NARROW))
def network(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, Any, Path]:
    """Name, model's file, its graph, and inputs for it."""
    import numpy as np

    name, folder = request.param, tmp_path_factory.mktemp(request.param)
    wide: Network = NETWORKS[name]
    settings = {**wide.settings, **NARROW[name]}
    export(Network(wide.about, wide.model, wide.config, settings, wide.inputs), folder / "network.pt2")
    program = torch.export.load(folder / "network.pt2")
    model = folder / f"{name}.onnx"
    importlib.import_module("torch.onnx").export(program, dynamo=True).save(str(model), external_data=True)
    given = torch.utils._pytree.tree_leaves(program.example_inputs)
    names = [one.name for one in onnx.load(model, load_external_data=False).graph.input]
    inputs = folder / "inputs.npz"
    np.savez(inputs, **{one: value.numpy() for one, value in zip(names, given, strict=True)})
    return name, model, import_graph(str(model)), inputs


@pytest.mark.parametrize("chips", [2, 4])
@pytest.mark.parametrize("make", [on_ring, on_devices])
def test_stages_give_what_the_network_gives(
    make: Callable[..., Any],
    chips: int,
    network: tuple[str, Path, Any, Path],
    tmp_path: Path,
    record_property: Callable[[str, Any], None],
) -> None:
    name, path, read, inputs = network
    instance = make(read, name, chips)
    result = chipmap.solve(instance, options=chipmap.SolveOptions(time_limit=SECONDS, threads=1))
    for file, data in result.emit("onnx", model=path).items():
        (tmp_path / file).write_bytes(data)
    plan = json.loads((tmp_path / form.PLAN).read_text())
    for stage in plan["stages"]:
        onnx.checker.check_model(str(tmp_path / stage["file"]), full_check=True)
    onnx.checker.check_model(str(tmp_path / form.FILE), full_check=True)
    solution = resolve(family_of(instance).solution).make(**(result.solution or {}))
    check = resolve(family_of(instance).check)
    again = solution_in((tmp_path / form.FILE).read_bytes(), form.FILE, instance)
    assert check(instance, again) == check(instance, solution)
    command = [sys.executable, form.SCRIPT, "--inputs", str(inputs), "--model", str(path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["equal"] and said["boundary_bytes"] == plan["boundary_bytes"]
    sent, counted = sum(said["boundary_bytes"]), crossing(instance, solution)
    assert sent == counted
    family = "ring" if isinstance(instance, RingInstance) else "placement"
    figures = f"{said['stages']} stages, difference {said['largest_difference']:.1e} of {said['largest_output']:.1e}"
    record_property(f"{name}, {family}, {chips} chips", f"{figures}; {sent:,} bytes sent, {counted:,} counted")
