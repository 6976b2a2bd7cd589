"""Networks of torch as pipelines: exported, mapped, emitted as ``torch-pipeline`` and run, beside the unsplit network.

    python -m benchmarks.pipelines [--only NAME ...] [--stages 2 4] [--out FILE]

It needs the extra ``zoo`` (torch, transformers). Each network has random weights and a cut depth; Llama and Mixtral are
narrower than published. For each number of stages it is mapped by ``ring`` and by ``placement`` with objective
``throughput`` and blocks (C7). The script that is emitted then runs as it stands, in as many processes over gloo on
loopback, with four micro-batches. ``bytes`` are those that cross all boundaries in the run, and those that the instance
counts.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import chipmap
from chipmap.instances.placement.from_graph import from_graph as placement_of
from chipmap.instances.placement.instance import PlacementSolution
from chipmap.instances.placement.presets import system
from chipmap.instances.placement.problem import placement_problem
from chipmap.instances.ring.from_graph import from_graph as ring_of
from chipmap.instances.ring.instance import RingInstance, RingSolution
from chipmap.instances.ring.problem import ring_problem
from chipmap.networks.importers.reading import import_graph
from chipmap.plans.stages import stages_of

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "benchmarks" / "results" / "pipelines.md"
TOKENS, SIDE = 32, 224
#: Seconds for a solve, and for a run of all processes.
SOLVE, RUN = 60.0, 300.0


@dataclass(frozen=True)
class Network:
    """A network of transformers: the classes of model and configuration, its settings, and what it takes."""

    about: str
    model: str
    config: str
    settings: dict[str, Any]
    inputs: tuple[str, ...] = ("tokens",)


_LLAMA = {"hidden_size": 1024, "intermediate_size": 2816, "num_attention_heads": 16, "num_key_value_heads": 4}
_MOE: dict[str, Any] = {
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
}
_MOE |= {"num_local_experts": 4, "num_experts_per_tok": 2, "experts_implementation": "batched_mm"}
_CLIP = {"text_config": {"num_hidden_layers": 4}, "vision_config": {"num_hidden_layers": 4}}
NETWORKS = {
    "bert": Network("BERT-base, 4 of 12 layers", "BertModel", "BertConfig", {"num_hidden_layers": 4}),
    "gpt2": Network("GPT-2, 4 of 12 layers", "GPT2LMHeadModel", "GPT2Config", {"n_layer": 4, "use_cache": False}),
    "llama": Network(
        "Llama of width 1,024, 4 layers",
        "LlamaForCausalLM",
        "LlamaConfig",
        _LLAMA | {"num_hidden_layers": 4, "use_cache": False},
    ),
    "vit": Network("ViT-base, 4 of 12 layers", "ViTModel", "ViTConfig", {"num_hidden_layers": 4}, ("image",)),
    "resnet": Network("ResNet-50", "ResNetForImageClassification", "ResNetConfig", {}, ("image",)),
    "clip": Network("CLIP, 4 + 4 of 12 + 12 layers", "CLIPModel", "CLIPConfig", _CLIP, ("tokens", "image", "mask")),
    "mixtral": Network(
        "Mixtral of width 512, 4 experts, 2 layers",
        "MixtralForCausalLM",
        "MixtralConfig",
        _MOE | {"num_hidden_layers": 2, "vocab_size": 8000, "use_cache": False},
    ),
}


def wrapped(network: Network) -> Any:
    """A network with random weights, as a module that returns plain tensors."""
    import torch
    import transformers

    torch.manual_seed(0)
    settings = dict(network.settings)
    experts = settings.pop("experts_implementation", None)
    made = getattr(transformers, network.model)(getattr(transformers, network.config)(**settings)).eval()
    if experts is not None:
        made.set_experts_implementation(experts)

    class Plain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = made

        def forward(self, **given: Any) -> Any:
            found = torch.utils._pytree.tree_leaves(self.net(**given, return_dict=True).to_tuple())
            return tuple(one for one in found if isinstance(one, torch.Tensor))

    return Plain()


def example(network: Network) -> dict[str, Any]:
    """What the network takes, at random."""
    import torch
    import transformers

    settings = {key: value for key, value in network.settings.items() if key != "experts_implementation"}
    config = getattr(transformers, network.config)(**settings)
    words = getattr(getattr(config, "text_config", config), "vocab_size", 1)
    mask = torch.ones((1, TOKENS), dtype=torch.int64)
    mask[:, TOKENS * 3 // 4 :] = 0
    examples = {
        "tokens": ("input_ids", torch.randint(0, words, (1, TOKENS))),
        "mask": ("attention_mask", mask),
        "image": ("pixel_values", torch.randn(1, 3, SIDE, SIDE)),
    }
    return dict(examples[name] for name in network.inputs)


def export(network: Network, path: Path) -> None:
    """Export a network with random weights to ``path``; what it returns are plain tensors."""
    import torch

    program = torch.export.export(wrapped(network), (), example(network), strict=False)
    torch.export.save(program, path)


def on_ring(read: Any, name: str, stages: int) -> Any:
    """The ring of so many chips with memory enough."""
    found = ring_of(read, name)
    return found.replace(package=found.package.replace(chips=stages, sram_bytes=2**34))


def on_devices(read: Any, name: str, stages: int) -> Any:
    """The placement in blocks on so many devices, for throughput."""
    found = placement_of(read, name).replace(system=system(f"p100-nvlink-{stages}"))
    return found.replace(task=found.task.replace(objective="throughput", contiguous=True, memory="none"))


def crossing(instance: Any, solution: Any) -> int:
    """Bytes that cross all boundaries by the instance's account: each storage once over each, up to its last reader."""
    place = {name: s for s, stage in enumerate(stages_of(instance, solution)) for name in stage.operations}
    names = [one.name for one in instance.graph.operations]
    if isinstance(instance, RingInstance):
        moved = [(one.producer, one.readers, one.bytes) for one in ring_problem(instance).storages]
    else:
        problem = placement_problem(instance)
        at, held = problem.position.tolist(), problem.storages
        moved = [
            (at[held.producer[k]], tuple(at[v] for v in held.read_by(k)), int(held.bytes[k]))
            for k in range(len(held.bytes))
            if not held.resident[k]
        ]
    total = 0
    for producer, readers, size in moved:
        if names[producer] in place:
            last = max((place[names[v]] for v in readers if names[v] in place), default=0)
            total += size * max(0, last - place[names[producer]])
    return total


