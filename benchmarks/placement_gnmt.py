"""GNMT-8 with long sequences on eight P100 over PCIe: is there a schedule that fits?

    python -m benchmarks.placement_gnmt [--markdown FILE]

The first schedules of a run (human splits, operations in order of upward rank) are made until one passes the checker.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

from chipmap.instances.placement.generators import training_step
from chipmap.instances.placement.problem import placement_problem
from chipmap.methods.placement.first import first
from chipmap.methods.placement.reasons import impossible
from chipmap.run import Run, SolveOptions
from chipmap.validation.placement.checker import check

STEPS = (40, 144, 290, 560)


def row(steps: int, saved: str) -> str:
    """What comes of a number of steps, by a rule of what is kept and added."""
    instance = training_step("gnmt", {"layers": 8, "steps": steps}, 8, saved=saved)  # type: ignore[arg-type]
    problem = placement_problem(instance)
    start = f"| {steps} | {saved} | {problem.operations:,} |"
    began = time.process_time()
    reasons = list(impossible(problem))
    if reasons:
        return f"{start} infeasible: {reasons[0].message} | | {time.process_time() - began:.1f} |"
    run = Run(instance, SolveOptions(threads=1), check)
    first(instance, run)
    found = "none fits | " if run.upper is None else f"feasible | {run.upper / 1e6:,.1f}"
    return f"{start} {found} | {time.process_time() - began:.1f} |"


def main() -> None:
    """Print the rows, and write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    said = [
        "# GNMT-8 with long sequences on eight P100 of 16 GiB over PCIe",
        "",
        f"`python -m benchmarks.placement_gnmt`, load average {os.getloadavg()[0]:.1f}. CPU seconds from the problem's",
        "arrays on, with the checker. `operands`: one sum adds up all gradients of a tensor (the rule before).",
        "",
        "| steps | rule | operations | first schedules | step, ms | CPU s |",
        "|--:|---|--:|---|--:|--:|",
    ]
    for steps in STEPS:
        for saved in ("operands", "autograd"):
            said.append(row(steps, saved))
            print(said[-1], flush=True)
    if arguments.markdown is not None:
        arguments.markdown.write_text("\n".join(said) + "\n")


if __name__ == "__main__":
    main()
