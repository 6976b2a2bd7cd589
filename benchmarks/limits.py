"""Whether time and memory limits hold: every method of every family, by the command line and in the caller's process.

    python -m benchmarks.limits [--seconds 3] [--memory 1073741824] [--out benchmarks/results/limits.md]

A large instance of each family is solved by each of its methods (warm caches). On a busy machine, what is late by the
clock on the wall may only have waited for a core; therefore the seconds of CPU that a run takes after its limit are
counted, too: its processes' own account in /proc a moment before the limit, and at the end. Linux only.
"""

from __future__ import annotations

import argparse
import csv
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import chipmap
from benchmarks.robustness_kills import carrying, marked, orphans
from chipmap.family import FAMILY_NAMES, get_family
from chipmap.process.warming import warm

ROOT = Path(__file__).parents[1]
LARGE = {
    "ring": "ring/densenet121-36",
    "dataflow": "dataflow/resnet50-8",
    "wafer": "wafer/ispd2020-T",
    "multimodel": "multimodel/scar-10-whole",
    "placement": "placement/gnmt-8-nvlink",
}
#: A run in this process: seconds by its own clock, and whether there is a solution.
HERE = """
import sys, chipmap
instance = chipmap.read(sys.argv[1])
result = chipmap.solve(instance, sys.argv[2], time_limit=float(sys.argv[3]), isolate=False)
print("took", result.seconds, result.status)
"""
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Seen:
    """One run: seconds past its limit by the clock, seconds of CPU past it, the most memory of a process (bytes).

    ``load`` is how many processes of the machine wanted a core, on average over the minute before its end.
    """

    method: str
    where: str
    late: float
    cpu: float
    peak: int
    status: str
    load: float


