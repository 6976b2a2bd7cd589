"""Who finds what in ``multimodel/auto``: the source of the last schedule and of the last bound of every instance.

    python -m benchmarks.multimodel_ablation --rows FILE [--limit SECONDS] [--only NAME ...] [--unseen]
                                             [--without LINK ...] [--markdown FILE]

Every instance is solved in this process, with one thread, for so many seconds of the processor. Its trace goes to FILE
as a line of JSON; what is in FILE isn't solved again, so that a run can be ended and begun anew. ``--without`` leaves
out links of the chain by name. The shipped instances stand in :mod:`chipmap.instances.multimodel.shipped`; ``--unseen``
adds those of :func:`unseen`, on which no share of the chain was tuned.

The page counts the sources of all runs in FILE by limit. Of runs with links left out it gives each next to the whole
chain's: the geometric mean of the ratios of objectives and of bounds, and how many are better and worse.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from math import exp, log
from pathlib import Path
from typing import Any, Literal

import chipmap
from benchmarks.best_known import submit
from chipmap.instances.multimodel.shipped import SHIPPED, SWEEPS
from chipmap.methods.chain import Link
from chipmap.methods.multimodel import chain, programs
from chipmap.run import SolveOptions

Event = Literal["solution", "bound"]
#: What an instance is made of: a shipped name or a generator with its parameters.
Made = str | dict[str, Any]
#: Link -> the module and the name of its function.
LINKS = {
    "energy": (chain, "least_of_energy"),
    "weights": (chain, "bound_by_weights"),
    "scar": (chain, "scar_start"),
    "single models": (chain, "single_models"),
    "one window": (chain, "one_window"),
    "first search": (chain, "first_search"),
    "search": (chain, "search"),
    "annealing, one window": (chain, "search_one_window"),
    "columns": (chain, "columns"),
    "boundaries of windows": (programs, "boundaries"),
    "cpsat": (chain, "model_by_cpsat"),
}
#: Points of each shipped front that are solved.
POINTS = (1, 5, 10)


def shipped() -> Iterator[tuple[str, Made]]:
    """The shipped instances, and some points of the shipped fronts: the least energy within a limit on latency."""
    yield from ((name.removeprefix("multimodel/"), name) for name in SHIPPED)
    for front, fields in SWEEPS.items():
        for point in POINTS:
            changes = fields["set"] | fields["axes"][0]["choices"][point]["set"]
            generator, parameters = SHIPPED[fields["instance"]]
            task = {key.removeprefix("task."): value for key, value in changes.items()}
            made = {"generator": generator, **parameters, "task": task}
            yield f"{front.removeprefix('multimodel/')}-{point}", made


def unseen() -> Iterator[tuple[str, Made]]:
    """Instances that aren't shipped: other objectives, windows, modules, charges, and random ones of several sizes."""
    scenarios: tuple[tuple[int, bool, dict[str, Any], dict[str, Any]], ...] = (
        (1, True, {"objective": "latency"}, {}),
        (3, False, {"objective": "latency", "windows": 3}, {"rows": 2, "columns": 2}),
        (4, True, {"objective": "weighted", "watts": 5.0}, {}),
        (6, False, {"objective": "weighted", "watts": 1.0, "windows": 3}, {}),
        (8, True, {"objective": "edp", "windows": 2}, {"rows": 2, "columns": 3}),
        (9, False, {"objective": "edp", "windows": 8}, {}),
        (10, True, {"objective": "energy"}, {}),
        (7, True, {"objective": "edp", "windows": 1}, {"topology": "triangular"}),
        (2, True, {"objective": "edp", "windows": 1}, {"rows": 4, "columns": 5}),
        (5, False, {"objective": "edp", "windows": 4}, {"rows": 4, "columns": 4, "pattern": "checkerboard"}),
        (1, False, {"objective": "edp", "windows": 1}, {"rows": 6, "columns": 6}),
        (10, False, {"objective": "latency", "windows": 1}, {"rows": 5, "columns": 5}),
        (3, True, {"objective": "edp", "charge": "both"}, {"rows": 2, "columns": 4}),
        (6, True, {"objective": "edp", "windows": 6}, {"pattern": "cross"}),
        (9, True, {"objective": "latency", "windows": 2}, {"pattern": "first"}),
    )
    for number, pipelined, task, module in scenarios:
        how, words = "pipelined" if pipelined else "whole", "-".join(map(str, (*task.values(), *module.values())))
        given = {"number": number, "pipelined": pipelined, "task": task, **module}
        yield f"scenario-{number}-{how}-{words}", {"generator": "multimodel-scenario", **given}
    drawn: tuple[tuple[list[int], int, int, str, int, dict[str, Any]], ...] = (
        ([8, 6, 5], 2, 2, "edp", 3, {}),
        ([12, 9], 2, 3, "latency", 3, {}),
        ([20, 15, 10], 2, 2, "weighted", 4, {}),
        ([6, 6, 6, 6], 3, 3, "edp", 4, {"sram_bytes": 1_500_000}),
        ([30, 25, 20], 3, 3, "edp", 5, {"sram_bytes": 4_000_000}),
        ([40, 40], 3, 4, "edp", 3, {"batch": 64}),
        ([16, 12, 8], 2, 4, "edp", 1, {"topology": "triangular", "batch": 16}),
        ([10, 10, 10], 2, 2, "latency", 3, {"deadline_ns": 900_000}),
        ([25, 10, 10, 5, 5], 3, 3, "energy", 4, {"sram_bytes": 3_000_000}),
        ([60, 40, 20], 4, 4, "edp", 2, {"batch": 8}),
    )
    for seed, (layers, rows, columns, objective, windows, more) in enumerate(drawn, start=100):
        task = {"objective": objective, "windows": windows}
        given = {"layers": layers, "rows": rows, "columns": columns, "seed": seed, "task": task, **more}
        name = f"random-{seed}-{'-'.join(map(str, layers))}-{objective}-{windows}"
        yield name, {"generator": "multimodel-random", **given}


