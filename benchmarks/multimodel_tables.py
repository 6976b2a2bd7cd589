"""The tables of multimodel models: seconds, entries and size by resolution, and no entry above a real segmentation.

For each model of each instance a table with windows and bottlenecks in cells of so many per cent. Then ``--samples``
random segmentations (a range of layers, a path, its cuts) are held against it: the table's energy for the same layers,
within the same chiplets and the same time, may not be above the real one.

    python benchmarks/multimodel_tables.py [--samples 10000] > benchmarks/results/multimodel-tables.md
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from pathlib import Path
from random import Random

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from chipmap.heuristics.multimodel.tables.ranges import Table  # noqa: E402
from chipmap.instances.multimodel.problem import IntArray, MultiProblem, energy, latency, multi_problem  # noqa: E402
from tests.multimodel.test_tables import random_segments  # noqa: E402

NAMED = ["scar-8-pipelined", "scar-9-pipelined", "scar-10-pipelined", "four-models", "scar-4-whole", "scar-10-whole"]


def cells(most: float, width: float) -> np.ndarray:
    """Ends of cells of so wide a share, up to ``most``; below a tenth of it they are all equally wide."""
    ends = [0.0]
    while ends[-1] < most:
        ends.append(ends[-1] + width * max(most / 10, ends[-1]))
    return np.unique(np.array(ends).round()).astype(np.int64)


def rate_of(problem: MultiProblem) -> float:
    """Energy per time of the whole work, in pJ per ns."""
    from chipmap.heuristics.multimodel.bounds import least_energy, least_time

    return least_energy(problem) / max(1, least_time(problem))


def above(
    problem: MultiProblem, m: int, table: Table, edges: IntArray, samples: int, random: Random
) -> tuple[int, int, float]:
    """(segmentations of model m held against its table, how many lie below an entry, the nearest entry as a share)."""
    from chipmap.heuristics.multimodel.tables.paths import module_paths

    paths = module_paths(problem)
    assert paths is not None
    # entries by layers: they are sorted so
    keys = table.first.astype(np.int64) * 10_000 + table.last
    compared = wrong = 0
    nearest = 0.0
    while compared < samples:
        segments = random_segments(problem, m, random)
        time, cost = latency(problem, segments), energy(problem, segments)
        if time > edges[-1]:
            continue
        compared += 1
        key = segments[0][1] * 10_000 + segments[-1][2]
        own = slice(*np.searchsorted(keys, [key, key + 1]))
        mask = sum(1 << c for _, _, _, c in segments)
        cell = int(np.searchsorted(edges, time)) - 1
        known = zip(table.signature[own], table.cell[own], table.energy[own], strict=True)
        said = min(
            (e for s, t, e in known if t <= cell and ((paths.masks[s] & mask) == paths.masks[s]).any()),
            default=np.inf,
        )
        wrong += said > cost
        nearest = max(nearest, min(said / cost, 1.0))
    return compared, wrong, nearest


def main() -> int:
    """Print the table; 1 if an entry lies above a real segmentation."""
    from chipmap.deadline import Deadline
    from chipmap.heuristics.multimodel.bounds import least_time
    from chipmap.heuristics.multimodel.tables.paths import module_paths
    from chipmap.heuristics.multimodel.tables.ranges import build
    from chipmap.inputs.reading import read

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--instances", nargs="+", default=NAMED)
    parser.add_argument("--widths", nargs="+", type=float, default=[0.07, 0.03, 0.016])
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    print("# Tables of ranges by signature and time of a window\n")
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}.")
    print("CPU seconds of one run. Windows up to twice the least latency; two rates.\n")
    print("| instance | model | layers | width | cells | CPU seconds | entries | MB | compared | above | nearest |")
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|", flush=True)
    random, failures = Random(args.seed), 0
    for name in args.instances:
        problem = multi_problem(read(f"multimodel/{name}"))  # type: ignore[arg-type]
        paths, rate = module_paths(problem), rate_of(problem)
        assert paths is not None
        for width in args.widths:
            edges = cells(2 * least_time(problem), width)
            for m, model in enumerate(problem.models):
                started = time.process_time()
                table = build(problem, m, paths, edges, [rate / 2, rate], Deadline())
                seconds = time.process_time() - started
                megabytes = sum(array.nbytes for array in table) / 1e6
                compared, wrong, nearest = above(problem, m, table, edges, args.samples // len(problem.models), random)
                failures += wrong
                print(
                    f"| {name} | {model.name} | {model.layers} | {width:.1%} | {len(edges) - 1} | {seconds:.1f} "
                    f"| {len(table.cell):,} | {megabytes:.1f} | {compared:,} | {wrong} | {nearest:.4f} |",
                    flush=True,
                )
    print(f"\n{failures} entries above a real segmentation.")
    return int(failures > 0)


if __name__ == "__main__":
    raise SystemExit(main())
