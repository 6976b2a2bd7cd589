"""The sweep ``placement/scaling``: step time, bound and where the time goes, by workload, links and devices.

    python -m benchmarks.placement_scaling [--out FOLDER] [--pictures FOLDER] [--time-limit S] [--workers N]

``chipmap bench placement/scaling --out FOLDER --plots FOLDER`` does the same. Rows are kept in FOLDER: what is there
isn't solved again. The shares are those of the path of data, which goes back from the operation that ends last along
the input that came last: computing, transfers, and waiting for what is busy add up to the step time.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from functools import partial
from pathlib import Path

from chipmap.bench.point import Row
from chipmap.bench.pool import LocalPool
from chipmap.bench.run import bench
from chipmap.bench.sweep import points, read_sweep
from chipmap.family import get_family
from chipmap.process.warming import warm
from chipmap.records.quantities import percent
from chipmap.report.canvas import save, styled
from chipmap.report.placement.scaling import figures
from chipmap.result import gap

COLUMNS = ("workload", "links", "devices", "step, ms", "bound, ms", "gap", "speed-up", "computing", "transfers",
           "waiting for devices", "for channels", "devices busy", "largest peak, GiB", "seconds")  # fmt: skip


def line(row: Row, alone: Row) -> str:
    """A row of the table; ``alone`` is the same workload on one device."""
    labels = [row.labels[name] for name in ("workload", "links", "devices")]
    if row.objective is None or alone.objective is None:
        return f"| {' | '.join([*labels, row.status, *[''] * (len(COLUMNS) - 4)])} |"
    shown, ms = row.figures, row.objective / 1e6
    parts = [shown[f"{name}_ms"] / ms for name in ("computing", "transfers", "device_wait", "channel_wait")]
    cells = [f"{ms:.1f}", "" if row.bound is None else f"{row.bound / 1e6:.1f}"]
    far = gap(row.objective, row.bound)
    cells += ["" if far is None else percent(far), f"{alone.objective / row.objective:.2f}", *map(percent, parts)]
    cells += [percent(shown["utilisation"]), f"{shown['peak_gib']:.2f}", f"{row.seconds:.0f}"]
    return f"| {' | '.join([*labels, *cells])} |"


def main() -> None:
    """Solve, print and draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/placement-scaling"), help="the folder of the rows")
    parser.add_argument("--pictures", type=Path, help="a folder for the picture, as SVG")
    parser.add_argument("--time-limit", type=float, help="seconds a point (default: the sweep's)")
    parser.add_argument("--workers", type=int, default=1)
    arguments = parser.parse_args()
    settings = [] if arguments.time_limit is None else [f"time_limit_s={arguments.time_limit}"]
    sweep, load = read_sweep("placement/scaling", settings), os.getloadavg()[0]

    def tell(row: Row, number: int, count: int) -> None:
        words = f"{number}/{count} {row.status} {row.seconds:.1f} s {' '.join(row.labels.values())}"
        print(words, file=sys.stderr, flush=True)

    warm(get_family("placement"))
    arguments.out.mkdir(parents=True, exist_ok=True)
    rows = bench(points(sweep), arguments.out / "matrix.sqlite", partial(LocalPool, arguments.workers), tell)
    loads = f"load average {load:.1f} at the start, {os.getloadavg()[0]:.1f} at the end"
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {arguments.workers} at a time, at most "
          f"{sweep.time_limit_s:g} s a point; {loads}.\n")  # fmt: skip
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * 2}{'--:|' * (len(COLUMNS) - 2)}")
    alone = {tuple(row.labels.values())[:2]: row for row in reversed(rows) if row.labels["devices"] == "1"}
    for row in rows:
        print(line(row, alone[tuple(row.labels.values())[:2]]))
    for name, figure in figures(sweep, rows) if arguments.pictures else ():
        with styled():
            save(figure, arguments.pictures / f"placement-{name}.svg")


if __name__ == "__main__":
    main()
