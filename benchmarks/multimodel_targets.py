"""Five windows: how far are the scenarios 6 to 10 and the instances of two and four models solved and proved?

Each row is a run of ``multimodel/auto`` within its limit, in a process of its own; rows of up to two minutes are run
``--repeats`` times and show the run of median seconds. Memory is the largest resident set of the process that solves.

    python -m benchmarks.multimodel_targets [--repeats 5] > benchmarks/results/multimodel-targets.md

``--beside METHOD`` runs another method for as long, once, and shows what it finds; ``--objective`` changes the task.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import NamedTuple

SHORT, LONG, LONGEST = 120.0, 600.0, 900.0
#: Instance -> limit in seconds.
ROWS = {
    **{f"scar-{number}-whole": SHORT for number in range(6, 11)},
    **{f"scar-{number}-whole-cb": SHORT for number in range(6, 11)},
    "resnet50-unet": SHORT,
    **{f"scar-{number}-pipelined": LONG for number in (8, 9, 10)},
    "four-models": LONG,
    **{f"scar-{number}-pipelined": LONGEST for number in (6, 7)},
    **{f"scar-4-pipelined-cross-6x6-{windows}": LONGEST for windows in (3, 4)},
}


class Measured(NamedTuple):
    """What a run gives: seconds, objective and bound in the unit of the objective, MB, and what proves the bound."""

    seconds: float
    objective: float
    bound: float
    memory: float
    proved: str


def measure(name: str, objective: str, method: str, limit: float) -> Measured:
    """One run, in a child of this process."""
    from benchmarks.best_known import submit
    from chipmap.inputs.reading import read
    from chipmap.instances.multimodel import MultiInstance
    from chipmap.instances.multimodel.units import units
    from chipmap.run import SolveOptions
    from chipmap.solve import solve

    base = read(f"multimodel/{name}")
    assert isinstance(base, MultiInstance)
    instance = base.replace(task=base.task.replace(objective=objective))
    unit = units(instance).objective.per_tick
    started = time.perf_counter()
    result = solve(instance, f"multimodel/{method}", SolveOptions(time_limit=limit), isolate=True)
    seconds = time.perf_counter() - started
    submit([result])
    value, source = max(((bound.value, bound.source) for bound in result.bounds), default=(0, "none"))
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    assert result.objective is not None
    return Measured(seconds, result.objective * unit, value * unit, memory, source)


def alone(name: str, objective: str, method: str, limit: float) -> Measured:
    """The same in a new process."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(measure, name, objective, method, limit).result()


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--instances", nargs="+", default=list(ROWS))
    parser.add_argument("--objective", default="edp", choices=("latency", "energy", "weighted", "edp"))
    parser.add_argument("--time-limit", type=float, help="seconds for every row, instead of its own limit")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--beside", metavar="METHOD", help="another method, as scar-best, in a column of its own")
    args = parser.parse_args()
    print(f"# Five windows: objective `{args.objective}`\n")
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores. Load: average over a minute before the row.\n")
    more = f" {args.beside} |" if args.beside else ""
    print(f"| instance | limit | objective | bound | gap | bound by | seconds | MB | load |{more}")
    print(f"|---|--:|--:|--:|--:|---|--:|--:|--:|{'--:|' if more else ''}", flush=True)
    for name in args.instances:
        limit = args.time_limit or ROWS.get(name, SHORT)
        load = os.getloadavg()[0]
        times = args.repeats if limit <= SHORT else 1
        one = sorted(alone(name, args.objective, "auto", limit) for _ in range(times))[times // 2]
        other = f" {alone(name, args.objective, args.beside, limit).objective:.5g} |" if args.beside else ""
        print(
            f"| {name} | {limit:.0f} | {one.objective:.5g} | {one.bound:.5g} | {1 - one.bound / one.objective:.2%} "
            f"| {one.proved} | {one.seconds:.1f} | {one.memory:.0f} | {load:.1f} |{other}",
            flush=True,
        )
        print(name, file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
