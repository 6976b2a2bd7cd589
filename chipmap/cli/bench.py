"""``chipmap bench``: a sweep, point by point, into a matrix that can be resumed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from chipmap.cli.common import add_set, say, write_file
from chipmap.cli.parsing import whole
from chipmap.options import cores
from chipmap.records import InputError, counted

if TYPE_CHECKING:
    from chipmap.bench.point import Row
    from chipmap.bench.run import Pool
    from chipmap.bench.sweep import Point

#: Exit codes of rows, the worst last.
_CODES = {"optimal": 0, "infeasible": 0, "feasible": 0, "unknown": 3, "bad input": 1, "lost": 3, "error": 4}


EXAMPLES = (
    "chipmap bench dataflow/table6 --out runs/table6 --csv runs/table6.csv --plots runs/table6",
    "chipmap bench sweep.json --out runs/sweep --workers 4",
    "chipmap bench sweep.json --out runs/sweep --submit better.json",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Solve every point of SWEEP by worker processes or a Dask cluster. Rows go to matrix.sqlite in the folder of --out
    as they end: the same command goes on where it was stopped."""
    parser.add_argument("sweep", metavar="SWEEP", help="a file, or a shipped sweep (dataflow/dse-80)")
    parser.add_argument("--out", metavar="DIR", help="the folder of the matrix")
    parser.add_argument("--workers", metavar="N", type=whole, help="processes (default: the machine's cores)")
    parser.add_argument(
        "--cluster", metavar="ADDRESS", help="a Dask scheduler (tcp://127.0.0.1:8786), or `local` for one of its own"
    )
    parser.add_argument("--csv", metavar="FILE", help="write the table there (-: standard output)")
    parser.add_argument("--plots", metavar="DIR", help="draw the table there, as PNG")
    what = "write what is better than the best known values and bounds there, checked again, for a maintainer to merge"
    parser.add_argument("--submit", metavar="FILE", help=what)
    parser.add_argument("--quiet", action="store_true", help="no line per point")
    add_set(parser, "change the sweep first: --set parameters.mode=physical")


def run(args: argparse.Namespace) -> int:
    """Solve what is missing, write and draw what is asked for, and say how it went."""
    from chipmap.bench.matrix import Matrix
    from chipmap.bench.run import bench, kept
    from chipmap.bench.sweep import families_of, points, read_sweep
    from chipmap.cli.progress import compile_first
    from chipmap.report.sweeps.tables import summary, table

    workers = args.workers if args.workers is not None else cores()
    if not 1 <= workers <= 1024:
        raise InputError(f"is {workers}", "--workers", "Give 1 to 1,024.")
    sweep = read_sweep(args.sweep, args.set)
    if args.out is None:
        raise InputError("is missing", "--out", "Name the folder of the matrix: --out runs/sweep.")
    shown = None if args.quiet else _show
    todo = points(sweep)
    path = Path(args.out) / "matrix.sqlite"
    Matrix(path).close()  # a folder that can't be written is told before anything is compiled
    compile_first(*families_of(todo), quiet=args.quiet)
    try:
        rows = bench(todo, path, partial(_pool, args.cluster, workers), shown)
    except KeyboardInterrupt:
        if args.csv and (rows := kept(todo, path)):
            write_file(args.csv, table(sweep, rows).encode())
            say(f"{len(rows)} of {len(todo)} rows are written: the same command goes on")
        raise
    if args.csv:
        write_file(args.csv, table(sweep, rows).encode())
    if args.plots:
        from chipmap.report.sweeps.plots import plots

        for path in plots(sweep, rows, Path(args.plots)):
            say(f"wrote {path}")
    if args.submit:
        _submit(args.submit, todo, rows)
    if "-" not in (args.csv, args.submit):
        sys.stdout.write(summary(rows))
    return max((_CODES[row.status] for row in rows), default=0)


def _submit(path: str, todo: Sequence[Point], rows: Sequence[Row]) -> None:
    """Write the entries that say something new, and say what isn't among them."""
    from chipmap.bench.submit import submission

    found = submission(todo, rows)
    write_file(path, found.entries.to_json(indent=1))
    entries = counted(len(found.entries.entries), "entry", "entries")
    say(f"{entries} for the registry; {counted(found.equal, 'row')} no better than what is known")
    say(*(f"not taken: {line}" for line in found.refused))


def _pool(cluster: str | None, workers: int) -> Pool:
    if cluster is None:
        from chipmap.bench.pool import LocalPool

        return LocalPool(workers)
    from chipmap.bench.cluster import ClusterPool

    return ClusterPool(cluster, workers)


def _show(row: Row, number: int, count: int) -> None:
    words = " ".join(row.labels.values())
    say(f"{number:>{len(str(count))}}/{count}  {row.status:<10} {row.seconds:8.2f} s  {words}  {row.detail}".rstrip())
