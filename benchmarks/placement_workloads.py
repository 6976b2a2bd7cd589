"""The training workloads of GDP's comparison: baselines, search, bound and gap of each.

    python -m benchmarks.placement_workloads [--limit SECONDS] [--links pcie nvlink] [--only NAME ...] [--memory]

Baselines: one device, human splits of layers (by time, by bytes, in turn), METIS (by time, by bytes), HEFT, ETF; and
``heft-units`` beside them. A cell holds two step times of the same devices in ms: decoded by the upward rank, and by
ready times (FIFO). One in brackets overflows a device's memory, and counts all the same. The search is
``placement/auto`` on one thread. The checker has the last word on its schedules. The gain is the best baseline's step
time, by either rule, over the search's; ``heft-units`` is left out of it.

With ``--memory`` each device has 1.1 times all bytes over the number of devices, all counted for the whole step (memory
rule ``static``). A baseline's cell then is the share by which its fullest device is too small.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from chipmap import SolveOptions, solve
from chipmap.heuristics.placement import human, metis, starts
from chipmap.heuristics.placement.etf import etf
from chipmap.heuristics.placement.heft_units import heft_units
from chipmap.heuristics.placement.keys import default_keys
from chipmap.heuristics.placement.memory import bytes_of, excess
from chipmap.heuristics.placement.simulator import NEVER, simulate
from chipmap.heuristics.placement.tables import tables, workspace
from chipmap.inputs.reading import read
from chipmap.instances.placement.instance import PlacementInstance, PlacementSolution
from chipmap.instances.placement.problem import IntArray, PlacementProblem, placement_problem
from chipmap.instances.placement.shipped import SHIPPED
from chipmap.records import ChipmapError
from chipmap.result import Result
from chipmap.validation.placement.checker import check

#: The baselines that a search is compared with, and the one beside them.
BASELINES = (
    "one device",
    *(f"human, {kind}" for kind in human.SPLITS),
    *(f"METIS, {kind}" for kind in metis.WEIGHTS),
    "HEFT",
    "ETF",
)
BESIDE = "heft-units"
MEMORY_WORKLOADS = ("inception-2-pcie", "transformer-xl-4-pcie", "transformer-xl-8-pcie", "rnnlm-4-pcie")
#: Memory of a device in all bytes over the number of devices.
MEMORY_SHARE = 1.1


class Row(NamedTuple):
    """What the summary needs of a workload: its links, best baseline, ``heft-units`` and search in ns, and the gap."""

    links: str
    baseline: float
    beside: float
    found: int
    gap: float


def placements(problem: PlacementProblem) -> Iterator[tuple[str, IntArray | None]]:
    """(name, devices) of each baseline; None where METIS isn't installed or fails."""
    flat = tables(problem)
    yield "one device", starts.one_device(problem, 0)
    made = human.layers(problem)
    for kind in human.SPLITS:
        yield f"human, {kind}", human.split(problem, kind, made)
    for kind in metis.WEIGHTS:
        try:
            yield f"METIS, {kind}", metis.partition(problem, kind)
        except (ChipmapError, metis.MetisError) as error:
            print(f"METIS, {kind}: {error}", file=sys.stderr)
            yield f"METIS, {kind}", None
    yield "HEFT", starts.heft(problem, flat)
    yield "ETF", etf(problem, flat)
    yield BESIDE, heft_units(problem, flat)


class Decoded(NamedTuple):
    """Step times in ns by the upward rank and by ready times, and whether both overflow memory."""

    rank: int
    fifo: int
    over: bool

    def cell(self) -> str:
        """Both in ms."""
        text = f"{self.rank / 1e6:.1f} / {self.fifo / 1e6:.1f}"
        return f"({text})" if self.over else text


def decoded(problem: PlacementProblem) -> dict[str, Decoded]:
    """Both step times of every baseline that there is."""
    flat, work, sizes, key = tables(problem), workspace(problem), bytes_of(problem), default_keys(problem)
    none = np.zeros(problem.operations, dtype=np.int64)
    found: dict[str, Decoded] = {}
    for name, device in placements(problem):
        if device is not None:
            steps, over = [], []
            for fifo in (False, True):
                steps.append(int(simulate(flat, device, key, fifo, none, NEVER, work)))
                over.append(excess(flat, sizes, device, work) > 0)
            found[name] = Decoded(steps[0], steps[1], all(over))
    return found


def solved(instance: PlacementInstance, limit: float) -> Result:
    """The search's result."""
    return solve(instance, "auto", SolveOptions(time_limit=limit, threads=1))


def workload(name: str, limit: float) -> tuple[list[str], Row | None]:
    """The cells of a workload and what the summary needs; no search's result, no summary."""
    instance = read(f"placement/{name}")
    assert isinstance(instance, PlacementInstance)
    problem = placement_problem(instance)
    found = decoded(problem)
    cells = [name, str(problem.operations), str(problem.devices)]
    cells += [found[one].cell() if one in found else "n/a" for one in (*BASELINES, BESIDE)]
    result = solved(instance, limit)
    if result.objective is None or result.bound is None:
        return [*cells, result.status, *[""] * 4], None
    best = min(min(found[one][:2]) for one in BASELINES if one in found)
    row = Row(name.rpartition("-")[2], best, min(found[BESIDE][:2]), result.objective, result.gap or 0.0)
    cells += [f"{result.objective / 1e6:.1f}", f"{result.bound / 1e6:.1f}", f"{100 * row.gap:.0f}%"]
    return [*cells, f"{row.baseline / row.found:.2f}", f"{row.beside / row.found:.2f}"], row


