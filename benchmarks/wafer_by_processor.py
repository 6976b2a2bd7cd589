"""`wafer/auto` on one thread with limits in seconds of the processor, so that the load of the machine decides little.

    python -m benchmarks.wafer_by_processor [--limit 60] [--seed 0] [--rows FILE] A F G 8 11 23

Letters are the contest's cases, numbers the generated graphs of tests/wafer/generated.py. Each run is one process.
With ``--rows`` each row also goes to FILE as a line of JSON, with its trace.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

if "--one" in sys.argv:
    time.monotonic = time.process_time  # before chipmap is imported: limits count the processor's seconds

from benchmarks.best_known import submit
from chipmap import SolveOptions, solve
from chipmap.inputs.reading import read
from chipmap.instances.wafer import WaferInstance
from tests.wafer.generated import generated

HEAD = "| instance | objective, ticks | gap | found by | last found, CPU s | load |\n|---|--:|--:|---|--:|--:|"


def one(name: str, limit: float, seed: int) -> dict[str, Any]:
    """A run in this process, whose clock is that of the processor."""
    instance = generated(int(name)) if name.isdigit() else read(f"wafer/ispd2020-{name}")
    assert isinstance(instance, WaferInstance)
    options = SolveOptions(time_limit=limit, threads=1, seed=seed, compile="first")
    result = solve(instance, "wafer/auto", options, isolate=False)
    if not name.isdigit():
        submit([result])
    trace = [(round(one.seconds, 1), one.event, one.value, one.source) for one in result.trace]
    return {
        "name": instance.name,
        "limit": limit,
        "seed": seed,
        "objective": result.objective,
        "bound": result.bound,
        "found": result.incumbent_source,
        "last": max((row[0] for row in trace if row[1] == "solution"), default=None),
        "load": round(os.getloadavg()[0], 1),
        "trace": trace,
    }


def gap(row: dict[str, Any]) -> float:
    """Of the objective."""
    return 1 - row["bound"] / row["objective"] if row["objective"] else 0.0


def main() -> None:
    """Print the table, a run at a time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("instances", nargs="+", metavar="CASE")
    parser.add_argument("--limit", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=Path)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(one(arguments.instances[0], arguments.limit, arguments.seed)))
        return
    print(HEAD, flush=True)
    gaps = []
    for name in arguments.instances:
        command = [sys.executable, "-m", "benchmarks.wafer_by_processor", "--one", name]
        command += ["--limit", str(arguments.limit), "--seed", str(arguments.seed)]
        line = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()[-1]
        row = json.loads(line)
        gaps.append(gap(row))
        cells = [row["name"], row["objective"], f"{gaps[-1]:.2%}", row["found"], row["last"], row["load"]]
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)
        if arguments.rows:
            with arguments.rows.open("a") as stream:
                stream.write(line + "\n")
    print(f"\nMedian gap {statistics.median(gaps):.2%} of {len(gaps)}.")


if __name__ == "__main__":
    main()
