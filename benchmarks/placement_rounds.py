"""Annealing of training steps that begins with two longer rounds, with five short ones, and with five of which the
best takes over pieces of the others.

    python -m benchmarks.placement_rounds [--limit 30] [--seeds 1] [--first 0] [--instances NAME ...]

One thread, in this process; limits count the process's CPU seconds. All searches begin from the same placements, as in
:mod:`benchmarks.placement_runs`. A row has the step times in ms of one seed, and the third over the second.
"""

from __future__ import annotations

import argparse
import os
import time
from types import SimpleNamespace

import numpy as np

from benchmarks.placement_runs import begun, searched
from benchmarks.placement_workloads import shipped
from chipmap.methods.placement import chain_state, rounds

#: Five short rounds without the others' pieces.
FIVE = rounds.Plan(5, 1 / 12, rounds.TWO.later)
INSTANCES = (
    *("gnmt-8-nvlink", "inception-2-pcie", "transformer-xl-4-pcie", "wavenet-2-nvlink", "amoebanet-4-pcie"),
    *("rnnlm-4-pcie", "transformer-xl-8-pcie"),
)


def main() -> None:
    """Print the table, a row as soon as it is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=30.0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--instances", nargs="+", default=list(INSTANCES), metavar="NAME")
    asked = parser.parse_args()
    # checks cost CPU seconds here as well
    chain_state.time = rounds.time = SimpleNamespace(monotonic=time.process_time)  # type: ignore[assignment]
    print("| graph | seed | start, ms | two, ms | five, ms | pieces, ms | ratio |\n|---|--:|--:|--:|--:|--:|--:|")
    ratios = list[float]()
    for name in asked.instances:
        instance = shipped(name)
        for seed in range(asked.first, asked.first + asked.seeds):
            start = begun(instance, seed)
            assert start.best is not None
            found = [
                searched(instance, start, start.repeated, seed, asked.limit, plan)
                for plan in (rounds.TWO, FIVE, rounds.SEVERAL)
            ]
            ratios.append(found[2] / found[1])
            cells = (*(f"{one / 1e6:.2f}" for one in (start.best[1], *found)), f"{ratios[-1]:.4f}")
            print(f"| {name} | {seed} | {' | '.join(cells)} |", flush=True)
    print(f"\nGeometric mean of the ratios {np.exp(np.log(ratios).mean()):.4f}.")
    print(f"Load average at the end {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.")


if __name__ == "__main__":
    main()
