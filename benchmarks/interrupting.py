"""First solves that are stopped: ``python -m benchmarks.interrupting [WAY...] [--moments 20] [--seed 0]``.

Each solve begins with an empty folder for compiled functions, and is stopped at a random moment of its first seconds:
by Ctrl-C on the command line (``command``) or in Python (``python``), or by ``cancel`` from another thread, with the
method in a child (``cancel``) or in the caller's process, without a limit (``inside``). A line of the table says when
it was stopped, how many seconds later it had ended, how many functions were compiled by then and after what it had
asked for was done, and how many of them are lost: those in the ledger whose files are missing or damaged.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from chipmap.kernels.folders import FORMAT, whole
from chipmap.kernels.once import LEDGER

#: A shipped instance of real size of each family.
INSTANCES = (
    *("ring/bert-large-36", "placement/rnnlm-2-pcie", "multimodel/scar-6-whole"),
    *("dataflow/gpt3-1t-sn30-1024", "wafer/ispd2020-A"),
)
#: The last moment, and how long what was asked for may go on; both in seconds.
LAST, PATIENCE = 12.0, 240.0
#: A solve in Python: instance, seconds until it is cancelled (0: by a signal alone), whether in a child.
PYTHON = """
import sys, threading, time
from chipmap import solve
name, moment, inside = sys.argv[1], float(sys.argv[2]), sys.argv[3] == "inside"
cancel, began = threading.Event(), []
def stop():
    print(time.monotonic(), flush=True)
    cancel.set()
if moment:
    timer = threading.Timer(moment, stop)
    timer.daemon = True
    timer.start()
limit = {} if inside else {"time_limit": 60}
try:
    result = solve(name, cancel=cancel, isolate=not inside, **limit)
    print(time.monotonic(), result.status, result.termination.limit, flush=True)
except KeyboardInterrupt:
    print(time.monotonic(), "none", "interrupted", flush=True)
"""
WAYS = ("command", "python", "cancel", "inside")


class Stopped(NamedTuple):
    """What became of a solve that was stopped: seconds it took to end, exit status or what the result says, functions
    compiled by then and in all, functions lost."""

    late: float
    ended: str
    before: int
    after: int
    lost: int


def main(arguments: Sequence[str] | None = None) -> int:
    """Stop solves and print the table; 1 if a function was lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ways", nargs="*", choices=WAYS, default=WAYS)
    parser.add_argument("--moments", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--last", type=float, default=LAST, help="the last moment, in seconds (more on a busy machine)")
    args = parser.parse_args(arguments)
    lost, worst = 0, dict[str, float]()
    print("| way | instance | stopped at, s | ended after, s | result | compiled then | in the end | lost | load |")
    print("|---|---|---|---|---|---|---|---|---|")
    for way in args.ways:
        moments = random.Random(args.seed)
        for number in range(args.moments):
            name, moment = INSTANCES[number % len(INSTANCES)], moments.uniform(0.2, args.last)
            found, load = stopped(way, name, moment), os.getloadavg()[0]
            lost, worst[way] = lost + found.lost, max(worst.get(way, 0.0), found.late)
            cells = (f"{moment:.1f}", f"{found.late:.2f}", *map(str, found[1:]), f"{load:.1f}")
            print(f"| {way} | {name} | {' | '.join(cells)} |", flush=True)
    print()
    print(*(f"{way}: at most {seconds:.2f} s" for way, seconds in worst.items()), f"lost: {lost}", sep="; ")
    return min(lost, 1)


def stopped(way: str, name: str, moment: float) -> Stopped:
    """Stop one solve at that moment."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        cache = Path(folder)
        command = [sys.executable, "-c", PYTHON, name, str(0 if way == "python" else moment), way]
        if way == "command":
            command = [sys.executable, "-m", "chipmap", "solve", name, "--time-limit", "60", "--quiet"]
        environment, nowhere = {**os.environ, "NUMBA_CACHE_DIR": folder}, subprocess.DEVNULL
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=nowhere, text=True)
        sent = time.monotonic() + moment
        if way in ("command", "python"):
            time.sleep(moment)
            sent = time.monotonic()
            process.send_signal(signal.SIGINT)
        said = process.communicate()[0].splitlines()
        ended, result = time.monotonic(), f"exit {process.returncode}"
        if way != "command" and said:
            sent = float(said[0]) if way != "python" and len(said) > 1 else sent
            first, result = said[-1].split(" ", 1)
            ended = float(first)
        before = len(ledger(cache))
        until = time.monotonic() + PATIENCE
        while list(cache.rglob("*.lock")) and time.monotonic() < until:
            time.sleep(0.1)
        return Stopped(max(0.0, ended - sent), result, before, len(ledger(cache)), len(ledger(cache)) - intact(cache))


def ledger(cache: Path) -> list[str]:
    """The functions that were compiled, each once for each time."""
    return [line for path in cache.rglob(LEDGER) for line in path.read_text().splitlines()]


def intact(cache: Path) -> int:
    """How many compiled functions lie there, whole and listed."""
    count = 0
    for index in cache.rglob(f"*.{FORMAT}.nbi"):
        whole(index.read_bytes())
        for data in index.parent.glob(f"{index.stem}.*.nbc"):
            whole(data.read_bytes())
            count += 1
    return count


if __name__ == "__main__":
    sys.exit(main())
