"""Training on one problem, cycle by cycle: a curve, and a state from which a killed run goes on unchanged.

The state is written after every cycle (:mod:`chipmap.learned.training_state`). Same seed, same curve, whether or not
the run was interrupted.
"""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from chipmap.deadline import Deadline
from chipmap.heuristics.ring.sampling.evaluate import INVALID
from chipmap.heuristics.ring.sampling.sample_fix import Sampler
from chipmap.heuristics.ring.sampling.search import search
from chipmap.instances.ring.problem import RingProblem
from chipmap.learned.ring.ppo import OURS, Learner, Recipe
from chipmap.learned.training_state import read_sealed, resuming, write_sealed


class Point(NamedTuple):
    """After ``samples`` samples: the ``best`` objective in ticks so far, and the cycle's ``mean`` reward."""

    samples: int
    best: int
    mean: float


class Training:
    """One policy, one problem with computing operations alone; ``folder`` holds the state, where one is given."""

    def __init__(
        self, problem: RingProblem, recipe: Recipe = OURS, seed: int = 0, folder: Path | None = None, learn: bool = True
    ) -> None:
        self.sampler = Sampler(problem)
        self.learner = Learner(self.sampler.problem, recipe, seed, learn)
        self.curve: list[Point] = []
        self._seed, self._folder = seed, folder
        words = f"2 {recipe.content_hash} {seed} {problem.instance.content_hash}"
        self._of = hashlib.sha256(words.encode()).hexdigest()
        if folder is not None and (folder / "resume.json").exists():
            self._resume(folder)

    @property
    def samples(self) -> int:
        """Samples so far."""
        return self.curve[-1].samples if self.curve else 0

    def run(self, samples: int, deadline: Deadline = Deadline()) -> list[Point]:
        """Go on until there are at least so many samples, in whole cycles; the curve."""
        rollouts = self.learner.recipe.rollouts
        while self.samples < samples and self.sampler.possible:
            best = self.curve[-1].best if self.curve else INVALID
            worth = []
            for _, value in search(self.sampler, self.learner, self._seed, rollouts, first=self.samples):
                worth.append(int(value))
                deadline.check()
            least = max(1, self.sampler.problem.least_ticks)
            mean = float(np.mean([least / value if value < INVALID else 0.0 for value in worth]))
            self.curve.append(Point(self.samples + rollouts, min(best, *worth), mean))
            if self._folder is not None:
                self._save(self._folder)
        return self.curve

    def _save(self, folder: Path) -> None:
        buffer = io.BytesIO()
        torch.save({"learner": self.learner.state(), "curve": [tuple(point) for point in self.curve]}, buffer)
        write_sealed(folder, "resume", buffer.getvalue(), self._of, str(self.samples))

    def _resume(self, folder: Path) -> None:
        state = read_sealed(folder, "resume", self._of)
        with resuming(folder):
            self.learner.resume(state["learner"])
            self.curve = [Point(*point) for point in state["curve"]]
