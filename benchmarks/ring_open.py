"""The open list of family ``ring``: instances that aren't proved yet, with what is known of each.

    python -m benchmarks.ring_open [--limit SECONDS] [--only TEXT ...] [--threads N] [--cpu] [--rows FILE]
                                   [--markdown FILE]

Each instance is one call of a generator (`chipmap generate GENERATOR --set FIELD=VALUE …`), on 36 chips where nothing
else is said. Values are in units of all work / chips, below which no period lies. "First" are the seconds to the first
bound and to the first mapping.

With ``--cpu`` the limit is on the processor's seconds, in this process and with one thread: on a machine that other
work keeps busy, rows of different hours can be compared.

Each row goes to FILE as a line of JSON as soon as it is there; a later run with the same FILE makes only the rows that
are missing for its limit and threads, and prints all.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from chipmap.inputs.reading import generate
from chipmap.instances.ring import RingInstance
from chipmap.instances.ring.problem import ring_problem
from chipmap.run import SolveOptions
from chipmap.solve import solve

_QWEN3 = {
    "layers": 28,
    "hidden": 1024,
    "heads": 16,
    "kv_heads": 8,
    "head_width": 128,
    "intermediate": 3072,
    "vocabulary": 151669,
    "style": "qwen3",
    "head": "none",
}

#: Name of the row -> generator and its fields.
OPEN: dict[str, tuple[str, dict[str, Any]]] = {
    "layered, 200 operations, 8 wide": ("layered", {"operations": 200, "width": 8, "seed": 1}),
    "layered, 200 operations, 16 wide": ("layered", {"operations": 200, "width": 16, "seed": 1}),
    "layered, 1,000 operations, 50 wide": ("layered", {"operations": 1000, "width": 50, "seed": 1}),
    "layered, 20,000 operations, 50 wide": (
        "layered",
        {"operations": 20_000, "width": 50, "seed": 1, "sram_mib": 1024.0},
    ),
    "BERT, 10,000 operations, 144 chips": ("bert-large", {"layers": 344, "chips": 144, "sram_mib": 1024.0}),
    "BERT, 1,000 layers": ("bert-large", {"layers": 1000, "sram_mib": 16384.0}),
    "GPT-2, 700 layers": ("gpt2", {"layers": 700, "sram_mib": 16384.0}),
    "random, 1,000 operations, sum": (
        "random",
        {"operations": 1000, "reach": 40, "density": 0.05, "cost_mode": "sum", "seed": 1},
    ),
    "layered, 200 operations, 8 wide, 8 chips, sum": (
        "layered",
        {"operations": 200, "width": 8, "chips": 8, "cost_mode": "sum", "seed": 1},
    ),
    "layered, 200 operations, 8 wide, 16 chips, sum_forward": (
        "layered",
        {"operations": 200, "width": 8, "chips": 16, "cost_mode": "sum_forward", "seed": 1},
    ),
    "2xMSPN-50, 1 GiB": ("mspn", {"sram_mib": 1024.0}),
    "2xMSPN-50, 32 MiB": ("mspn", {}),
    "Conv-TasNet, 32 MiB": ("conv-tasnet", {}),
    "Conv-TasNet, 1 GiB": ("conv-tasnet", {"sram_mib": 1024.0}),
    "Conv-TasNet, 16 chips, sum_forward": ("conv-tasnet", {"chips": 16, "cost_mode": "sum_forward"}),
    "Qwen3-Embedding 0.6B, 8 chips, sum": ("decoder", {**_QWEN3, "chips": 8, "cost_mode": "sum"}),
    "CoaT Tiny, 8 chips, sum": ("coat", {"chips": 8, "cost_mode": "sum"}),
    "T5 base": ("t5", {}),
    "Whisper small, 96 MiB": ("whisper", {}),
    "Whisper small, 1 GiB": ("whisper", {"sram_mib": 1024.0}),
    "Mamba, 8 layers, decomposed": ("mamba", {"head": "none"}),
    "Mamba, 8 layers, plain": ("mamba", {"head": "none", "decomposed": False}),
}


def row(name: str, limit: float, threads: int, isolate: bool) -> dict[str, Any]:
    """Solve an instance in a fresh process, and what is known of it then; ``peak`` is the solve's memory in MiB.

    Not to ``isolate`` it is to count this process's CPU seconds.
    """
    if not isolate:
        time.monotonic = time.process_time
    generator, fields = OPEN[name]
    instance = generate(generator, **fields)
    assert isinstance(instance, RingInstance)
    problem = ring_problem(instance)
    load = os.getloadavg()[0]
    result = solve(instance, options=SolveOptions(time_limit=limit, threads=threads), isolate=isolate)
    best = max(result.bounds, key=lambda bound: bound.value, default=None)
    return {
        "name": name,
        "limit": limit,
        "threads": threads,
        "clock": "wall" if isolate else "cpu",
        "hash": instance.content_hash,
        "operations": int(problem.computing.sum()),
        "chips": instance.package.chips,
        "unit": problem.total_ticks / instance.package.chips,
        "status": result.status,
        "value": result.objective,
        "bound": result.bound,
        "gap": result.gap,
        "found by": result.incumbent_source,
        "bound by": best.source if best else "",
        "first bound": min((bound.seconds for bound in result.bounds), default=None),
        "first mapping": min((event.seconds for event in result.trace if event.event == "solution"), default=None),
        "seconds": result.seconds,
        "peak": resource.getrusage(resource.RUSAGE_CHILDREN if isolate else resource.RUSAGE_SELF).ru_maxrss / 1024,
        "load": [load, os.getloadavg()[0]],
    }


HEADING = (
    "instance",
    "operations",
    "chips",
    "value",
    "bound",
    "gap",
    "found by",
    "bound by",
    "first",
    "s",
    "MiB",
    "load",
)


def cells(row: dict[str, Any]) -> Iterator[str]:
    """A row of the table."""
    unit = row["unit"]
    yield from (row["name"], f"{row['operations']:,}", str(row["chips"]))
    yield from ("-" if row[key] is None else f"{row[key] / unit:.4f}" for key in ("value", "bound"))
    yield "-" if row["gap"] is None else f"{row['gap']:.2%}"
    yield from (row["found by"] or "-", row["bound by"] or "-")
    yield " / ".join("-" if row[key] is None else f"{row[key]:.1f}" for key in ("first bound", "first mapping"))
    yield f"{row['seconds']:.0f}"
    yield f"{row['peak']:,.0f}" if "peak" in row else "-"
    yield " to ".join(f"{load:.1f}" for load in row["load"])


def main() -> None:
    """Solve what is missing and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=120.0, metavar="SECONDS")
    parser.add_argument("--only", nargs="*", default=[], metavar="TEXT")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpu", action="store_true", help="count the processor's seconds")
    parser.add_argument("--rows", type=Path, metavar="FILE")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    clock = "cpu" if arguments.cpu else "wall"
    arguments.threads = 1 if arguments.cpu else arguments.threads
    rows: dict[str, dict[str, Any]] = {}
    if arguments.rows and arguments.rows.exists():
        for line in arguments.rows.read_text().splitlines():
            one = json.loads(line)
            if (one["limit"], one["threads"], one.get("clock", "wall")) == (arguments.limit, arguments.threads, clock):
                rows[one["name"]] = one
    for name in OPEN:
        if name not in rows and (not arguments.only or any(part in name for part in arguments.only)):
            with ProcessPoolExecutor(1, get_context("spawn")) as process:
                rows[name] = process.submit(row, name, arguments.limit, arguments.threads, not arguments.cpu).result()
            print(" | ".join(cells(rows[name])), flush=True)
            if arguments.rows:
                with arguments.rows.open("a") as file:
                    file.write(json.dumps(rows[name]) + "\n")
    text = page([rows[name] for name in OPEN if name in rows], arguments.limit, arguments.threads, clock)
    if arguments.markdown:
        arguments.markdown.write_text(text)
    else:
        print(text)


def page(rows: list[dict[str, Any]], limit: float, threads: int, clock: str) -> str:
    """The table, with how it was made."""
    gaps = [1.0 if row["gap"] is None else row["gap"] for row in rows]
    option = " --cpu" if clock == "cpu" else ""
    return (
        "# The open list of family ring\n\n"
        f"`python -m benchmarks.ring_open --limit {limit:g} --threads {threads}{option}` on {os.cpu_count()} cores, "
        f"Python {platform.python_version()}; median gap {statistics.median(gaps):.1%}, largest {max(gaps):.1%} (no "
        "mapping or no bound: 100%). Values are in units of all work / chips. *First*: seconds to the first bound and "
        "to the first mapping, from the run's start; *MiB*: the peak of the solve's memory. What each row is, is in "
        "the benchmark.\n\n"
        f"| {' | '.join(HEADING)} |\n| {' | '.join(['---', *['--:'] * 5, '---', '---', *['--:'] * 4])} |\n"
        + "".join(f"| {' | '.join(cells(row))} |\n" for row in rows)
    )


if __name__ == "__main__":
    main()
