"""A table of `multimodel/auto` on instances that a seed makes: a run a row, each in a process of its own."""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import NamedTuple

from chipmap.instances.multimodel.instance import MultiInstance

OBJECTIVES = ("edp", "latency", "weighted", "energy")


class Row(NamedTuple):
    """A run's status, objective and bound in ticks, what proves the bound, who found the schedule, and CPU seconds."""

    status: str
    objective: float | None
    bound: float | None
    proved: str
    found: str
    seconds: float

    @property
    def gap(self) -> float | None:
        """Of the objective; 0 where a proof shows that there is no schedule, None where neither is known."""
        if self.status == "infeasible":
            return 0.0
        if self.objective is None:
            return None
        return 1 - (self.bound or 0) / self.objective if self.objective else 0.0


def measure(made: MultiInstance, method: str, limit: float) -> Row:
    """One run, on one thread."""
    from chipmap.run import SolveOptions
    from chipmap.solve import solve

    before = _spent()
    result = solve(made, f"multimodel/{method}", SolveOptions(time_limit=limit, threads=1))
    value, source = max(((bound.value, bound.source) for bound in result.bounds), default=(0, "none"))
    return Row(result.status, result.objective, value, source, result.incumbent_source or "none", _spent() - before)


def _spent() -> float:
    return sum(os.times()[:4])


def table(
    title: str, about: str, instance: Callable[[int], MultiInstance], seeds: tuple[int, int], limit: float
) -> int:
    """Parse the command line (``about`` is its help, ``seeds`` and ``limit`` its defaults) and print the table."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[*seeds], help="first and end, or with --only a list")
    parser.add_argument("--only", action="store_true", help="exactly these seeds")
    parser.add_argument("--time-limit", type=float, default=limit)
    parser.add_argument("--method", default="auto")
    args = parser.parse_args()
    print(f"# {title}\n")
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {args.time_limit:.0f} s on one thread.\n")
    print("| seed | layers | batch | chiplets | W | objective | status | value | gap | bound by | found by | CPU s |")
    print("|--:|---|---|--:|--:|---|---|--:|--:|---|---|--:|", flush=True)
    gaps: list[float | None] = []
    for seed in args.seeds if args.only else range(args.seeds[0], args.seeds[1]):
        made = instance(seed)
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            row = pool.submit(measure, made, args.method, args.time_limit).result()
        gaps.append(row.gap)
        print(_line(seed, made, row), flush=True)
        print(seed, file=sys.stderr, flush=True)
    known = [1.0 if gap is None else gap for gap in gaps]
    unknown = sum(gap is None for gap in gaps)
    print(f"\nMedian gap {statistics.median(known):.2%}, largest {max(known):.2%}, of {len(gaps)}; unknown {unknown}.")
    print("An infeasible instance that is proved has 0, an unknown one 100%.")
    return 0


def _line(seed: int, made: MultiInstance, row: Row) -> str:
    counts = "+".join(str(len(model.layers)) for model in made.models)
    batches = [f"{model.batch}/{model.mini_batch}" for model in made.models]
    batch = batches[0] if len(set(batches)) == 1 else "+".join(batches)
    value = "" if row.objective is None else f"{row.objective:.0f}"
    gap = "unknown" if row.gap is None else f"{row.gap:.2%}"
    return (
        f"| {seed} | {counts} | {batch} | {len(made.module.chiplets)} | {made.task.windows} | {made.task.objective} "
        f"| {row.status} | {value} | {gap} | {row.proved} | {row.found} | {row.seconds:.0f} |"
    )
