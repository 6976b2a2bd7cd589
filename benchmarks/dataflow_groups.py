"""Llama3 70B on 64 H100, prefill and decode on groups of their own: the front of tokens/s per user and per chip.

    python -m benchmarks.dataflow_groups [--markdown] [--out FOLDER]

Reads the rows of ``chipmap bench dataflow/serving-groups`` from the folder (or makes them there). Exit code 1 where a
group's step isn't proved.
"""

from __future__ import annotations

import argparse
import platform
import sys
from pathlib import Path

from chipmap.bench.dataflow.groups import Kind, front, kinds_of, traffic_of
from chipmap.bench.point import solve_point
from chipmap.bench.sweep import points, read_sweep
from chipmap.records import InputError
from chipmap.report.dataflow.serving_plots import CHIPS, TTFT_MS


def told(groups: dict[Kind, int]) -> str:
    """How many groups, of how many chips, with how many samples at a time."""
    return ", ".join(f"{n} of {kind.chips} x {kind.samples}" for kind, n in groups.items())


def main() -> int:
    """Print the fronts; 1 if a step isn't proved."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--out", type=Path, help="also write groups.png to this folder")
    args = parser.parse_args()
    sweep = read_sweep("dataflow/serving-groups", ())
    rows = [solve_point(point) for point in points(sweep)]
    try:
        prefill, decode = kinds_of(rows)
    except InputError as error:
        print(error)
        return 1
    traffic = traffic_of(sweep)
    if args.markdown:
        print("# Llama3 70B on 64 H100: prefill and decode on groups of their own\n")
        print(f"`python -m benchmarks.dataflow_groups --markdown`, Python {platform.python_version()}, one thread,")
        spent = sum(row.cpu_seconds for row in rows)
        fit = sum(row.status == "optimal" for row in rows)
        print(f"{spent:.1f} CPU seconds for {len(rows)} steps ({fit} proved, the others proved not to fit).\n")
    print("| TTFT at most, ms | tokens/s of a user | tokens/s of a chip | requests/s | TTFT, ms | prefill | decode |")
    print("|--:|--:|--:|--:|--:|---|---|")
    for limit in TTFT_MS:
        for one in front(prefill, decode, traffic, CHIPS, limit * 1000):
            plan = one.plan
            cells = [f"{limit:g}", f"{one.per_user:.1f}", f"{one.per_chip:.1f}", f"{plan.requests_per_s:.2f}"]
            cells += [f"{plan.ttft_us / 1000:.1f}", told(plan.prefill), told(plan.decode)]
            print(f"| {' | '.join(cells)} |")
    if args.out is not None:
        from chipmap.report.sweeps.plots import plots

        plots(sweep, rows, args.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
