"""``chipmap report``: the optimality gaps of all archives in a directory."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from chipmap.records import InputError

EXAMPLES = (
    "chipmap report runs",
    "chipmap report runs --html runs/report.html",
    "chipmap report runs --format csv",
)


def _put(style: str, rows: list[dict[str, Any]]) -> None:
    """Print the rows in the format that was asked for."""
    from chipmap.report import tables

    width = tables.terminal_width()
    shown = {
        "table": lambda rows: tables.table(rows, width, known=True),
        "json": tables.json_lines,
        "csv": tables.csv,
        "markdown": tables.markdown,
    }
    sys.stdout.write(shown[style](rows))


def _bench(args: argparse.Namespace, matrix: Path) -> int:
    """Print the rows of a bench, which were checked when they were kept."""
    from chipmap.bench.matrix import stored
    from chipmap.report.sweeps.tables import gap_row

    if args.html:
        remedy = "`chipmap bench SWEEP --out DIR --plots DIR` draws its rows."
        raise InputError("is for archives, and this folder holds a bench", "--html", remedy)
    print("rows of a bench, checked when they were kept; the checker was not asked again", file=sys.stderr)
    _put(args.format, [gap_row(row) for row in stored(matrix)])
    return 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Objective, bound, gap and time of every archive at or below DIR, which the independent checker is asked about
    again, and how far each objective lies above the best known one. Half-written archives, and those that the checker
    contradicts, are named on stderr and never read."""
    parser.add_argument(
        "folder", metavar="DIR", help="a directory that `chipmap solve --out` or `chipmap bench --out` has written"
    )
    parser.add_argument("--html", metavar="FILE", help="also write a self-contained page with traces, bounds and plots")
    parser.add_argument("--format", choices=("table", "json", "csv", "markdown"), default="table")
    parser.add_argument("--trust", action="store_true", help="don't ask the checker again: believe the archives")


def run(args: argparse.Namespace) -> int:
    """Print the rows; 0 even when some archives can't be read (they are named)."""
    from chipmap.cli.common import write_file
    from chipmap.report.collect import collect
    from chipmap.report.rows import row, standing

    if (matrix := Path(args.folder) / "matrix.sqlite").is_file():
        return _bench(args, matrix)
    if args.trust:
        print("the archives are believed; the checker was not asked again", file=sys.stderr)
    entries = collect(args.folder, args.trust)
    found = [(entry.result, os.path.relpath(entry.path, args.folder)) for entry in entries if entry.result]
    _put(args.format, [{**row(result), "folder": folder} for result, folder in found])
    for entry in entries:
        if entry.result is None:
            print(f"not read: {entry.path} {entry.problem}", file=sys.stderr)
        elif standing(entry.result)[1]:
            print(f"{entry.path}: {standing(entry.result)[0][0]}", file=sys.stderr)
    if args.html:
        from chipmap.report.html import page

        write_file(args.html, page(entries, Path(args.folder)).encode())
    return 0
