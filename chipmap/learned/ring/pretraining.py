"""Pre-training: one policy for many graphs, pass by pass (paper, section 5.1 and figure 4).

A pass gives every graph a cycle of rollouts, then trains the shared networks on all of them together: by PPO on what
these were worth, or, with the recipe's method ``imitation``, on mappings that are proved optimal. What stays on disk
is said in :mod:`chipmap.learned.passes`. Where the mean of three passes falls below the best such mean by the recipe's
``keep``, the best weights come back, at half the rate. Which checkpoint is the best is another module's question
(:mod:`chipmap.learned.ring.judging`).

What a pass is worth: over the graphs, the mean of what a sample of the pass was worth (optimum / objective, or the
plain bound for it where no optimum is known; 0 without a mapping), and the mean of the best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from chipmap.deadline import Deadline
from chipmap.heuristics.ring.sampling.evaluate import INVALID
from chipmap.heuristics.ring.sampling.sample_fix import Sampler
from chipmap.heuristics.ring.sampling.search import search
from chipmap.learned.passes import Passed, Passes
from chipmap.learned.ring.checkpoint import save
from chipmap.learned.ring.data import Row
from chipmap.learned.ring.imitation import target
from chipmap.learned.ring.ppo import Kept, Learner, Recipe, Trainer
from chipmap.records import InputError


class Pretraining(Passes):
    """One policy, the graphs of ``rows``; ``folder`` holds checkpoints, curve and state.

    ``optima`` maps names of rows to optimal mappings (chips [n]), which method ``imitation`` needs: rows that aren't in
    it aren't imitated.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        recipe: Recipe,
        seed: int,
        folder: Path,
        optima: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        torch.set_num_threads(1)
        self.trainer = Trainer(recipe, seed)
        self._kept = Kept(self.trainer)
        self._samplers = [Sampler(row.problem()) for row in rows]
        self._learners = [Learner(sampler.problem, trainer=self.trainer) for sampler in self._samplers]
        least = zip(rows, self._samplers, strict=True)
        self._least = [float(row.optimum or max(1, sampler.problem.least_ticks)) for row, sampler in least]
        super().__init__(folder, recipe, seed, [row.instance().content_hash for row in rows])
        self._seed = seed
        self._lessons = [
            (learner.graph, target(sampler, optima[row.name], learner.graph.prior))
            for row, sampler, learner in zip(rows, self._samplers, self._learners, strict=True)
            if optima is not None and row.name in optima
        ]
        if recipe.method == "imitation" and not self._lessons:
            raise InputError("has no optimum to imitate", "recipe", "Give graphs whose optima are proved.")
        self.go_on()

    def save(self, path: Path, samples: int) -> None:
        """Write the checkpoint of the policy as it is."""
        save(path, self.trainer.network, self.trainer.recipe, samples, self.instances)

    def state(self) -> dict[str, Any]:
        """All that a later run needs to go on, but the curve."""
        return {"trainer": self.trainer.state(), "kept": self._kept.state()}

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from a :meth:`state`."""
        self.trainer.resume(state["trainer"])
        self._kept.resume(state["kept"])

    def next_pass(self, deadline: Deadline = Deadline()) -> Passed:
        """One more pass over all graphs; it counts once it is whole. Raises the deadline's stop."""
        number, rollouts = len(self.curve) + 1, self.trainer.recipe.rollouts
        means, bests = [], []
        for k, learner in enumerate(self._learners):
            learner.cycles.clear()  # of a pass that was given up
            first = (number - 1) * rollouts
            pairs = search(self._samplers[k], learner, self._seed, rollouts, first=first)
            worth = []
            for _, value in pairs:
                worth.append(self._least[k] / value if value < INVALID else 0.0)
                deadline.check()
            means.append(float(np.mean(worth)))
            bests.append(max(worth))
        if not self._kept.went_back(self.trainer, means):
            self._teach()
        return self.passed(rollouts * len(self._learners), float(np.mean(means)), float(np.mean(bests)))

    def _teach(self) -> None:
        """Train on all graphs, once."""
        if self.trainer.recipe.method == "imitation":
            self.trainer.imitate(self._lessons)
        else:
            self.trainer.train_together([cycle for learner in self._learners for cycle in learner.cycles])
