"""The registry of best-known values and bounds (``chipmap/known/values``): filled, merged into and written out.

::

    python -m benchmarks.best_known sweep --time-limit 20 > shipped.json     # every shipped instance, as a sweep
    chipmap bench shipped.json --out runs/shipped --workers 1 --submit better.json
    python -m benchmarks.best_known merge better.json                        # checked again; then the page below
    python -m benchmarks.best_known page > docs/best-known.md

``merge`` refuses an entry whose instance can't be made anew, whose solution the checker refuses, or that contradicts
another one, and keeps the better value and the better bound.
"""

from __future__ import annotations

import argparse
import json
import lzma
import sys
from pathlib import Path

import msgspec

from chipmap.family import FAMILY_NAMES
from chipmap.inputs.reading import shipped_names
from chipmap.known.records import Entries, Entry
from chipmap.known.registry import VALUES, entries_of, merged, packed, refuted
from chipmap.records import InputError, counted
from chipmap.records.quantities import percent
from chipmap.report.rows import digits, sign

#: Bytes that a packed solution may have.
LARGEST = 256 * 1024
HEAD = """# Best-known values and bounds

What is known of the shipped instances, by content hash: `chipmap info INSTANCE` says it, `chipmap solve` and
`chipmap report` compare with it. The entries and a solution for each value ship with the package
(`chipmap/known/values`); a test makes each instance anew and asks the checker about its solution. A bound is the word
of the run that proved it. Where the gap is 0% the value is proved optimal. A changed instance is another one, whatever
its name.

To better an entry: `chipmap bench SWEEP --out DIR --submit better.json`, and hand in the file; `python -m
benchmarks.best_known merge better.json` checks it once more. Most values are those of runs of 20 to 90 seconds on one
core of a busy machine, and easy to better.
"""


def sweep(time_limit: float) -> str:
    """Every shipped instance with the family's best chain, as a sweep."""
    choices = [{"label": name, "instance": name} for name in shipped_names()]
    axes = [{"name": "instance", "choices": choices}]
    fields = {
        "schema": "sweep/1",
        "name": "shipped instances",
        "axes": axes,
        "time_limit_s": time_limit,
        "memory_gib": 3,
    }
    return json.dumps(fields, indent=1) + "\n"


def merge(paths: list[str], folder: Path = VALUES) -> int:
    """Merge the files' entries into the registry in ``folder``; returns how many entries changed."""
    found = {family: dict(entries_of(family, folder)) for family in FAMILY_NAMES}
    changed = 0
    for path in paths:
        for entry in Entries.read(path).entries:
            wrong = refuted(entry, folder) if entry.family in found else f"no family is called {entry.family!r}"
            if wrong:
                raise InputError(f"{entry.instance}: {wrong}", path, "Take the entry out.")
            entry = _small(entry)
            known = found[entry.family].get(entry.instance_hash)
            found[entry.family][entry.instance_hash] = merged(known, entry)
            changed += found[entry.family][entry.instance_hash] != known
    folder.mkdir(exist_ok=True)
    for family, entries in found.items():
        if entries:
            values, solutions = packed(entries.values(), folder)
            (folder / f"{family}.json").write_bytes(values)
            (folder / f"{family}.zip").write_bytes(solutions)
    entries_of.cache_clear()
    return changed


def _small(entry: Entry) -> Entry:
    """The entry, without its value where the solution is too large to be shipped; the bound stays."""
    if entry.solution is None or len(lzma.compress(msgspec.json.encode(entry.solution))) <= LARGEST:
        return entry
    print(f"{entry.instance}: the solution is too large to be shipped, only the bound is taken", file=sys.stderr)
    return msgspec.structs.replace(entry, objective=None, found=None, solution=None)


def page(folder: Path = VALUES) -> str:
    """All entries in natural units, as a page."""
    text = HEAD
    for family in FAMILY_NAMES:
        entries = entries_of(family, folder).values()
        if entries:
            text += f"\n## {family}\n| instance | best known | bound | unit | gap | found by | proved by |\n"
            text += "|---|--:|--:|---|--:|---|---|\n" + "".join(map(_line, entries))
    return text


def _line(entry: Entry) -> str:
    value = "infeasible" if entry.infeasible else digits(entry.objective, entry.unit)
    cells = (f"`{entry.instance}`", value, digits(entry.bound, entry.unit), sign(entry.unit), percent(entry.gap))
    steps = (one.publication or one.step or one.method if one else "" for one in (entry.found, entry.proved))
    return f"| {' | '.join((*cells, *steps))} |\n"


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("sweep").add_argument("--time-limit", type=float, default=20.0)
    commands.add_parser("merge").add_argument("files", nargs="+")
    commands.add_parser("page")
    args = parser.parse_args()
    if args.command == "merge":
        print(counted(merge(args.files), "entry", "entries"), "changed", file=sys.stderr)
    else:
        sys.stdout.write(sweep(args.time_limit) if args.command == "sweep" else page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
