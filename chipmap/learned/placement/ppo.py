"""PPO for the placement policy, on one graph or on many at once (batch training).

A rollout draws a device for each unit. Its reward is −sqrt(step time), with the step time of the first split as the
unit, and :data:`INVALID` where a device overflows or a route is missing (the paper's −10). The advantage is the
rollout's rank in its cycle (ours), or the reward less the cycle's mean, over its deviation. A step of Adam goes down
the mean over graphs of

    − mean over rollouts and units of min(r A, clip(r, 1 − ε, 1 + ε) A) − entropy · H,   r = p_new(y_i) / p_old(y_i).

Rewards aren't known better than for a whole placement; what is credited is what the decoder ran.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from chipmap.instances.placement.problem import IntArray
from chipmap.learned.placement.network import Arrays, PlacementPolicy, Sizes, arrays
from chipmap.learned.placement.scene import Scene, Worth
from chipmap.learned.ring.ppo import advantages
from chipmap.learned.ring.recipe import require_within
from chipmap.learned.trainer import Optimised, surrogate
from chipmap.records import Record

#: The reward of what is no placement.
INVALID = -10.0


class Recipe(Record, frozen=True, kw_only=True):
    """How the policy is trained: ``rollouts`` of each graph in a cycle, then ``epochs`` steps of Adam."""

    schema: Literal["placement-recipe/1"] = "placement-recipe/1"
    sizes: Sizes = Sizes()
    rollouts: int = 16
    epochs: int = 4
    rate: float = 1e-3
    clip: float = 0.2
    entropy: float = 1e-3
    advantage: Literal["rank", "reward"] = "rank"

    def check(self) -> None:
        """Raise :class:`InputError` for what makes no network or no cycle."""
        self.sizes.check()
        limits = (("rollouts", 2, 10_000), ("epochs", 1, 1000), ("rate", 0.0, 1.0), ("clip", 0.0, 1.0))
        require_within(self, limits)


#: Untuned.
DEFAULT = Recipe()


class Task:
    """A graph to learn on, and the best placement of it that was seen: ``best``, with ``devices`` [n]."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.arrays = scene, arrays(scene)
        self.devices, self.best = scene.split, scene.worth(scene.split)
        self._unit = float(max(1, self.best.step))

    def reward(self, worth: Worth) -> float:
        """−sqrt(step time) in units of the first split's, or :data:`INVALID`."""
        return INVALID if worth.over else -math.sqrt(worth.step / self._unit)

    def judge(self, drawn: IntArray) -> float:
        """The reward of a draw [units]; it is kept if it is the best."""
        devices = self.scene.devices(drawn)
        worth = self.scene.worth(devices)
        if worth < self.best:
            self.best, self.devices = worth, devices
        return self.reward(worth)


class Cycle(NamedTuple):
    """``drawn`` [k, units]; ``old`` [units, D] logarithms; ``advantage`` [k]; the ``mean`` reward."""

    drawn: Tensor
    old: Tensor
    advantage: Tensor
    mean: float


class Trainer(Optimised[PlacementPolicy]):
    """The networks, their optimiser and the randomness. Same seed, same result, on the same number of threads."""

    def __init__(self, recipe: Recipe = DEFAULT, seed: int = 0) -> None:
        recipe.check()
        self.recipe = recipe
        super().__init__(lambda: PlacementPolicy(recipe.sizes), recipe.rate, seed)

    @torch.no_grad()
    def propose(self, task: Task, count: int) -> list[float]:
        """Zero-shot: the likeliest placement, then draws; the rewards. The best is in ``task``."""
        chances = self.network(task.arrays).log_softmax(-1)
        rows = [chances.argmax(-1), *self._draw(chances, count - 1)]
        return [task.judge(row.numpy()) for row in rows[:count]]

    def cycle(self, tasks: Sequence[Task], learn: bool = True) -> list[float]:
        """A cycle on each graph, then the steps on all of them together; the mean reward of each graph."""
        cycles = [self._roll(task) for task in tasks]
        for _ in range(self.recipe.epochs if learn else 0):
            # graph by graph: what the gradient of one needs is given back before the next
            parts = (self.gradient([self.loss(task.arrays, cycle)]) for task, cycle in zip(tasks, cycles, strict=True))
            self.descend(sum(parts, start=torch.zeros(())) / len(tasks))
        return [cycle.mean for cycle in cycles]

    def loss(self, graph: Arrays, cycle: Cycle) -> Tensor:
        """PPO's clipped loss, and the entropy."""
        recipe, chances = self.recipe, self.network(graph).log_softmax(-1)
        chosen = torch.arange(len(chances)), cycle.drawn
        entropy = -(chances.exp() * chances).sum(-1).mean()
        moved = chances[chosen] - cycle.old[chosen]
        return -surrogate(moved, cycle.advantage[:, None], recipe.clip) - recipe.entropy * entropy

    @torch.no_grad()
    def _roll(self, task: Task) -> Cycle:
        old = self.network(task.arrays).log_softmax(-1)
        drawn = self._draw(old, self.recipe.rollouts)
        rewards = np.array([task.judge(row.numpy()) for row in drawn])
        gain = torch.as_tensor(advantages(rewards, self.recipe.advantage), dtype=torch.float32)
        return Cycle(drawn, old, gain, float(rewards.mean()))

    def _draw(self, chances: Tensor, count: int) -> Tensor:
        """[count, units]."""
        if not count:
            return torch.zeros(0, len(chances), dtype=torch.int64)
        return torch.multinomial(chances.exp(), count, replacement=True, generator=self.random).T.contiguous()
