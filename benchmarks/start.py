"""How long a first solve takes, on a fresh installation and later: nothing compiled, killed halfway, a limit of 1 s.

    python -m benchmarks.start [--repeat 5] [--tiny NAME ...] [--large NAME ...] [--out benchmarks/results/start.md]

Each command is a process of its own, `chipmap solve`, by the clock on the wall and in seconds of CPU of all its
processes. What is compiled goes to a folder of the benchmark's own. The order of the runs alternates between the
instances, so that a load that comes or goes hits all alike.

- cold: the folder is empty; warm: all that the family compiles is there (what `chipmap doctor --warm` does);
- limit 1 s: cold, with `--time-limit 1`; `counted` are the seconds that the run counts;
- killed: a large instance, cold, with a limit, is killed (SIGKILL) after 5 s, again and again, until the solve begins.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from chipmap.family import get_family
from chipmap.process.warming import warm

TINY = (
    *("ring/tiny-skip", "dataflow/tiny-chain", "wafer/tiny-adapters", "placement/tiny-pair"),
    *(f"multimodel/tiny-{name}" for name in ("pipeline", "two", "latency", "energy", "weighted", "square")),
    *(f"multimodel/tiny-{name}" for name in ("triangular", "three", "whole-batch", "one-chiplet", "memory")),
    "multimodel/tiny-both-ends",
)
LARGE = (
    *("ring/bert-large-36", "dataflow/resnet50-8", "wafer/ispd2020-A"),
    *("multimodel/scar-10-whole", "placement/gnmt-8-nvlink"),
)
#: Seconds after which a cold run is killed, and how often at most.
KILLED, MOST = 5.0, 60


class Took(NamedTuple):
    """One run: seconds by the clock, seconds of CPU, the row that it printed, how many compiled functions were kept."""

    wall: float
    cpu: float
    row: dict[str, Any]
    kept: int


def main() -> int:
    """Run everything and write the tables; 1 if a tiny instance wasn't solved to its certificate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--tiny", nargs="*", default=TINY, metavar="NAME")
    parser.add_argument("--large", nargs="*", default=LARGE, metavar="NAME", help="those that are killed")
    parser.add_argument("--out", type=Path, help="the file to write (default: print it)")
    args = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["NUMBA_CACHE_DIR"] = folder
        solved = first(Path(folder), args.tiny, args.repeat)
        killed = {name: interrupted(Path(folder), name) for name in args.large}
    text = page(solved, killed, args.repeat, load)
    if args.out:
        args.out.write_text(text)
    else:
        print(text)
    return int(any(took.row.get("status") != "optimal" for runs in solved.values() for took in runs["cold"]))


def first(folder: Path, names: tuple[str, ...], repeat: int) -> dict[str, dict[str, list[Took]]]:
    """Cold, cold with a limit of 1 s, and warm runs of each instance."""
    found: dict[str, dict[str, list[Took]]] = {name: {"cold": [], "limit": [], "warm": []} for name in names}
    for _ in range(repeat):
        for name in names:
            empty(folder)
            found[name]["cold"].append(solve(folder, name))
            empty(folder)
            found[name]["limit"].append(solve(folder, name, "--time-limit", "1"))
            told(name, found[name]["cold"][-1], found[name]["limit"][-1])
    empty(folder)
    for family in dict.fromkeys(name.partition("/")[0] for name in names):
        warm(get_family(family), lambda now: print(now, file=sys.stderr))
    for _ in range(repeat):
        for name in names:
            found[name]["warm"].append(solve(folder, name))
    return found


class Killed(NamedTuple):
    """A solve that was killed again and again: compiled functions on disk after each kill, and the run that ended.

    ``whole`` is the same run, cold, by itself.
    """

    kept: list[int]
    last: Took
    whole: Took


