"""``chipmap emit``: a run's mapping in the format that a runtime takes."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from chipmap.cli.common import add_format, columns, put, say, write_file
from chipmap.records import InputError

EXAMPLES = ("chipmap emit runs/bert", "chipmap emit runs/step --as device-map --out device_map.json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Write the mapping of RUN for a runtime. Without --as, list the formats that suit it, and why others don't."""
    parser.add_argument("archive", metavar="RUN", help="an archive")
    parser.add_argument("--as", metavar="FORMAT", dest="name", help="the format to write")
    parser.add_argument("--model", metavar="FILE", help="the model's file, for formats that carry the program")
    what = "the folder, or of one file its name (default: RUN/FORMAT; -: standard output)"
    parser.add_argument("--out", metavar="PATH", help=what)
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Write the files, or list the formats."""
    from chipmap.inputs.results import load
    from chipmap.plans.emission import BESIDE, beside

    path = Path(args.archive)
    if not path.is_dir():
        raise InputError(
            "is no archive of a run", args.archive, "Name the folder that `chipmap solve --out` has written."
        )
    result = load(path).result
    if args.name is None:
        for option in ("model", "out"):
            if getattr(args, option) is not None:
                raise InputError("says nothing without a format", f"--{option}", "Name one with --as.")
        shown = result.plan_formats()
        put(args.format, shown, lambda _: _table(shown))
        return 0
    files = result.emit(args.name, model=args.model or "")
    target, first = Path(args.out or path / args.name), next(iter(files))
    alone = len([name for name in files if not name.endswith(BESIDE)]) == 1
    if args.out == "-":
        if not alone:
            raise InputError("takes one file", "--out -", f"{args.name} writes {len(files)}: name a folder.")
        sys.stdout.flush()
        write_file("-", files[first])
        return 0
    if args.out is not None and alone and not target.is_dir() and target.suffix:
        names = {first: str(target)} | {name: beside(str(target)) for name in files if name.endswith(BESIDE)}
    else:
        target.mkdir(parents=True, exist_ok=True)
        names = {name: str(target / name) for name in files}
    for name, data in files.items():
        Path(names[name]).parent.mkdir(parents=True, exist_ok=True)
        write_file(names[name], data)
    return 0


def _table(shown: list[dict[str, str | None]]) -> str:
    if not shown:
        say("no format of plans holds mappings of this family")
        return ""
    suited = [(one["format"], one["title"]) for one in shown if one["why_not"] is None]
    others = [(one["format"], one["why_not"]) for one in shown if one["why_not"] is not None]
    text = f"formats that suit (--as FORMAT):\n{columns(suited)}" if suited else "no format suits\n"
    return text + (f"those that don't, and why:\n{columns(others)}" if others else "")
