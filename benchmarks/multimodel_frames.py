"""Frames per second: SCAR's scenarios 6 to 10 with their rates, against earliest deadline first and a bound.

Each scenario is solved with deadlines of one and of several periods, by ``multimodel/auto`` on one thread. The baseline
is ``multimodel/whole``. SCAR's windows run the frames of a second one window after the other: where that takes T1
seconds, they serve the T1-th part of all rates.

    python -m benchmarks.multimodel_frames [--time-limit 45] > benchmarks/results/multimodel-frames.md
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import sys
import time
from typing import Any

SCAR = """The frames of a second as batches, sample by sample, in the shortest schedule of SCAR's search. Where it takes
T1 > 1 s, the T1-th part of the rates is served. `auto` is that of the table above with the loosest deadlines.
"""
NUMBERS, PERIODS = (6, 7, 8, 9, 10), (1, 2, 4, 8, 16)


def processor_seconds() -> float:
    """CPU seconds of this process and of its children so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + used.ru_utime + used.ru_stime


def solved(instance: Any, method: str, limit: float) -> tuple[Any, float]:
    """The result, and what it took in CPU seconds."""
    from chipmap.run import SolveOptions
    from chipmap.solve import solve

    before = processor_seconds()
    found = solve(instance, method, SolveOptions.make(threads=1, time_limit=limit))
    return found, processor_seconds() - before


def row(number: int, periods: int, limit: float) -> tuple[str, float]:
    """A row of the first table, and the frames per second that are met."""
    from chipmap.instances.multimodel.generators import frames
    from chipmap.instances.multimodel.rates import frame_counts, hyperperiod

    instance = frames(number, periods, name=f"scenario {number}")
    count = sum(frame_counts(instance))
    greedy, _ = solved(instance, "multimodel/whole", limit)
    found, seconds = solved(instance, "multimodel/auto", limit)
    met, most = count - found.objective, count - max(bound.value for bound in found.bounds)
    gap = (most - met) / most if most else 0.0
    cells = (number, periods, count, count - greedy.objective, met, most, f"{gap:.1%}", found.status, f"{seconds:.1f}")
    print(*cells, file=sys.stderr, flush=True)
    return f"| {' | '.join(map(str, cells))} |", met * 1e9 / hyperperiod(instance)


def by_scar(number: int, limit: float) -> tuple[float, float]:
    """Frames per second that are asked for, and T1 of SCAR's windows for them in s."""
    from chipmap.instances.multimodel.generators import scenario

    instance = scenario(number, True, task={"objective": "latency"})
    found, _ = solved(instance, "multimodel/scar-best", limit)
    rates = sum(model.batch * (2 if "+" in model.name else 1) for model in instance.models)
    return float(rates), found.certificate.terms["T1"] / 1e9


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--time-limit", type=float, default=45.0)
    limit = parser.parse_args().time_limit
    print("# Frames per second: scenarios 6 to 10 with their rates\n")
    load = os.getloadavg()[0]
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load average {load:.1f} at the start; limit "
          f"{limit:.0f} s, one thread.\nSeconds are CPU seconds. "
          "The [problem](../../docs/families/multimodel-frames.md) "
          "has 3 × 3 chiplets of preset `scar-arvr`.\n")  # fmt: skip
    print("Frames of a hyperperiod: how many there are, how many are met, and at most.\n")
    print("| scenario | deadline, periods | frames | whole models | auto | at most | gap | status | seconds |")
    print("|--:|--:|--:|--:|--:|--:|--:|---|--:|")
    served: dict[int, float] = {}
    for number in NUMBERS:
        for periods in PERIODS:
            text, served[number] = row(number, periods, limit)
            print(text, flush=True)
    print("\n## Beside SCAR's windows\n")
    print(SCAR)
    print("| scenario | frames/s asked | T1 of SCAR's windows, s | frames/s by SCAR | frames/s by auto |")
    print("|--:|--:|--:|--:|--:|")
    for number in NUMBERS:
        rates, time_s = by_scar(number, limit)
        print(
            f"| {number} | {rates:.0f} | {time_s:.3f} | {rates / max(1.0, time_s):.1f} | {served[number]:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
