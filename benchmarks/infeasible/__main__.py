"""Does every method say what is true of instances without a solution, and of their neighbours that have one?

``python -m benchmarks.infeasible [--pairs 200] [--families ring wafer …] [--state FILE]`` makes so many pairs per
family (:mod:`benchmarks.infeasible`) and solves both of each by every method that may prove infeasibility. The table is
``benchmarks/results/infeasible.md``. Families that are done stand in the state's file, so that a run goes on where the
last one ended. What is wrong is printed, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.infeasible.pairs import Pair, Tally, judge_near, judge_tight
from chipmap.records import InputError
from chipmap.run import SolveOptions
from chipmap.solve import solve

FAMILIES = ("ring", "dataflow", "wafer", "multimodel", "placement")
RESULT = Path(__file__).resolve().parents[1] / "results" / "infeasible.md"
#: The limit of one solve, far above what one takes.
OPTIONS = SolveOptions(time_limit=60.0, threads=1)


def pairs(family: str, number: int, seed: int = 0) -> Iterator[Pair]:
    """So many pairs of a family, by their seeds."""
    module, found = import_module(f"benchmarks.infeasible.{family}"), 0
    while found < number:
        made = module.pair(Random(f"{family} {seed}"))
        seed += 1
        if made is not None:
            found += 1
            yield made


def judged(family: str, pair: Pair, method: str, tally: Tally, options: SolveOptions = OPTIONS) -> list[str]:
    """What a method gets wrong of a pair."""
    module, wrong = import_module(f"benchmarks.infeasible.{family}"), []
    began = time.process_time()
    for instance in (pair.tight, pair.near):
        try:
            result = solve(instance, f"{family}/{method}", options, isolate=False)
        except InputError:  # the method isn't for such instances
            tally.refused += 1
            continue
        if instance is pair.tight:
            wrong += judge_tight(pair, result, tally)
        else:
            wrong += judge_near(result, method in module.COMPLETE, tally)
    tally.seconds += time.process_time() - began
    return wrong


def measured(family: str, number: int) -> dict[str, Any]:
    """The tallies of all methods of a family, and what is wrong."""
    module = import_module(f"benchmarks.infeasible.{family}")
    tallies = {method: Tally() for method in (*module.COMPLETE, *module.OTHERS)}
    kinds, wrong = dict[str, int](), list[str]()
    for index, pair in enumerate(pairs(family, number)):
        kinds[pair.what] = kinds.get(pair.what, 0) + 1
        for method, tally in tallies.items():
            found = judged(family, pair, method, tally)
            said = [f"{family} pair {index} ({pair.what}), {method}: {what}" for what in found]
            print(*said, sep="\n", end="\n" if said else "", flush=True)
            wrong += said
    return {
        "kinds": kinds,
        "wrong": wrong,
        "complete": list(module.COMPLETE),
        "methods": {method: asdict(tally) for method, tally in tallies.items()},
    }


def table(found: dict[str, Any], number: int, load: str) -> str:
    """The page."""
    wrong = sum(len(of["wrong"]) for of in found.values())
    lines = [
        "# Instances without a solution, and their neighbours",
        "",
        f"`python -m benchmarks.infeasible`: {number} pairs per family. The two of a pair are one unit of one resource",
        "apart. On the near side there is a solution, on the other there is none, by brute force written from the",
        "pages alone. Every method that may prove infeasibility solves both, on one thread, within 60 s.",
        "",
        f"**Wrong words: {wrong}.** Wrong are: a solution or an error where there is no solution; infeasible where",
        "there is one; labels that don't contradict each other, or a label that takes no part in a contradiction; a",
        "complete method that ends with neither before its limit.",
        "",
        "| family | pairs by what is one unit apart |",
        "|---|---|",
    ]
    for family, of in found.items():
        kinds = ", ".join(f"{count} {what}" for what, count in sorted(of["kinds"].items()))
        lines.append(f"| {family} | {kinds} |")
    lines += [
        "",
        "*Proved*: infeasible. *Labels*: reasons whose labels are proved to contradict each other, in brackets those",
        "from which none can be left out. *Takes part*: reasons that name one label that takes part. *Not known*:",
        "proofs without a reason. *Optimal*, *open*: what the method says of the neighbours.",
        "",
        "| method | proved | open | labels | takes part | not known | wrong | neighbours: optimal | open | CPU s |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for family, of in found.items():
        for method, t in of["methods"].items():
            errors = sum(f", {method}: " in what for what in of["wrong"])
            cells = [t["proved"], t["open"], f"{t['named']} ({t['irreducible']})", t["member"], t["unnamed"], errors]
            cells += [t["solved"], t["left_open"], f"{t['seconds']:.0f}"]
            lines.append(f"| {family}/{method} | {' | '.join(map(str, cells))} |")
    return "\n".join([*lines, "", load, ""])


def main() -> int:
    """Measure what isn't done yet, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--families", nargs="+", default=FAMILIES, choices=FAMILIES)
    parser.add_argument("--state", type=Path, default=RESULT.with_suffix(".state.json"))
    asked = parser.parse_args()
    found = json.loads(asked.state.read_text()) if asked.state.exists() else {}
    for family in asked.families:
        if family not in found:
            found[family] = measured(family, asked.pairs)
            asked.state.write_text(json.dumps(found))
    found = {family: found[family] for family in FAMILIES if family in found}
    command = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, cwd=RESULT.parent).stdout.strip() or "unknown"
    load = (
        f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.0f}, commit {commit}."
    )
    RESULT.write_text(table(found, asked.pairs, load))
    return int(any(of["wrong"] for of in found.values()))


if __name__ == "__main__":
    sys.exit(main())
