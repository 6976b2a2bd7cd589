"""The training workloads of GDP's comparison: baselines, search, bound and gap of each.

    python -m benchmarks.placement_workloads [--limit SECONDS] [--links pcie nvlink] [--only NAME ...]

Baselines are one device, layers in a row, HEFT and ETF, decoded by the default keys; a baseline that overflows a
device's memory is in brackets and counts all the same. The search is ``placement/auto`` on one thread. The checker has
the last word on its schedules.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Iterator

import numpy as np

from chipmap import SolveOptions, solve
from chipmap.heuristics.placement import starts
from chipmap.heuristics.placement.keys import default_keys
from chipmap.heuristics.placement.memory import bytes_of, excess
from chipmap.heuristics.placement.simulator import NEVER, simulate
from chipmap.heuristics.placement.tables import tables, workspace
from chipmap.inputs.reading import read
from chipmap.instances.placement.instance import PlacementInstance
from chipmap.instances.placement.problem import placement_problem
from chipmap.instances.placement.shipped import SHIPPED

COLUMNS = (
    "workload",
    "operations",
    "devices",
    "one device",
    "in a row",
    "HEFT",
    "ETF",
    "search",
    "bound",
    "gap",
    "gain",
)


def baselines(instance: PlacementInstance) -> Iterator[tuple[int, bool]]:
    """(T in ns, whether memory overflows) of each baseline."""
    problem = placement_problem(instance)
    flat, work, sizes, key = tables(problem), workspace(problem), bytes_of(problem), default_keys(problem)
    none = np.zeros(problem.operations, dtype=np.int64)
    for device in (
        starts.one_device(problem, 0),
        starts.in_a_row(problem),
        starts.heft(problem, flat),
        starts.etf(problem, flat),
    ):
        assert device is not None
        step = int(simulate(flat, device, key, False, none, NEVER, work))
        yield step, excess(flat, sizes, device, work) > 0


def main() -> None:
    """Print the table, a row as soon as it is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=float, default=60.0)
    parser.add_argument("--links", nargs="+", default=["pcie", "nvlink"])
    parser.add_argument("--only", nargs="+", default=[])
    arguments = parser.parse_args()
    print(f"{arguments.limit:g} s each, load {os.getloadavg()[0]:.1f}, Python {sys.version.split()[0]}\n")
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    gains: dict[str, list[float]] = {links: [] for links in arguments.links}
    for name in SHIPPED:
        links = name.rpartition("-")[2]
        if links not in gains or "50k" in name or (arguments.only and name.partition("/")[2] not in arguments.only):
            continue
        instance = read(name)
        assert isinstance(instance, PlacementInstance)
        found = list(baselines(instance))
        result = solve(instance, "auto", SolveOptions(time_limit=arguments.limit, threads=1))
        assert result.objective is not None and result.bound is not None
        gain = min(step for step, _ in found) / result.objective
        gains[links].append(gain)
        cells = [f"({step / 1e6:.1f})" if over else f"{step / 1e6:.1f}" for step, over in found]
        cells += [f"{result.objective / 1e6:.1f}", f"{result.bound / 1e6:.1f}", f"{100 * (result.gap or 0):.0f}%"]
        sizes = [str(placement_problem(instance).operations), str(len(instance.system.devices))]
        print(f"| {' | '.join([name.partition('/')[2], *sizes, *cells, f'{gain:.2f}'])} |", flush=True)
    for links, listed in gains.items():
        if listed:
            print(f"\n{links}: best baseline / search {math.exp(sum(map(math.log, listed)) / len(listed)):.3f}")


if __name__ == "__main__":
    main()
