"""Learning curves of the ring policy on one graph: ours, its prior without a network, the paper's recipe. Needs torch.

    python -m benchmarks.ring_policy [--instance ring/resnet18-12] [--samples 1000] [--seed 0] [--markdown FILE]

Every recipe has one round (T = 1) here. Cells: the mean of optimum / objective over the 100 samples up to there (0 for
a sample without a valid mapping), and the best so far. The optimum is ``ring/auto``'s, proved.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import torch

from benchmarks.ring_training import Training
from chipmap.inputs.reading import read
from chipmap.instances.ring import RingInstance
from chipmap.instances.ring.contraction import contract
from chipmap.instances.ring.problem import RingProblem, ring_problem
from chipmap.learned.ring.ppo import OURS, PAPER, Recipe
from chipmap.solve import solve

#: Name -> recipe, and whether it learns.
RECIPES: dict[str, tuple[Recipe, bool]] = {
    "ours": (OURS.replace(rounds=1), True),
    "the prior without a network": (OURS.replace(rounds=1), False),
    "the paper's recipe": (PAPER.replace(rounds=1), True),
}
#: Samples per line of the table.
STEP = 100


def curve(problem: RingProblem, name: str, samples: int, seed: int, optimum: int) -> tuple[list[str], float]:
    """A cell per :data:`STEP` samples, and samples per CPU second without the first cycle."""
    recipe, learn = RECIPES[name]
    training = Training(problem, recipe, seed, learn=learn)
    training.run(recipe.rollouts)
    before, began = training.samples, time.process_time()
    least, cells = training.sampler.problem.least_ticks, []
    for end in range(STEP, samples + 1, STEP):
        last = training.run(end)[-STEP // recipe.rollouts :]
        mean = sum(point.mean for point in last) / len(last) * optimum / least
        cells.append(f"{mean:.3f} ({optimum / last[-1].best:.3f})")
        print(name, end, cells[-1], flush=True)
    return cells, (training.samples - before) / max(1e-9, time.process_time() - began)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instance", default="ring/resnet18-12")
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    instance = read(arguments.instance)
    assert isinstance(instance, RingInstance)
    proved = solve(instance, "ring/auto", time_limit=60.0)
    assert proved.status == "optimal" and proved.objective is not None
    problem = ring_problem(contract(instance).instance)
    found = [curve(problem, name, arguments.samples, arguments.seed, proved.objective) for name in RECIPES]
    lines = ["| samples | " + " | ".join(RECIPES) + " |", "| --: |" + " --: |" * len(RECIPES)]
    for k, end in enumerate(range(STEP, arguments.samples + 1, STEP)):
        lines.append(f"| {end} | " + " | ".join(cells[k] for cells, _ in found) + " |")
    lines.append("| samples per CPU second | " + " | ".join(f"{rate:.0f}" for _, rate in found) + " |")
    print("\n".join(lines))
    if arguments.markdown:
        load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
        given = f"--instance {arguments.instance} --samples {arguments.samples} --seed {arguments.seed}"
        head = f"""# Learning curves of the ring policy

`python -m benchmarks.ring_policy {given}`,
one thread, PyTorch {torch.__version__}, load averages at the end {load}.

Cells: the mean of optimum / objective over the last {STEP} samples, and in brackets the best so far; the optimum is
proved. {int(problem.computing.sum())} operations after contraction on {problem.chips} chips.

"""
        arguments.markdown.write_text(head + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
