"""The search of family ``multimodel`` alone, from several seeds: objective of each, and moves per second.

python -m benchmarks.multimodel_search [--seconds 60] [--seeds 5] [--beside] [INSTANCE ...]

Seconds are those of the processor. With ``--beside`` each row also has annealing without divisions, and the simplest
search there is: one random move, kept if the objective is no worse. Both have the same seconds. INSTANCE may be
``random-112``, that of `benchmarks.multimodel_random`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial

from benchmarks.multimodel_random import instance as random_instance
from chipmap.deadline import Deadline
from chipmap.heuristics.multimodel.annealing.rounds import rounds
from chipmap.heuristics.multimodel.annealing.search import Annealing, Windows
from chipmap.heuristics.multimodel.baselines import whole_models
from chipmap.inputs.reading import read
from chipmap.instances.multimodel import MultiInstance
from chipmap.instances.multimodel.problem import MultiProblem, multi_problem, schedule
from chipmap.validation.multimodel.checker import check

#: Instances of the issue's targets.
INSTANCES = (
    *(f"multimodel/scar-{number}-{how}" for how in ("pipelined", "whole", "whole-cb") for number in (6, 7, 8, 9, 10)),
    "multimodel/four-models",
    "multimodel/resnet50-unet",
)


#: Temperature at which no worse schedule is kept.
FROZEN = 1e-15

#: Schedules, each better than those before, from a problem, a start, a seed and a deadline.
Way = Callable[[MultiProblem, Windows, int, Deadline], Iterator[Windows]]


def random_moves(problem: MultiProblem, start: Windows, seed: int, deadline: Deadline) -> Iterator[Windows]:
    """One random move after the other, kept if no worse."""
    return Annealing(problem, start, seed).run(1 << 60, deadline, FROZEN, FROZEN)


def instance_of(name: str) -> MultiInstance:
    """A shipped instance, a file, or a random one."""
    found = random_instance(int(name[7:])) if name.startswith("random-") else read(name)
    assert isinstance(found, MultiInstance)
    return found


def searched(name: str, seconds: float, seed: int, way: Way = rounds) -> float:
    """The objective by the checker, of EDP in J·s, else in ticks, after so many seconds of processor time."""
    instance = instance_of(name)
    problem = multi_problem(instance)
    best = start = whole_models(problem)
    assert start is not None
    list(Annealing(problem, start, 0).run(1_000, Deadline()))  # compiled
    began = time.process_time()
    deadline = Deadline(ended=lambda: "time" if time.process_time() - began > seconds else None)
    for windows in way(problem, start, seed, deadline):
        best = windows
    assert best is not None
    certificate = check(instance, schedule(problem, best))
    assert certificate.feasible and certificate.objective is not None
    return certificate.objective * (problem.edp_tick * 1e-21 if instance.task.objective == "edp" else 1.0)


def speed(name: str) -> float:
    """Moves per second of processor time, in millions."""
    problem, moves = multi_problem(instance_of(name)), 500_000
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
    parser.add_argument("--beside", action="store_true")
    parser.add_argument("instances", nargs="*", default=INSTANCES)
    given = parser.parse_args()
    ways: dict[str, Way] = {"": rounds}
    if given.beside:
        ways |= {", no divisions": partial(rounds, dividing=0.0), ", one random move": random_moves}
    print(f"{given.seconds:g} s of processor time each, {given.seeds} seeds; load {os.getloadavg()[0]:.1f}\n")
    heads = [f"{which}{way}" for way in ways for which in ("best", "median", "worst")]
    print("| instance | " + " | ".join(heads) + " | million moves/s |\n|---|" + (len(heads) + 1) * "--:|")
    for name in given.instances:
        rate, figures = speed(name), list[str]()
        for way in ways.values():
            values = sorted(searched(name, given.seconds, seed, way) for seed in range(given.seeds))
            figures += [f"{value:.4g}" for value in (values[0], statistics.median(values), values[-1])]
        print(f"| {name} | {' | '.join(figures)} | {rate:.2f} |", flush=True)


if __name__ == "__main__":
    main()
