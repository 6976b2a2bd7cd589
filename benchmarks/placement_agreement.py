"""Do brute force, the MIP, CP-SAT, decoder and bounds of family ``placement`` agree on random tiny instances?

    python -m benchmarks.placement_agreement [--instances 300] [--seed 1]

Random instances of both objectives, with all shorthands of links and all memory rules (``tests/placement/
random_instances.py``). For each of them:

- brute force, the MIP (HiGHS), CP-SAT and ``placement/auto`` say the same optimum, or that there is no placement;
- every placement that the decoder makes, of all devices with all three kinds of keys, is accepted by the checker if it
  fits, with the decoder's T, and is no better than the optimum;
- every lower bound is at most the optimum.

Anything else ends the run with an error.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from random import Random

import msgspec
import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from chipmap import SolveOptions, solve  # noqa: E402
from chipmap.deadline import Deadline  # noqa: E402
from chipmap.family import get_family  # noqa: E402
from chipmap.heuristics.placement.bounds import ancestors, price_bound, same_device_bound  # noqa: E402
from chipmap.heuristics.placement.bounds import simple as bounds  # noqa: E402
from chipmap.heuristics.placement.bounds.packing import packing  # noqa: E402
from chipmap.heuristics.placement.keys import default_keys, topological  # noqa: E402
from chipmap.heuristics.placement.simulation.simulator import NEVER, schedule, simulate  # noqa: E402
from chipmap.heuristics.placement.simulation.tables import tables, workspace  # noqa: E402
from chipmap.instances.placement.instance import PlacementInstance  # noqa: E402
from chipmap.instances.placement.problem import PlacementProblem, placement_problem  # noqa: E402
from chipmap.process.warming import warm  # noqa: E402
from chipmap.validation.brute_force import brute_force, count  # noqa: E402
from chipmap.validation.placement.checker import check  # noqa: E402
from tests.placement.random_instances import tiny_instance  # noqa: E402

METHODS = ("mip", "cpsat", "auto")
#: The most candidates of brute force; larger instances are drawn anew.
MOST = 60_000


@dataclass
class Row:
    """What instances of one objective and one shorthand of links come to."""

    instances: int = 0
    infeasible: int = 0
    #: Those where memory costs time or makes all placements impossible.
    binding: int = 0
    decoded: int = 0
    #: Instances where no decoded placement is optimal, among those with one; and those of them where memory binds.
    missed: int = 0
    missed_bound: int = 0
    shares: list[float] = field(default_factory=list)

    @property
    def cells(self) -> str:
        """The columns of the table."""
        mean = f"{sum(self.shares) / len(self.shares):.3f} ({len(self.shares)})" if self.shares else ""
        missed = f"{self.missed} ({self.missed_bound})" if self.decoded else ""
        return f"{self.instances} | {self.infeasible} | {self.binding} | {self.decoded} | {missed} | {mean}"


def lower_bounds(problem: PlacementProblem) -> dict[str, int]:
    """Each bound by its name."""
    if not problem.timed:
        return {"work": max(bounds.group(problem), price_bound.work(problem))}
    free = Deadline()
    first = bounds.heads_and_tails(problem, free)
    found = {"work": price_bound.work(problem), "path": bounds.path(first), "groups": bounds.group(problem, first)}
    found["interval"] = price_bound.interval(problem, first)
    second = same_device_bound.raised(problem, first, False, free)
    third = ancestors.raised(problem, second, free)
    last = same_device_bound.raised(problem, third, True, free)
    for name, w in (("sides", second), ("ancestors", third), ("probing", last)):
        found[name] = max(bounds.path(w), price_bound.interval(problem, w))
    found["target"] = bounds.target(problem, last, 0, problem.horizon, free)
    found["memory"] = packing(problem, last, 0, problem.horizon, free)
    return found


def decoded(instance: PlacementInstance, optimum: int | None) -> Iterator[int]:
    """T of each placement that the decoder makes and that fits; the checker says the same."""
    problem = placement_problem(instance)
    work, flat, tail = workspace(problem), tables(problem), np.zeros(problem.operations, dtype=np.int64)
    for chosen in product(*(np.flatnonzero(row).tolist() for row in problem.allowed)):
        devices = np.array(chosen, dtype=np.int64)
        for key, fifo in ((topological(problem), True), (topological(problem), False), (default_keys(problem), False)):
            step = int(simulate(flat, devices, key, fifo, tail, NEVER, work))
            if step < 0:
                continue
            certificate = check(instance, schedule(problem, devices, work))
            assert {one.label for one in certificate.violations} <= {"C0", "C1", "C6"}, instance
            assert not certificate.terms or certificate.terms["T1"] == step, instance
            if certificate.feasible:
                assert optimum is not None and step >= optimum, instance
                yield step


def compared(instance: PlacementInstance, row: Row, reached: Counter[str], seconds: dict[str, float]) -> None:
    """Compare everything on one instance."""
    optimum, _ = brute_force(instance, check)
    free = msgspec.structs.replace(instance, task=msgspec.structs.replace(instance.task, memory="none"))
    binds = instance.task.memory != "none" and brute_force(free, check)[0] != optimum
    for method in METHODS:
        begun = time.monotonic()
        result = solve(instance, method, SolveOptions(time_limit=60.0, threads=1))
        seconds[method] += time.monotonic() - begun
        if optimum is None:
            assert result.status == "infeasible", (method, result.status, instance)
        else:
            assert result.status == "optimal" and result.objective == optimum, (method, result.status, instance)
    row.instances += 1
    row.infeasible += optimum is None
    row.binding += binds
    if instance.task.objective == "step_time":
        found = list(decoded(instance, optimum))
        row.decoded += len(found)
        if optimum is not None and min(found, default=optimum + 1) > optimum:
            row.missed += 1
            row.missed_bound += binds
    if optimum is not None:
        lower = lower_bounds(placement_problem(instance))
        assert max(lower.values()) <= optimum, (lower, optimum, instance)
        if instance.task.objective == "step_time":
            reached.update(name for name, value in lower.items() if value == optimum)
        if instance.task.memory == "none" and optimum:
            row.shares.append(max(lower.values()) / optimum)


def main() -> None:
    """Compare so many instances and print what they come to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instances", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    warm(get_family("placement"))
    random, rows = Random(arguments.seed), defaultdict[tuple[str, str], Row](Row)
    reached, seconds, done = Counter[str](), dict.fromkeys(METHODS, 0.0), 0
    while done < arguments.instances:
        instance = tiny_instance(random)
        if count(instance) > MOST:
            continue
        done += 1
        links = instance.system.links
        compared(instance, rows[instance.task.objective, links.kind if links else "none"], reached, seconds)
    print(f"{arguments.instances} instances, seed {arguments.seed}, load {os.getloadavg()[0]:.1f}\n")
    print("| objective | links | instances | infeasible | memory binds | decoded | missed (memory binds) | bound |")
    print(f"|{'---|' * 8}")
    for (objective, links_kind), row in sorted(rows.items()):
        print(f"| {objective} | {links_kind} | {row.cells} |")
    timed = [row for (objective, _), row in rows.items() if objective == "step_time"]
    shares = [share for row in timed for share in row.shares]
    print(f"\nStep time without memory: bound / optimum {sum(shares) / len(shares):.4f} in the mean of {len(shares)}")
    print(f"Instances of step time whose optimum each bound reaches: {dict(reached.most_common())}")
    print(f"Seconds in all: {', '.join(f'{name} {value:.1f}' for name, value in seconds.items())}")


if __name__ == "__main__":
    main()
