"""``chipmap show``: a run, or a folder of runs, as a page in the browser."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from chipmap.cli.parsing import seconds

EXAMPLES = (
    "chipmap show runs/bert",
    "chipmap show runs --out report.html --no-open",
    "chipmap show runs --serve",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Write a page of a run, a folder of runs or a bench's folder, with the picture of the mapping, and open it in the
    browser. With --serve the page comes from a server on this machine's loopback address, and pictures are drawn when
    they are looked at."""
    parser.add_argument("folder", metavar="RUN", help="an archive, a folder of archives, or a bench's folder")
    parser.add_argument("--out", metavar="FILE", help="the page (default: report.html in the folder)")
    parser.add_argument("--no-open", action="store_true", help="only write the page")
    parser.add_argument("--serve", action="store_true", help="serve the page at http://127.0.0.1 until Ctrl-C")
    what = "end the server after so long without a request (default 1h)"
    parser.add_argument("--idle", metavar="S", type=seconds, default=3600.0, help=what)
    parser.add_argument("--trust", action="store_true", help="don't ask the checker again: believe the archives")


def run(args: argparse.Namespace) -> int:
    """Write the page and open it, or serve it."""
    from chipmap.cli.common import write_file
    from chipmap.report.collect import collect
    from chipmap.report.page.document import page

    folder, entries = Path(args.folder), collect(args.folder, args.trust)
    if args.serve:
        from chipmap.report.page.server import serve

        serve(entries, folder, args.idle, lambda address: _open(address, args.no_open))
        return 0
    target = Path(args.out or folder / "report.html")
    write_file(str(target), page(entries, folder).encode())
    _open(target.resolve().as_uri(), args.no_open)
    return 0


def _open(address: str, only_said: bool) -> None:
    """Open a page in the browser, where somebody sits at a terminal; print where it is."""
    import webbrowser

    print(address, flush=True)
    if not only_said and sys.stdout.isatty():
        webbrowser.open(address)