def main() -> int:
    """Run everything and write the table; 1 if a limit was broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--memory", type=int, default=2**30, help="bytes, for the command line")
    parser.add_argument("--families", nargs="*", default=FAMILY_NAMES, choices=FAMILY_NAMES)
    parser.add_argument("--out", type=Path, help="the table to write (default: print it)")
    args = parser.parse_args()
    load, seen = os.getloadavg()[0], list[Seen]()
    for family in args.families:
        warm(get_family(family))
        for method in get_family(family).methods:
            for where in ("command", "in process"):
                one = measured(LARGE[family], method.name, where, args.seconds, args.memory)
                print(one, file=sys.stderr, flush=True)
                seen.append(one)
    text = table(seen, args.seconds, args.memory, load)
    if args.out:
        args.out.write_text(text)
    print(text)
    return int(any(broken(one, args.seconds, args.memory) for one in seen))


def allowed(where: str, seconds: float) -> float:
    """Seconds past its limit that a run may take."""
    return 1.0 + (0.1 * seconds if where == "in process" else 0.0)


def broken(one: Seen, seconds: float, memory: int) -> bool:
    """Whether a run was late and not only for want of a core, or took too much memory."""
    most = allowed(one.where, seconds)
    return (one.late > most and one.cpu > most) or (one.where == "command" and one.peak > 1.1 * memory)


def measured(instance: str, method: str, where: str, seconds: float, memory: int) -> Seen:
    """One run. In process its own clock counts, which starts when it is asked; else ours, from the command on."""
    mark, env = marked()
    if where == "command":
        limits = ["--time-limit", f"{seconds:g}", "--memory-limit", str(memory)]
        words = ["-m", "chipmap", "solve", instance, "--method", method, "--quiet", "--threads", "1", "--format", "csv"]
        words += limits
    else:
        words = ["-c", HERE, instance, method, f"{seconds:g}"]
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True, cwd=ROOT, env=env)
    before, peak = 0.0, 0
    while _running(process.pid):
        now = carrying(mark)
        if time.monotonic() < began + seconds:
            before = cpu_seconds(now) or before
        peak = max(peak, *map(most_memory, now), 0)
        time.sleep(0.1)
    assert process.stdout is not None
    output = process.stdout.read()
    _, _, usage = os.wait4(process.pid, 0)
    took = time.monotonic() - began
    assert not orphans(mark)
    rows = list(csv.DictReader(output.splitlines())) if where == "command" else []
    status = rows[0]["status"] if rows else (output.split() or ["none"])[-1]
    if where == "in process" and output:  # nothing is said by a method that refuses the instance
        took = float(output.split()[1])
    cpu = max(0.0, usage.ru_utime + usage.ru_stime - before) if took > seconds else 0.0
    return Seen(method, where, took - seconds, cpu, max(peak, usage.ru_maxrss * 1024), status, os.getloadavg()[0])


def _running(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def most_memory(pid: int) -> int:
    """The most bytes that a running process has had in memory so far; 0 where it has ended."""
    with suppress(OSError, StopIteration):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("VmHWM:")).split()[1])
    return 0


def cpu_seconds(running: list[int]) -> float:
    """Seconds of CPU of running processes, and of those that they have waited for."""
    total = 0
    for pid in running:
        with suppress(OSError, IndexError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += sum(int(one) for one in fields[11:15])
    return total / TICKS


def table(seen: list[Seen], seconds: float, memory: int, load: float) -> str:
    """The figures by family, and every run that was late by the clock."""
    head = (
        "# Limits\n\n"
        f"Made by `python -m benchmarks.limits --seconds {seconds:g} --memory {memory}` on {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, chipmap {chipmap.__version__}, at a load of {load:.0f} before and "
        f"{os.getloadavg()[0]:.0f} after. Every method on a large instance of its family, with a time limit of "
        f"{seconds:g} s; on the command line also a memory limit of {memory / 2**20:,.0f} MiB. Late: past the limit by "
        "the clock on the wall, from the command to its end (its start included), or by the run's own clock in the "
        "caller's process. CPU: seconds that all its processes computed after so many seconds from their start. A "
        "limit counts as broken where both are above 1 s (in process: and 10%): a late run that computed less has "
        "waited for a core.\n\n"
    )
    columns = (
        "| instance | where | runs | limits kept | latest by the clock, s | most CPU past the limit, s | most MiB |\n"
    )
    lines = [columns, "| --- | --- | --: | --: | --: | --: | --: |\n"]
    for family in dict.fromkeys(one.method.partition("/")[0] for one in seen):
        for where in ("command", "in process"):
            some = [one for one in seen if one.method.partition("/")[0] == family and one.where == where]
            kept = sum(not broken(one, seconds, memory) for one in some)
            late, cpu = max(one.late for one in some), max(one.cpu for one in some)
            peak = max(one.peak for one in some) / 2**20
            lines.append(
                f"| {LARGE[family]} | {where} | {len(some)} | {kept} | {late:.1f} | {cpu:.1f} | {peak:,.0f} |\n"
            )
    return head + "".join(lines) + "\nEvery run:\n\n" + "".join(every_run(seen, seconds, memory))


def every_run(seen: list[Seen], seconds: float, memory: int) -> Iterator[str]:
    """A row for each run: its limits, and how it stood to them."""
    columns = ("method", "where", "limit, s", "took, s", "late, s", "CPU past the limit, s", "most MiB", "of the limit")
    yield "| " + " | ".join([*columns, "load", "status", "limits"]) + " |\n"
    yield "| --- | --- |" + " --: |" * 7 + " --- | --- |\n"
    for one in seen:
        share = f"{one.peak / memory:.0%}" if one.where == "command" else "-"
        cells = [one.method, one.where, f"{seconds:g}", f"{seconds + one.late:.1f}", f"{max(0.0, one.late):.1f}"]
        cells += [f"{one.cpu:.1f}", f"{one.peak / 2**20:,.0f}", share, f"{one.load:.1f}", one.status]
        yield "| " + " | ".join([*cells, "broken" if broken(one, seconds, memory) else "kept"]) + " |\n"


if __name__ == "__main__":
    sys.exit(main())
