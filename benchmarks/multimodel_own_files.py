"""Three networks of one's own, from PyTorch to a schedule with a gap whose latency is added up by hand.

    python -m benchmarks.multimodel_own_files export --out own   (needs the extra `zoo`: PyTorch)
    python -m benchmarks.multimodel_own_files solve --files own [--time-limit 60] [--costs NAME] [--out TABLE]

`export` writes a convolutional network with skip connections, a transformer encoder and an MLP-mixer as ONNX models.
`solve` runs `chipmap convert` and `chipmap solve` once each, as a user would, reads only the files that they wrote, and
adds T1 and T2 up again with plain arithmetic, T1 from `trace.json` as well. It fails if these differ from the
certificate.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Any

NAMES = ("skips", "encoder", "mixer")
TITLE = """# Three networks of one's own on a module of chiplets

`python -m benchmarks.multimodel_own_files`: a convolutional network with skip connections (batch 8), a transformer
encoder (batch 16) and an MLP-mixer (batch 8), exported as ONNX models, sample by sample on `{system}`. One command
converts the three files and one solves. T1 and T2 were added up again from the files alone. Load of
the two cores: {load:.1f}."""


def main() -> int:
    """Export, or convert and solve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("export")
    one.add_argument("--out", type=Path, required=True)
    two = commands.add_parser("solve")
    two.add_argument("--files", type=Path, required=True)
    two.add_argument("--time-limit", default="60")
    two.add_argument("--costs", action="append", help="a preset (default: roofline, then scar-datacenter)")
    two.add_argument("--system", default="het-sides-3x3")
    two.add_argument("--out", type=Path, help="a file for the table")
    args = parser.parse_args()
    return export(args.out) if args.command == "export" else solve(args)


def export(folder: Path) -> int:
    """The three networks as ONNX models."""
    import torch
    from torch import nn
    from transformers import BertConfig, BertModel

    class Skips(nn.Module):  # type: ignore[misc]
        """Residual blocks at three sizes, and a head that reads all of them."""

        def __init__(self) -> None:
            super().__init__()
            sizes = (64, 128, 256)
            self.stem = nn.Conv2d(3, 64, 7, 2, 3)
            self.down = nn.ModuleList(nn.Conv2d(i, o, 3, 2, 1) for i, o in zip((64, *sizes), sizes, strict=False))
            self.first = nn.ModuleList(nn.Conv2d(size, size, 3, padding=1) for size in sizes)
            self.second = nn.ModuleList(nn.Conv2d(size, size, 3, padding=1) for size in sizes)
            self.side = nn.ModuleList(nn.Conv2d(size, 64, 1) for size in sizes)
            self.head = nn.Conv2d(64, 24, 3, padding=1)

        def forward(self, x: Any) -> Any:
            x, made = torch.relu(self.stem(x)), []
            for down, first, second in zip(self.down, self.first, self.second, strict=True):
                x = torch.relu(down(x))
                x = torch.relu(x + second(torch.relu(first(x))))
                made.append(x)
            sides = [side(one) for side, one in zip(self.side, made, strict=True)]
            large = sides[0].shape[-2:]
            return self.head(sum(nn.functional.interpolate(side, large) for side in sides))

    class Mixer(nn.Module):  # type: ignore[misc]
        """Eight blocks that mix 196 patches, then 256 channels."""

        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, 256, 16, 16)
            self.norms = nn.ModuleList(nn.LayerNorm(256) for _ in range(16))
            self.across = nn.ModuleList(
                nn.Sequential(nn.Linear(196, 128), nn.GELU(), nn.Linear(128, 196)) for _ in range(8)
            )
            self.along = nn.ModuleList(
                nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)) for _ in range(8)
            )
            self.head = nn.Linear(256, 1000)

        def forward(self, x: Any) -> Any:
            x = self.patches(x).flatten(2).transpose(1, 2)
            for i, (across, along) in enumerate(zip(self.across, self.along, strict=True)):
                x = x + across(self.norms[2 * i](x).transpose(1, 2)).transpose(1, 2)
                x = x + along(self.norms[2 * i + 1](x))
            return self.head(x.mean(1))

    config = BertConfig(
        hidden_size=384, num_hidden_layers=6, num_attention_heads=6, intermediate_size=1536, vocab_size=8000
    )
    image, tokens = torch.zeros(1, 3, 224, 224), torch.zeros((1, 128), dtype=torch.int64)
    folder.mkdir(parents=True, exist_ok=True)
    given = ((Skips(), image), (BertModel(config, add_pooling_layer=False), tokens), (Mixer(), image))
    for name, (module, example) in zip(NAMES, given, strict=True):
        torch.onnx.export(module.eval(), (example,), str(folder / f"{name}.onnx"), dynamo=True, verbose=False)
    return 0


