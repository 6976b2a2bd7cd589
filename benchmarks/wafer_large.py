"""A thousand kernels: what the chain finds and proves for large generated networks, and what that takes.

    python -m benchmarks.wafer_large [--names wafer/gpt-1000] [--seconds 600] [--seed 1] [--rows FILE] [--markdown FILE]

One child process solves one instance; the first layout and a gap of 30% come after so many seconds. The fill is the sum
of all kernels' least areas at the time that was found, as a part of the fabric. The memory is the largest resident set
of the child, and of its own children. Each measurement is one line of the JSON file ``--rows``; the table is made of
all of them.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.best_known import submit
from chipmap.inputs.reading import read
from chipmap.instances.wafer import WaferInstance, WaferSolution
from chipmap.instances.wafer.problem import TICKS, WaferProblem, evaluate, wafer_problem
from chipmap.instances.wafer.shapes import shapes
from chipmap.result import Result
from chipmap.run import SolveOptions
from chipmap.solve import solve
from chipmap.validation.wafer.checker import check

NAMES = ("wafer/gpt-1000",)
HEAD = (
    "| instance | kernels | weights | time | wire | fill | score | bound | gap | first layout | gap 30% | seconds | "
    "MiB | of children |"
)


def fill(problem: WaferProblem, tau: int) -> float:
    """Σ of the least areas at ``tau`` quarters / area of the fabric."""
    areas = [int((front[:, 0] * front[:, 1]).min()) for front in shapes(problem, tau)]
    return sum(areas[t] for t in problem.types.tolist()) / (problem.width * problem.height)


def measure(name: str, seconds: float, seed: int) -> dict[str, Any]:
    """Solve ``name`` for ``seconds``, check the floorplan, and say what it took."""
    instance = read(name)
    if not isinstance(instance, WaferInstance):
        raise SystemExit(f"{name} is not a wafer instance")
    problem = wafer_problem(instance)
    result = solve(instance, options=SolveOptions(time_limit=seconds, seed=seed))
    submit([result])
    weights = instance.weights
    row: dict[str, Any] = {
        "instance": name,
        "kernels": problem.n,
        "weights": f"{weights.time}, {weights.wire}, {weights.adapter}",
        "seconds": round(result.seconds, 1),
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "children": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024,
    }
    return row | _found(problem, result)


def _found(problem: WaferProblem, result: Result) -> dict[str, Any]:
    if result.solution is None or result.bound is None:
        return {}
    solution = WaferSolution.make(**result.solution)
    certificate = check(problem.instance, solution)
    if certificate.violations:
        raise SystemExit(f"{problem.instance.name}: {certificate}")
    by_name = {placement.kernel: placement for placement in solution.placements}
    parts = evaluate(problem, [by_name[name] for name in problem.names])
    return {
        "time": parts.time / TICKS,
        "wire": parts.wire / 2,
        "fill": fill(problem, parts.time),
        "score": parts.score / TICKS,
        "bound": result.bound / TICKS,
        "gap": 1 - result.bound / parts.score,
        "source": result.incumbent_source,
        "first": next(event.seconds for event in result.trace if event.event == "solution"),
        "close": _close(result),
        "sources": sorted({bound.source for bound in result.bounds}),
    }


def _close(result: Result) -> float | None:
    """Seconds until the gap was 30% or less."""
    for event in result.trace:
        if event.incumbent and event.bound and event.bound >= 0.7 * event.incumbent:
            return event.seconds
    return None


def line(row: dict[str, Any]) -> str:
    """One row of the table."""
    cells = [row["instance"], row["kernels"], row["weights"]]
    if "score" in row:
        close = "n/a" if row["close"] is None else f"{row['close']:.1f}"
        cells += [f"{row['time']:,.10g}", f"{row['wire']:,.10g}", f"{row['fill']:.1%}", f"{row['score']:,.10g}"]
        cells += [f"{row['bound']:,.10g}", f"{row['gap']:.1%}", f"{row['first']:.1f}", close]
    else:
        cells += ["n/a"] * 8
    return "| " + " | ".join(map(str, [*cells, row["seconds"], row["memory"], row["children"]])) + " |"


def main() -> None:
    """Measure every name in a process of its own, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", default=",".join(NAMES))
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rows", type=Path)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, options.seconds, options.seed)))
        return
    rows: list[dict[str, Any]] = []
    if options.rows and options.rows.exists():
        rows = [json.loads(text) for text in options.rows.read_text().splitlines()]
    for name in filter(None, options.names.split(",")):
        again = [sys.executable, "-m", "benchmarks.wafer_large", "--one", name, "--seconds", str(options.seconds)]
        done = subprocess.run([*again, "--seed", str(options.seed)], stdout=subprocess.PIPE, check=True)
        rows.append(json.loads(done.stdout))
        if options.rows:
            with options.rows.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
    text = "\n".join([HEAD, "|" + " --- |" * (HEAD.count("|") - 1), *map(line, rows)])
    print(text)
    if options.markdown:
        options.markdown.write_text(text + "\n")


if __name__ == "__main__":
    main()
