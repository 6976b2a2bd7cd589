"""The training workloads of GDP's comparison: baselines, search, bound and gap of each.

    python -m benchmarks.placement_workloads [--limit SECONDS] [--threads N] [--links pcie nvlink]
        [--instances NAME ...] [--rows FILE]

Baselines: one device, human splits of layers (by time, by bytes, in turn), METIS (by time, by bytes; extra ``metis``),
HEFT, ETF; and ``heft-units`` beside them. A cell holds two step times of the same devices in ms: decoded by the upward
rank, and by ready times (FIFO). One in brackets overflows a device's memory, and counts all the same. The search is
``placement/auto``. The checker has the last word on its schedules. The gain is the best baseline's step time, by
either rule, over the search's; ``heft-units`` is left out of it. "Never worse" says whether the search is at least as
good as every baseline. "Earlier" are the search's step times after 10, 60 and 300 s, as far as it went on.

Each row goes to FILE as a line of JSON as soon as it is there. A later run with the same FILE makes only the rows that
are missing for its limit and number of threads, and prints the table of all. So a long table can be made in portions.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.best_known import submit
from chipmap import SolveOptions, solve
from chipmap.heuristics.placement.keys import default_keys
from chipmap.heuristics.placement.published import metis
from chipmap.heuristics.placement.simulation.memory import bytes_of, excess
from chipmap.heuristics.placement.simulation.simulator import NEVER, simulate
from chipmap.heuristics.placement.simulation.tables import tables, workspace
from chipmap.heuristics.placement.starts import heft as starts
from chipmap.heuristics.placement.starts import human
from chipmap.heuristics.placement.starts.etf import etf
from chipmap.heuristics.placement.starts.heft_units import heft_units
from chipmap.inputs.reading import read
from chipmap.instances.placement.instance import PlacementInstance
from chipmap.instances.placement.problem import IntArray, PlacementProblem, placement_problem
from chipmap.instances.placement.shipped import SHIPPED
from chipmap.records import ChipmapError
from chipmap.result import Result

#: The baselines that a search is compared with, and the one beside them.
BASELINES = (
    "one device",
    *(f"human, {kind}" for kind in human.SPLITS),
    *(f"METIS, {kind}" for kind in metis.WEIGHTS),
    "HEFT",
    "ETF",
)
BESIDE = "heft-units"
#: Seconds after which a longer search's step time is kept.
MARKS = (10, 60, 300)
HEADING = (
    *("workload", "operations", "devices", *BASELINES, BESIDE, "earlier", "search", "bound", "gap", "gain"),
    *(f"{BESIDE} gain", "never worse", "load"),
)
#: What is asked of a table, by its limit in s: mean gain by links, the median and the largest gap.
ASKED = {60.0: ({"pcie": 1.31, "nvlink": 1.30}, 0.055, 0.17), 600.0: ({"pcie": 1.33, "nvlink": 1.32}, 0.045, 0.15)}
#: A line of FILE.
Row = dict[str, Any]


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


def solved(instance: PlacementInstance, limit: float, threads: int = 1) -> Result:
    """The search's result."""
    return solve(instance, "auto", SolveOptions(time_limit=limit, threads=threads))


def shipped(name: str) -> PlacementInstance:
    """The shipped instance of a workload."""
    instance = read(f"placement/{name}")
    assert isinstance(instance, PlacementInstance)
    return instance


def row_of(name: str, instance: PlacementInstance, limit: float, threads: int) -> Row:
    """Everything about a workload: the baselines' step times in ns, and what the search found."""
    problem = placement_problem(instance)
    baselines = {one: list(found) for one, found in decoded(problem).items()}
    load = os.getloadavg()[0]
    result = solved(instance, limit, threads)
    submit([result])
    found = [(one.seconds, one.value) for one in result.trace if one.event == "solution"]
    earlier = {mark: min((value for when, value in found if when <= mark), default=None) for mark in MARKS}
    return {
        "workload": name,
        "hash": instance.content_hash,
        "limit": limit,
        "threads": threads,
        "operations": problem.operations,
        "devices": problem.devices,
        "baselines": baselines,
        "status": result.status,
        "objective": result.objective,
        "bound": result.bound,
        "earlier": {str(mark): value for mark, value in earlier.items() if mark < limit and value is not None},
        "load": [round(load, 1), round(os.getloadavg()[0], 1)],
        "python": sys.version.split()[0],
    }


def known_rows(file: Path | None, limit: float, threads: int) -> dict[str, Row]:
    """The rows of FILE with that limit and number of threads, by workload; the last one of each counts.

    A line that was cut off as it was written is left out.
    """
    found: dict[str, Row] = {}
    for line in file.read_text().splitlines() if file is not None and file.exists() else ():
        try:
            row: Row = json.loads(line)
        except json.JSONDecodeError:
            print(f"{file}: left out a line that is no JSON: {line[:40]}", file=sys.stderr)
            continue
        if (row["limit"], row["threads"]) == (limit, threads):
            found[row["workload"]] = row
    return found


