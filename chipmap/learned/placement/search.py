"""The placement policy as a search: it learns on the one graph while it draws."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from chipmap.deadline import Deadline
from chipmap.instances.placement.problem import IntArray, PlacementProblem
from chipmap.learned.placement.ppo import DEFAULT, Task, Trainer
from chipmap.learned.placement.scene import Scene, human_splits, metis_partitions
from chipmap.records import InputError

#: Placements that a run draws, where ``--native samples=N`` says nothing else.
SAMPLES = 400


def search(
    problem: PlacementProblem, native: dict[str, Any], seed: int, deadline: Deadline = Deadline()
) -> Iterator[IntArray]:
    """The devices [N] of the human splits, of the best one of these and METIS's, then of each better one that is drawn.

    ``native``: ``samples``, a whole number above 0; ``learn`` (true): whether the policy learns. On one thread, so that
    the result doesn't depend on how many there are. Raises :class:`InputError`.
    """
    samples, learn = native.get("samples", SAMPLES), native.get("learn", True)
    if not isinstance(samples, int) or isinstance(samples, bool) or samples < 1:
        raise InputError(f"is {samples!r}", "--native samples", "Give a whole number above 0.")
    if not isinstance(learn, bool):
        raise InputError(f"is {learn!r}", "--native learn", "Give true or false.")
    torch.set_num_threads(1)
    splits = human_splits(problem)
    yield from splits
    splits += metis_partitions(problem, seed, deadline)
    task, trainer = Task(Scene(problem, splits)), Trainer(DEFAULT, seed)
    yield task.devices
    drawn, best = 0, task.best
    while drawn < samples:
        deadline.check()
        trainer.cycle([task], learn)
        drawn += DEFAULT.rollouts
        if task.best < best:
            best = task.best
            yield task.devices
