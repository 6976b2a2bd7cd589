"""The search of family ``multimodel`` alone, from several seeds: EDP of each, and moves per second of processor time.

python -m benchmarks.multimodel_search [--seconds 60] [--seeds 5] [INSTANCE ...]
"""

from __future__ import annotations

import argparse
import os
import statistics
import time

from chipmap.deadline import Deadline
from chipmap.heuristics.multimodel.annealing.rounds import rounds
from chipmap.heuristics.multimodel.annealing.search import Annealing
from chipmap.heuristics.multimodel.baselines import whole_models
from chipmap.inputs.reading import read
from chipmap.instances.multimodel import MultiInstance
from chipmap.instances.multimodel.problem import multi_problem, schedule
from chipmap.validation.multimodel.checker import check

#: Instances of the issue's targets.
INSTANCES = (
    *(f"multimodel/scar-{number}-{how}" for how in ("pipelined", "whole", "whole-cb") for number in (6, 7, 8, 9, 10)),
    "multimodel/four-models",
    "multimodel/resnet50-unet",
)


def searched(name: str, seconds: float, seed: int) -> float:
    """The objective by the checker, in the objective's own unit, after so many seconds of processor time."""
    instance = read(name)
    assert isinstance(instance, MultiInstance)
    problem = multi_problem(instance)
    best = start = whole_models(problem)
    assert start is not None
    began = time.process_time()
    deadline = Deadline(ended=lambda: "time" if time.process_time() - began > seconds else None)
    for windows in rounds(problem, start, seed, deadline):
        best = windows
    assert best is not None
    certificate = check(instance, schedule(problem, best))
    assert certificate.feasible and certificate.objective is not None
    return certificate.objective * 1e-12


def speed(name: str) -> float:
    """Moves per second of processor time, in millions."""
    instance = read(name)
    assert isinstance(instance, MultiInstance)
    problem, moves = multi_problem(instance), 500_000
    start = whole_models(problem)
    assert start is not None
    search = Annealing(problem, start, 0)
    list(search.run(1_000, Deadline()))  # compiled
    began = time.process_time()
    list(search.run(moves, Deadline()))
    return moves / (time.process_time() - began) / 1e6


def main() -> None:
    """Print a row per instance."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("instances", nargs="*", default=INSTANCES)
    given = parser.parse_args()
    print(f"{given.seconds:g} s of processor time each, {given.seeds} seeds; load {os.getloadavg()[0]:.1f}\n")
    print("| instance | best | median | worst | million moves/s |\n|---|---|---|---|---|")
    for name in given.instances:
        rate = speed(name)
        values = sorted(searched(name, given.seconds, seed) for seed in range(given.seeds))
        figures = " | ".join(f"{value:.4f}" for value in (values[0], statistics.median(values), values[-1]))
        print(f"| {name} | {figures} | {rate:.2f} |", flush=True)


if __name__ == "__main__":
    main()
