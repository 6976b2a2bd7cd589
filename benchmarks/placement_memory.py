"""Training workloads where memory binds: which baselines overflow, what the search finds, and its price.

    python -m benchmarks.placement_memory [--limit SECONDS] [--threads N] [--instances NAME ...]

Each device has 1.1 times all bytes over the number of devices, all counted for the whole step (memory rule
``static``). A baseline's cell is the share by which its fullest device is too small. Free and search are ms per step,
without and with that limit; the live peak is what the fullest device of the found schedule holds at one time.
"""

from __future__ import annotations

import argparse
import math
import os

import numpy as np

from benchmarks.placement_workloads import BASELINES, BESIDE, placements, solved
from chipmap.inputs.reading import read
from chipmap.instances.placement.instance import PlacementInstance, PlacementSolution
from chipmap.instances.placement.problem import IntArray, PlacementProblem, placement_problem
from chipmap.validation.placement.checker import check

WORKLOADS = ("inception-2-pcie", "transformer-xl-4-pcie", "transformer-xl-8-pcie", "rnnlm-4-pcie")
#: Memory of a device in all bytes over the number of devices.
MEMORY_SHARE = 1.1


def bound_memory(instance: PlacementInstance, rule: str = "static") -> PlacementInstance:
    """The instance with 1.1 times all bytes over the number of devices on each."""
    problem = placement_problem(instance)
    total = int(problem.weights.sum() + problem.storages.bytes.sum())
    limit = math.ceil(MEMORY_SHARE * total / problem.devices)
    machines = tuple(device.replace(memory_bytes=limit) for device in instance.system.devices)
    return instance.replace(task=instance.task.replace(memory=rule), system=instance.system.replace(devices=machines))


def fullest(problem: PlacementProblem, device: IntArray) -> float:
    """Static bytes of the fullest device over its memory."""
    held = np.zeros(problem.devices, dtype=np.int64)
    np.add.at(held, device, problem.weights)
    storages = problem.storages
    for s, u in enumerate(storages.producer.tolist()):
        for d in {int(device[v]) for v in (u, *storages.read_by(s))}:
            held[d] += storages.bytes[s]
    return float((held / problem.memory).max())


def live_peak(instance: PlacementInstance, solution: PlacementSolution) -> int:
    """The most bytes that any device holds over time in a schedule (memory rule ``live``), by the checker.

    The checker names the bytes of each device that has too little memory, so it is asked with none at all.
    """
    machines = tuple(device.replace(memory_bytes=0) for device in instance.system.devices)
    bare = instance.replace(task=instance.task.replace(memory="live"), system=instance.system.replace(devices=machines))
    return int(max(one.amount for one in check(bare, solution).violations if one.label == "C6"))


def table(names: list[str], limit: float, threads: int) -> None:
    """The table, a row as soon as it is there."""
    heading = ("workload", "GiB per device", *BASELINES, BESIDE, "free", "search", "price", "bound", "live peak, GiB")
    print(f"| {' | '.join(heading)} |\n|{'---|' * len(heading)}", flush=True)
    for name in names:
        free = read(f"placement/{name}")
        assert isinstance(free, PlacementInstance)
        tight = bound_memory(free)
        problem = placement_problem(tight)
        cells = [name, f"{int(problem.memory[0]) / 2**30:.2f}"]
        found = dict(placements(problem))
        cells += [
            f"{fullest(problem, d):.2f}" if (d := found[one]) is not None else "n/a" for one in (*BASELINES, BESIDE)
        ]
        open_, bound = solved(free, limit, threads), solved(tight, limit, threads)
        cells.append("n/a" if open_.objective is None else f"{open_.objective / 1e6:.1f}")
        if bound.objective is None or bound.solution is None or open_.objective is None:
            cells += [bound.status, "", "", ""]
        else:
            price = 100 * (bound.objective / open_.objective - 1)
            peak = live_peak(tight, PlacementSolution.make(**bound.solution))
            cells += [f"{bound.objective / 1e6:.1f}", f"{price:+.1f}%", f"{(bound.bound or 0) / 1e6:.1f}"]
            cells.append(f"{peak / 2**30:.2f}")
        print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=60.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--instances", nargs="+", default=list(WORKLOADS))
    arguments = parser.parse_args()
    print(f"{arguments.limit:g} s each on {arguments.threads} thread(s), load {os.getloadavg()[0]:.1f}\n", flush=True)
    table(arguments.instances, arguments.limit, arguments.threads)


if __name__ == "__main__":
    main()
