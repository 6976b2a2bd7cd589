"""Measures the files of the zoo: conversion, agreement with PyTorch, and solves. Needs no PyTorch."""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.zoo.compare import differing_nodes, expected_parameter_bytes, parameter_bytes, product_flop

#: Chips of the packages that each network is solved on, and the bytes of memory that each chip has.
CHIPS, CHIP_BYTES = (8, 36), 10**9


def command(*arguments: str) -> tuple[subprocess.CompletedProcess[str], float, int]:
    """A command of chipmap in a fresh process, its seconds, and its peak of resident memory in KiB."""
    code = "import resource,sys;from chipmap.cli import main\ntry: main()\nfinally:\n"
    code += " print('peak', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=1800, check=False
    )
    peaks = [line for line in done.stderr.splitlines() if line.startswith("peak ")]
    return done, time.perf_counter() - started, int(peaks[-1].split()[1]) if peaks else 0


def converted(path: Path, to: Path) -> dict[str, Any]:
    """Convert a file as a user does; the first line of the error if that fails."""
    done, seconds, peak = command(
        "convert", str(path), "--family", "ring", "--set", f"package.sram_bytes={CHIP_BYTES}", "--out", str(to)
    )
    said = [line for line in done.stderr.splitlines() if not line.startswith("peak ")]
    error = (said or ["no message"])[0] if done.returncode else None
    return {"error": error, "said": said, "seconds": seconds, "peak_kib": peak}


def compared(path: Path, said: Mapping[str, Any]) -> dict[str, Any]:
    """The graph of a file beside what PyTorch says of it."""
    from chipmap.networks.importers.reading import import_graph

    graph = import_graph(str(path)).graph
    nodes = {**said.get("results", {}), **said.get("constant_nodes", {})}
    own = {operation.name for operation in graph.operations}
    return {
        "operations": len(graph.operations),
        "computing": sum(operation.role == "compute" for operation in graph.operations),
        "flop": sum(operation.flop for operation in graph.operations),
        "products": product_flop(graph),
        "torch": said["flop"],
        "differing": len(differing_nodes(graph, said["flop_by_node"])),
        "missing": len(nodes.keys() - own),
        "parameters": parameter_bytes(graph),
        "expected_parameters": expected_parameter_bytes(said),
    }