def interrupted(folder: Path, name: str) -> Killed:
    """Kill a cold solve with a limit of 1 s after :data:`KILLED` s until one comes to its end before."""
    empty(folder)
    whole = solve(folder, name, "--time-limit", "1")
    empty(folder)
    kept: list[int] = []
    while True:
        last = solve(folder, name, "--time-limit", "1", seconds=KILLED if len(kept) < MOST else None)
        if last.row:
            break
        kept.append(last.kept)
        print(f"{name}: killed, {last.kept} compiled functions are kept", file=sys.stderr, flush=True)
    told(name, whole, last)
    return Killed(kept, last, whole)


def solve(folder: Path, name: str, *options: str, seconds: float | None = None) -> Took:
    """One `chipmap solve` in a session of its own; without a row if it was killed after ``seconds``."""
    command = [sys.executable, "-m", "chipmap", "solve", name, "--format", "json", "--quiet", *options]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True, text=True
    ) as process:
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            output = ""
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Took(wall, cpu, json.loads(output) if output else {}, len(list(folder.rglob("*.nbc"))))


def empty(folder: Path) -> None:
    """Forget all that was compiled."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def told(name: str, *runs: Took) -> None:
    """A word about what was just measured."""
    words = ", ".join(f"{took.wall:.2f} s ({took.cpu:.2f} s CPU) {took.row.get('status')}" for took in runs)
    print(f"{name}: {words}", file=sys.stderr, flush=True)


def page(solved: dict[str, dict[str, list[Took]]], killed: dict[str, Killed], repeat: int, load: float) -> str:
    """The tables, and what they were made on."""
    lines = [
        "# The first solve, and the next ones",
        "",
        f"Made by `python -m benchmarks.start --repeat {repeat}` on {os.cpu_count()} cores, {platform.system()} "
        f"{platform.machine()}, Python {platform.python_version()}; load average {load:.1f} before, "
        f"{os.getloadavg()[0]:.1f} after. Medians of {repeat}, and the worst in brackets; seconds by the clock, and of "
        "CPU of all processes. *Cold*: nothing was compiled before. *Limit 1 s*: cold, with `--time-limit 1`; what it "
        "counts towards its limit is *counted*.",
        "",
        "| instance | cold | CPU | compiled | limit 1 s | counted | status | warm | CPU |",
        "|---|---:|---:|---:|---:|---:|---|---:|---:|",
    ]
    for name, runs in solved.items():
        cold, limit, again = runs["cold"], runs["limit"], runs["warm"]
        status = "/".join(dict.fromkeys(took.row.get("status", "none") for took in (*cold, *limit, *again)))
        lines.append(
            f"| `{name}` | {of(cold, wall)} | {of(cold, cpu)} | {max(took.kept for took in cold)} | {of(limit, wall)} "
            f"| {of(limit, counted)} | {status} | {of(again, wall)} | {of(again, cpu)} |"
        )
    lines += [
        "",
        f"Killed {KILLED:g} s after its start and repeated, until the solve came to its end: a large instance with "
        "`--time-limit 1`. *Kept*: compiled functions on disk after each kill; *at once*: the same without kills.",
        "",
        "| instance | kills | kept | last run | in all | at once | counted |",
        "|---|---:|---|---:|---:|---:|---:|",
    ]
    for name, one in killed.items():
        kept, total = " ".join(map(str, one.kept)) or "-", KILLED * len(one.kept) + one.last.wall
        lines.append(
            f"| `{name}` | {len(one.kept)} | {kept} | {one.last.wall:.1f} | {total:.1f} | {one.whole.wall:.1f} "
            f"| {counted(one.last):.2f} |"
        )
    return "\n".join(lines) + "\n"


def wall(took: Took) -> float:
    """Seconds by the clock."""
    return took.wall


def cpu(took: Took) -> float:
    """Seconds of CPU."""
    return took.cpu


def counted(took: Took) -> float:
    """Seconds that the run counts towards its limit."""
    return float(took.row.get("seconds") or 0.0)


def of(runs: list[Took], what: Callable[[Took], float]) -> str:
    """The median, and the worst in brackets."""
    values = [what(took) for took in runs]
    return f"{median(values):.2f} ({max(values):.2f})"


if __name__ == "__main__":
    sys.exit(main())
