"""Speed of the decoder of family ``placement``, alone and in the search.

    python -m benchmarks.placement_simulator [--seconds SECONDS]

A simulation alone: the least of 20 runs, wall clock, of the schedule that HEFT by units makes. In the search:
evaluations per second of processor time on one core, over so many seconds of annealing from a start of the search (a
partition with keys from its schedule run backwards), at the mean of its temperatures and in its portions. Moves that
end early are included, and what they cost beside the simulation (the critical chain, memory).
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time

from chipmap.deadline import Deadline
from chipmap.heuristics.placement.annealing import anneal, seed_with, state
from chipmap.heuristics.placement.heft_units import heft_units
from chipmap.heuristics.placement.partition import partition
from chipmap.heuristics.placement.simulator import NEVER, simulate
from chipmap.heuristics.placement.tables import workspace
from chipmap.heuristics.placement.units import units
from chipmap.inputs.reading import read
from chipmap.instances.placement.instance import PlacementInstance
from chipmap.instances.placement.problem import placement_problem
from chipmap.methods.placement.search import CHUNK, COLD, FEWEST, HOT, MOMENTS
from chipmap.methods.placement.stages import Stages

#: (instance, the most ns of one simulation, the fewest evaluations per second) as the family's page asks for.
ROWS = (
    ("placement/inception-2-pcie", 500_000, 20_000),
    ("placement/rnnlm-2-pcie", 500_000, None),
    ("placement/gnmt-8-pcie", None, None),
    ("placement/gnmt-8-50k-pcie", 20_000_000, 100),
)


def main() -> None:
    """Print a row per instance."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    seconds = parser.parse_args().seconds
    print(f"load {os.getloadavg()[0]:.1f}, Python {sys.version.split()[0]}\n")
    print("| instance | operations | devices | one simulation, ms | asked | evaluations per second | asked |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for name, most, fewest in ROWS:
        instance = read(name)
        assert isinstance(instance, PlacementInstance)
        problem = placement_problem(instance)
        alone, rate = speed(Stages(problem), seconds)
        wanted = "" if most is None else f"{most / 1e6:g}", "" if fewest is None else str(fewest)
        cells = [
            name,
            str(problem.operations),
            str(problem.devices),
            f"{alone:.2f}",
            wanted[0],
            f"{rate:.0f}",
            wanted[1],
        ]
        print(f"| {' | '.join(cells)} |", flush=True)


def speed(stages: Stages, seconds: float) -> tuple[float, float]:
    """(ms of one simulation, evaluations per second of processor time)."""
    problem, flat, work = stages.problem, stages.tables, stages.work
    device, times = heft_units(problem, flat), []
    for _ in range(20):
        begun = time.perf_counter()
        simulate(flat, device, stages.key, False, stages.none, NEVER, work)
        times.append(time.perf_counter() - begun)
    made, tail = units(problem), stages.windows(Deadline()).tail
    stages.weigh(partition(problem, made, stages.begins()[0]))
    assert stages.best is not None
    over, step, device, key = stages.best
    now = state(device, key, step, over)
    both = workspace(problem, MOMENTS), workspace(problem, MOMENTS)
    seed_with(0)
    heat, chunk, done, begun = math.sqrt(HOT * COLD) * step, max(FEWEST, CHUNK // problem.operations), 0, 0.0
    for number in range(sys.maxsize):
        if number == 1:  # the first call compiled
            begun, done = time.process_time(), 0
        done += anneal(flat, stages.bytes, made, problem.allowed, tail, now, both, (heat, heat), chunk)
        if number > 0 and time.process_time() - begun > seconds:
            break
    return min(times) * 1e3, done / (time.process_time() - begun)


if __name__ == "__main__":
    main()
