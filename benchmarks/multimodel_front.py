"""The fronts of latency and energy of SCAR's scenario 8: 16 certified points each, with what is proved.

    python benchmarks/multimodel_front.py [--out FOLDER] [--pictures FOLDER] > benchmarks/results/multimodel-front.md

For each reading the shipped sweep ``multimodel/front-8-…`` is solved (``chipmap bench`` does the same). Then other
methods solve the scenario for latency, energy and EDP, to see whether a point of the front is dominated by one of their
schedules. Rows are kept in FOLDER: what is there isn't solved again. Exit code 1 where a point is dominated.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chipmap.bench.point import Row
    from chipmap.bench.sweep import Sweep
    from chipmap.report.multimodel.front import Front, Step

READINGS = ("pipelined", "whole")
#: Whose schedules may not dominate a point: (name in the picture, method, objective).
OTHERS = (
    ("least latency", "multimodel/auto", "latency"),
    ("least energy", "multimodel/auto", "energy"),
    ("least EDP", "multimodel/auto", "edp"),
    ("SCAR, best", "multimodel/scar-best", "edp"),
    ("Simba-like", "multimodel/simba", "edp"),
)


def others(reading: str, limit: float) -> Sweep:
    """The sweep of the other methods."""
    from chipmap.bench.sweep import Sweep

    instance = f"multimodel/scar-8-{reading}"
    return Sweep.make(name=f"others-{reading}", time_limit_s=limit, instance=instance,
                      axes=[{"name": "objective", "path": "task.objective", "values": ["latency", "energy", "edp"]}],
                      methods=list(dict.fromkeys(method for _, method, _ in OTHERS)))  # fmt: skip


def solved(sweep: Sweep, folder: Path, workers: int) -> list[Row]:
    """The rows of a sweep, those solved before from ``folder``."""
    from chipmap.bench.pool import LocalPool
    from chipmap.bench.run import bench
    from chipmap.bench.sweep import points

    def tell(row: Row, number: int, count: int) -> None:
        words = f"{row.status} {row.seconds:.1f} s {' '.join(row.labels.values())}"
        print(f"{sweep.name} {number}/{count} {words}", file=sys.stderr, flush=True)

    return bench(points(sweep), folder / "matrix.sqlite", partial(LocalPool, workers), tell)


def found_by_others(rows: list[Row]) -> dict[str, tuple[float, float]]:
    """(T1 in s, T2 in J) of the schedules of OTHERS."""
    known: dict[Any, Row] = {(row.labels["method"], row.labels["objective"]): row for row in rows}
    found = {}
    for name, method, objective in OTHERS:
        figures = known[method, objective].figures
        if "latency_s" in figures:
            found[name] = figures["latency_s"], figures["energy_j"]
    return found


def beaten(front: Front) -> list[str]:
    """The points that another method's schedule dominates."""
    from chipmap.report.multimodel.front import Step, dominates

    rivals = {name: Step(0.0, *own, 0.0) for name, own in front.others.items()}
    return [
        f"{step.limit:.4f} s by {name}" for step in front.steps for name, one in rivals.items() if dominates(one, step)
    ]


def line(step: Step, row: Row) -> str:
    """A row of the table."""
    from chipmap.records.quantities import percent

    cells = [f"{step.limit:.4f}", f"{step.time:.6f}", f"{step.energy:.6f}", f"{step.bound:.6f}", percent(step.gap)]
    return f"| {' | '.join([*cells, f'{step.time * step.energy:.4f}', row.status, f'{row.seconds:.0f}'])} |"


def report(reading: str, args: argparse.Namespace) -> bool:
    """Solve and tell one reading; whether no point is dominated."""
    from chipmap.bench.sweep import read_sweep
    from chipmap.report.multimodel.front import draw, fronts_of

    settings = [] if args.time_limit is None else [f"time_limit_s={args.time_limit}"]
    sweep, load = read_sweep(f"multimodel/front-8-{reading}", settings), os.getloadavg()[0]
    rows = solved(sweep, args.out, args.workers)
    (front,) = fronts_of(sweep, rows)
    front.others.update(found_by_others(solved(others(reading, args.others_limit), args.out, args.workers)))
    print(f"\n## scar-8-{reading}\n")
    minutes = sum(row.seconds for row in rows) / 60
    shared = f"{minutes:.1f} minutes of solving shared by {args.workers} workers"
    print(f"{len(front.steps)} of {len(rows)} points, {shared}, "
          f"at most {sweep.time_limit_s:.0f} s a point; load average {load:.1f}.\n")  # fmt: skip
    print("| limit on T1, s | T1, s | T2, J | no schedule below, J | gap | T1 · T2, J·s | status | seconds |")
    print("|--:|--:|--:|--:|--:|--:|---|--:|")
    by_limit = {f"{step.limit:.4f} s": step for step in front.steps}
    for row in rows:
        if (step := by_limit.get(row.labels["latency limit"])) is not None:
            print(line(step, row))
    print("\n| other schedules | T1, s | T2, J | T1 · T2, J·s |\n|---|--:|--:|--:|")
    for name, (time_s, energy_j) in front.others.items():
        print(f"| {name} | {time_s:.6f} | {energy_j:.6f} | {time_s * energy_j:.4f} |")
    wrong = beaten(front)
    missing = [row.labels["latency limit"] for row in rows if row.labels["latency limit"] not in by_limit]
    print(
        f"\nDominated points: {', '.join(wrong) or 'none'}. Points without a schedule: {', '.join(missing) or 'none'}."
    )
    if args.pictures:
        name = f"multimodel-front-8-{reading}.svg"
        draw(front, args.pictures / name)
        print(f"\n![front of scar-8-{reading}]({name})")
    sys.stdout.flush()
    return not wrong and not missing


def main() -> int:
    """Solve, print and draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/multimodel-front"), help="the folder of the rows")
    parser.add_argument("--pictures", type=Path, help="a folder for the pictures, as SVG")
    parser.add_argument("--readings", nargs="+", default=READINGS, choices=READINGS)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--time-limit", type=float, help="seconds a point (default: the sweep's)")
    parser.add_argument("--others-limit", type=float, default=120.0, help="seconds of another method's solve")
    args = parser.parse_args()
    print("# Fronts of latency and energy: SCAR's scenario 8 on 3×3 Het-Sides chiplets, five windows\n")
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores. Objective `energy` within limits on latency; "
          "every point checked, every bound of the run itself.")  # fmt: skip
    good = [report(reading, args) for reading in args.readings]
    return 0 if all(good) else 1


if __name__ == "__main__":
    raise SystemExit(main())
