"""What is left of a run that is killed, interrupted, out of time, hung, or out of disk.

    python -m benchmarks.robustness [--kills 300] [--out benchmarks/results/robustness.md]

Runs `chipmap solve` and `chipmap bench` as a user would, kills at seeded moments after the first incumbent or row, and
judges what lies on disk with the independent checker, or against a sweep that nobody disturbed. Takes about half an
hour on a quiet machine. Dask's workers need the extra ``cluster``. The disks that fill up are small tmpfs mounts where
mounting is allowed, else a limit on the size of files.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import chipmap
from benchmarks import robustness_kills as kills
from benchmarks.robustness_disks import full_cache, full_disks, full_matrix, halves
from benchmarks.robustness_runs import (
    ROOT,
    SOLVES,
    Line,
    announced,
    command,
    objective,
    readable,
    row_of,
    shown,
    solve,
    valid,
    workplace,
)

HOOKS = ROOT / "tests" / "runtime" / "hooks"
LARGE = ("ring/bert-large-36", "ring/gpt2-36", "ring/resnet152-36", "ring/densenet121-36", "ring/rnn-36")
SHORTEST, LONGEST = 0.05, 1.4
#: Of the kills, how many hit what.
SHARES = {"child": 0.3, "parent": 0.25, "bench": 0.2, "worker": 0.15, "dask": 0.1}


def main() -> int:
    """Run everything and write the table; 1 if anything went wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=300, help="how many processes are killed in all")
    parser.add_argument("--out", type=Path, help="the table to write (default: print it)")
    parser.add_argument("--only", nargs="*", choices=("solves", "sweeps", "others"), help="a part (default: all)")
    args = parser.parse_args()
    load, few = os.getloadavg()[0], max(1, args.kills // 20)
    shares = {kind: round(share * args.kills) for kind, share in SHARES.items()}
    parts: dict[str, tuple[Callable[[], Line | list[Line]], ...]] = {
        "solves": (lambda: killed_children(shares["child"]), lambda: killed_parents(shares["parent"])),
        "sweeps": (lambda: killed_sweeps(shares), full_matrix),
        "others": (
            lambda: stopped(few),
            lambda: interrupted("Ctrl-C", signal.SIGINT, 130, few),
            lambda: interrupted("SIGTERM", signal.SIGTERM, 143, few),
            one_second,
            lambda: hung(few // 4 or 1),
            full_disks,
            full_cache,
            halves,
        ),
    }
    lines: list[Line] = []
    for work in (work for part in args.only or parts for work in parts[part]):
        found = work()
        for line in found if isinstance(found, list) else [found]:
            print(f"{line.good} of {line.runs}: {line.what} ({line.seen})", file=sys.stderr, flush=True)
            lines.append(line)
    text = table(lines, load)
    if args.out:
        args.out.write_text(text)
    print(text)
    return int(any(line.good != line.runs for line in lines))


def table(lines: list[Line], load: float) -> str:
    """The lines in Markdown."""
    solves = ", ".join(f"`{instance}` by `ring/{method}`" for instance, method in SOLVES)
    head = (
        "# Robustness\n\n"
        f"Made by `python -m benchmarks.robustness` on {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"chipmap {chipmap.__version__}, at a load of {load:.0f} before and {os.getloadavg()[0]:.0f} after. Seeds are "
        f"0, 1, 2, …; killed and interrupted solves: {solves}; kills up to 0.8 s after the first incumbent or row, "
        f"interrupts {SHORTEST} to {LONGEST} s after the child's start. Whoever outlives what it served by more than "
        f"{kills.PATIENCE:g} s counts as an orphan.\n\n"
        "| what | as it should be | seen |\n| --- | --: | --- |\n"
    )
    return head + "".join(f"| {line.what} | {line.good} of {line.runs} | {line.seen} |\n" for line in lines)


def killed_children(runs: int) -> Line:
    """SIGKILL to the solving child: the archive is whole, and holds the best solution that was announced."""
    good = cut = 0
    for seed in range(runs):
        with (
            workplace() as folder,
            kills.solving(folder, seed, command(seed, folder / "run")) as (process, errors, mark),
        ):
            cut += kills.kill(next(iter(kills.children(process.pid)), None))
            output, _ = process.communicate()
            best, row = announced(errors.read_text()), json.loads(output)
            kept = valid(folder / "run") and shown(row["objective"]) == best[-1]
            # the result says so, unless the child had said its last word
            told = process.returncode == (6 if row["failure"] else 0) and "Traceback" not in errors.read_text()
            good += kept and told and not kills.orphans(mark)
    what = "solving child killed: whole archive, valid, with the best solution that was announced; no orphan"
    return Line(what, good, runs, f"{cut} killed before they had ended")


def killed_parents(runs: int) -> Line:
    """SIGKILL to ``chipmap solve`` itself: the best solution on disk is valid, nothing passes for an archive, and the
    next run there starts from it."""
    good = cut = 0
    for seed in range(runs):
        with (
            workplace() as folder,
            kills.solving(folder, seed, command(seed, folder / "run")) as (process, errors, mark),
        ):
            cut += kills.kill(process.pid)
            process.communicate()
            left, best = kills.orphans(mark), announced(errors.read_text())
            if (folder / "run").exists():
                good += valid(folder / "run") and not left
                continue
            instance, solution = SOLVES[seed % len(SOLVES)][0], folder / "run.partial" / "solution.json"
            kept = solution.exists() and objective(instance, solution) in best[-1:]
            fine = not left and not readable(folder / "run.partial") and (kept or not best)
            if best:
                row = row_of(instance, "--method", "bounds", "--out", folder / "run")
                fine &= shown(row["objective"]) == best[-1] and valid(folder / "run")
            good += fine
    what = "`chipmap solve` killed: the best solution in `DIR.partial`, from which the next run starts; no orphan"
    return Line(what, good, runs, f"{cut} killed before they had ended")


def killed_sweeps(runs: dict[str, int]) -> list[Line]:
    """SIGKILL to ``chipmap bench``, to its workers, and to workers of Dask."""
    with workplace() as folder:
        right = kills.whole(folder)
    kept = "no row lost, doubled or wrong; no orphan"
    lines = [
        Line(
            f"`chipmap bench` killed, then resumed: {kept}", *kills.killed_benches(runs["bench"], right, workplace), ""
        ),
        Line(f"worker of `bench` killed: {kept}", *kills.killed_workers(runs["worker"], right, workplace), ""),
    ]
    if importlib.util.find_spec("distributed") is not None:
        good, done = kills.killed_workers(runs["dask"], right, workplace, cluster=True)
        lines.append(Line(f"worker of Dask killed (`bench --cluster local`): {kept}", good, done, ""))
    return [replace(line, seen=f"{len(right)} points, two workers, killed again and again") for line in lines]


def stopped(runs: int) -> Line:
    """The child is stopped (SIGSTOP), then the parent killed: the child ends all the same."""
    good = cut = 0
    for seed in range(runs):
        with workplace() as folder, kills.solving(folder, seed, command(seed, folder / "run")) as (process, _, mark):
            child = next(iter(kills.children(process.pid)), None)
            cut += kills.kill(child, signal.SIGSTOP)
            process.kill()
            process.communicate()
            good += not kills.orphans(mark)
    what = "child stopped (SIGSTOP), then `chipmap solve` killed: the child ends"
    return Line(what, good, runs, f"{cut} stopped before they had ended")


def interrupted(name: str, number: signal.Signals, code: int, runs: int) -> Line:
    """A signal to ``chipmap solve``: its result is written, whole and valid."""
    good = cut = 0
    latest = 0.0
    for seed in range(runs):
        with workplace() as folder:
            process = solve(seed, folder / "run")
            child_of(process)
            time.sleep(moment(seed))
            cut += (running := process.poll() is None)
            sent = time.monotonic()
            process.send_signal(number)
            output, errors = process.communicate()
            latest = max(latest, time.monotonic() - sent)
            row = json.loads(output)
            exits = (code,) if running and row["figures"]["limit"] == "interrupted" else (code, 0)
            good += process.returncode in exits and valid(folder / "run") and "Traceback" not in errors
    what = f"{name}: exit {code}, whole archive, valid"
    return Line(what, good, runs, f"{cut} interrupted before they had ended; at most {latest:.1f} s from signal to end")


def one_second() -> Line:
    """``--time-limit 1`` on large instances: ends within limit + 2 s with at least the greedy solution."""
    good, latest = 0, 0.0
    for instance in LARGE:
        for method in ("auto", "cpsat-cold"):
            with workplace() as folder:
                greedy = row_of(instance, "--method", "greedy")["objective"]
                began = time.monotonic()
                row = row_of(instance, "--method", method, "--time-limit", 1, "--out", folder / "run")
                latest = max(latest, time.monotonic() - began)
                better = greedy is None or (row["feasible"] and row["objective"] <= greedy)
                good += better and time.monotonic() - began <= 3.0 and readable(folder / "run")
    what = "`--time-limit 1`, five large instances by `ring/auto` and `ring/cpsat-cold`: at least greedy within 3 s"
    return Line(what, good, 2 * len(LARGE), f"at most {latest:.2f} s by the clock on the wall")


def hung(runs: int) -> Line:
    """A child that ignores signals and hangs in C: stopped within limit + 2 s, its solutions kept."""
    good, latest = 0, 0.0
    path = os.pathsep.join([str(HOOKS), str(ROOT)])
    for _ in range(runs):
        with workplace() as folder:
            instance, began = folder / "chain.json", time.monotonic()
            instance.write_bytes(chipmap.generate("chain", chips=12, link_bytes_per_ns=None).to_json())
            options = ("--method", "improve_then_hang", "--time-limit", 1, "--out", folder / "run")
            row = row_of(instance, *options, env={**os.environ, "PYTHONPATH": path})
            latest = max(latest, time.monotonic() - began)
            good += row["feasible"] and valid(folder / "run") and time.monotonic() - began <= 3.0
    what = "child hangs in C and ignores signals, `--time-limit 1`: stopped within 3 s, solutions kept"
    return Line(what, good, runs, f"at most {latest:.2f} s by the clock on the wall")


def child_of(process: subprocess.Popen[str]) -> int | None:
    """The process id of the solving child, as soon as there is one."""
    while process.poll() is None:
        if found := kills.children(process.pid):
            return found[0]
        time.sleep(0.002)
    return None


def moment(seed: int) -> float:
    """Seconds after the child's start at which something happens."""
    return random.Random(seed).uniform(SHORTEST, LONGEST)


if __name__ == "__main__":
    sys.exit(main())
