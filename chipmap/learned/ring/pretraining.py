"""Pre-training: one policy for many graphs, pass by pass (paper, section 5.1 and figure 4).

A pass gives every graph a cycle of rollouts, then trains the shared networks on all of them together: by PPO on what
these were worth, or, with the recipe's method ``imitation``, on mappings that are proved optimal. After every pass
the networks are a checkpoint (``pass-0007.pt`` with its card), a line of ``training.csv`` says what the pass
was worth, and the state is written, whole or not at all: a run that was killed goes on from its last pass as if nothing
had happened. Same seed, same checkpoints. Where the mean of three passes falls below the best such mean by the recipe's
``keep``, the best weights come back, at half the rate. Which checkpoint is the best is another module's question
(:mod:`chipmap.learned.ring.judging`).
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from chipmap.deadline import Deadline
from chipmap.heuristics.ring.sampling.evaluate import INVALID
from chipmap.heuristics.ring.sampling.sample_fix import Sampler
from chipmap.heuristics.ring.sampling.search import search
from chipmap.learned.ring.checkpoint import save
from chipmap.learned.ring.data import Row
from chipmap.learned.ring.imitation import target
from chipmap.learned.ring.ppo import Kept, Learner, Recipe, Trainer
from chipmap.learned.training_state import read_sealed, resuming, write_sealed
from chipmap.records import InputError, csv_text

#: Columns of ``training.csv``.
COLUMNS = ("pass", "samples", "mean", "best")


class Passed(NamedTuple):
    """After a pass: its number, ``samples`` so far, and over the graphs the mean of what a sample of the pass was worth
    (optimum / objective, or the plain bound for it where no optimum is known; 0 without a mapping) and of the best."""

    number: int
    samples: int
    mean: float
    best: float


class Pretraining:
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
        self.curve: list[Passed] = []
        self._samplers = [Sampler(row.problem()) for row in rows]
        self._learners = [Learner(sampler.problem, trainer=self.trainer) for sampler in self._samplers]
        least = zip(rows, self._samplers, strict=True)
        self._least = [float(row.optimum or max(1, sampler.problem.least_ticks)) for row, sampler in least]
        self._instances = tuple(row.instance().content_hash for row in rows)
        self._seed, self.folder = seed, folder
        self._lessons = [
            (learner.graph, target(sampler, optima[row.name], learner.graph.prior))
            for row, sampler, learner in zip(rows, self._samplers, self._learners, strict=True)
            if optima is not None and row.name in optima
        ]
        if recipe.method == "imitation" and not self._lessons:
            raise InputError("has no optimum to imitate", "recipe", "Give graphs whose optima are proved.")
        words = " ".join(("2", recipe.content_hash, str(seed), *self._instances))
        self._of = hashlib.sha256(words.encode()).hexdigest()
        if (folder / "state.json").exists():
            state = read_sealed(folder, "state", self._of)
            with resuming(folder):
                self.trainer.resume(state["trainer"])
                self._kept.resume(state["kept"])
                self.curve = [Passed(*passed) for passed in state["curve"]]

    @property
    def samples(self) -> int:
        """Samples so far, over all graphs."""
        return self.curve[-1].samples if self.curve else 0

    def path(self, number: int) -> Path:
        """The checkpoint after pass ``number`` (0: the untrained policy)."""
        return self.folder / f"pass-{number:04}.pt"

    def begin(self) -> None:
        """Write the checkpoint of the untrained policy, unless it is there: training may make it worse."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self.path(0).exists() and not self.curve:
            save(self.path(0), self.trainer.network, self.trainer.recipe, 0, self._instances)

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
        samples = self.samples + rollouts * len(self._learners)
        self.curve.append(Passed(number, samples, float(np.mean(means)), float(np.mean(bests))))
        self._write()
        return self.curve[-1]

    def _teach(self) -> None:
        """Train on all graphs, once."""
        if self.trainer.recipe.method == "imitation":
            self.trainer.imitate(self._lessons)
        else:
            self.trainer.train_together([cycle for learner in self._learners for cycle in learner.cycles])

    def _write(self) -> None:
        """Checkpoint and curve first, so that the state never knows more passes than there are files."""
        self.folder.mkdir(parents=True, exist_ok=True)
        last = self.curve[-1]
        save(self.path(last.number), self.trainer.network, self.trainer.recipe, last.samples, self._instances)
        rows = [(one.number, one.samples, f"{one.mean:.6f}", f"{one.best:.6f}") for one in self.curve]
        partial = self.folder / "training.csv.partial"
        partial.write_text(csv_text(COLUMNS, rows), encoding="utf-8")
        partial.replace(self.folder / "training.csv")
        state: dict[str, Any] = {
            "trainer": self.trainer.state(),
            "kept": self._kept.state(),
            "curve": [tuple(one) for one in self.curve],
        }
        buffer = io.BytesIO()
        torch.save(state, buffer)
        write_sealed(self.folder, "state", buffer.getvalue(), self._of, str(last.number))
