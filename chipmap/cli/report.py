"""``chipmap report``: the optimality gaps of all archives in a directory."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chipmap.cli.parsing import whole

if TYPE_CHECKING:
    from chipmap.report.collect import Entry

EXAMPLES = (
    "chipmap report runs",
    "chipmap report runs --html runs/report.html",
    "chipmap report runs --against runs.of-yesterday",
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Objective, bound, gap and time of every archive at or below DIR, which the independent checker is asked about
    again, and how far each objective lies above the best known one. Half-written archives, and those that the checker
    contradicts, are named on stderr and never read. Of a bench's folder at or below DIR its rows are shown."""
    parser.add_argument(
        "folder", metavar="DIR", help="a directory that `chipmap solve --out` or `chipmap bench --out` has written"
    )
    parser.add_argument("--html", metavar="FILE", help="also write a self-contained page: tables, charts, pictures")
    what = "pictures of mappings that the page holds: of the best run of so many instances (default 8)"
    parser.add_argument("--pictures", metavar="N", type=whole, default=8, help=what)
    what = "a directory of earlier runs: what got better, worse, faster or slower since"
    parser.add_argument("--against", metavar="DIR", help=what)
    parser.add_argument("--format", choices=("table", "json", "csv", "markdown"), default="table")
    parser.add_argument("--trust", action="store_true", help="don't ask the checker again: believe the archives")


def run(args: argparse.Namespace) -> int:
    """Print the rows; 0 even when some archives can't be read (they are named)."""
    from chipmap.report.collect import collect

    if args.trust:
        print("the archives are believed; the checker was not asked again", file=sys.stderr)
    entries = collect(args.folder, args.trust)
    before = None
    if args.against is not None:
        before = [entry.result for entry in collect(args.against, args.trust) if entry.result]
    _rows(args, entries)
    if before is not None and args.format == "table":
        from chipmap.report.page.versus import pairs, text

        found = pairs(before, [entry.result for entry in entries if entry.result])
        sys.stdout.write(f"\nsince {args.against}: {text(found)}")
    if args.html:
        from chipmap.cli.common import write_file
        from chipmap.report.page.document import Wanted, page

        wanted = Wanted(args.pictures, before=before, other=args.against or "")
        write_file(args.html, page(entries, Path(args.folder), wanted).encode())
    return 0


def _rows(args: argparse.Namespace, entries: list[Entry]) -> None:
    """Print the rows, and on stderr what is wrong with archives."""
    from chipmap.report.rows import row, standing

    if any(entry.of_bench for entry in entries):
        print("rows of a bench, checked when they were kept; the checker was not asked again", file=sys.stderr)
    found = [(entry, entry.result) for entry in entries if entry.result]
    folders = [os.path.relpath(entry.path, args.folder) for entry, _ in found]
    folders = ["" if entry.of_bench and at == "." else at for (entry, _), at in zip(found, folders, strict=True)]
    _put(args.format, [{**row(result), "folder": at} for (_, result), at in zip(found, folders, strict=True)])
    for entry in entries:
        if entry.result is None:
            print(f"not read: {entry.path} {entry.problem}", file=sys.stderr)
        elif standing(entry.result)[1]:
            print(f"{entry.path}: {standing(entry.result)[0][0]}", file=sys.stderr)
