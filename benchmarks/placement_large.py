"""52,213 operations on 8 devices over PCIe, from the file to the certificate: ``placement/gnmt-8-50k-pcie``.

    python -m benchmarks.placement_large [--limit 120] [--short 1 2 5 10] [--folder DIR]
    python -m benchmarks.placement_large --processor 10 60 [--seeds 3]
    python -m benchmarks.placement_large --way [--runs 2]

The instance is written to a file, and `chipmap solve FILE` is run as a user would, with two threads: seconds by the
clock on the wall from the start of the command to its end, without and with files (`--out`); the most memory of its
processes together; when the first schedule, the first bound and the search came. Beside it stand all human splits and
METIS (both kinds; extra `metis`), each by the better of two rules, as valid placements or not. Then short limits:
how long the whole command takes with each, also while reading, in METIS and in bounds.

With ``--processor`` limits are seconds of the processor, so that the load of the machine decides little. Each run is
one process and one thread: it reads the file, makes the first mapping and follows the chain, all within the limit.

``--way`` has the processor's seconds of each step from the file to the first partition that the parent has checked. The
child prepares beside the parent, so that its seconds aren't on the way. Run it twice: the first run compiles.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

if "--one" in sys.argv:
    time.monotonic = time.process_time  # before chipmap is imported: limits count the processor's seconds

from benchmarks.best_known import submit
from benchmarks.placement_workloads import BASELINES, decoded
from chipmap import SolveOptions, solve
from chipmap.deadline import Deadline
from chipmap.family import get_family, resolve
from chipmap.heuristics.placement.search.units import units
from chipmap.heuristics.placement.starts.partition import MOST, partition
from chipmap.inputs.reading import read
from chipmap.instances.placement import PlacementInstance, PlacementSolution
from chipmap.instances.placement.problem import placement_problem
from chipmap.methods.placement.chain_state import ChainState
from chipmap.methods.placement.first import first
from chipmap.methods.placement.styles import Styles
from chipmap.process.memory import collect_seldom
from chipmap.result import Result
from chipmap.run import Run
from chipmap.validation.placement.checker import check

NAME = "placement/gnmt-8-50k-pcie"


#: From the file to the first partition that the parent has checked.
STEPS = ("reading", "first mapping", "child prepares", "partition", "child's check", "parent's check")


class Ran(NamedTuple):
    """A command: its seconds and those of processors, the most bytes of it and its children, what it printed."""

    seconds: float
    worked: float
    bytes: int
    output: str


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=120.0)
    parser.add_argument("--short", type=float, nargs="*", default=[1.0, 2.0, 5.0, 10.0])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--processor", type=float, nargs="+")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--way", action="store_true")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--one-way", metavar="FILE", help=argparse.SUPPRESS)
    parser.add_argument("--one", nargs=3, metavar=("FILE", "LIMIT", "SEED"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        return one(*arguments.one)
    if arguments.one_way:
        return one_way(arguments.one_way)
    instance = read(NAME)
    assert isinstance(instance, PlacementInstance)
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "large.json"
        file.write_bytes(instance.to_json())
        if arguments.way:
            return by_steps(file, arguments.runs)
        if arguments.processor:
            return by_processor(file, arguments.processor, arguments.seeds)
        print(f"load {os.getloadavg()[0]:.1f}, Python {sys.version.split()[0]}, {arguments.limit:g} s\n", flush=True)
        whole(instance, file, folder, arguments.limit)
        short(file, arguments.short)


def whole(instance: PlacementInstance, file: Path, folder: Path, limit: float) -> None:
    """The table of the long run and the baselines."""
    out = folder / "run"
    ran = run("solve", file, "--time-limit", limit, "--threads", 2, "--out", out)
    result = json.loads((out / "result.json").read_text())
    submit([Result.from_json((out / "result.json").read_bytes())])
    found, events = result["objective"], result["trace"]
    print("| what | ms | over ours |\n|---|---|---|")
    for name, one in decoded(placement_problem(instance)).items():
        note = "" if name in BASELINES else " (beside)"
        fits = ", memory overflows" if one.over else ""
        print(f"| {name}{note}{fits} | {min(one[:2]) / 1e6:.1f} | {min(one[:2]) / found:.2f} |", flush=True)
    print(f"| **search** | {found / 1e6:.1f} | |")
    print(f"| bound | {result['bound'] / 1e6:.1f} | gap {100 * result['gap']:.1f}% |\n")
    first = {kind: next(one for one in events if one["event"] == kind) for kind in ("bound", "solution")}
    annealed = [one["seconds"] for one in events if one["source"] == "annealing"]
    print("| moment | s |\n|---|---|")
    print(f"| the file is read | {result['timings']['read']:.1f} |")
    for kind, one in first.items():
        print(f"| first {kind} ({one['source']}, {one['value'] / 1e6:.1f} ms) | {one['seconds']:.1f} |")
    for share in (0.5, 1.0):
        known = [one for one in events if one["event"] == "solution" and one["seconds"] <= share * limit]
        if known:
            print(f"| best at {share * limit:g} s: {known[-1]['value'] / 1e6:.1f} ms | {known[-1]['seconds']:.1f} |")
    if annealed:
        print(f"| annealing's first and last find | {annealed[0]:.1f}, {annealed[-1]:.1f} |")
    print(f"| certificate of the result | {result['timings']['total']:.1f} |")
    print(f"| end of the command, with all files of `--out` | {ran.seconds:.1f} |")
    print(f"| processors' seconds in all, of 2 processors | {ran.worked:.1f} |\n")
    print(
        f"At most {ran.bytes / 2**30:.2f} GiB in all processes together; {result['notes'][-1]['text']}.\n", flush=True
    )


def short(file: Path, limits: list[float]) -> None:
    """The table of short limits."""
    methods = ("auto", "metis", "bounds")
    print(f"| limit, s | {' | '.join(f'{method}: s, what came out' for method in methods)} |\n|---|---|---|---|")
    for limit in limits:
        cells = []
        for method in methods:
            ran = run("solve", file, "--method", method, "--time-limit", limit, "--format", "json")
            row: dict[str, Any] = json.loads(ran.output) if ran.output.startswith("{") else {}
            cells.append(f"{ran.seconds:.1f}, {row.get('status', 'no result')}")
        print(f"| {limit:g} | {' | '.join(cells)} |", flush=True)


def by_processor(file: Path, limits: list[float], seeds: int) -> None:
    """The table of limits in seconds of the processor: a run per seed, each in a process of its own."""
    print("| limit, CPU s | seed | search, ms | bound, ms | gap | found, CPU s | load |\n|--:|--:|--:|--:|--:|--:|--:|")
    for limit in limits:
        for seed in range(seeds):
            command = [sys.executable, "-m", "benchmarks.placement_large", "--one", str(file), str(limit), str(seed)]
            output = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
            cells = output.strip().splitlines()[-1]
            print(f"| {limit:g} | {seed} | {cells} | {os.getloadavg()[0]:.1f} |", flush=True)


def one(file: str, limit: str, seed: str) -> None:
    """A run in this process, whose clock is that of the processor: its cells."""
    instance = read(file)
    options = SolveOptions(time_limit=float(limit) - time.process_time(), threads=1, seed=int(seed))
    begun = time.process_time()
    result = solve(instance, "placement/auto", options, isolate=False)
    submit([result])
    assert result.objective is not None and result.bound is not None and result.gap is not None
    last = begun + max(event.seconds for event in result.trace if event.event == "solution")
    values = f"{result.objective / 1e6:.1f}", f"{result.bound / 1e6:.1f}", f"{100 * result.gap:.1f}%", f"{last:.1f}"
    print(" | ".join(values))


def by_steps(file: Path, runs: int) -> None:
    """The table of the way to the first partition: each run in a process of its own."""
    print(f"| {' | '.join(STEPS)} | on the way | load |\n|{'--:|' * (len(STEPS) + 2)}")
    for _ in range(runs):
        command = [sys.executable, "-m", "benchmarks.placement_large", "--one-way", str(file)]
        output = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
        print(f"| {output.strip()} | {os.getloadavg()[0]:.1f} |", flush=True)


def one_way(file: str) -> None:
    """The seconds of each of :data:`STEPS` in this process, and of those on the way."""
    collect_seldom()
    spent = [time.process_time()]
    instance = read(file)
    assert isinstance(instance, PlacementInstance)
    spent.append(time.process_time())
    first(instance, Run(instance, SolveOptions(threads=1), check))
    spent.append(time.process_time())
    child = PlacementInstance.from_json(instance.to_json(), file)
    for step in get_family("placement").prepare:
        resolve(step)(child)
    spent.append(time.process_time())
    state = ChainState(placement_problem(child))
    begin, draw = state.initial_partitions()[0], Styles(state, Deadline()).next(state.problem)
    made = partition(state.problem, units(state.problem), begin, 0, Deadline(), MOST // 2, draw.style)
    state.evaluate_and_keep(made, kind=draw.kind)
    spent.append(time.process_time())
    found = state.decoded()
    assert check(child, found).feasible
    spent.append(time.process_time())
    assert check(instance, PlacementSolution.from_json(found.to_json())).feasible
    spent.append(time.process_time())
    steps = [later - before for before, later in pairwise(spent)]
    print(" | ".join(f"{seconds:.2f}" for seconds in (*steps, sum(steps) - steps[2])))


def run(*arguments: object) -> Ran:
    """Run chipmap, and look at the memory of its processes ten times a second."""
    begun, most, before = time.monotonic(), 0, worked()
    with tempfile.TemporaryFile("w+") as output:
        command = [sys.executable, "-m", "chipmap", *map(str, arguments)]
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL)
        while process.poll() is None:
            most = max(most, held(process.pid))
            time.sleep(0.1)
        seconds = time.monotonic() - begun
        output.seek(0)
        return Ran(seconds, worked() - before, most, output.read())


def worked() -> float:
    """Seconds of processors that all processes started so far took, once they have ended."""
    used = os.times()
    return used.children_user + used.children_system


def held(process: int) -> int:
    """Resident bytes of a process and all below it (Linux; 0 elsewhere)."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") + sum(held(int(child)) for child in children)


if __name__ == "__main__":
    main()
