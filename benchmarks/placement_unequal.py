"""Devices that differ: four training workloads on two classes of GPU, and with a CPU beside GPUs.

    python -m benchmarks.placement_unequal [--limit SECONDS] [--systems NAME ...] [--only NAME ...]

Baselines: one device (the best one), human splits, METIS, HEFT, ETF, and ``heft-units`` beside them. Each is decoded by
two rules (upward rank, ready times), and the better time counts, in ms per step. The search is ``placement/auto`` on
one thread. The checker has the last word. The bound by equal shares (least times over the number of devices) stands
beside the run's own, which prices devices by what they can do. Last come the shares of the computing time that the
classes of devices have.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter

import numpy as np

from benchmarks.placement_workloads import BASELINES, BESIDE, placements, solved
from chipmap.heuristics.placement.bounds import simple as bounds
from chipmap.heuristics.placement.keys import default_keys
from chipmap.heuristics.placement.simulation.simulator import NEVER, simulate
from chipmap.heuristics.placement.simulation.tables import tables, workspace
from chipmap.heuristics.placement.starts import heft as starts
from chipmap.instances.placement.generators import training_step
from chipmap.instances.placement.instance import PlacementInstance, PlacementSolution
from chipmap.instances.placement.problem import IntArray, PlacementProblem, placement_problem

#: Preset and number of devices.
SYSTEMS = {"p100-v100-pcie-4": ("p100-v100-pcie", 4), "cpu-p100-pcie-3": ("cpu-p100-pcie", 3)}
#: Networks with their parameters.
NETWORKS: dict[str, tuple[str, dict[str, int]]] = {
    "rnnlm-2": ("rnnlm", {"layers": 2}),
    "transformer-xl-4": ("transformer-xl", {"layers": 4}),
    "inception": ("inception", {}),
    "wavenet-2": ("wavenet", {"stacks": 2, "layers": 18}),
}
COLUMNS = ("system", "workload", "operations", "best baseline", "which", BESIDE, "search", "bound", "equal shares",
           "gap", "gain", "computing")  # fmt: skip


def decoded(problem: PlacementProblem) -> dict[str, int]:
    """The better step time of each baseline by both rules, in ns."""
    flat, work, key = tables(problem), workspace(problem), default_keys(problem)
    none = np.zeros(problem.operations, dtype=np.int64)

    def best(device: IntArray) -> int:
        return min(int(simulate(flat, device, key, fifo, none, NEVER, work)) for fifo in (False, True))

    found = {name: best(device) for name, device in placements(problem) if device is not None}
    alone = (starts.one_device(problem, d) for d in range(problem.devices))
    found["one device"] = min(best(device) for device in alone if device is not None)
    return found


def shares(instance: PlacementInstance, solution: PlacementSolution) -> str:
    """The share of all computing time on devices of each class."""
    problem, spent = placement_problem(instance), Counter[str]()
    device = problem.devices_of(solution)
    for d, machine in enumerate(instance.system.devices):
        spent[machine.kind] += int(problem.time[device == d, d].sum())
    return ", ".join(f"{kind} {100 * ns / max(1, spent.total()):.0f}%" for kind, ns in spent.items())


def row(system: str, name: str, limit: float) -> list[str]:
    """The cells of a row."""
    preset, devices = SYSTEMS[system]
    network, parameters = NETWORKS[name]
    instance = training_step(network, parameters, devices, preset, name=f"{name}-{system}")
    problem = placement_problem(instance)
    baselines, result = decoded(problem), solved(instance, limit)
    first = min((one for one in BASELINES if one in baselines), key=lambda one: baselines[one])
    cells = [
        system,
        name,
        f"{problem.operations}",
        f"{baselines[first] / 1e6:.1f}",
        first,
        f"{baselines[BESIDE] / 1e6:.1f}",
    ]
    if result.objective is None or result.solution is None:
        return [*cells, result.status, *[""] * 5]
    shared = -(-int(bounds.least_times(problem).sum()) // problem.devices)
    equal = max(shared, bounds.group(problem))
    cells += [f"{result.objective / 1e6:.1f}", f"{(result.bound or 0) / 1e6:.1f}", f"{equal / 1e6:.1f}"]
    cells += [f"{100 * (result.gap or 0.0):.1f}%", f"{baselines[first] / result.objective:.2f}"]
    return [*cells, shares(instance, PlacementSolution.make(**result.solution))]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=60.0)
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS), choices=list(SYSTEMS))
    parser.add_argument("--only", nargs="+", default=list(NETWORKS), choices=list(NETWORKS))
    arguments = parser.parse_args()
    print(f"{arguments.limit:g} s each, load {os.getloadavg()[0]:.1f}, Python {sys.version.split()[0]}\n", flush=True)
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    for system in arguments.systems:
        for name in arguments.only:
            print(f"| {' | '.join(row(system, name, arguments.limit))} |", flush=True)


if __name__ == "__main__":
    main()
