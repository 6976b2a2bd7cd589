"""Plans of smaller siblings: what carrying them over is worth, and the chain with them and without.

    python -m benchmarks.placement_siblings [--limit 10] [--seeds 3] [--networks NAME ...] [--factors 2 4 8]

Training steps of five networks on four P100 over PCIe, memory unlimited, whose repeated structure is 2, 4 and 8 times
that of the smallest one. One thread, in this process, and deadlines count the process's CPU seconds; compiling comes
before. A row says:

- *own*: by how much the step grows when each operation of the best plan without siblings takes its device from its
  role and step alone;
- *rules*: the step time that each rule gives after the plan of the sibling was improved, over that of the best rule;
- *by role*: the same for the choice of a rule for each role;
- *without, with*: step times in ms after the limit, the geometric mean over the seeds, and *with* over *without*;
- *there*: the CPU seconds after which a run with siblings has what one without them has after the limit (mean over
  those seeds that get there, and how many do).
"""

from __future__ import annotations

import argparse
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.cpu_deadline import CpuDeadline
from chipmap.deadline import Stop
from chipmap.heuristics.placement.siblings.roles import Roles, roles
from chipmap.heuristics.placement.siblings.smaller import RULES, Sibling, carried
from chipmap.instances.placement import PlacementInstance
from chipmap.instances.placement.generators import training_step
from chipmap.instances.placement.problem import IntArray, PlacementProblem, placement_problem
from chipmap.methods.chain import Link, Turn, follow
from chipmap.methods.placement import siblings as link
from chipmap.methods.placement.chain import BOUND, IMPROVED, SIBLINGS, start_unless_carried
from chipmap.methods.placement.chain_state import ChainState
from chipmap.result import TraceEvent
from chipmap.run import Run, SolveOptions
from chipmap.validation.placement.checker import check

DEVICES, FACTORS = 4, (2, 4, 8)
#: What grows with the factor, and how large it is in the smallest one.
NETWORKS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "gnmt": ("steps", 20, {"layers": 2}),
    "wavenet": ("stacks", 4, {"layers": 10}),
    "transformer-xl": ("segments", 16, {"layers": 2}),
    "rnnlm": ("steps", 40, {"layers": 2}),
    "inception": ("repeats", 1, {}),
}
STARTS = Link("start", 0.5, start_unless_carried)
HEADING = ("graph", "operations", "own", *RULES, "by role", "without, ms", "with, ms", "ratio", "there")


@dataclass
class Ran:
    """A run: (CPU seconds, step time) of what it found, and the plan at its end."""

    found: list[tuple[float, int]]
    state: ChainState

    @property
    def end(self) -> int:
        """The last step time."""
        return self.found[-1][1]


def instance_of(network: str, factor: int) -> PlacementInstance:
    """The network whose repeated structure is so many times that of the smallest one."""
    what, base, fixed = NETWORKS[network]
    return training_step(network, {**fixed, what: base * factor}, DEVICES, memory_bytes=None)


def ran(instance: PlacementInstance, with_siblings: bool, seed: int, limit: float) -> Ran:
    """A run of the chain of so many CPU seconds."""
    problem = placement_problem(instance)
    begun, found = time.process_time(), list[tuple[float, int]]()
    run = Run(instance, SolveOptions(threads=1, seed=seed, time_limit=1e6), check)

    def hear(event: TraceEvent, now: Run) -> None:
        if event.event == "solution":
            found.append((time.process_time() - begun, int(event.value)))

    run.listener = hear
    state, turn = ChainState(problem), Turn(run, CpuDeadline(begun + limit, lambda: None))
    links = (BOUND, *((SIBLINGS,) if with_siblings else ()), STARTS, *IMPROVED)
    run.attempt(lambda: follow(links, state, turn))
    return Ran(found, state)


def whole(problem: PlacementProblem, made: Roles) -> Sibling:
    """The sibling that leaves nothing out."""
    table = np.full((int(made.role.max()) + 1, max(made.steps)), -1, dtype=np.int64)
    inside = np.flatnonzero(made.part >= 0)
    table[made.role[inside], made.step[inside]] = inside
    return Sibling(problem, np.arange(problem.operations), made.steps, table)


def step_of(state: ChainState, devices: IntArray) -> int:
    """The step time of a plan, by keys of its schedule run backwards."""
    fresh = ChainState(state.problem)
    fresh.evaluate_and_keep(devices)
    assert fresh.best is not None
    return fresh.best[1]


def rules_of(instance: PlacementInstance, made: Roles, seconds: float) -> list[str]:
    """What each rule gives over the best one, and the choice by role."""
    state = ChainState(placement_problem(instance))
    run = Run(instance, SolveOptions(threads=1, time_limit=1e6), check)
    turn, later = (Turn(run, CpuDeadline(time.process_time() + k * seconds, lambda: None)) for k in (1, 1_000))
    few = link.siblings_of(state.problem, made)
    if not few:
        return ["" for _ in range(len(RULES) + 1)]
    sibling = few[0]
    own = link.SiblingState(sibling.problem)
    with suppress(Stop):
        link.place(own, turn, 0)
    assert own.best is not None
    plans = link.plans_of(state, made, sibling, own.best[2])
    steps = [step_of(state, plan) for plan in plans]
    best = link.best_of_plans(state, plans)
    assert best is not None
    link.by_roles(state, later, made, plans, best)
    assert state.best is not None
    return [f"{one / min(steps):.3f}" for one in (*steps, state.best[1])]


def row(network: str, factor: int, seeds: int, limit: float) -> list[str]:
    """The cells of a graph."""
    instance = instance_of(network, factor)
    problem = placement_problem(instance)
    made, own = roles(problem), ""
    without = [ran(instance, False, seed, limit) for seed in range(seeds)]
    rules = ["" for _ in range(len(RULES) + 1)]
    if made is not None:
        best = without[0].state.best
        assert best is not None
        again = carried(problem, made, whole(problem, made), best[2], "relative")
        own = f"{step_of(without[0].state, again) / step_of(without[0].state, best[2]) - 1:.1%}"
        rules = rules_of(instance, made, 0.25 * limit)
    with_them = [ran(instance, True, seed, limit) for seed in range(seeds)]
    means = [float(np.exp(np.mean([np.log(one.end) for one in some]))) for some in (without, with_them)]
    there = [
        next((seconds for seconds, step in a.found if step <= b.end), None)
        for a, b in zip(with_them, without, strict=True)
    ]
    got = [one for one in there if one is not None]
    when = (f"{np.mean(got):.1f} s, " if got else "") + f"{len(got)} of {seeds}"
    values = [f"{one / 1e6:.2f}" for one in means]
    return [f"{network} ×{factor}", str(problem.operations), own, *rules, *values, f"{means[1] / means[0]:.4f}", when]


def main() -> None:
    """Print the table, a row as soon as it is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=10.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=NETWORKS, metavar="NAME")
    parser.add_argument("--factors", nargs="+", type=int, default=list(FACTORS))
    asked = parser.parse_args()
    link.LARGE = 0  # with siblings at any size
    for with_siblings in (False, True):  # compile
        ran(instance_of("rnnlm", 1), with_siblings, 0, 4.0)
    print(f"| {' | '.join(HEADING)} |\n|{'---|' * 2}{'--:|' * (len(HEADING) - 2)}", flush=True)
    for factor in asked.factors:
        for network in asked.networks:
            print(f"| {' | '.join(row(network, factor, asked.seeds, asked.limit))} |", flush=True)
    print(f"\nLoad average at the end {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.")


if __name__ == "__main__":
    main()
