"""The placement policy on held-out graphs: human splits, METIS, untrained, trained on other graphs, and learning.

    python -m benchmarks.placement_policy [--cycles 30] [--seeds 2] [--instances NAME ...] [--ablations] [--large]
        [--keep DIR]

Training: small training steps of RNNLM, Transformer-XL and Inception on 2 to 8 devices, all in one batch, by PPO on
the compiled decoder. Held out, by architecture: GNMT, WaveNet and AmoebaNet. For each held-out graph, the step time is
given as a share of the best human split's by the same decoder (below 1 is better):

- METIS (the better of two kinds and of two rules; extra ``metis``). The prior is made of it where it is better than the
  human splits;
- *zero-shot*: the likeliest placement, and the best of it and 15 draws, of the untrained policy (the prior) and of the
  trained one;
- *drawn*: the best of 160 draws of the prior, without learning;
- *learning*: 10 cycles of 16 draws and 4 steps of Adam (40 steps), from the untrained and from the trained policy.

CPU seconds are those of the process. `--ablations`: the same training without attention, and without superposition.
`--keep`: trained weights go to DIR, and come from there where they are.
`--large`: memory and CPU seconds of the policy on ``placement/gnmt-8-50k-pcie``.
"""

from __future__ import annotations

import argparse
import copy
import os
import resource
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from chipmap.inputs.reading import read
from chipmap.instances.placement.generators import training_step
from chipmap.instances.placement.instance import PlacementInstance
from chipmap.instances.placement.problem import PlacementProblem, placement_problem
from chipmap.learned.placement.network import Sizes
from chipmap.learned.placement.ppo import Recipe, Task, Trainer
from chipmap.learned.placement.scene import Scene, Worth, human_splits, metis_partitions

#: (network, parameters, devices, links) of what is trained on.
TRAINED: tuple[tuple[str, dict[str, int], int, str], ...] = (
    ("rnnlm", {"layers": 2, "steps": 8}, 2, "pcie"),
    ("rnnlm", {"layers": 3, "steps": 6}, 4, "nvlink"),
    ("rnnlm", {"layers": 4, "steps": 6}, 8, "pcie"),
    ("transformer-xl", {"layers": 2, "segments": 2}, 2, "pcie"),
    ("transformer-xl", {"layers": 4, "segments": 2}, 4, "pcie"),
    ("transformer-xl", {"layers": 4, "segments": 2}, 8, "nvlink"),
    ("inception", {"batch": 16}, 2, "pcie"),
    ("inception", {"batch": 32}, 4, "nvlink"),
)
#: What is held out; another architecture each.
HELD_OUT = ("gnmt-2-pcie", "gnmt-4-pcie", "wavenet-2-pcie", "wavenet-4-pcie", "amoebanet-4-pcie", "gnmt-2-nvlink")
#: Draws of a zero-shot proposal, and cycles of learning.
DRAWS, LEARNING = 16, 10


def problems() -> Iterator[PlacementProblem]:
    """Those that are trained on."""
    for network, parameters, devices, links in TRAINED:
        yield placement_problem(training_step(network, dict(parameters), devices, f"p100-{links}"))


def trained(recipe: Recipe, scenes: Sequence[Scene], cycles: int, seed: int) -> tuple[Trainer, list[float]]:
    """A policy trained in batches, and the mean reward over all graphs of each cycle."""
    trainer, tasks = Trainer(recipe, seed), [Task(scene) for scene in scenes]
    curve = []
    for _ in range(cycles):
        curve.append(float(np.mean(trainer.cycle(tasks))))
    return trainer, curve


def kept(recipe: Recipe, scenes: Sequence[Scene], cycles: int, seed: int, file: Path | None) -> tuple[Trainer, str]:
    """A policy trained in batches, or the one in ``file``, and a word on its training."""
    if file is not None and file.exists():
        trainer = Trainer(recipe, seed)
        trainer.network.load_state_dict(torch.load(file, weights_only=True))
        return trainer, f"from {file.name}"
    begun = time.process_time()
    trainer, curve = trained(recipe, scenes, cycles, seed)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        torch.save(trainer.network.state_dict(), file)
    ends = f"mean reward {np.mean(curve[:3]):.3f} to {np.mean(curve[-3:]):.3f}"
    return trainer, f"{len(scenes)} graphs, {cycles} cycles, {ends}, {time.process_time() - begun:.0f} CPU s"


def learnt(policy: Trainer, scene: Scene, seed: int, learn: bool = True) -> int:
    """The best step in ns after 10 cycles on one graph, from a policy's weights."""
    trainer, task = Trainer(policy.recipe, seed), Task(scene)
    trainer.network.load_state_dict(copy.deepcopy(policy.network.state_dict()))
    for _ in range(LEARNING):
        trainer.cycle([task], learn)
    return task.best.step


