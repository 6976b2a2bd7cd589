"""The search for bounds alone on the contest's inputs, against the best known floorplan, by CPU seconds.

    python -m benchmarks.wafer_bounds [--cases E,H,P] [--seconds 60]

The search runs on one thread, in this process. ``evaluations`` counts sweeps over boxes alone and over boxes with their
arguments; the latter take most of the time. They depend on the machine less than seconds do.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from chipmap.deadline import Deadline
from chipmap.heuristics.wafer.bounds.elimination import Elimination
from chipmap.heuristics.wafer.bounds.score import FINEST, BoundSearch
from chipmap.inputs.reading import read
from chipmap.instances.wafer import WaferInstance
from chipmap.instances.wafer.problem import wafer_problem
from chipmap.known.registry import known

HEAD = "| case | best floorplan | bound | gap | CPU seconds | evaluations | load |\n|---|--:|--:|--:|--:|--:|--:|"


def counted(program: Elimination | None) -> Callable[[], int]:
    """Counts the evaluations of a program; the result says how many there were."""
    if program is None:
        return lambda: 0
    calls, evaluate = [0], program.evaluate

    def counting(*words: Any) -> Any:
        calls[0] += 1
        return evaluate(*words)

    vars(program)["evaluate"] = counting
    return lambda: calls[0]


def line(case: str, seconds: float) -> str:
    """The row of one case."""
    instance = read(f"wafer/ispd2020-{case}")
    assert isinstance(instance, WaferInstance)
    entry = known(instance)
    assert entry is not None and entry.objective is not None, case
    search = BoundSearch(wafer_problem(instance), FINEST)
    plain, full = counted(search.coarse), counted(search.fine)
    begin = time.thread_time()
    deadline = Deadline(processor=(threading.get_ident(), begin + seconds))
    bound = search.go_on(entry.objective, deadline, lambda value, source: None)
    spent, tick, gap = time.thread_time() - begin, entry.unit.per_tick, 1 - bound / entry.objective
    values = f"| {case} | {tick * entry.objective:,.1f} | {tick * bound:,.1f} | {gap:.2%} | {spent:.0f} "
    return values + f"| {plain()} + {full()} | {os.getloadavg()[0]:.0f} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="CDEFGHJPS")
    parser.add_argument("--seconds", type=float, default=60.0, metavar="S")
    arguments = parser.parse_args()
    print(HEAD)
    for case in arguments.cases.replace(",", ""):
        print(line(case, arguments.seconds), flush=True)


if __name__ == "__main__":
    main()
