"""The policy of moves against descent and other searches, at equal evaluations of the decoder.

    python -m benchmarks.placement_credit [--evaluations 160] [--seeds 5] [--instances NAME ...] [--without WHAT ...]

Step times as shares of the best human split's, by the same decoder; all begin with the best of the human splits and
METIS's partitions (extra ``metis``). The mean over the seeds, and in brackets their standard deviation. Columns:

- *start*; *random*: each unit on a random device; *prior*: draws of the prior, without learning;
- *PPO*: the policy after GDP from scratch, by ranks of whole rollouts (``placement/policy`` before);
- *descent*: one random unit to a random device, kept if no worse; *chain*: a unit of the critical chain;
- *annealing*: descent's moves, by Metropolis' rule, from 0.3% of the step time down to 0.003%;
- *from scratch*: the policy of moves, untrained, learning; *2 moves*, *4 moves*: so many a rollout, with as many
  differences evaluated; *shared*: 4 moves whose rollout's gain all moves share, without differences;
- *zero-shot*, *fine-tuned*: the shipped policy as it is, and learning on the graph.

CPU seconds are those of a run without its start, all columns after one another in one process.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

import numpy as np
import torch

from benchmarks.placement_policy import scene_of
from chipmap.inputs.reading import read
from chipmap.instances.placement.instance import PlacementInstance
from chipmap.instances.placement.problem import placement_problem
from chipmap.learned.placement import ppo
from chipmap.learned.placement.checkpoint import load
from chipmap.learned.placement.moves import MoveRecipe, MoveTrainer, Walk, walk
from chipmap.learned.placement.scene import Scene, human_splits
from chipmap.learned.placement.search import SHIPPED

INSTANCES = (
    *("amoebanet-4-pcie", "gnmt-2-pcie", "wavenet-4-pcie", "wavenet-2-pcie", "transformer-xl-4-pcie"),
    "rnnlm-2-pcie",
)
#: Temperatures of annealing, as shares of the step time.
HOT, COLD = 3e-3, 3e-5


def at_random(scene: Scene, evaluations: int, seed: int) -> int:
    """The best step of placements whose units are drawn uniformly, or the first one's."""
    task, random = ppo.Task(scene), np.random.default_rng(seed)
    for _ in range(evaluations):
        task.judge(np.array([random.choice(np.flatnonzero(row > -1e8)) for row in scene.prior]))
    return task.best.step


def by_ranks(scene: Scene, evaluations: int, seed: int, learn: bool) -> int:
    """The policy after GDP, or its prior alone."""
    task, trainer = ppo.Task(scene), ppo.Trainer(ppo.DEFAULT, seed)
    for _ in range(-(-evaluations // ppo.DEFAULT.rollouts)):
        trainer.cycle([task], learn)
    return task.best.step


def descended(scene: Scene, evaluations: int, seed: int, critical: bool) -> int:
    """Descent, or by the critical chain."""
    task = Walk(scene, MoveRecipe(), seed)
    task.descend(evaluations, critical)
    return task.worth.step


def annealed(scene: Scene, evaluations: int, seed: int) -> int:
    """The best step of annealing by single moves."""
    task, random = Walk(scene, MoveRecipe(), seed), np.random.default_rng(seed)
    base, now, best, allowed = task.base.copy(), task.worth, task.worth, task.viewer.allowed
    for k in range(evaluations):
        unit = random.integers(scene.units)
        there = base.copy()
        there[unit] = random.choice(np.flatnonzero(allowed[unit]))
        worth = scene.worth(scene.devices(there))
        heat = HOT * (COLD / HOT) ** (k / evaluations) * now.step
        if worth <= now or (worth.over <= now.over and random.random() < np.exp((now.step - worth.step) / heat)):
            base, now = there, worth
            best = min(best, now)
    return best.step


def moved(scene: Scene, evaluations: int, seed: int, moves: int = 1, differences: int = 1) -> int:
    """The policy of moves from scratch."""
    recipe = MoveRecipe(moves=moves, differences=differences)
    return walk(Walk(scene, recipe, seed), MoveTrainer(recipe, seed), evaluations).step


def pretrained(scene: Scene, evaluations: int, seed: int, learn: bool) -> int:
    """The shipped policy of moves."""
    network, card = load(SHIPPED)
    trainer = MoveTrainer(card.recipe, seed)
    trainer.network.load_state_dict(network.state_dict())
    return walk(Walk(scene, card.recipe, seed), trainer, evaluations, learn).step


COLUMNS: dict[str, Callable[[Scene, int, int], int]] = {
    "random": at_random,
    "prior": lambda scene, many, seed: by_ranks(scene, many, seed, False),
    "PPO": lambda scene, many, seed: by_ranks(scene, many, seed, True),
    "annealing": annealed,
    "descent": lambda scene, many, seed: descended(scene, many, seed, False),
    "chain": lambda scene, many, seed: descended(scene, many, seed, True),
    "from scratch": moved,
    "2 moves": lambda scene, many, seed: moved(scene, many, seed, 2, 2),
    "4 moves": lambda scene, many, seed: moved(scene, many, seed, 4, 4),
    "shared": lambda scene, many, seed: moved(scene, many, seed, 4, 0),
    "zero-shot": lambda scene, many, seed: pretrained(scene, many, seed, False),
    "fine-tuned": lambda scene, many, seed: pretrained(scene, many, seed, True),
}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evaluations", type=int, default=160)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--instances", nargs="+", default=list(INSTANCES), metavar="NAME")
    parser.add_argument("--without", nargs="+", default=[], choices=COLUMNS, metavar="WHAT")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    columns = {name: column for name, column in COLUMNS.items() if name not in arguments.without}
    print(f"{arguments.evaluations} evaluations, {arguments.seeds} seeds, load {os.getloadavg()[0]:.1f}\n")
    heading = ("graph", "units", "start", *columns)
    print(f"| {' | '.join(heading)} |\n|---|{'--:|' * (len(heading) - 1)}", flush=True)
    spent: dict[str, list[float]] = {name: [] for name in columns}
    means: dict[str, list[float]] = {name: [] for name in columns}
    for name in arguments.instances:
        instance = read(f"placement/{name}")
        assert isinstance(instance, PlacementInstance)
        problem = placement_problem(instance)
        scene = scene_of(problem)
        human = min(map(scene.worth, human_splits(problem))).step
        cells = [name, str(scene.units), f"{scene.worth(scene.split).step / human:.3f}"]
        for what, column in columns.items():
            begun = time.process_time()
            shares = [column(scene, arguments.evaluations, seed) / human for seed in range(arguments.seeds)]
            spent[what].append((time.process_time() - begun) / arguments.seeds)
            means[what].append(float(np.mean(shares)))
            cells.append(f"{np.mean(shares):.3f} ({np.std(shares):.3f})")
        print(f"| {' | '.join(cells)} |", flush=True)
    geometric = [f"{np.exp(np.mean(np.log(one))):.3f}" for one in means.values()]
    print(f"| geometric mean | | | {' | '.join(geometric)} |")
    print(f"| CPU s a run | | | {' | '.join(f'{np.mean(one):.2f}' for one in spent.values())} |")


if __name__ == "__main__":
    main()
