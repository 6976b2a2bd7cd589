"""Single partitions of large graphs, by operations alone and by clusters first.

    python -m benchmarks.placement_clusters [--seeds 2] [--graphs NAME ...]

One thread, in this process. A row has the style, the moves, the mean CPU seconds of a partition, and the geometric mean
of the step times in ms, after backward passes. Each kind makes so many moves; by clusters half of them are of clusters.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.placement.search.units import units
from chipmap.heuristics.placement.starts import partition as link
from chipmap.heuristics.placement.starts.phases import middle, phases
from chipmap.instances.placement.generators import training_step
from chipmap.instances.placement.problem import placement_problem
from chipmap.methods.placement.chain_state import ChainState

SMALL = {"hidden": 64, "batch": 8, "vocabulary": 100}
#: Training steps on devices of P100 over PCIe, memory unlimited: network, parameters, devices.
GRAPHS: dict[str, tuple[str, dict[str, Any], int]] = {
    "gnmt": ("gnmt", {"layers": 8, "steps": 144}, 8),
    "rnnlm": ("rnnlm", {"layers": 8, "steps": 300, **SMALL}, 8),
    "wavenet": ("wavenet", {"layers": 10, "stacks": 128}, 4),
    "transformer-xl": ("transformer-xl", {"layers": 2, "segments": 384}, 4),
    "inception": ("inception", {"repeats": 32}, 4),
}
STYLES, MOVES = ((16, 4.0), (40, 2.0)), (400_000, 1_600_000)
#: Operations from which on clusters are made, where none are.
NEVER = 2**40


def rows(name: str, seeds: int) -> None:
    """Print the rows of a graph."""
    network, parameters, devices = GRAPHS[name]
    problem = placement_problem(training_step(network, parameters, devices, memory_bytes=None))
    state, made = ChainState(problem), units(problem)
    when, begin = middle(state.heads_and_tails(Deadline())), state.initial_partitions()[0]
    for count, uneven in STYLES:
        style = link.Style(phases(problem, when, count), uneven)
        for clustered, moves in (*((False, moves) for moves in MOVES), (True, MOVES[0])):
            link.LARGE_GRAPH, most = (0, moves // 2) if clustered else (NEVER, moves)
            begun, steps = time.process_time(), list[float]()
            for seed in range(seeds):
                turned = state.turned(link.partition(problem, made, begin, seed, Deadline(), most, style))
                assert turned is not None
                steps.append(turned[1] / 1e6)
            seconds, mean = (time.process_time() - begun) / seeds, float(np.exp(np.log(steps).mean()))
            what = "clusters first" if clustered else "operations"
            cells = name, problem.operations, f"{count}, {uneven:g}", what, moves, f"{seconds:.2f}", f"{mean:.2f}"
            print(f"| {' | '.join(map(str, cells))} |", flush=True)


def main() -> None:
    """Print the table, a row as soon as it is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--graphs", nargs="+", default=list(GRAPHS), choices=GRAPHS, metavar="NAME")
    asked = parser.parse_args()
    problem = placement_problem(training_step("rnnlm", {"layers": 2, "steps": 4}, 2))  # compiles
    state = ChainState(problem)
    begin = state.initial_partitions()[0]
    state.turned(link.partition(problem, units(problem), begin))
    print("| graph | operations | phases, weight | moves of | moves | CPU s | ms |")
    print("|---|--:|---|---|--:|--:|--:|", flush=True)
    for name in asked.graphs:
        rows(name, asked.seeds)
    print(f"\nLoad average at the end {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.")


if __name__ == "__main__":
    main()
