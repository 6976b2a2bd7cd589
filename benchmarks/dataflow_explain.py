"""What ``chipmap explain`` says of dataflow mappings that people ask about, and how much of it is proved.

    python -m benchmarks.dataflow_explain [NAME ...] [--time-limit 60] [--markdown]

Training as reported (:mod:`benchmarks.dataflow_reports`, :mod:`benchmarks.dataflow_megatron`), decode steps on eight
H100, a prefill on a WSE-3, a decode step on the own chip of the page on machines. Exit code 1 where an instance has no
statement on what twice as much of a resource gains.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable
from typing import Any

import chipmap
from benchmarks import dataflow_bandwidth, dataflow_megatron, dataflow_reports
from chipmap.explanation import Explanation
from chipmap.instances.dataflow import Chip, DataflowInstance, Dimension, Memory, System
from chipmap.instances.dataflow.presets import preset

#: Statements that the page repeats, by topic.
SHOWN = (
    "verdict",
    "prediction",
    "plan",
    "time",
    "terms",
    "kernel",
    "memory",
    "partitions",
    "twice",
    "resource",
    "forced",
    "choice",
    "alone",
)


def own_chip() -> DataflowInstance:
    """The chip of `docs/families/dataflow-machines.md`, "Your own chip in five lines": a decode step."""
    peaks: Any = {"bf16": 400.0, "fp8": 800.0}
    chip = Chip(name="mine", tflops=400.0, peaks=peaks, sram_bytes=96 * 2**20, fused=False, streams=True)
    links = (Dimension(size=8, topology="full", bytes_per_ns=40.0), Dimension(size=2, bytes_per_ns=50.0))
    mine = System(name="mine", chip=chip, memory=Memory(bytes_per_ns=2400.0, capacity_bytes=96 * 10**9), network=links)
    formats = {"weight_format": "fp8", "activation_format": "bf16", "cache_format": "fp8"}
    return preset("llama3-8b", machine=mine, batch=64, **formats)


def megatron() -> DataflowInstance:
    """GPT 175B on 64 A100 with all choices left to the solver, at the utilisation that its 22B rows gave."""
    return dataflow_megatron.instance(dataflow_megatron.LARGE, dataflow_megatron.Curve((), 0, 0.667))


INSTANCES: dict[str, Callable[[], DataflowInstance]] = {
    "llama3-70b, decode of 1, 8 H100": lambda: dataflow_bandwidth.instance_of(1),
    "llama3-70b, decode of 64, 8 H100": lambda: dataflow_bandwidth.instance_of(64),
    "the same with a guess of losses": lambda: dataflow_bandwidth.instance_of(64, assumed=True),
    "llama3-70b, training as reported, 64 H100": lambda: dataflow_reports.as_published(dataflow_reports.REPORTS[0]),
    "deepseek-v3, training as reported, 2,048 H800": lambda: dataflow_reports.as_published(dataflow_reports.REPORTS[1]),
    "GPT 175B, training, all free, 64 A100": megatron,
    "llama3-8b, prefill, WSE-3": lambda: preset("llama3-8b", machine="wse-3", batch=1, step="prefill", tokens=2048),
    "llama3-8b, decode of 64, own chip": own_chip,
}


def told(found: Explanation, topic: str) -> list[str]:
    """The statements on a topic."""
    return [one.message for one in found.statements if one.topic == topic]


def row(name: str, found: Explanation, spent: float) -> str:
    """A line of the table."""
    proved = sum(one.standing in ("proved", "infeasible") for one in found.changes)
    seconds = "" if found.objective is None else f"{found.objective / 1e12:.6g}"
    headline = (told(found, "twice") or told(found, "verdict"))[0]
    return f"| {name} | {found.status} | {seconds} | {headline} | {proved} of {len(found.changes)} | {spent:.0f} |"


def main() -> int:
    """Print the table and all statements; 1 where something is missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="instances, by the beginnings of their names (default: all)")
    parser.add_argument("--time-limit", type=float, default=60.0)
    parser.add_argument("--markdown", action="store_true")
    args = parser.parse_args()
    chosen = {k: v for k, v in INSTANCES.items() if not args.names or any(k.startswith(one) for one in args.names)}
    rows, texts, missing = list[str](), list[str](), False
    for name, make in chosen.items():
        started = time.process_time()
        found = chipmap.explain(make(), options=chipmap.SolveOptions(time_limit=args.time_limit, threads=1))
        rows.append(row(name, found, time.process_time() - started))
        lines = [text for topic in SHOWN for text in told(found, topic)]
        lines += [note.text for note in found.notes]
        texts.append(f"## {name}\n\n" + "\n".join(f"- {line}" for line in lines))
        missing = missing or not told(found, "twice")
        print(rows[-1], file=sys.stderr)
    if args.markdown:
        version = f"Python {platform.python_version()}, {platform.machine()}"
        print("# What `chipmap explain` says of dataflow mappings\n")
        print(f"`python -m benchmarks.dataflow_explain --markdown --time-limit {args.time_limit:g}`, {version}, one")
        print(f"thread, load {os.getloadavg()[0]:.1f} at the end. The limit is wall-clock time.\n")
    print("| what | status | batch, s | twice as fast? | changes proved | CPU s |\n|---|---|--:|---|--:|--:|")
    print("\n".join(rows))
    print("\n" + "\n\n".join(texts))
    return int(missing)


if __name__ == "__main__":
    sys.exit(main())
