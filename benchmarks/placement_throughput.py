"""Throughput of the published inputs of Tarnawski et al.: contiguous and free, found and proved.

    python -m benchmarks.placement_throughput FOLDER [--contiguous SECONDS] [--free SECONDS] [--only NAME ...]

FOLDER is ``throughput-inputs`` of msr-fiddle/dnn-partitioning. Each input is solved by ``placement/auto`` on two
threads, in a process of its own, from the file on: seconds are wall clock, with reading and loading compiled functions;
core-seconds are those of the process and the child that solves, with starting Python. Memory is the largest that either
had. A row says the least load found in ms (empty: none), what is proved of it, and the optimum that others published
for blocks, to 1e-4.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import sys
import time
from pathlib import Path

from chipmap import SolveOptions, solve
from chipmap.instances.placement.dnn_partitioning import partitioning

#: Optima of blocks in ms, from an exact program of others.
PUBLISHED = {
    "LayerGraphs/bert24_inference": 17.7899,
    "LayerGraphs/bert24_training": 41.7458,
    "LayerGraphs/gnmt_inference": 32.9107,
    "LayerGraphs/resnet50_inference": 33.7747,
    "OperatorGraphs/bert_l-3_inference": 27.9186,
    "OperatorGraphs/bert_l-3_training": 65.3031,
}


def measure(file: Path, contiguous: bool, seconds: float) -> str:
    """The cells of one solve in this process: load in ms, what is proved, seconds by the clock and of cores, MiB."""
    begun = time.monotonic()
    instance = partitioning(str(file), contiguous)
    options = SolveOptions(time_limit=seconds - (time.monotonic() - begun), threads=2)
    result = solve(instance, "placement/auto", options)
    took = time.monotonic() - begun
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]  # the solve is a child
    busy, most = sum(one.ru_utime + one.ru_stime for one in used), max(one.ru_maxrss for one in used)
    load = "" if result.objective is None else f"{result.objective * 1e-6:.4f}"
    within = "no gap" if result.gap is None else f"within {result.gap:.2%}"
    proof = "optimal" if result.status == "optimal" else within
    return f"{load} | {proof} | {took:.1f} | {busy:.1f} | {most / 1024:.0f}"


def rows(folder: Path, contiguous: float, free: float, only: list[str]) -> None:
    """Print the table."""
    print("| input | | published | found | proved | s | core-s | MiB |")
    print("|---|---|---|---|---|---|---|---|")
    for blocks, seconds in ((True, contiguous), (False, free)):
        for name, published in PUBLISHED.items():
            if only and not any(one in name for one in only):
                continue
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                cells = pool.apply(measure, (folder / f"{name}.json", blocks, seconds))
            print(
                f"| {name} | {'blocks' if blocks else 'free'} | {published if blocks else ''} | {cells} |", flush=True
            )


def main() -> None:
    """Read the arguments and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--contiguous", type=float, default=60.0, help="seconds of a contiguous solve")
    parser.add_argument("--free", type=float, default=120.0, help="seconds of a free solve")
    parser.add_argument("--only", nargs="+", default=[], help="parts of the names of inputs")
    asked = parser.parse_args()
    rows(asked.folder, asked.contiguous, asked.free, asked.only)
    print(f"\nload of the machine at the end: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", file=sys.stdout)


if __name__ == "__main__":
    main()