def proposed(policy: Trainer, scene: Scene, seed: int) -> tuple[int, int]:
    """Steps in ns of the likeliest placement (0: it doesn't fit), and of the best of :data:`DRAWS`."""
    policy.random.manual_seed(seed)
    with torch.no_grad():
        mode = policy.network(Task(scene).arrays).argmax(-1).numpy()
    worth, task = scene.worth(scene.devices(mode)), Task(scene)
    policy.propose(task, DRAWS)
    return 0 if worth.over else worth.step, task.best.step


def scene_of(problem: PlacementProblem, seed: int = 0) -> Scene:
    """What ``placement/policy`` begins with: a prior of the best human split or METIS partition."""
    return Scene(problem, [*human_splits(problem), *metis_partitions(problem, seed)])


def row(name: str, seeds: int, policies: Sequence[Trainer], recipe: Recipe) -> list[str]:
    """Shares of the best human split's step, means over the seeds; ``policies``: trained, one per seed."""
    instance = read(f"placement/{name}")
    assert isinstance(instance, PlacementInstance)
    problem = placement_problem(instance)
    scene = scene_of(problem)
    human = min(map(scene.worth, human_splits(problem)))
    metis = min(map(scene.worth, metis_partitions(problem)), default=Worth(1, 0))
    found: dict[str, list[int]] = {}

    def add(what: str, *steps: int) -> None:
        found.setdefault(what, []).extend(steps)

    add("metis", 0 if metis.over else metis.step)
    for seed in range(seeds):
        prior = Trainer(recipe, seed)
        add("prior", proposed(prior, scene, seed)[1])
        add("drawn", learnt(prior, scene, seed, False))
        add("from scratch", learnt(prior, scene, seed))
    for seed, policy in enumerate(policies):
        mode, best = proposed(policy, scene, seed)
        add("mode", mode)
        add("trained", best)
        add("fine-tuned", learnt(policy, scene, seed))
    cells = [f"{np.mean(steps) / human.step:.3f}" if all(steps) else "doesn't fit" for steps in found.values()]
    over = " (doesn't fit)" if human.over else ""
    return [name, str(scene.graph.n), str(scene.units), f"{human.step / 1e6:.1f}{over}", *cells]


def spent() -> float:
    """CPU seconds of this process and of METIS's."""
    return sum(os.times()[:4])


def large() -> None:
    """Print what the policy takes on 52,213 operations."""
    instance = read("placement/gnmt-8-50k-pcie")
    assert isinstance(instance, PlacementInstance)
    problem = placement_problem(instance)
    before = spent()
    task, trainer = Task(scene_of(problem)), Trainer()
    made = spent()
    with torch.no_grad():
        trainer.network(task.arrays)
    inferred = spent()
    first = task.best
    trainer.cycle([task])
    done = spent()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{problem.operations:,} operations, {problem.devices} devices, load {os.getloadavg()[0]:.1f}: features, units"
    )
    print(f"and splits {made - before:.1f} CPU s, the networks {inferred - made:.1f}, a cycle of 16 draws with")
    print(f"4 steps {done - inferred:.1f}; {peak:.2f} GiB. First {first.step / 1e6:.1f} ms, after it", end=" ")
    print(f"{task.best.step / 1e6:.1f} ms.\n", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=30, help="of training; 0: none")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--instances", nargs="+", default=list(HELD_OUT), metavar="NAME")
    parser.add_argument("--ablations", action="store_true")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--keep", type=Path, metavar="DIR")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.large:
        large()
    scenes = [scene_of(problem) for problem in problems()] if arguments.cycles else []
    variants: dict[str, dict[str, Any]] = {"whole": {}}
    if arguments.ablations:
        variants |= {"without attention": {"attention": False}, "without superposition": {"superposition": False}}
    for name, change in variants.items():
        recipe, policies = Recipe(sizes=Sizes(**change)), []
        for seed in range(arguments.seeds if arguments.cycles else 0):
            file = arguments.keep and arguments.keep / f"{name.replace(' ', '-')}-{seed}.pt"
            policy, words = kept(recipe, scenes, arguments.cycles, seed, file)
            policies.append(policy)
            print(f"{name}, seed {seed}: {words}", flush=True)
        print(f"\nload {os.getloadavg()[0]:.1f}, {arguments.seeds} seeds\n")
        heading: tuple[str, ...] = (
            "graph",
            "operations",
            "units",
            "human, ms",
            "METIS",
            "prior, best of 16",
            "prior, 160 drawn",
        )
        heading += ("learning from scratch",)
        heading += ("trained, likeliest", "trained, best of 16", "fine-tuned") if policies else ()
        print(f"| {' | '.join(heading)} |\n|{'---|' * len(heading)}", flush=True)
        for held in arguments.instances:
            print(f"| {' | '.join(row(held, arguments.seeds, policies, recipe))} |", flush=True)
        print()


if __name__ == "__main__":
    main()