def measure(name: str, read: Any, make: Callable[..., Any], stages: int, model: Path) -> dict[str, Any]:
    """Solve, emit, run: a row."""
    instance = make(read, name, stages)
    began = time.monotonic()
    result = chipmap.solve(instance, options=chipmap.SolveOptions(time_limit=SOLVE, threads=2))
    row: dict[str, Any] = {"network": name, "family": result.method.partition("/")[0], "chips": stages}
    row |= {"status": result.status, "gap": result.gap, "solved": time.monotonic() - began}
    written = result.emit("torch-pipeline", model=model)
    plan = json.loads(written["stages.json"])
    row["cut"] = [len(stage["operations"]) for stage in plan["stages"]]
    row["points"] = plan.get("split_points") or plan["no_split_points"]
    row["lists"] = plan.get("module_lists") or plan["no_module_lists"]
    record = RingSolution if isinstance(instance, RingInstance) else PlacementSolution
    row["counted"] = crossing(instance, record.make(**(result.solution or {})))
    with tempfile.TemporaryDirectory() as folder:
        for file, data in written.items():
            Path(folder, file).write_bytes(data)
        command = [sys.executable, "run.py", "--timeout", str(RUN)]
        plain = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        began = time.monotonic()
        done = subprocess.run(command, cwd=folder, env=plain, capture_output=True, text=True, timeout=RUN + 60)
        row["wall"] = time.monotonic() - began
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    row |= json.loads(lines[-1]) if lines else {"error": done.stderr.strip()[-2000:]}
    return row | {"code": done.returncode}


def table(rows: list[dict[str, Any]]) -> str:
    """The page."""
    said = f"torch {version('torch')}, transformers {version('transformers')}, Python {platform.python_version()}"
    text = [
        "# Pipelines that run",
        "",
        "`python -m benchmarks.pipelines` exports each network, maps it, emits `torch-pipeline`, and runs the script",
        f"as it stands over gloo on loopback, with four micro-batches ({said}, {os.cpu_count()} shared cores).",
        "The largest difference is that of all outputs to those of the unsplit program. Bytes are those of one",
        "micro-batch over all boundaries: as they were sent for operators, and as the instance counts them. What the",
        "network returns travels on to the last process, which no instance counts: its bytes stand under `results`.",
        "Seconds are those of all micro-batches. A plan that leaves chips free has fewer stages.",
        f"{sum(one['code'] == 0 for one in rows)} of {len(rows)} run and are equal to 1e-5.",
        "",
        "| network | family | chips | solved | operations per stage | runs | difference | sent | counted | results | "
        "s |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one in rows:
        about = NETWORKS[one["network"]].about
        proof = "optimal" if one["status"] == "optimal" else f"within {one['gap']:.2%}" if one["gap"] else one["status"]
        cells = [about, one["family"], one["chips"], proof, " + ".join(map(str, one["cut"]))]
        results = sum(one.get("result_bytes", []))
        sent = sum(one.get("boundary_bytes", [])) - results
        cells += ["yes" if one["code"] == 0 else "no", f"{one.get('largest_difference', float('nan')):.1e}"]
        cells += [f"{sent:,}", f"{one['counted']:,}", f"{results:,}", f"{one.get('seconds', float('nan')):.2f}"]
        text.append("| " + " | ".join(map(str, cells)) + " |")
    text += ["", "Plans that split points or lists of modules say as well, or why they don't:", ""]
    text += ["| network | family | chips | split points | lists of modules |", "|---|---|---|---|---|"]
    for one in rows:
        points, lists = (
            f"`{json.dumps(found)}`" if not isinstance(found, str) else f"no: {found}"
            for found in (one["points"], one["lists"])
        )
        text.append(f"| {one['network']} | {one['family']} | {one['chips']} | {points} | {lists} |")
    return "\n".join(text) + "\n"


def main() -> int:
    """Measure all and write the page after each row; 1 if a pipeline doesn't run or differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=list(NETWORKS), choices=list(NETWORKS))
    parser.add_argument("--stages", nargs="*", type=int, default=[2, 4])
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in args.only:
            model = Path(folder, f"{name}.pt2")
            export(NETWORKS[name], model)
            read = import_graph(str(model))
            for stages in args.stages:
                for make in (on_ring, on_devices):
                    rows.append(measure(name, read, make, stages, model))
                    print(json.dumps(rows[-1]), flush=True)
                    args.out.write_text(table(rows), encoding="utf-8")
            model.unlink()
    return int(any(one["code"] for one in rows))


if __name__ == "__main__":
    sys.exit(main())