def solved(instance: Path, chips: int, limit: float) -> dict[str, Any]:
    """A solve in a fresh process: status, gap, and when the first bound (or the proof of infeasibility) was there."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        done, _, peak = command(
            *("solve", str(instance), "--set", f"package.chips={chips}", "--time-limit", str(limit)),
            *("--out", str(out), "--format", "json", "--quiet"),
        )
        if not (out / "result.json").exists():
            return {"status": (done.stderr.splitlines() or ["no result"])[0][:80], "gap": None, "first": None}
        result = json.loads((out / "result.json").read_text())
    bounds = [event["seconds"] for event in result["trace"] if event["event"] == "bound"]
    status, total = result["status"], result["timings"].get("total")
    return {
        "status": status,
        "gap": result["gap"],
        "first": bounds[0] if bounds else total if status == "infeasible" else None,
        "objective": result["objective"],
        "bound": result["bound"],
        "total": total,
        "peak_kib": peak,
    }


def measured(path: Path, said: Mapping[str, Any], limit: float) -> dict[str, Any]:
    """All figures of one file."""
    with tempfile.TemporaryDirectory() as folder:
        instance = Path(folder) / "instance.json"
        row: dict[str, Any] = {"about": said["about"], "load": os.getloadavg()[0]}
        row |= {"convert": converted(path, instance), "solves": {}}
        if row["convert"]["error"] is None:
            row |= compared(path, said)
            row["solves"] = {str(chips): solved(instance, chips, limit) for chips in CHIPS}
    return row


def table(rows: Mapping[str, Mapping[str, Any]], limit: float) -> str:
    """The page ``zoo.md``."""
    fine = [row for row in rows.values() if row["convert"]["error"] is None]
    close = sum(abs(row["products"] / row["torch"] - 1) <= 0.01 for row in fine)
    equal = sum(_equal(row) for row in fine)
    solves = [one for row in fine for one in row["solves"].values()]
    ended = Counter(one["status"] for one in solves)
    prompt = sum(one["first"] is not None and one["first"] <= 2 for one in solves)
    lines = [
        "# The zoo: 13 current networks, each exported from PyTorch plain, decomposed and as ONNX",
        "",
        _HEAD.format(limit=limit, load=_loads(rows), python=platform.python_version(), cores=os.cpu_count()),
        f"- {len(fine)} of {len(rows)} convert at the first try.",
        f"- {close} of {len(fine)} have the FLOP that PyTorch's counter counts, within 1%. "
        f"Node by node, {sum(row['differing'] for row in fine)} differ by more, "
        f"and {sum(row['missing'] for row in fine)} have no operation of their name.",
        f"- {equal} of {len(fine)} have the bytes of the parameters (of ONNX models: of the initializers).",
        f"- {prompt} of {len(solves)} solves have a first bound, or the proof that there is no mapping, within 2 s. "
        f"Within {limit:.0f} s, {ended['optimal']} are proved optimal, {ended['infeasible']} proved infeasible, "
        f"{ended['feasible']} have a mapping with a gap, and {ended['unknown']} a bound alone.",
        "",
        "| network, form | operations | computing | convert, s | peak, MiB | GFLOP | products / torch | parameters, MB "
        "| beside torch | " + " | ".join(f"{chips} chips | bound, s" for chips in CHIPS) + " |",
        "|---|" + "---:|" * 7 + "---|" + "---|---:|" * len(CHIPS),
        *(_line(name, row) for name, row in rows.items()),
        "",
        "## The networks",
        "",
        *dict.fromkeys(f"- `{name.partition('-')[0]}`: {row['about']}" for name, row in rows.items()),
        "",
    ]
    return "\n".join(lines)


_HEAD = """Made by `python -m benchmarks.zoo export` and `measure` (extra `zoo`); Python {python}, {cores} cores, load \
average {load}. Every conversion and solve is a command in a fresh process.
- *Products / torch*: FLOP of products, convolutions and attention by chipmap over those that PyTorch's
  `FlopCounterMode` counts on the exported program (for the fused attention of the CPU with PyTorch's own formula, for
  Mixtral's grouped product with 2 · rows · length · width; of an ONNX model: on the program that it was made from).
- *Peak* is that of `convert` at most: Linux doesn't tell less than what the measuring process held when it started it.
- *GFLOP* are those of all operators, also of element-wise ones. *Parameters* are those that computing operations
  read, tied ones once; *beside torch*: over the bytes of the module's storages.
- The last columns are solves of family `ring` with {limit:.0f} s and chips of 1 GB: status or gap, and the seconds from
  the start of the command's clock until the first bound.
- `torch.onnx.export` refuses T5 and Swin with fused attention and Mixtral with grouped products: their ONNX models have
  attention step by step, and gather the experts' weights for each token. Mamba has 16 tokens, for the export unrolls
  its recurrence. Weights are 32 bits wide, those of Llama, Qwen2 and Mixtral 16 bits.

"""


def _loads(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """The least and the largest load average while the rows were measured."""
    loads = [row["load"] for row in rows.values() if "load" in row]
    return f"{min(loads):.0f} to {max(loads):.0f}" if loads else "not known"


def _equal(row: Mapping[str, Any]) -> bool:
    """Whether the bytes of parameters agree, up to the whole numbers and single numbers of ONNX models."""
    return abs(row["parameters"] - row["expected_parameters"]) <= 1e-4 * row["expected_parameters"]


def _line(name: str, row: Mapping[str, Any]) -> str:
    stem = name.partition(".")[0].replace("-", ", ")
    convert = row["convert"]
    if convert["error"] is not None:
        return f"| {stem} | refused: {convert['error']} |" + " |" * (8 + 2 * len(CHIPS) - 1)
    exact = row["parameters"] == row["expected_parameters"]
    cells = [
        f"{row['operations']:,}",
        f"{row['computing']:,}",
        f"{convert['seconds']:.1f}",
        f"{convert['peak_kib'] / 1024:,.0f}",
        f"{row['flop'] / 1e9:,.2f}",
        f"{row['products'] / row['torch']:.5f}",
        f"{row['parameters'] / 1e6:,.2f}",
        "equal" if exact else f"{row['parameters'] / row['expected_parameters']:.6f}",
    ]
    for one in row["solves"].values():
        gap = one["gap"]
        told = one["status"] if one["status"] in ("optimal", "infeasible") or gap is None else f"gap {gap:.2%}"
        cells += [told, "" if one["first"] is None else f"{one['first']:.2f}"]
    return f"| {stem} | " + " | ".join(cells) + " |"


def run(folder: Path, names: Sequence[str], limit: float, markdown: Path | None) -> None:
    """Measure the files in ``folder``; figures of each are kept in ``measured.json`` there as they come."""
    expected = json.loads((folder / "expected.json").read_text())
    kept = folder / "measured.json"
    rows = json.loads(kept.read_text()) if kept.exists() else {}
    for name, said in expected.items():
        if names and name.partition("-")[0] not in names:
            continue
        rows[name] = measured(folder / name, said, limit)
        kept.write_text(json.dumps(rows, indent=1) + "\n")
        print(_line(name, rows[name]), file=sys.stderr, flush=True)
    page = table({name: rows[name] for name in sorted(rows) if name in expected}, limit)
    memory = folder / "memory.json"
    if memory.exists():
        lines = [f"- {line}" for line in json.loads(memory.read_text())]
        page += "\n".join(["", "## Conversion of a large archive", "", *lines, ""])
    if markdown is None:
        print(page)
    else:
        markdown.write_text(page, encoding="utf-8")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"peak of this process: {peak} MiB", file=sys.stderr)
