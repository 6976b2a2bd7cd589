"""Speed of the decoder of family ``placement``, alone and in the search.

    python -m benchmarks.placement_simulator [--seconds SECONDS]

A simulation alone: the least of 20 runs, wall clock, of the schedule that HEFT by units makes. In the search:
evaluations per second of processor time on one core, over so many seconds of annealing from that start, the moves that
end early included, with what they cost beside the simulation (the critical chain, memory).
"""

from __future__ import annotations

import argparse
import os
import sys
import time

from chipmap.deadline import Deadline
from chipmap.heuristics.placement.annealing import anneal, seed_with, state
from chipmap.heuristics.placement.heft_units import heft_units
from chipmap.heuristics.placement.memory import excess
from chipmap.heuristics.placement.simulator import NEVER, simulate
from chipmap.heuristics.placement.tables import workspace
from chipmap.heuristics.placement.units import units
from chipmap.inputs.reading import read
from chipmap.instances.placement.instance import PlacementInstance
from chipmap.instances.placement.problem import placement_problem
from chipmap.methods.placement.search import COLD, MOMENTS
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
        step = int(simulate(flat, device, stages.key, False, stages.none, NEVER, work))
        times.append(time.perf_counter() - begun)
    over = int(excess(flat, stages.bytes, device, work))
    now, made, tail = state(device, stages.key, step, over), units(problem), stages.windows(Deadline()).tail
    both = workspace(problem, MOMENTS), workspace(problem, MOMENTS)
    seed_with(0)
    heat, chunk, done, begun = COLD * step, max(4, 300_000 // problem.operations), 0, 0.0
    for number in range(sys.maxsize):
        if number == 1:  # the first call compiled
            begun, done = time.process_time(), 0
        done += anneal(flat, stages.bytes, made, problem.allowed, tail, now, both, (heat, heat), chunk)
        if number > 0 and time.process_time() - begun > seconds:
            break
    return min(times) * 1e3, done / (time.process_time() - begun)


if __name__ == "__main__":
    main()