def keep(file: Path | None, row: Row) -> None:
    """Append a row to FILE."""
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        whole = not file.exists() or file.read_bytes().endswith(b"\n") or not file.stat().st_size
        with file.open("a") as stream:
            stream.write(("" if whole else "\n") + json.dumps(row) + "\n")


def best_baseline(row: Row) -> int:
    """The least step time of all baselines, by either rule."""
    return int(min(min(row["baselines"][one][:2]) for one in BASELINES if one in row["baselines"]))


def gap_of(row: Row) -> float:
    """The proven gap."""
    return float((row["objective"] - row["bound"]) / row["objective"])


def complete(row: Row) -> bool:
    """Whether the search has a schedule and a bound."""
    return row["objective"] is not None and row["bound"] is not None


def cells(row: Row) -> list[str]:
    """A row of the table."""
    found = {one: Decoded(*values) for one, values in row["baselines"].items()}
    line = [row["workload"], str(row["operations"]), str(row["devices"])]
    line += [found[one].cell() if one in found else "n/a" for one in (*BASELINES, BESIDE)]
    line.append(" / ".join(f"{value / 1e6:.1f}" for value in row["earlier"].values()) or "-")
    if not complete(row):
        return [*line, row["status"], *[""] * 5, " to ".join(map(str, row["load"]))]
    step, best = row["objective"], best_baseline(row)
    line += [f"{step / 1e6:.1f}", f"{row['bound'] / 1e6:.1f}", f"{100 * gap_of(row):.1f}%"]
    line += [f"{best / step:.2f}", f"{min(found[BESIDE][:2]) / step:.2f}", "yes" if step <= best else "no"]
    return [*line, " to ".join(map(str, row["load"]))]


def summary(rows: list[Row], limit: float) -> Iterator[str]:
    """What the rows come to, beside what is asked."""
    asked, median, largest = ASKED.get(limit, ({}, math.nan, math.nan))
    for links in dict.fromkeys(row["workload"].rpartition("-")[2] for row in rows):
        mine = [row for row in rows if row["workload"].rpartition("-")[2] == links]
        gains = [best_baseline(row) / row["objective"] for row in mine]
        beside = _mean([min(row["baselines"][BESIDE][:2]) / row["objective"] for row in mine])
        text = f"{links}, {len(mine)} workloads: best baseline / search {_mean(gains):.3f} in geometric mean"
        text += f" ({asked[links]} asked)" if links in asked else ""
        yield f"{text}, {min(gains):.3f} at least; {BESIDE} / search {beside:.3f}"
    gaps = [gap_of(row) for row in rows]
    words = [f"{100 * value:.1f}%" for value in (statistics.median(gaps), max(gaps))]
    marks = [f" ({100 * value:.3g}% asked)" if not math.isnan(value) else "" for value in (median, largest)]
    yield f"gap of {len(gaps)}: median {words[0]}{marks[0]}, largest {words[1]}{marks[1]}"
    worse = [row["workload"] for row in rows if row["objective"] > best_baseline(row)]
    yield f"never worse than a baseline: {'no: ' + ', '.join(worse) if worse else 'yes'}"


def _mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def table(
    chosen: Iterable[str],
    made: Callable[[str], PlacementInstance] | None,
    file: Path | None,
    limit: float,
    threads: int,
) -> None:
    """Make the rows that FILE hasn't, by ``made``'s instance of each workload, and print the table of ``chosen``."""
    rows = known_rows(file, limit, threads)
    print(f"{limit:g} s each on {threads} thread(s), load {os.getloadavg()[0]:.1f}, Python {sys.version.split()[0]}\n")
    print(f"| {' | '.join(HEADING)} |\n|{'---|' * len(HEADING)}", flush=True)
    listed = list[Row]()
    for name in chosen:
        if name not in rows and made is not None:
            rows[name] = row_of(name, made(name), limit, threads)
            keep(file, rows[name])
        if name in rows:
            listed.append(rows[name])
            print(f"| {' | '.join(cells(rows[name]))} |", flush=True)
    whole = [row for row in listed if complete(row)]
    print("", *(summary(whole, limit) if whole else ("no search has a schedule and a bound",)), sep="\n")


def main() -> None:
    """Make the rows that are missing, then print the table of all that are asked for."""
    known = [Path(name).name for name in SHIPPED if "tiny" not in name and "50k" not in name]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for each workload")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--links", nargs="+", default=["pcie", "nvlink"])
    parser.add_argument("--instances", nargs="+", default=[], choices=known, metavar="NAME", help=" ".join(known))
    parser.add_argument("--rows", type=Path, help="a file of rows, which is gone on with")
    parser.add_argument("--table", action="store_true", help="make nothing, print what FILE has")
    arguments = parser.parse_args()
    chosen = arguments.instances or [name for name in known if name.rpartition("-")[2] in arguments.links]
    names, made = (known, None) if arguments.table else (chosen, shipped)
    table(names, made, arguments.rows, arguments.limit, arguments.threads)


if __name__ == "__main__":
    main()
