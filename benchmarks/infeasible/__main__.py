"""Does every method say what is true of instances without a solution, and of their neighbours that have one?

``python -m benchmarks.infeasible [--pairs 200] [--families ring wafer …] [--state FOLDER]`` makes so many pairs per
family (:mod:`benchmarks.infeasible`) and solves both of each by every method that may prove infeasibility. The table
is ``benchmarks/results/infeasible.md``. What is done stands in a file per family (``--state``), so that a run goes on
where the last one ended. What is wrong is printed, and the exit code is 1.
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
from itertools import islice
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
OPTIONS = SolveOptions(time_limit=600.0, threads=1)


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


def measured(family: str, first: int, number: int, state: Path) -> dict[str, Any]:
    """The tallies over so many pairs of a family from the ``first`` on, and what is wrong; from ``state`` on, where it
    was left.

    Complete methods solve each pair, of the others one after the other has a turn.
    """
    module = import_module(f"benchmarks.infeasible.{family}")
    names = (*module.COMPLETE, *module.OTHERS)
    found: dict[str, Any] = {"pairs": 0, "kinds": {}, "wrong": [], "methods": {name: asdict(Tally()) for name in names}}
    if state.exists():
        found = json.loads(state.read_text())
    tallies = {name: Tally(**found["methods"][name]) for name in names}
    done = first + found["pairs"]
    for index, pair in enumerate(islice(pairs(family, first + number), done, None), done):
        found["kinds"][pair.what] = found["kinds"].get(pair.what, 0) + 1
        for method in (*module.COMPLETE, module.OTHERS[index % len(module.OTHERS)]):
            wrong = judged(family, pair, method, tallies[method])
            said = [f"{family} pair {index} ({pair.what}), {method}: {what}" for what in wrong]
            print(*said, sep="\n", end="\n" if said else "", flush=True)
            found["wrong"] += said
        found["pairs"] += 1
        found["methods"] = {method: asdict(tally) for method, tally in tallies.items()}
        state.write_text(json.dumps(found))
    return found


def together(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """What several parts of a family's pairs come to."""
    whole: dict[str, Any] = {"pairs": 0, "kinds": {}, "wrong": [], "methods": {}}
    for part in parts:
        whole["pairs"] += part["pairs"]
        whole["wrong"] += part["wrong"]
        for kind, count in part["kinds"].items():
            whole["kinds"][kind] = whole["kinds"].get(kind, 0) + count
        for method, tally in part["methods"].items():
            own = whole["methods"].setdefault(method, dict.fromkeys(tally, 0))
            for name, value in tally.items():
                own[name] += value
    return whole


def table(found: dict[str, Any], load: str) -> str:
    """The page."""
    wrong = sum(len(of["wrong"]) for of in found.values())
    lines = [
        "# Instances without a solution, and their neighbours",
        "",
        "`python -m benchmarks.infeasible`: pairs of tiny instances. The two of a pair are one unit of one resource",
        "apart. On the near side there is a solution, on the other there is none, by brute force written from the",
        "pages alone. Every method that may prove infeasibility solves pairs of its family, on one thread.",
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
        lines.append(f"| {family} | {of['pairs']}: {kinds} |")
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
    parser.add_argument("--first", type=int, default=0, help="begin with this pair: parts may run side by side")
    parser.add_argument("--families", nargs="+", default=FAMILIES, choices=FAMILIES)
    parser.add_argument("--state", type=Path, default=RESULT.with_suffix(".state"), help="folder of what is done")
    parser.add_argument("--table", action="store_true", help="only write the table of what is done")
    asked = parser.parse_args()
    asked.state.mkdir(exist_ok=True)
    for family in () if asked.table else asked.families:
        measured(family, asked.first, asked.pairs, asked.state / f"{family}-{asked.first}.json")
    parts = {family: sorted(asked.state.glob(f"{family}-*.json")) for family in FAMILIES}
    found = {
        family: together([json.loads(path.read_text()) for path in paths]) for family, paths in parts.items() if paths
    }
    command = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, cwd=RESULT.parent).stdout.strip() or "unknown"
    load = (
        f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.0f}, commit {commit}."
    )
    RESULT.write_text(table(found, load))
    return int(any(of["wrong"] for of in found.values()))


if __name__ == "__main__":
    sys.exit(main())