def free_table(names: list[str], limit: float) -> None:
    """The table of all workloads, a row as soon as it is there, then the means."""
    heading = (
        "workload",
        "operations",
        "devices",
        *BASELINES,
        BESIDE,
        "search",
        "bound",
        "gap",
        "gain",
        f"{BESIDE} gain",
    )
    print(f"| {' | '.join(heading)} |\n|{'---|' * len(heading)}", flush=True)
    rows: list[Row] = []
    for name in names:
        cells, row = workload(name, limit)
        print(f"| {' | '.join(cells)} |", flush=True)
        rows += [row] if row is not None else []
    print()
    for links in dict.fromkeys(row.links for row in rows):
        mine = [row for row in rows if row.links == links]
        gains = [row.baseline / row.found for row in mine]
        text = f"{links}: best baseline / search {_mean(gains):.3f} in geometric mean, {min(gains):.3f} at least"
        print(f"{text}; {BESIDE} / search {_mean([row.beside / row.found for row in mine]):.3f}")
    if rows:
        gaps = [row.gap for row in rows]
        print(f"gap of {len(gaps)}: median {100 * statistics.median(gaps):.1f}%, largest {100 * max(gaps):.1f}%")


def _mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def bound_memory(instance: PlacementInstance, rule: str = "static") -> PlacementInstance:
    """The instance with 1.1 times all bytes over the number of devices on each."""
    problem = placement_problem(instance)
    total = int(problem.weights.sum() + problem.storages.bytes.sum())
    limit = math.ceil(MEMORY_SHARE * total / problem.devices)
    machines = tuple(device.replace(memory_bytes=limit) for device in instance.system.devices)
    return instance.replace(task=instance.task.replace(memory=rule), system=instance.system.replace(devices=machines))


def fullest(problem: PlacementProblem, device: IntArray) -> float:
    """Static bytes of the fullest device over its memory."""
    held = np.zeros(problem.devices, dtype=np.int64)
    np.add.at(held, device, problem.weights)
    storages = problem.storages
    for s, u in enumerate(storages.producer.tolist()):
        for d in {int(device[v]) for v in (u, *storages.read_by(s))}:
            held[d] += storages.bytes[s]
    return float((held / problem.memory).max())


def live_peak(instance: PlacementInstance, solution: PlacementSolution) -> int:
    """The most bytes that any device holds over time in a schedule (memory rule ``live``), by the checker.

    The checker names the bytes of each device that has too little memory, so it is asked with none at all.
    """
    machines = tuple(device.replace(memory_bytes=0) for device in instance.system.devices)
    bare = instance.replace(task=instance.task.replace(memory="live"), system=instance.system.replace(devices=machines))
    return int(max(one.amount for one in check(bare, solution).violations if one.label == "C6"))


def memory_table(names: list[str], limit: float) -> None:
    """The table of memory that binds."""
    heading = ("workload", "GiB per device", *BASELINES, BESIDE, "free", "search", "price", "bound", "live peak, GiB")
    print(f"| {' | '.join(heading)} |\n|{'---|' * len(heading)}", flush=True)
    for name in names:
        free = read(f"placement/{name}")
        assert isinstance(free, PlacementInstance)
        tight = bound_memory(free)
        problem = placement_problem(tight)
        cells = [name, f"{int(problem.memory[0]) / 2**30:.2f}"]
        found = dict(placements(problem))
        cells += [
            f"{fullest(problem, d):.2f}" if (d := found[one]) is not None else "n/a" for one in (*BASELINES, BESIDE)
        ]
        open_, bound = solved(free, limit), solved(tight, limit)
        cells.append("n/a" if open_.objective is None else f"{open_.objective / 1e6:.1f}")
        if bound.objective is None or bound.solution is None or open_.objective is None:
            cells += [bound.status, "", "", ""]
        else:
            price = 100 * (bound.objective / open_.objective - 1)
            peak = live_peak(tight, PlacementSolution.make(**bound.solution))
            cells += [f"{bound.objective / 1e6:.1f}", f"{price:+.1f}%", f"{(bound.bound or 0) / 1e6:.1f}"]
            cells.append(f"{peak / 2**30:.2f}")
        print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Print the table that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=60.0)
    parser.add_argument("--links", nargs="+", default=["pcie", "nvlink"])
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--memory", action="store_true")
    arguments = parser.parse_args()
    print(f"{arguments.limit:g} s each, load {os.getloadavg()[0]:.1f}, Python {sys.version.split()[0]}\n", flush=True)
    if arguments.memory:
        memory_table(arguments.only or list(MEMORY_WORKLOADS), arguments.limit)
        return
    known = [Path(name).name for name in SHIPPED if "tiny" not in name]
    chosen = [name for name in known if name.rpartition("-")[2] in arguments.links and "50k" not in name]
    free_table(arguments.only or chosen, arguments.limit)


if __name__ == "__main__":
    main()
