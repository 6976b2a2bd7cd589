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
from chipmap.heuristics.placement.search.annealing import anneal, annealing_state, seed_with
from chipmap.heuristics.placement.search.slack import slack_for
from chipmap.heuristics.placement.search.units import units
from chipmap.heuristics.placement.simulation.simulator import NEVER, simulate
from chipmap.heuristics.placement.simulation.tables import workspaces
from chipmap.heuristics.placement.starts.heft_units import heft_units
from chipmap.heuristics.placement.starts.partition import partition
from chipmap.inputs.reading import read
from chipmap.instances.placement.instance import PlacementInstance
from chipmap.instances.placement.problem import placement_problem
from chipmap.methods.placement.chain_state import ChainState
from chipmap.methods.placement.rounds import CHUNK, COLD, FEWEST, HOT, MOMENTS

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
        alone, rate = speed(ChainState(problem), seconds)
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


def speed(state: ChainState, seconds: float) -> tuple[float, float]:
    """(ms of one simulation, evaluations per second of processor time)."""
    problem, flat, work = state.problem, state.tables, state.work
    device, times = heft_units(problem, flat), []
    for _ in range(20):
        begun = time.perf_counter()
        simulate(flat, device, state.key, False, state.none, NEVER, work)
        times.append(time.perf_counter() - begun)
    made, tail = units(problem), state.heads_and_tails(Deadline()).tail
    state.evaluate_and_keep(partition(problem, made, state.initial_partitions()[0]))
    assert state.best is not None
    over, step, device, key = state.best
    now = annealing_state(device, key, step, over)
    both = workspaces(problem, MOMENTS)
    slack = slack_for(problem)
    seed_with(0)
    temperature, chunk, done, begun = math.sqrt(HOT * COLD) * step, max(FEWEST, CHUNK // problem.operations), 0, 0.0
    for number in range(sys.maxsize):
        if number == 1:  # the first call compiled
            begun, done = time.process_time(), 0
        temperatures = temperature, temperature
        judged, _ = anneal(flat, state.bytes, made, problem.allowed, tail, now, both, slack, temperatures, chunk)
        done += judged
        if number > 0 and time.process_time() - begun > seconds:
            break
    return min(times) * 1e3, done / (time.process_time() - begun)


if __name__ == "__main__":
    main()
