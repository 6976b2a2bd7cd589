"""Who finds what in ``placement/auto``: the source of every instance's placement and bound, after 10 s and at the end.

    python -m benchmarks.placement_ablation --rows FILE [--limit SECONDS] [--only TEXT ...] [--links pcie nvlink]
                                            [--partitioning FOLDER] [--graphs FILE ...] [--markdown FILE]

Instances are the shipped ones; those of FOLDER, ``throughput-inputs`` of msr-fiddle/dnn-partitioning, in blocks and
free; and the step of each traced network FILE on two P100. Each is solved once, on one thread. Seconds, of the limit as
well, are those of the processor, so that other work on the machine decides little. Each row goes to the file of rows as
a line of JSON as soon as it is there, and a later run with the same file makes only the rows that are missing.
"""

from __future__ import annotations

import time

time.monotonic = time.process_time  # before chipmap is imported: limits count the processor's seconds

import argparse  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import platform  # noqa: E402
import re  # noqa: E402
from collections.abc import Callable, Iterator  # noqa: E402
from functools import partial  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import msgspec  # noqa: E402

from benchmarks.best_known import submit  # noqa: E402
from chipmap import SolveOptions, solve  # noqa: E402
from chipmap.inputs.reading import read, shipped_names  # noqa: E402
from chipmap.instances.placement.dnn_partitioning import partitioning  # noqa: E402
from chipmap.instances.placement.instance import PlacementInstance  # noqa: E402
from chipmap.instances.placement.presets import preset  # noqa: E402

#: Seconds after which it is looked who was last.
MARKS = (10, 60)
COLUMNS = ("instance", "step or load", "gap", "found by", "at s", "on the way", "bounded by", "at s", "on the way")
#: Sources by name and numbers that a source's name may hold.
NUMBER = re.compile(r" \(.*\)$")


def of_file(file: str, links: str) -> PlacementInstance:
    """The step of a traced network on two P100."""
    given = read(file, family="placement")
    assert isinstance(given, PlacementInstance)
    return msgspec.structs.replace(given, system=preset(f"p100-{links}", 2))


def instances(arguments: argparse.Namespace) -> Iterator[tuple[str, Callable[[], Any]]]:
    """(name, how it is made) of each instance, the tiny ones first."""
    shipped = [name for name in shipped_names() if name.startswith("placement/")]
    for name in sorted(shipped, key=lambda one: "/tiny-" not in one):
        yield name.removeprefix("placement/"), partial(read, name)
    for file in sorted(arguments.partitioning.rglob("*.json")) if arguments.partitioning else ():
        for contiguous in (True, False):
            yield f"{file.stem}, {'blocks' if contiguous else 'free'}", partial(partitioning, str(file), contiguous)
    for file in arguments.graphs:
        for links in arguments.links:
            yield f"{Path(file).stem}, {links}", partial(of_file, file, links)


def row_of(name: str, make: Callable[[], Any], limit: float) -> dict[str, Any]:
    """What a solve ends with and its trace."""
    given, begun = make(), time.monotonic()
    result = solve(given, "placement/auto", SolveOptions(time_limit=limit, threads=1), isolate=False)
    seconds = time.monotonic() - begun
    submit([result])
    trace = [(one.event, round(one.seconds, 2), one.value, NUMBER.sub("", one.source)) for one in result.trace]
    return {
        "instance": name,
        "limit": limit,
        "status": result.status,
        "objective": result.objective,
        "bound": result.bound,
        "seconds": round(seconds, 2),
        "trace": trace,
    }


def known_rows(file: Path, limit: float) -> dict[str, dict[str, Any]]:
    """The rows of a file by instance, those of this limit alone."""
    lines = file.read_text().splitlines() if file.exists() else ()
    rows = [json.loads(line) for line in lines if line.endswith("}")]
    return {row["instance"]: row for row in rows if row["limit"] == limit}


def steps(row: dict[str, Any], event: str, until: float) -> list[tuple[str, int, float]]:
    """(source, number of gains, second of the last) up to a second, in the order of each source's last gain."""
    found: dict[str, tuple[str, int, float]] = {}
    for what, seconds, _, source in row["trace"]:
        if what == event and seconds <= until:
            _, count, _ = found.pop(source, ("", 0, 0.0))
            found[source] = source, count + 1, seconds
    return list(found.values())


def cells(row: dict[str, Any]) -> list[str]:
    """A row of the table: what was found, and by whom at the end."""
    objective, bound = row["objective"], row["bound"]
    made = [row["instance"], "n/a" if objective is None else f"{objective / 1e6:,.3f} ms"]
    if objective is not None and objective < 10_000:
        made[1] = f"{objective} ns"
    made.append("n/a" if not objective or bound is None else f"{1 - bound / objective:.2%}")
    for event in ("solution", "bound"):
        *before, (source, count, second) = steps(row, event, row["limit"]) or [("nobody", 0, 0.0)]
        way = [f"{other} {times}× to {at:.1f} s" for other, times, at in before]
        made += [f"{source} ({count}×)", f"{second:.1f}", ", ".join(way)]
    return made


def totals(rows: dict[str, dict[str, Any]], event: str, word: str, limit: float) -> Iterator[str]:
    """A table by source: in how many instances it was the last after each of the marks, and in how many it gained."""
    marks = [mark for mark in MARKS if mark <= limit]
    yield f"| source | {' | '.join(f'{word} last, {mark} s' for mark in marks)} | instances with a gain |"
    yield f"|{' --- |' * (len(marks) + 2)}"
    last: dict[str, list[int]] = {}
    gained: dict[str, int] = {}
    for row in rows.values():
        for source, *_ in steps(row, event, limit):
            gained[source] = gained.get(source, 0) + 1
            last.setdefault(source, [0] * len(marks))
        for at, mark in enumerate(marks):
            if found := steps(row, event, mark):
                last[found[-1][0]][at] += 1
    for source in sorted(last, key=lambda one: (*(-count for count in reversed(last[one])), -gained[one], one)):
        yield f"| {source} | {' | '.join(map(str, last[source]))} | {gained[source]} |"


def main() -> None:
    """Solve what isn't there yet, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, required=True, metavar="FILE")
    parser.add_argument("--limit", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT")
    parser.add_argument("--links", nargs="+", default=["pcie", "nvlink"], choices=["pcie", "nvlink"])
    parser.add_argument("--partitioning", type=Path, metavar="FOLDER")
    parser.add_argument("--graphs", nargs="+", default=[], metavar="FILE")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    known = known_rows(arguments.rows, arguments.limit)
    rows: dict[str, dict[str, Any]] = {}
    for name, make in instances(arguments):
        if any(text in name for text in arguments.only):
            if name not in known:
                known[name] = row_of(name, make, arguments.limit)
                with arguments.rows.open("a") as file:
                    file.write(json.dumps(known[name]) + "\n")
            rows[name] = known[name]
    lines = [f"| {' | '.join(COLUMNS)} |", "|" + " --- |" * len(COLUMNS)]
    lines += [f"| {' | '.join(cells(row))} |" for row in rows.values()]
    for event, word in (("solution", "found"), ("bound", "bounded")):
        lines += ["", *totals(rows, event, word, arguments.limit)]
    lines += ["", f"Limit {arguments.limit:g} s, {os.cpu_count()} cores, Python {platform.python_version()}."]
    print("\n".join(lines))
    if arguments.markdown:
        arguments.markdown.write_text("\n".join(["# Ablation of placement/auto", "", *lines, ""]))


if __name__ == "__main__":
    main()
