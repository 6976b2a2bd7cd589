"""Samples to a throughput: the paper's search strategies over greedy (tables 2 and 3, figures 5 and 6).

    python -m benchmarks.ring_search [--samples 4000] [--seeds 3] [--markdown FILE] [--csv FILE]

Table 3 and figure 6: BERT-large's encoder. Table 2 and figure 5: the geometric mean over the other shipped networks
(C1 to C4 where greedy finds a mapping, else C1 to C3). The CSV holds best-so-far curves, one line per improvement.
A learned policy joins as one more entry of ``POLICIES``.
"""

from __future__ import annotations

import argparse
import csv
import os
import platform
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from chipmap.heuristics.ring.curves import csv_rows, geomean, improvement, threshold_table
from chipmap.heuristics.ring.evaluate import Evaluator
from chipmap.heuristics.ring.greedy import greedy
from chipmap.heuristics.ring.sample_fix import Sampler
from chipmap.heuristics.ring.search import Annealing, Policy, Uniform, search
from chipmap.instances.ring.contraction import contract
from chipmap.instances.ring.costs import RingProblem, ring_problem
from chipmap.reading import read

BERT = "ring/bert-large-36"
OTHERS = ("gpt2-36", "resnet50-36", "resnet18-12", "densenet121-36", "unet-12", "random-12", "chain-36")
POLICIES: dict[str, Callable[[RingProblem, int, int], Policy]] = {
    "random": lambda problem, seed, samples: Uniform(),
    "annealing": lambda problem, seed, samples: Annealing(problem.n, problem.chips, seed, samples),
}
Floats = NDArray[np.float64]
Curves = dict[str, dict[int, Floats]]


def problem_of(name: str) -> tuple[RingProblem, int, str]:
    """(contracted problem, greedy's objective, constraints)."""
    instance = read(name)
    for constraints in (instance.constraints, ("C1", "C2", "C3")):
        problem = ring_problem(contract(instance.replace(constraints=constraints)).instance)
        chips = greedy(problem)
        if chips is not None:
            return problem, int(Evaluator(problem)(np.array([chips]))[0]), " ".join(constraints)
    raise SystemExit(f"greedy finds no mapping of {name}")


def curves(problem: RingProblem, baseline: int, samples: int, seeds: int) -> Curves:
    """Best improvement so far, per policy and seed."""
    sampler = Sampler(problem)
    found: Curves = {}
    for name, make in POLICIES.items():
        for seed in range(seeds):
            policy = make(problem, seed, samples)
            values = [value for _, value in search(sampler, policy, seed, samples)]
            found.setdefault(name, {})[seed] = improvement(values, baseline)
    return found


def levels(means: dict[str, Floats]) -> list[float]:
    """Thresholds that tell the policies apart: shares of the best value that any of them reaches."""
    best = max(float(curve[-1]) for curve in means.values())
    return sorted({round(best * share - 0.005, 2) for share in (0.8, 0.9, 0.95, 0.98, 1.0)})


def table(title: str, means: dict[str, Floats]) -> list[str]:
    """A table of samples to thresholds, and where the curves end."""
    rows = threshold_table(means, levels(means), "random")
    lines = [f"\n## {title}\n", "| " + " | ".join(rows[0]) + " |", "| --- |" + " --: |" * (len(rows[0]) - 1)]
    lines += ["| " + " | ".join(row) + " |" for row in rows[1:]]
    ends = ", ".join(f"{name} {curve[-1]:.3f}" for name, curve in means.items())
    return [*lines, f"\nImprovement over greedy after {len(next(iter(means.values())))} samples: {ends}."]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=4000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    parser.add_argument("--csv", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    every: dict[str, Curves] = {}
    asked: list[str] = []
    for name in (BERT, *(f"ring/{other}" for other in OTHERS)):
        problem, baseline, constraints = problem_of(name)
        every[name] = curves(problem, baseline, arguments.samples, arguments.seeds)
        asked.append(f"{name} ({constraints}; greedy {baseline / 1e5:.3f} us)")
    bert = {policy: geomean(list(every[BERT][policy].values())) for policy in POLICIES}
    rest = {
        policy: geomean([curve for name, found in every.items() if name != BERT for curve in found[policy].values()])
        for policy in POLICIES
    }
    seeds = f"{arguments.seeds} seeds"
    lines = [
        *table(f"BERT-large's encoder (as table 3), geometric mean of {seeds}", bert),
        *table(f"Geometric mean of {len(OTHERS)} networks and {seeds} (as table 2)", rest),
        "\nCells: samples needed, and by which factor that is fewer than random search needs. Instances: "
        + ", ".join(asked)
        + ".",
    ]
    print("\n".join(lines))
    if arguments.csv:
        with arguments.csv.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("instance", "method", "seed", "sample", "improvement"))
            for name, found in every.items():
                writer.writerows((name, method, seed, i, f"{gain:.6f}") for method, seed, i, gain in csv_rows(found))
    if arguments.markdown:
        where = f"{os.cpu_count()} cores, Python {platform.python_version()}"
        head = f"# Samples to a throughput\n\n`python -m benchmarks.ring_search` on {where}.\n"
        arguments.markdown.write_text(head + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
