"""Kernel graphs that nobody tuned to: gaps of `wafer/auto` on forty generated inputs.

    python -m benchmarks.wafer_generated --rows FILE [--limit 120] [--threads 1] [--seeds 0 40] [--table]

The inputs are those of tests/wafer/generated.py: chains, trees, cycles, branches and stars of 20 to 120 kernels on
fabrics of odd sides, with tight memory and six weights. Each row goes to FILE as a line of JSON as soon as it is
there; a later run makes only the seeds that are missing for its limit and threads.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
from pathlib import Path
from typing import Any

from chipmap import SolveOptions, solve
from tests.wafer.generated import generated


def measure(seed: int, limit: float, threads: int) -> dict[str, Any]:
    """One run: objective and bound in ticks, the time of the first layout in s, who found and who proved."""
    instance, load = generated(seed), os.getloadavg()[0]
    result = solve(instance, "wafer/auto", SolveOptions(time_limit=limit, threads=threads, compile="first"))
    if result.failure:
        raise RuntimeError(f"{instance.name}: {result.failure}")
    return {
        "seed": seed,
        "limit": limit,
        "threads": threads,
        "name": instance.name,
        "kernels": len(instance.kernels),
        "fabric": f"{instance.fabric.width} × {instance.fabric.height}",
        "weights": "/".join(f"{w:g}" for w in (instance.weights.time, instance.weights.wire, instance.weights.adapter)),
        "objective": result.objective,
        "bound": result.bound,
        "status": result.status,
        "first": next((one.seconds for one in result.trace if one.event == "solution"), None),
        "proved": max(((one.value, one.source) for one in result.bounds), default=(0, "none"))[1],
        "found": result.incumbent_source,
        "load": round(load, 1),
    }


def known(file: Path, limit: float, threads: int) -> dict[int, dict[str, Any]]:
    """The rows of FILE with that limit and so many threads, by seed. Rows that don't name their threads had one."""
    lines = file.read_text().splitlines() if file.exists() else []
    rows = map(json.loads, lines)
    return {row["seed"]: row for row in rows if (row["limit"], row.get("threads", 1)) == (limit, threads)}


def gap(row: dict[str, Any]) -> float:
    """Of the objective."""
    return 1 - row["bound"] / row["objective"] if row["objective"] else 0.0


def table(rows: list[dict[str, Any]], limit: float, threads: int) -> str:
    """All rows, and what they come to."""
    text = f"# Generated kernel graphs\n\nPython {platform.python_version()}, {os.cpu_count()} cores, "
    text += f"{limit:g} s each, threads: {threads}.\n\n"
    text += (
        "| graph, kernels, seed | fabric | weights | objective | gap | bound by | found by | first layout, s | load |\n"
    )
    text += "|---|---|---|--:|--:|---|---|--:|--:|\n"
    for row in rows:
        first = "-" if row["first"] is None else f"{row['first']:.2f}"
        text += f"| {row['name']} | {row['fabric']} | {row['weights']} | {row['objective']} | {gap(row):.2%} "
        text += f"| {row['proved']} | {row['found']} | {first} | {row['load']} |\n"
    gaps = sorted(map(gap, rows))
    if gaps:
        text += f"\nMedian gap {statistics.median(gaps):.2%}, largest {gaps[-1]:.2%}, of {len(gaps)}.\n"
    return text


def main() -> None:
    """Make the rows that are missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--limit", type=float, default=120.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seeds", type=int, nargs=2, default=[0, 40], metavar=("FIRST", "END"))
    parser.add_argument("--table", action="store_true", help="make nothing, print what FILE has")
    arguments = parser.parse_args()
    rows = known(arguments.rows, arguments.limit, arguments.threads)
    for seed in () if arguments.table else range(*arguments.seeds):
        if seed not in rows:
            rows[seed] = measure(seed, arguments.limit, arguments.threads)
            with arguments.rows.open("a") as stream:
                stream.write(json.dumps(rows[seed]) + "\n")
    print(table([rows[seed] for seed in sorted(rows)], arguments.limit, arguments.threads), end="")


if __name__ == "__main__":
    main()
