"""How fast the ring policy trains: samples per CPU second with all updates, and what the repair takes. Needs torch.

    python -m benchmarks.ring_throughput [--cycles 2] [--markdown FILE]

One round (T = 1), 20 rollouts, 4 mini-batches, 10 epochs, without the early stop by KL and without going back to the
best weights, so that every cycle has its 40 steps; C1 to C4. A cycle that isn't counted comes first (it compiles). CPU
seconds of this process, one thread. *Repair* is the share of them that SAMPLE takes.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from pathlib import Path
from typing import Any

import torch

from chipmap.heuristics.ring.sampling.sample_fix import Sampler, Samples
from chipmap.heuristics.ring.sampling.search import search
from chipmap.inputs.reading import read
from chipmap.instances.ring import RingInstance
from chipmap.instances.ring.contraction import computing_only, contract
from chipmap.instances.ring.problem import RingProblem, ring_problem
from chipmap.learned.ring.ppo import OURS, Learner
from chipmap.learned.ring.recipe import Recipe

#: With all updates of a cycle.
WHOLE = OURS.replace(rounds=1, kl=0.0, keep=0.0)
#: The paper's networks, and smaller ones.
SIZES: dict[str, Recipe] = {
    "8 layers of 128": WHOLE,
    "4 layers of 64": WHOLE.replace(layers=4, width=64),
    "2 layers of 32": WHOLE.replace(layers=2, width=32),
}
GRAPHS = ("ring/bert-large-36", "ring/resnet50-36", "ring/resnet18-12")


def problem_of(name: str) -> RingProblem:
    """The contracted problem, computing operations alone."""
    instance = read(name)
    assert isinstance(instance, RingInstance)
    return computing_only(ring_problem(contract(instance).instance))


class Timed(Sampler):
    """A sampler that adds up the CPU seconds of SAMPLE."""

    spent = 0.0

    def sample(self, *given: Any, **named: Any) -> Samples:
        """As :meth:`Sampler.sample`."""
        begun = time.process_time()
        try:
            return super().sample(*given, **named)
        finally:
            self.spent += time.process_time() - begun


def measured(problem: RingProblem, recipe: Recipe, cycles: int) -> tuple[float, float, float]:
    """Samples per CPU second, the share of the repair, and the best least / objective of all samples."""
    sampler, count = Timed(problem), recipe.rollouts
    learner, values = Learner(sampler.problem, recipe, 0), list[float]()
    begun = 0.0
    for number, (_, value) in enumerate(search(sampler, learner, 0, (cycles + 1) * count)):
        values.append(float(value))
        if number == count - 1:  # the first cycle compiles
            begun, sampler.spent = time.process_time(), 0.0
    spent = time.process_time() - begun
    return cycles * count / spent, sampler.spent / spent, problem.least_ticks / min(values)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=2)
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    lines = [
        "| graph | operations | network | samples per CPU second | repair | best of the samples |",
        "|---|--:|---|--:|--:|--:|",
    ]
    print("\n".join(lines))
    for name in GRAPHS:
        problem = problem_of(name)
        for size, recipe in SIZES.items():
            rate, repair, best = measured(problem, recipe, arguments.cycles)
            lines.append(f"| `{name}` | {problem.n} | {size} | {rate:.1f} | {repair:.0%} | {best:.3f} |")
            print(lines[-1], flush=True)
    if arguments.markdown:
        head = (
            f"`python -m benchmarks.ring_throughput --cycles {arguments.cycles}`: Python {platform.python_version()}, "
        )
        head += (
            f"torch {torch.__version__}, one thread of {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}."
        )
        head += " What is measured, the benchmark says; the last column is least / objective, least the plain bound.\n"
        text = "\n".join(["# How fast the ring policy trains", "", head, *lines, ""])
        arguments.markdown.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
