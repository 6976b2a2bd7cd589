"""Annealing of training steps with runs of a role among its moves, and without them.

    python -m benchmarks.placement_runs [--limit 15] [--seeds 1] [--instances NAME ...]

One thread, in this process; limits count the process's CPU seconds. Both searches begin from the same placements: the
chain's starts (3 s at most), then partitions (3 s). Bounds aren't made. A row has the share of edges that fit the
steps, and step times in ms, geometric means over the seeds. Where the share is below the search's threshold, runs are
made all the same, so that the threshold can be judged.
"""

from __future__ import annotations

import argparse
import os
import time
from contextlib import suppress
from types import SimpleNamespace

import numpy as np

from benchmarks.cpu_deadline import CpuDeadline
from benchmarks.placement_workloads import shipped
from chipmap.deadline import Stop
from chipmap.heuristics.placement.search import units as moves
from chipmap.heuristics.placement.siblings.roles import Roles
from chipmap.heuristics.placement.starts.partition import partition
from chipmap.instances.placement.instance import PlacementInstance
from chipmap.instances.placement.problem import IntArray, placement_problem
from chipmap.methods.chain import Turn
from chipmap.methods.placement import chain_state, rounds
from chipmap.methods.placement.chain_state import ChainState
from chipmap.run import Run, SolveOptions
from chipmap.validation.placement.checker import check

#: CPU seconds for the starts, and for partitions.
STARTS, PARTITIONS = 3.0, 3.0
INSTANCES = ("rnnlm-4-pcie", "gnmt-2-pcie", "gnmt-4-pcie", "gnmt-8-pcie", "gnmt-8-nvlink", "wavenet-2-nvlink")


class Searched(ChainState):
    """A search's state, whose placements are kept and handed over to nobody."""

    def tell(self, turn: Turn, devices: IntArray, name: str, key: IntArray | None = None) -> None:
        """Keep a placement."""
        self.evaluate_and_keep(devices, key)


def until(seconds: float) -> CpuDeadline:
    """A deadline in so many CPU seconds."""
    return CpuDeadline(time.process_time() + seconds, lambda: None)


def begun(instance: PlacementInstance, seed: int) -> ChainState:
    """The state after starts and partitions."""
    state, made = ChainState(placement_problem(instance)), moves.units(placement_problem(instance))
    with suppress(Stop):
        for _, devices in state.starts(until(STARTS)):
            state.evaluate_and_keep(devices)
    begins, end, number = state.initial_partitions(), until(PARTITIONS), 0
    while end.keep_going():
        begin = begins[number % len(begins)]
        devices = partition(state.problem, made, begin, 40 * seed + number, CpuDeadline())
        state.evaluate_and_keep(devices, kind="partition")
        number += 1
    return state


def searched(
    instance: PlacementInstance,
    start: ChainState,
    repeated: Roles | None,
    seed: int,
    limit: float,
    plan: rounds.Plan = rounds.TWO,
) -> int:
    """The step time that the search ends with; with runs where something is ``repeated``."""
    state = Searched(start.problem)
    state.best, state.ranked, state.turned_starts = start.best, start.ranked, dict(start.turned_starts)
    state.__dict__["repeated"] = repeated
    run = Run(instance, SolveOptions(threads=1, seed=seed, time_limit=1e6), check)
    state.heads_and_tails(CpuDeadline())
    rounds.rounds(state, Turn(run, until(limit)), seed, plan)
    assert state.best is not None
    return state.best[1]


def main() -> None:
    """Print the table, a row as soon as it is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=15.0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--instances", nargs="+", default=list(INSTANCES), metavar="NAME")
    asked = parser.parse_args()
    # checks cost CPU seconds here as well
    chain_state.time = rounds.time = SimpleNamespace(monotonic=time.process_time)  # type: ignore[assignment]
    moves.FITTING = 0.0
    print("| graph | operations | fit | start, ms | without, ms | with, ms | ratio |\n|---|--:|--:|--:|--:|--:|--:|")
    for name in asked.instances:
        instance, found = shipped(name), list[tuple[int, int, int]]()
        for seed in range(asked.seeds):
            start = begun(instance, seed)
            assert start.best is not None
            ends = [searched(instance, start, made, seed, asked.limit) for made in (None, start.repeated)]
            found.append((start.best[1], ends[0], ends[1]))
        before, without, with_them = np.exp(np.log(np.array(found) / 1e6).mean(axis=0)).tolist()
        near = start.repeated.near if start.repeated is not None else 0.0
        cells = (f"{near:.2f}", *(f"{one:.2f}" for one in (before, without, with_them)), f"{with_them / without:.4f}")
        print(f"| {name} | {start.problem.operations} | {' | '.join(cells)} |", flush=True)
    print(f"\nLoad average at the end {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.")


if __name__ == "__main__":
    main()
