"""Do brute force, the exact programs, HiGHS and CP-SAT agree on random tiny instances of family ``multimodel``?

Each of ``--instances`` random instances (two or three models of up to three layers, up to 2×2 chiplets, up to three
windows; with limits, deadlines and SRAM or without; ``tests/multimodel/random_instances.py``) with each objective.
Every method starts from nothing, on one thread, with a limit in seconds. A method agrees if

- what it calls optimal is the optimum over all schedules, and what it calls infeasible has none;
- each of its schedules is valid by the checker and no better than the optimum;
- none of its bounds lies above the optimum.

    python benchmarks/multimodel_agreement.py [--instances 60] > benchmarks/results/multimodel-agreement.md
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.multimodel.enumeration import Schedules, combinations, schedules  # noqa: E402
from tests.multimodel.random_instances import varied_instance  # noqa: E402

OBJECTIVES = ("latency", "energy", "weighted", "edp")
#: Method -> the objectives for which it proves every tiny instance.
EXACT = {
    "auto": OBJECTIVES,
    "cpsat": OBJECTIVES,
    "mip": ("latency", "energy", "weighted"),
}
#: Seconds of methods that go on until a limit.
SECONDS = {"search": 0.5, "scar-evolutionary": 0.5}
#: A gap that a MIP solver's floating point can't close; it counts as proved.
NOISE = 1e-9
#: Combinations of the models' parts that brute force may put together.
MOST = 3_000_000


@dataclass
class Tally:
    """What a method did with the instances of one objective."""

    proved: int = 0
    seconds: float = 0.0
    #: Over the instances with a schedule: their number, how many were given one, and sums of (schedule - optimum) /
    #: optimum and (optimum - bound) / optimum, the latter where there is a bound.
    feasible: int = 0
    found: int = 0
    above: float = 0.0
    bounded: int = 0
    gaps: float = 0.0

    @property
    def cells(self) -> str:
        """What the table says."""
        above = f"{self.above / self.found:.2%}" if self.found else ""
        gap = f"{self.gaps / self.bounded:.2%}" if self.bounded else ""
        return f"{self.proved} | {self.found} of {self.feasible} | {above} | {gap} | {self.seconds:.1f}"


def methods() -> list[str]:
    """The family's methods, without the family's name."""
    from chipmap.family import get_family

    return [method.name.partition("/")[2] for method in get_family("multimodel").methods]


def instances(seed: int, number: int) -> Iterator[Any]:
    """So many random instances that brute force can solve."""
    random = Random(seed)
    while number:
        instance = varied_instance(random)
        if combinations(instance) <= MOST:
            number -= 1
            yield instance


def outcome(instance: Any, method: str, limit: float) -> Any:
    """A solve in this process, from nothing."""
    from chipmap.run import SolveOptions
    from chipmap.solve import solve

    options = SolveOptions.make(warm_start="none", threads=1, time_limit=limit)
    return solve(instance, f"multimodel/{method}", options)


def complaints(instance: Any, known: Schedules, method: str, limit: float, tally: Tally) -> Iterator[str]:
    """What is wrong with the result of a method, in words."""
    from chipmap.solve import check

    optimum = known.optimum
    best = 0 if optimum is None else optimum
    started = time.process_time()
    result = outcome(instance, method, SECONDS.get(method, limit))
    tally.seconds += time.process_time() - started
    proved = result.status in ("optimal", "infeasible") or (result.gap is not None and result.gap < NOISE)
    tally.proved += proved
    if result.status == "error":
        yield f"ends with {result.termination}"
    if (result.status == "infeasible" and optimum is not None) or (optimum is None and result.solution is not None):
        yield f"is {result.status}, the optimum {optimum}"
    if result.status == "optimal" and result.objective != optimum:
        yield f"calls {result.objective} optimal, the optimum is {optimum}"
    if result.solution is not None:
        certificate = check(instance, type_of_solution().make(**result.solution))
        found = certificate.objective
        if not certificate.feasible or found is None or found != result.objective or found < best:
            yield f"has a schedule at {result.objective}, by the checker {found}"
    for bound in result.bounds:
        if optimum is not None and bound.value > optimum:
            yield f"has the bound {bound.value} of {bound.source}, the optimum is {optimum}"
    if optimum is not None:
        tally.feasible += 1
        tally.found += result.objective is not None
        tally.above += ((result.objective or optimum) - optimum) / max(1, optimum)
        tally.bounded += bool(result.bounds)
        tally.gaps += (optimum - max((bound.value for bound in result.bounds), default=optimum)) / max(1, optimum)
    if instance.task.objective in EXACT.get(method, ()) and not proved:
        yield f"proves nothing: {result.termination}"


def type_of_solution() -> Any:
    """The record of a schedule."""
    from chipmap.instances.multimodel import MultiSolution

    return MultiSolution


def main() -> int:
    """Print the table; 1 if anything disagrees."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--instances", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--time-limit", type=float, default=60.0)
    parser.add_argument("--methods", nargs="+", default=methods())
    args = parser.parse_args()
    tallies: dict[tuple[str, str], Tally] = defaultdict(Tally)
    wrong: list[str] = []
    number = without = listed = 0
    first = next(instances(args.seed, 1))
    for method, objective in product(args.methods, OBJECTIVES):  # compiles
        outcome(first.replace(task=first.task.replace(objective=objective)), method, 30 * SECONDS.get(method, 20.0))
    for i, base in enumerate(instances(args.seed, args.instances)):
        known = schedules(base)
        number, without, listed = number + 1, without + (not len(known.time)), listed + len(known.time)
        for objective in OBJECTIVES:
            instance = base.replace(task=base.task.replace(objective=objective))
            here = Schedules(instance, known.time, known.energy)
            for method in args.methods:
                tally = tallies[objective, method]
                found = list(complaints(instance, here, method, args.time_limit, tally))
                wrong += [f"instance {i} ({base.name}), {objective}: {method} {one}" for one in found]
        print(f"{number} instances, {len(wrong)} complaints", *wrong[-1:], file=sys.stderr, flush=True)
    print("# Brute force, the programs and the models agree on tiny instances\n")
    load = f"load average {os.getloadavg()[0]:.1f}"
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {load}, one thread; seed {args.seed}.")
    print(f"{number} random instances, {without} of them without a schedule; {listed:,} valid schedules in all.\n")
    print(
        "Bounds alone, and methods that give the first schedule they find, prove few. A schedule is above the optimum"
    )
    print("and a bound below it by so much in the mean.\n")
    print("| objective | method | proved | schedules | above the optimum | bound below it | CPU seconds in all |")
    print("|---|---|--:|--:|--:|--:|--:|")
    for (objective, method), tally in tallies.items():
        print(f"| {objective} | {method} | {tally.cells} |")
    print(f"\n{number * len(OBJECTIVES)} problems, {len(wrong)} disagreements.")
    for one in wrong:
        print(f"- {one}")
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
