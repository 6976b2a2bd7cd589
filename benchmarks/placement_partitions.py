"""Annealing of training steps from partitions that are even in each phase, and from those that are even over the whole
step.

    python -m benchmarks.placement_partitions [--again] [--partitions 4] [--limit 15] [--seed 0] [--instances NAME ...]

One thread, in this process; limits count the process's CPU seconds. Both begin with the same other starts, make
partitions for so many seconds, then search for ``limit`` seconds. Bounds aren't made. A row has the number of
partitions, the best start, the step times in ms, and the second over the first.

With ``--again`` partitions in phases that all begin anew are compared with those of which some go on from the best
placement, in phases of its schedule. Names may also be those of ``benchmarks.placement_unseen``.

The first search of a process compiles or loads its functions: a short one of a small graph comes before.
"""

from __future__ import annotations

import argparse
import os
import time
from contextlib import suppress
from types import SimpleNamespace

import numpy as np

from benchmarks.cpu_deadline import CpuDeadline
from benchmarks.placement_runs import STARTS, searched, until
from benchmarks.placement_unseen import UNSEEN, made
from benchmarks.placement_workloads import shipped
from chipmap.deadline import Stop
from chipmap.heuristics.placement.search.units import units
from chipmap.heuristics.placement.starts.partition import HALF, partition
from chipmap.instances.placement.instance import PlacementInstance
from chipmap.instances.placement.problem import placement_problem
from chipmap.methods.placement import chain_state, rounds
from chipmap.methods.placement.chain_state import ChainState
from chipmap.methods.placement.styles import Effort, Styles
from chipmap.methods.placement.subsets import alternate_device_subsets

INSTANCES = (
    *("gnmt-8-nvlink", "amoebanet-4-nvlink", "inception-2-pcie", "transformer-xl-4-pcie", "gnmt-4-pcie"),
    *("wavenet-4-pcie", "gnmt-8-pcie", "wavenet-2-nvlink", "gnmt-2-pcie", "amoebanet-4-pcie", "rnnlm-4-pcie"),
)
#: Partitions that are even over the whole step, those in phases, and those of which some go on from the best placement.
WAYS = ("even", "phases", "again")


def begun(instance: PlacementInstance) -> ChainState:
    """The state after all starts but partitions."""
    state = ChainState(placement_problem(instance))
    with suppress(Stop):
        for _, devices in state.starts(until(STARTS)):
            state.evaluate_and_keep(devices)
    return state


def with_partitions(before: ChainState, seed: int, seconds: float, way: str) -> tuple[ChainState, int]:
    """The state after so many seconds of partitions, and their number; ``way``: one of :data:`WAYS`."""
    state, problem, end, number = ChainState(before.problem), before.problem, until(seconds), 0
    state.best, state.ranked, state.turned_starts = before.best, before.ranked, dict(before.turned_starts)
    moved, styles = units(problem), Styles(state, CpuDeadline(), way == "again")
    trials = alternate_device_subsets(problem, state.initial_partitions(), lambda: state.heads_and_tails(CpuDeadline()))
    while end.keep_going():
        (left, begin), draw = next(trials), 40 * seed + number
        if way != "even":
            styles.keep(left, moved, Effort(begin, draw, CpuDeadline(), HALF))
        else:
            state.evaluate_and_keep(partition(left, moved, begin, draw, CpuDeadline()), kind="partition")
        number += 1
    return state, number


def row(name: str, seed: int, seconds: float, limit: float, ways: tuple[str, str]) -> tuple[str, float]:
    """A row of the table, and its ratio."""
    instance = made(name) if name.rpartition("-")[0] in UNSEEN else shipped(name)
    cells, ends = list[str](), list[int]()
    before = begun(instance)
    for way in ways:
        state, number = with_partitions(before, seed, seconds, way)
        assert state.best is not None
        ends.append(searched(instance, state, state.repeated, seed, limit, rounds.SEVERAL))
        cells += [str(number), f"{state.best[1] / 1e6:.2f}", f"{ends[-1] / 1e6:.2f}"]
    ratio = ends[1] / ends[0]
    return f"| {name} | {seed} | {' | '.join(cells)} | {ratio:.3f} |", ratio


def main() -> None:
    """Print the table, a row as soon as it is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--partitions", type=float, default=4.0)
    parser.add_argument("--limit", type=float, default=15.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--instances", nargs="+", default=list(INSTANCES), metavar="NAME")
    asked = parser.parse_args()
    # checks cost CPU seconds here as well
    chain_state.time = rounds.time = SimpleNamespace(monotonic=time.process_time)  # type: ignore[assignment]
    ways = (WAYS[1], WAYS[2]) if asked.again else (WAYS[0], WAYS[1])
    row("transformer-xl-2-pcie", asked.seed, 1.0, 2.0, ways)
    print(f"| graph | seed | {' | '.join(f'{way} | start, ms | end, ms' for way in ways)} | ratio |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|", flush=True)
    ratios = list[float]()
    for name in asked.instances:
        text, ratio = row(name, asked.seed, asked.partitions, asked.limit, ways)
        ratios.append(ratio)
        print(text, flush=True)
    print(f"\nGeometric mean of the ratios {np.exp(np.log(ratios).mean()):.4f}.")
    print(f"Load average at the end {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.")


if __name__ == "__main__":
    main()
