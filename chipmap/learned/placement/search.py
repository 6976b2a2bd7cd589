"""The policy of moves as a search: it learns on the one graph while it draws."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from chipmap.deadline import Deadline
from chipmap.instances.placement.problem import IntArray, PlacementProblem
from chipmap.learned.placement.checkpoint import load
from chipmap.learned.placement.moves import MoveTrainer, Walk
from chipmap.learned.placement.ppo import DEFAULT, Task, Trainer
from chipmap.learned.placement.scene import Scene, human_splits, metis_partitions
from chipmap.records import InputError

#: Evaluations of the decoder in a run, where ``--native samples=N`` says nothing else.
SAMPLES = 400
#: The policy that is taken unless ``--native checkpoint=PATH`` says which.
SHIPPED = Path(__file__).resolve().parents[1] / "checkpoints" / "placement.pt"


def search(
    problem: PlacementProblem, native: dict[str, Any], seed: int, deadline: Deadline = Deadline()
) -> Iterator[IntArray]:
    """The devices [N] of the human splits, of the best one of these and METIS's, then of each better one that is found.

    ``native``: ``samples``, a whole number above 0; ``learn`` (true): whether the policy learns; ``checkpoint``: the
    path of NAME.pt, ``untrained``, or ``gdp`` for the policy after GDP, untrained. On one thread, so that the result
    doesn't depend on how many there are. Raises :class:`InputError`.
    """
    samples, learn = native.get("samples", SAMPLES), native.get("learn", True)
    if not isinstance(samples, int) or isinstance(samples, bool) or samples < 1:
        raise InputError(f"is {samples!r}", "--native samples", "Give a whole number above 0.")
    if not isinstance(learn, bool):
        raise InputError(f"is {learn!r}", "--native learn", "Give true or false.")
    torch.set_num_threads(1)
    checkpoint = native.get("checkpoint", str(SHIPPED))
    trainer = None if checkpoint == "gdp" else _trainer(checkpoint, seed)
    splits = human_splits(problem)
    yield from splits
    splits += metis_partitions(problem, seed, deadline)
    scene = Scene(problem, splits)
    yield scene.split
    if trainer is None:
        yield from _after_gdp(scene, seed, (samples, learn), deadline)
    else:
        yield from _by_moves(scene, trainer, seed, (samples, learn), deadline)


def _after_gdp(scene: Scene, seed: int, asked: tuple[int, bool], deadline: Deadline) -> Iterator[IntArray]:
    """By cycles of whole draws."""
    (samples, learn), task, trainer = asked, Task(scene), Trainer(DEFAULT, seed)
    best = task.best
    for _ in range(-(-samples // DEFAULT.rollouts)):
        deadline.check()
        trainer.cycle([task], learn)
        if task.best < best:
            best = task.best
            yield task.devices


def _by_moves(
    scene: Scene, trainer: MoveTrainer, seed: int, asked: tuple[int, bool], deadline: Deadline
) -> Iterator[IntArray]:
    """By moves of single units."""
    (samples, learn), task = asked, Walk(scene, trainer.recipe, seed)
    best = task.worth
    while task.evaluations < samples:
        for _ in range(trainer.recipe.rollouts):
            deadline.check()
            if task.evaluations < samples:
                task.rollout(trainer.network)
            if task.worth < best:
                best = task.worth
                yield task.devices
        visits = task.taken()
        if learn:
            trainer.learn(visits)


def _trainer(checkpoint: Any, seed: int) -> MoveTrainer:
    if not isinstance(checkpoint, str):
        raise InputError(f"is {checkpoint!r}", "--native checkpoint", "Give the path of NAME.pt, untrained or gdp.")
    if checkpoint == "untrained":
        return MoveTrainer(seed=seed)
    network, card = load(Path(checkpoint))
    trainer = MoveTrainer(card.recipe, seed)
    trainer.network.load_state_dict(network.state_dict())
    return trainer
