"""Inference on two devices: for each traced graph, what a second device gains, and what the bound proves.

    python -m benchmarks.placement_inference FILE ... [--limit SECONDS] [--links pcie nvlink]

Each file is a graph of one sample's step, of any format that ``chipmap convert`` reads. The devices are P100. The
method is ``placement/auto`` on one thread, which ends as soon as its placement is proved optimal.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path

import msgspec

from chipmap import SolveOptions, solve
from chipmap.inputs.reading import read
from chipmap.instances.placement.instance import PlacementInstance
from chipmap.instances.placement.presets import preset
from chipmap.instances.placement.problem import placement_problem

COLUMNS = ("graph", "operations", "links", "one device", "found", "bound", "gap", "gain", "proved", "seconds")


def main() -> None:
    """Print the table, a row as soon as it is there, then what it comes to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--limit", type=float, default=10.0)
    parser.add_argument("--links", nargs="+", default=["pcie", "nvlink"])
    arguments = parser.parse_args()
    print(f"{arguments.limit:g} s each, load {os.getloadavg()[0]:.1f}, Python {sys.version.split()[0]}\n")
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    begun, gaps = time.monotonic(), {links: list[float]() for links in arguments.links}
    alone = dict.fromkeys(arguments.links, 0)
    for file in arguments.files:
        given = read(file, family="placement")
        assert isinstance(given, PlacementInstance)
        for links in arguments.links:
            instance = msgspec.structs.replace(given, system=preset(f"p100-{links}", 2))
            one, result = placement_problem(instance).time.sum(axis=0).min(), None
            started = time.monotonic()
            result = solve(instance, "auto", SolveOptions(time_limit=arguments.limit, threads=1))
            assert result.objective is not None and result.bound is not None
            gap = 1 - result.bound / result.objective
            proved = "" if gap > 0 else "one device" if result.objective == one else "optimal"
            gaps[links].append(gap)
            alone[links] += proved == "one device"
            cells = [f"{value / 1e6:.3f}" for value in (one, result.objective, result.bound)]
            cells += [f"{100 * gap:.2f}%", f"{100 * (one / result.objective - 1):.2f}%", proved]
            cells += [f"{time.monotonic() - started:.1f}"]
            name, size = Path(file).stem, str(placement_problem(instance).operations)
            print(f"| {' | '.join([name, size, links, *cells])} |", flush=True)
    for links, found in gaps.items():
        print(f"\n{links}: one device proved optimal for {alone[links]} of {len(found)}", end="; ")
        print(f"median gap {100 * statistics.median(found):.2f}%, largest {100 * max(found):.1f}%", end="; ")
        print(f"at most 1.5% for {sum(gap <= 0.015 for gap in found)}")
    print(f"\n{time.monotonic() - begun:.0f} s in all")


if __name__ == "__main__":
    main()
