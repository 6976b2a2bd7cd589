"""The exact program, CP-SAT, HiGHS and brute force on random tiny instances with features of all kinds side by side.

    python -m benchmarks.dataflow_mixed run FIRST LAST FILE [--mappings 150]     seeds FIRST to LAST - 1
    python -m benchmarks.dataflow_mixed page FILE … [--out FILE]

``run`` appends a line to FILE as each seed ends, and leaves out the seeds that FILE has, so that a part that was
stopped goes on. An instance of more than ``--mappings`` mappings isn't compared (brute force takes each). Compared are
the value and the verdict of four methods, what the program claims before the checker looks, and the bounds of five.
``page`` writes the result of all parts. Exit code 1 where a value differs or a bound lies above the optimum.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from chipmap.instances.dataflow import DataflowInstance
from chipmap.instances.dataflow.plans import allowed_degrees
from chipmap.methods.dataflow.bounds import bounds, relaxation
from chipmap.methods.dataflow.chain import auto
from chipmap.methods.dataflow.models import cpsat, mip
from chipmap.records import ContradictionError, InputError
from chipmap.run import Run, SolveOptions
from chipmap.validation.brute_force import brute_force
from chipmap.validation.dataflow.candidates import count
from chipmap.validation.dataflow.checker import check
from tests.dataflow.feature_mix import feature_mix, features, with_its_dram

EXACT = {"program": auto, "HiGHS": mip, "CP-SAT": cpsat}
BOUNDS = {"first bound": bounds, "relaxation": relaxation}
LIMIT = 120.0
#: What is said of a method that stopped, as its bound lay above a mapping that the checker accepts.
REFUSED = "stopped, as the solver's bound lies above a mapping"
#: What is said where HiGHS ends, by its tolerances, with a mapping that it doesn't call optimal.
UNPROVED = re.compile(r"HiGHS: \('feasible', \d+\) instead of \('optimal', \d+\)")


def state_of(instance: DataflowInstance) -> Run:
    """A run of one thread."""
    return Run(instance, SolveOptions(time_limit=LIMIT, threads=1), check)


def differences(instance: DataflowInstance, optimum: int | None) -> list[str]:
    """What any method says that isn't so."""
    wrong: list[str] = []
    wanted = ("infeasible" if optimum is None else "optimal", optimum)
    for name, method in EXACT.items():
        run = state_of(instance)
        try:
            found = method(instance, run).reason, run.upper
        except ContradictionError:
            wrong.append(f"{name}: {REFUSED}{_without_presolve(instance, wanted) if method is mip else ''}")
            continue
        if found != wanted:
            wrong.append(f"{name}: {found} instead of {wanted}")
        if run.rejected:
            wrong.append(f"{name}: a mapping that the checker refuses")
        if method is auto and run.best is not None and run.best.claimed != optimum:
            wrong.append(f"{name}: claims {run.best.claimed} of {optimum}")
        wrong += _above(name, run, optimum)
    for name, method in BOUNDS.items():
        run = state_of(instance)
        try:
            method(instance, run)
        except InputError:
            continue  # not stated for this instance
        wrong += _above(name, run, optimum)
    return wrong


def _without_presolve(instance: DataflowInstance, wanted: tuple[str, int | None]) -> str:
    """Whether HiGHS is right on the same model once it leaves out its presolve."""
    run = Run(instance, SolveOptions(time_limit=LIMIT, threads=1, solver="highs", native={"presolve": "off"}), check)
    return "; right without presolve" if (mip(instance, run).reason, run.upper) == wanted else ""


def _above(name: str, run: Run, optimum: int | None) -> list[str]:
    above = [] if optimum is None else [one for one in run.bounds if one.value > optimum]
    return [f"{name}: bound {one.value} ({one.source}) above {optimum}" for one in above]