def leave_out(links: Sequence[str]) -> None:
    """Make these links of the chain do nothing."""

    def nothing(*given: Any, **named: Any) -> None:
        """Finds nothing."""

    for name in links:
        module, function = LINKS[name]
        here = getattr(module, function)
        setattr(module, function, nothing)
        for tuple_ in ("CHAIN", "ALONE"):
            parts: tuple[Link, ...] = getattr(chain, tuple_)
            kept = tuple(one._replace(work=nothing) if one.work is here else one for one in parts)
            setattr(chain, tuple_, kept)


def solved(name: str, made: Made, limit: float) -> dict[str, Any]:
    """One run: what came out, and its trace."""
    if isinstance(made, dict):
        fields = dict(made)
        made = chipmap.generate(fields.pop("generator"), **{**fields, "name": name})  # type: ignore[assignment]
    options = SolveOptions.make(threads=1, time_limit=limit)
    result = chipmap.solve(made, "multimodel/auto", options, isolate=False, started=time.monotonic())
    submit([result])
    trace = [[round(one.seconds, 3), one.event, one.source, one.value] for one in result.trace]
    return {
        "status": result.status,
        "objective": result.objective,
        "bound": result.bound,
        "ended": result.termination.reason,
        "seconds": round(result.timings.get("total", 0.0), 3),
        "trace": trace,
    }


def last(row: dict[str, Any], event: Event) -> str | None:
    """The source of the last gain."""
    return next((source for _, kind, source, _ in reversed(row["trace"]) if kind == event), None)


def link_of(source: str | None) -> str:
    """A source without what differs from run to run."""
    return "none" if source is None else "SCAR" if source.startswith("SCAR") else source


def ratio(pairs: Sequence[tuple[float, float]]) -> str:
    """The geometric mean of second / first, less one."""
    logs = [log(b / a) for a, b in pairs if a > 0 and b > 0]
    return f"{100 * (exp(sum(logs) / len(logs)) - 1):+.3f} %" if logs else ""


