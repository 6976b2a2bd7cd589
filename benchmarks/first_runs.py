"""First runs against later ones: ``python -m benchmarks.first_runs [NAME...] [--time-limit 60] [--core 0]``.

Each instance is solved by the command line with an empty folder for compiled functions, then with one in which they
are there: the same command once more with the package's own folder, again until it has nothing to compile (three times
at most). A line of the table has what a first run has after the limit and how much worse that is, when it had its first
mapping and its first bound, what it compiled meanwhile, and the load. With ``--core`` all of it runs on that one core.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.interrupting import INSTANCES
from chipmap.archive import load
from chipmap.result import Result

AGAIN = 3


class Ran(NamedTuple):
    """One run: its result, and the load after it."""

    result: Result
    load: float

    def first(self, event: str) -> str:
        """Seconds until the first mapping or bound."""
        return next((f"{line.seconds:.1f}" for line in self.result.trace if line.event == event), "never")

    @property
    def compiled(self) -> tuple[int, float]:
        """Functions that were compiled, and seconds of the processor."""
        told = self.result.provenance["machine"]["compiled"]
        return told["functions"], told["seconds"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=INSTANCES)
    parser.add_argument("--time-limit", type=float, default=60.0)
    parser.add_argument("--core", type=int)
    args = parser.parse_args(arguments)
    print("| instance | limit, s | first run | later run | ratio | bound, first run | later run |", end="")
    print(" first mapping, s | first bound, s | compiled | CPU s of it | compiled later | load |")
    print("|---" * 13 + "|", flush=True)
    for name in args.names:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            first = solved(name, args.time_limit, args.core, {"NUMBA_CACHE_DIR": folder})
            later = solved(name, args.time_limit, args.core, {})
            for _ in range(AGAIN - 1):
                if later.compiled[0]:
                    later = solved(name, args.time_limit, args.core, {})
        print(line(name, args.time_limit, first, later), flush=True)
    return 0


def solved(name: str, limit: float, core: int | None, settings: dict[str, str]) -> Ran:
    """One run of the command line."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "chipmap", "solve", name, "--time-limit", f"{limit:g}", "--quiet"]
        command = ["taskset", "-c", str(core), *command] if core is not None else command
        environment = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"} | settings
        quiet = subprocess.DEVNULL
        subprocess.run([*command, "--out", f"{folder}/run"], env=environment, stdout=quiet, stderr=quiet, check=False)
        return Ran(load(Path(folder) / "run").result, os.getloadavg()[0])


def line(name: str, limit: float, first: Ran, later: Ran) -> str:
    """A line of the table."""

    def told(value: float | None) -> str:
        return "none" if value is None else f"{value:,.6g}"

    one, other = first.result, later.result
    ratio = "n/a" if one.objective is None or not other.objective else f"{one.objective / other.objective:.4f}"
    functions, seconds = first.compiled
    loads = f"{first.load:.1f}, {later.load:.1f}"
    cells = [name, f"{limit:g}", told(one.value), told(other.value), ratio, told(one.lower), told(other.lower)]
    cells += [first.first("solution"), first.first("bound"), str(functions), f"{seconds:.1f}"]
    return "| " + " | ".join([*cells, str(later.compiled[0]), loads]) + " |"


if __name__ == "__main__":
    sys.exit(main())
