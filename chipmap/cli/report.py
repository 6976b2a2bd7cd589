"""``chipmap report``: the optimality gaps of all archives in a directory."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

EXAMPLES = (
    "chipmap report runs",
    "chipmap report runs --html runs/report.html",
    "chipmap report runs --format csv",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Objective, bound, gap and time of every archive at or below DIR, which the independent checker is asked about
    again, and how far each objective lies above the best known one. Half-written archives, and those that the checker
    contradicts, are named on stderr and never read."""
    parser.add_argument("folder", metavar="DIR", help="a directory that `chipmap solve --out` has written")
    parser.add_argument("--html", metavar="FILE", help="also write a self-contained page with traces, bounds and plots")
    parser.add_argument("--format", choices=("table", "json", "csv", "markdown"), default="table")
    parser.add_argument("--trust", action="store_true", help="don't ask the checker again: believe the archives")


def run(args: argparse.Namespace) -> int:
    """Print the rows; 0 even when some archives can't be read (they are named)."""
    from chipmap.cli.common import write_file
    from chipmap.report import tables
    from chipmap.report.collect import collect
    from chipmap.report.rows import row, standing

    if args.trust:
        print("the archives are believed; the checker was not asked again", file=sys.stderr)
    entries = collect(args.folder, args.trust)
    width = tables.terminal_width()
    shown = {
        "table": lambda rows: tables.table(rows, width, known=True),
        "json": tables.json_lines,
        "csv": tables.csv,
        "markdown": tables.markdown,
    }
    sys.stdout.write(
        shown[args.format](
            {**row(entry.result), "folder": os.path.relpath(entry.path, args.folder)}
            for entry in entries
            if entry.result
        )
    )
    for entry in entries:
        if entry.result is None:
            print(f"not read: {entry.path} {entry.problem}", file=sys.stderr)
        elif standing(entry.result)[1]:
            print(f"{entry.path}: {standing(entry.result)[0][0]}", file=sys.stderr)
    if args.html:
        from chipmap.report.html import page

        write_file(args.html, page(entries, Path(args.folder)).encode())
    return 0