def solve(args: argparse.Namespace) -> int:
    """Convert and solve by one command each, and add up, for each kind of costs; 1 where the sums differ."""
    rows, wrong = [], 0
    for costs in args.costs or ("roofline", "scar-datacenter"):
        instance, solution, result, trace = solved(args.files, costs, args.system, args.time_limit)
        said = result["certificate"]["terms"]
        differs = totals(instance, solution) != said or latency(trace) != said["T1"]
        wrong += differs
        layers = " + ".join(str(len(model["layers"])) for model in instance["models"])
        figures = (
            f"{1e-9 * said['T1']:.4g} s",
            f"{1e-12 * said['T2']:.4g} J",
            f"{1e-12 * result['objective']:.5g} J·s",
        )
        cells = [costs, layers, *figures, f"{result['gap']:.1%}", f"{result['timings']['total']:.0f}"]
        rows.append(f"| {' | '.join([*cells, 'differ' if differs else 'equal'])} |")
    head = ("costs", "layers", "T1", "T2", "T1 · T2", "gap", "seconds", "T1, T2 and trace added up")
    table = "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *rows])
    print(table)
    if args.out is not None:
        args.out.write_text(
            f"{TITLE.format(system=args.system, load=os.getloadavg()[0])}\n\n{table}\n", encoding="utf-8"
        )
    return int(wrong > 0)


def solved(folder: Path, costs: str, system: str, limit: str) -> tuple[Any, Any, Any, Any]:
    """Instance, solution, result and trace as the commands left them."""
    made, archive = folder / f"{costs}.json", folder / f"solved-{costs}"
    files = [str(folder / f"{name}.onnx") for name in NAMES]
    settings = ["--set", "models.0.batch=8", "--set", "models.1.batch=16", "--set", "models.2.batch=8"]
    chipmap = [sys.executable, "-m", "chipmap"]
    options = ["--family", "multimodel", "--system", system, "--costs", costs, *settings, "--out", str(made)]
    subprocess.run([*chipmap, "convert", *files, *options], check=True)
    options = ["--time-limit", limit, "--out", str(archive), "--quiet"]
    subprocess.run([*chipmap, "solve", str(made), *options], check=True, stdout=subprocess.DEVNULL)
    names = (made, *(archive / f"{name}.json" for name in ("solution", "result", "trace")))
    instance, solution, result, trace = (json.loads(path.read_text(encoding="utf-8")) for path in names)
    return instance, solution, result, trace


def totals(instance: dict[str, Any], solution: dict[str, Any]) -> dict[str, int]:
    """T1 and T2 of a schedule, window by window, as the family's page defines them."""
    module, models = instance["module"], {model["name"]: model for model in instance["models"]}
    chiplets = {chiplet["name"]: chiplet for chiplet in module["chiplets"]}
    link, dram = Fraction(module["nop_bytes_per_ns"]), Fraction(module["dram_bytes_per_ns"])
    hop_pj, dram_pj = (Fraction(str(module[f"{name}_pj_per_byte"])) for name in ("hop", "dram"))
    time = energy = 0
    for window in solution["windows"]:
        latencies = []
        for name in {piece["model"] for piece in window}:
            model = models[name]
            layers, batch, b = model["layers"], model["batch"], model["mini_batch"]
            pieces = sorted((piece for piece in window if piece["model"] == name), key=lambda piece: piece["first"])
            times, loads = [], 0
            for i, piece in enumerate(pieces):
                chiplet, own = chiplets[piece["chiplet"]], layers[piece["first"] : piece["last"] + 1]
                hops = chiplet["hops"]
                per_byte, far = dram_pj + hops * hop_pj, hops * module["hop_ns"] + module["dram_ns"]
                spent = sum(b * layer["costs"][chiplet["class"]][0] for layer in own)
                energy += sum(batch * layer["costs"][chiplet["class"]][1] for layer in own)
                energy += sum(ceil(layer["weight_bytes"] * per_byte) for layer in own)
                loads += sum(ceil(layer["weight_bytes"] / dram) for layer in own)
                if i == 0:
                    spent += ceil(b * own[0]["in_bytes"] / dram + far)
                    energy += batch * ceil(own[0]["in_bytes"] * per_byte)
                sent = own[-1]["out_bytes"]
                if i == len(pieces) - 1:
                    spent += ceil(b * sent / dram + far)
                    energy += batch * ceil(sent * per_byte)
                else:
                    spent += ceil(b * sent / link + module["hop_ns"])
                    energy += batch * ceil(sent * hop_pj)
                times.append(spent)
            latencies.append(sum(times) + loads + (batch // b - 1) * max(times))
        time += max(latencies)
    return {"T1": time, "T2": energy}


def latency(trace: dict[str, Any]) -> int:
    """The windows' times in a trace, added up in ns; its events must be nested on every track."""
    tracks: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            start, length = round(1000 * event["ts"]), round(1000 * event["dur"])
            tracks.setdefault((event["pid"], event["tid"]), []).append((start, -length))
    for events in tracks.values():
        around: list[int] = []  # ends of the events that contain the present one
        for start, length in sorted(events):
            while around and around[-1] <= start:
                around.pop()
            if around and start - length > around[-1]:
                raise ValueError(f"an event at {start} ns overlaps another")
            around.append(start - length)
    windows = (e for e in trace["traceEvents"] if e["ph"] == "X" and e["cat"] == "window" and e["tid"] == 0)
    return sum(round(1000 * event["dur"]) for event in windows)


if __name__ == "__main__":
    sys.exit(main())