def counts(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Tables of sources: of how many instances each has the last schedule (bound), and gained at all."""
    limits, lines = sorted({row["limit"] for row in rows}), list[str]()
    for event, word in (("solution", "found"), ("bound", "bounded")):
        heads = [f"{word} last at {limit:g} s | gained at {limit:g} s" for limit in limits]
        lines += ["", f"| source | {' | '.join(heads)} |", "| --- |" + " --: | --: |" * len(limits)]
        cells = dict[str, list[str]]()
        for limit in limits:
            own = [row for row in rows if row["limit"] == limit]
            final = Counter(link_of(last(row, event)) for row in own)  # type: ignore[arg-type]
            some = Counter(
                source for row in own for source in {link_of(s) for _, e, s, _ in row["trace"] if e == event}
            )
            for source in {*final, *some}:
                cells.setdefault(source, [""] * 2 * len(limits))
                at = 2 * limits.index(limit)
                cells[source][at : at + 2] = [str(final[source] or ""), str(some[source] or "")]
        order = sorted(cells, key=lambda source: [-int(cell or 0) for cell in cells[source]])
        lines += [f"| {source} | {' | '.join(cells[source])} |" for source in order]
    return lines


def comparisons(rows: Sequence[dict[str, Any]]) -> list[str]:
    """A table of the runs with links left out next to those of the whole chain."""
    whole = {(row["name"], row["limit"]): row for row in rows if not row["without"]}
    heads = ["left out", "limit", "instances", "status differs"]
    heads += [f"{what}: {how}" for what in ("objective", "bound") for how in ("mean", "better", "worse")]
    lines = ["", f"| {' | '.join(heads)} |", "| --- |" + " --: |" * (len(heads) - 1)]
    for without, limit in dict.fromkeys((row["without"], row["limit"]) for row in rows if row["without"]):
        own = [row for row in rows if (row["without"], row["limit"]) == (without, limit)]
        both = [(whole[row["name"], limit], row) for row in own if (row["name"], limit) in whole]
        cells = [without, f"{limit:g} s", str(len(both)), str(sum(a["status"] != b["status"] for a, b in both))]
        for key, sign in (("objective", -1), ("bound", 1)):
            pairs = [(a[key], b[key]) for a, b in both if a[key] is not None and b[key] is not None]
            cells += [ratio(pairs), *(str(sum(way * sign * (b - a) > 0 for a, b in pairs)) for way in (1, -1))]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def instances_table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """A line for each instance: objective, gap, who was last."""
    lines = ["", "| instance | limit | objective | gap | found by | at s | bounded by | at s |"]
    lines += ["| --- | --: | --: | --: | --- | --: | --- | --: |"]
    for row in rows:
        objective, bound = row["objective"], row["bound"]
        gap = "" if objective is None or bound is None else f"{100 * (objective - bound) / max(1, objective):.2f} %"
        cells = [row["name"], f"{row['limit']:g} s", row["status"] if objective is None else f"{objective:,}", gap]
        for event in ("solution", "bound"):
            seconds = [s for s, kind, _, _ in row["trace"] if kind == event]
            cells += [link_of(last(row, event)), f"{seconds[-1]:.1f}" if seconds else ""]  # type: ignore[arg-type]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def page(rows: Sequence[dict[str, Any]]) -> str:
    """All tables."""
    whole = [row for row in rows if not row["without"]]
    lines = []
    for unseen_ones, title in ((False, "Shipped instances"), (True, "Instances that aren't shipped")):
        own = [row for row in whole if row["unseen"] == unseen_ones]
        if own:
            lines += ["", f"## {title}", *counts(own)]
    if len(whole) < len(rows):
        lines += ["", "## Links left out", *comparisons(rows)]
    return "\n".join([*lines, "", "## Each instance", *instances_table(whole), ""])


def main() -> None:
    """Solve what isn't there yet, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, required=True, metavar="FILE")
    parser.add_argument("--limit", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--unseen", action="store_true")
    parser.add_argument("--without", nargs="*", default=[], choices=tuple(LINKS), metavar="LINK")
    parser.add_argument("--table", action="store_true", help="solve nothing")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    rows = [json.loads(line) for line in arguments.rows.read_text().splitlines()] if arguments.rows.exists() else []
    done = {(row["name"], row["limit"], row["without"]) for row in rows}
    without = ", ".join(arguments.without)
    leave_out(arguments.without)
    time.monotonic = time.process_time  # limits count what this process computes
    asked = [(name, made, False) for name, made in shipped()]
    asked += [(name, made, True) for name, made in unseen()] if arguments.unseen else []
    with arguments.rows.open("a", encoding="utf-8") as file:
        for name, made, new in () if arguments.table else asked:
            if (name, arguments.limit, without) in done:
                continue
            if arguments.only and not any(name.startswith(part) for part in arguments.only):
                continue
            row = {"name": name, "limit": arguments.limit, "without": without, "unseen": new}
            rows.append(row | solved(name, made, arguments.limit))
            file.write(json.dumps(rows[-1]) + "\n")
            file.flush()
    text = page(rows)
    print(text)
    if arguments.markdown:
        head = f"`python -m benchmarks.multimodel_ablation --rows FILE`: CPU seconds, one thread of {os.cpu_count()} "
        head += f"cores, Python {platform.python_version()}, {platform.machine()}, load {os.getloadavg()[0]:.1f}."
        arguments.markdown.write_text(f"# Ablation of multimodel/auto\n\n{head}\n{text}", encoding="utf-8")


if __name__ == "__main__":
    main()
