"""Pre-training of the policy of moves on many graphs (:mod:`chipmap.learned.passes` says what stays on disk).

A pass walks an episode on every graph with the weights as they are, then learns from all of them together, in steps
of :data:`TOGETHER` bases. An episode begins at a human split, of which a random share of the units is moved at random,
and after a random number of evaluations by descent: policies shall know early bases and late ones. Gains are compared
with those of the same episode.

What a pass is worth: the mean and the greatest of (first step time) / (last step time) over the episodes.

Episodes depend on (seed, pass, graph) alone. ``workers`` processes walk them; ``device`` computes the steps of Adam.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from chipmap.deadline import Deadline
from chipmap.learned.passes import Passed, Passes
from chipmap.learned.placement.checkpoint import save
from chipmap.learned.placement.data import Row
from chipmap.learned.placement.moves import MovePolicy, MoveRecipe, MoveTrainer, Visit, Walk, batch, gains
from chipmap.learned.placement.scene import Scene, human_splits

#: Bases of a step.
TOGETHER = 32
#: Evaluations of an episode by the policy, and those by descent before it.
EPISODE, BEFORE = 160, (0, 0, 160, 800)
#: Shares of the units that are moved at random first.
MOVED = (0.0, 0.0, 0.1, 0.5)
#: For many graphs.
MANY = MoveRecipe(width=64, rate=1e-3, epochs=2)
#: A visit without tensors: unit, features, drawn, old, gain.
Told = tuple[NDArray[Any], NDArray[Any], list[list[int]], list[list[float]], list[list[float]]]


@cache
def _scenes(row: Row) -> tuple[Scene, ...]:
    """The row with each of the human splits as what its units are cut by."""
    torch.set_num_threads(1)
    problem = row.problem()
    return tuple(Scene(problem, [split]) for split in human_splits(problem))


def episode(row: Row, recipe: MoveRecipe, weights: dict[str, NDArray[Any]], seeds: Sequence[int]) -> tuple[Any, ...]:
    """(first step time / last one, the visits as :data:`Told`); ``weights`` are those of the network."""
    random, scenes = np.random.default_rng(seeds), _scenes(row)
    network = MovePolicy(recipe)
    network.load_state_dict({name: torch.as_tensor(value) for name, value in weights.items()})
    walk = Walk(scenes[random.integers(len(scenes))], recipe, int(random.integers(2**31)))
    for one in np.flatnonzero(random.random(walk.scene.units) < random.choice(MOVED)):
        walk.base[one] = random.choice(np.flatnonzero(walk.viewer.allowed[one]))
    walk.begin(walk.base)
    walk.descend(int(random.choice(BEFORE)))
    first, until = walk.worth, walk.evaluations + EPISODE
    while walk.evaluations < until:
        walk.rollout(network)
    told = [(v.unit.numpy(), v.features.numpy(), v.drawn, v.old, v.gain) for v in walk.taken() if v.drawn]
    return first.step / max(1, walk.worth.step) if not walk.worth.over else 1.0, told


class Pretraining(Passes):
    """One policy for the graphs of ``rows``. Raises :class:`~chipmap.records.InputError` for a folder of another
    run."""

    def __init__(
        self, rows: Sequence[Row], recipe: MoveRecipe, seed: int, folder: Path, workers: int = 1, device: str = "cpu"
    ) -> None:
        torch.set_num_threads(1)
        super().__init__(folder, recipe, seed, [row.problem().instance.content_hash for row in rows])
        self.rows, self._seed, self._device = rows, seed, device
        self.trainer = MoveTrainer(recipe, seed, device)
        self._pool = ProcessPoolExecutor(workers, get_context("spawn")) if workers > 1 else None
        self.go_on()

    def state(self) -> dict[str, Any]:
        """All that a later run needs to go on, but the curve."""
        return {"trainer": self.trainer.state()}

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from a :meth:`state`."""
        self.trainer.resume(state["trainer"])

    def save(self, path: Path, samples: int) -> None:
        """Write what the policy is now."""
        save(path, self.trainer.network, self.trainer.recipe, samples, self.instances)

    def next_pass(self, deadline: Deadline = Deadline()) -> Passed:
        """One more pass over all graphs; it counts once it is whole. Raises the deadline's stop."""
        gained, visits, usual = list[float](), list[Visit](), list[tuple[float, float]]()
        for worth, told in self._episodes():
            mine = [Visit(torch.as_tensor(u), torch.as_tensor(f), *rest) for u, f, *rest in told]
            credited = gains(mine) or [0.0]
            visits += mine
            usual += [(float(np.mean(credited)), float(np.std(credited)))] * len(mine)
            gained.append(worth)
            deadline.check()
        for _ in range(self.trainer.recipe.epochs):
            for part in torch.randperm(len(visits), generator=self.trainer.random).split(TOGETHER):
                given = batch([visits[k] for k in part.tolist()], [usual[k] for k in part.tolist()])
                self.trainer.descend(self.trainer.gradient([self.trainer.loss(given.to(self._device))]))
                deadline.check()
        return self.passed(EPISODE * len(self.rows), float(np.mean(gained)), max(gained))

    def _episodes(self) -> Iterable[tuple[Any, ...]]:
        number, recipe = len(self.curve) + 1, self.trainer.recipe
        weights = {name: value.detach().cpu().numpy() for name, value in self.trainer.network.state_dict().items()}
        asked = [(row, recipe, weights, (self._seed, number, k)) for k, row in enumerate(self.rows)]
        if self._pool is None:
            return (episode(*one) for one in asked)
        return self._pool.map(episode, *zip(*asked, strict=True))

    def close(self) -> None:
        """End the workers."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
