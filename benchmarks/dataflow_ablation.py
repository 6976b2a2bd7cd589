"""Who finds what in ``dataflow/auto`` on the shipped instances: the source of each final mapping and bound.

    python -m benchmarks.dataflow_ablation [--time-limit 60] [--only NAME …]

Each instance is solved with ``deterministic``, one after the other, in this process. Prints a table: how many final
mappings and bounds each source has, and what isn't proved.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from chipmap.inputs.reading import read, shipped_names
from chipmap.result import Result
from chipmap.run import SolveOptions
from chipmap.solve import solve


def source(result: Result, event: str) -> str:
    """Who had the last solution or bound; nobody where there is none."""
    return next((one.source for one in reversed(result.trace) if one.event == event), "nobody")


def main() -> int:
    """Solve, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--time-limit", type=float, default=60.0)
    parser.add_argument("--only", nargs="*", help="shipped instances (default: all of the family)")
    args = parser.parse_args()
    names = args.only or [name for name in shipped_names() if name.startswith("dataflow/")]
    counted: dict[str, Counter[str]] = {"solution": Counter(), "bound": Counter()}
    unproved, infeasible, began = list[str](), 0, time.process_time()
    for name in names:
        result = solve(read(name), None, SolveOptions.make(deterministic=True, time_limit=args.time_limit), False)
        infeasible += result.status == "infeasible"
        if result.status == "infeasible":
            continue
        if result.status != "optimal":
            gap = "no mapping" if result.gap is None else f"{100 * result.gap:.2g}%"
            unproved.append(f"`{name.removeprefix('dataflow/')}` {gap}")
        for event, counter in counted.items():
            counter[source(result, event)] += 1
    print(f"| link | shipped ({len(names)}): found by | bounded by |\n| --- | --: | --: |")
    for one in dict.fromkeys((*counted["solution"], *counted["bound"])):
        print(f"| {one} | {counted['solution'][one] or ''} | {counted['bound'][one] or ''} |")
    print(f"\n{infeasible} infeasible; not proved: {', '.join(unproved) or 'none'}. ", end="")
    print(f"{time.process_time() - began:.0f} CPU seconds.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