def compared(seed: int, most: int) -> dict[str, Any]:
    """A line of the file: what the seed's instance has, and what is wrong; or that it isn't compared."""
    random = Random(f"dataflow mix {seed}")
    instance = feature_mix(random)
    if not allowed_degrees(instance) or not 0 < count(instance) <= most:
        return {"seed": seed, "compared": False}
    instance = with_its_dram(instance, random)
    began = time.process_time()
    optimum = brute_force(instance, check)[0]
    wrong = differences(instance, optimum)
    return {
        **{"seed": seed, "compared": True, "mappings": count(instance), "kernels": len(instance.workload.kernels)},
        **{"optimum": optimum, "features": features(instance), "wrong": wrong},
        "seconds": round(time.process_time() - began, 3),
    }


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a file."""
    text = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in text if line.endswith("}")]


def run_part(first: int, last: int, path: Path, most: int) -> int:
    """Compare the seeds that the file lacks; the number of differences."""
    done, wrong = {line["seed"] for line in lines_of(path)}, 0
    with path.open("a") as file:
        for seed in range(first, last):
            if seed not in done:
                line = compared(seed, most)
                print(json.dumps(line), file=file, flush=True)
                wrong += len(line.get("wrong", ()))
                for text in line.get("wrong", ()):
                    print(seed, text, file=sys.stderr, flush=True)
    return wrong


def page(paths: list[Path]) -> tuple[str, int]:
    """The result page of all parts, and the number of differences."""
    seen = {line["seed"]: line for path in paths for line in lines_of(path)}
    rows = [line for line in seen.values() if line["compared"]]
    said = [(line["seed"], text) for line in rows for text in line["wrong"]]
    wrong = [one for one in said if not UNPROVED.fullmatch(one[1])]
    infeasible = sum(line["optimum"] is None for line in rows)
    counted = Counter(name for line in rows for name in line["features"])
    pairs = Counter(pair for line in rows for pair in _pairs(line["features"]))
    possible = len(counted) * (len(counted) - 1) // 2
    sizes = Counter(line["kernels"] for line in rows)
    many = ", ".join(f"{number:,} of {kernels}" for kernels, number in sorted(sizes.items()))
    lines = [
        "# Random instances with features of all kinds side by side\n",
        f"`python -m benchmarks.dataflow_mixed`, Python {platform.python_version()}, {platform.machine()}, one thread; "
        f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores when the page was written.\n",
        f"**{len(rows):,} instances** of {len(seen):,} seeds ({min(seen):,} to {max(seen):,}; the others have too many "
        f"mappings for brute force, or none): {many} kernels; {sum(line['mappings'] for line in rows):,} mappings; "
        f"{infeasible:,} infeasible. CPU seconds: {sum(line['seconds'] for line in rows):,.0f}.\n",
        "The program (`dataflow/auto`, what it claims and what the checker says), HiGHS and CP-SAT against brute force "
        "with the checker: value and verdict. Every bound that these, `dataflow/bounds` and `dataflow/relaxation` "
        f"report against the optimum. **Differences: {len(wrong)}.** HiGHS ended {len(said) - len(wrong)} times, by "
        "its tolerances, with a mapping that it doesn't call optimal and a bound that holds.\n",
        f"{len(pairs):,} of {possible:,} pairs of the features below occur (some exclude each other).\n",
        "| feature | instances |",
        "|---|--:|",
        *(f"| {name} | {number:,} |" for name, number in counted.most_common()),
    ]
    lines += ["", *(f"- seed {seed}: {text}" for seed, text in wrong)] if wrong else []
    return "\n".join(lines) + "\n", len(wrong)


def _pairs(names: list[str]) -> list[tuple[str, str]]:
    return [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]


def main() -> int:
    """Run the sub-command; 1 where something differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, dest="command")
    sub = commands.add_parser("run", help="compare the instances of some seeds")
    sub.add_argument("first", type=int, metavar="FIRST")
    sub.add_argument("last", type=int, metavar="LAST")
    sub.add_argument("file", type=Path, metavar="FILE")
    sub.add_argument("--mappings", type=int, default=150)
    sub = commands.add_parser("page", help="write the result of all parts")
    sub.add_argument("files", type=Path, nargs="+", metavar="FILE")
    sub.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.command == "run":
        return int(run_part(args.first, args.last, args.file, args.mappings) > 0)
    text, wrong = page(args.files)
    if args.out:
        args.out.write_text(text)
    print(text)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
