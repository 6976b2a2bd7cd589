"""Training on one problem, cycle by cycle: a curve, and a state from which a killed run goes on unchanged.

The state is written after every cycle (``resume.pt`` with ``resume.json``, its SHA-256), whole or not at all, and
read with weights only. Same seed, same curve, whether or not the run was interrupted.
"""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from chipmap.deadline import Deadline
from chipmap.heuristics.ring.sampling.evaluate import INVALID
from chipmap.heuristics.ring.sampling.sample_fix import Sampler
from chipmap.heuristics.ring.sampling.search import search
from chipmap.instances.ring.problem import RingProblem
from chipmap.learned.ppo import OURS, Learner, Recipe
from chipmap.records import InputError, Record, read_bytes


class Point(NamedTuple):
    """After ``samples`` samples: the ``best`` objective in ticks so far, and the cycle's ``mean`` reward."""

    samples: int
    best: int
    mean: float


class _Seal(Record, frozen=True, kw_only=True):
    """The SHA-256 of a state, and of the recipe, seed and instance that it belongs to."""

    sha256: str
    of: str


class Training:
    """One policy, one problem with computing operations alone; ``folder`` holds the state, where one is given."""

    def __init__(
        self, problem: RingProblem, recipe: Recipe = OURS, seed: int = 0, folder: Path | None = None, learn: bool = True
    ) -> None:
        self.sampler = Sampler(problem)
        self.learner = Learner(self.sampler.problem, recipe, seed, learn)
        self.curve: list[Point] = []
        self._seed, self._folder = seed, folder
        words = f"{recipe.content_hash} {seed} {problem.instance.content_hash}"
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
        folder.mkdir(parents=True, exist_ok=True)
        buffer = io.BytesIO()
        torch.save({"learner": self.learner.state(), "curve": [tuple(point) for point in self.curve]}, buffer)
        seal = _Seal(sha256=hashlib.sha256(buffer.getvalue()).hexdigest(), of=self._of)
        name = f"resume-{self.samples}.pt"
        for target, content in ((name, buffer.getvalue()), ("resume.json", seal.to_json())):
            partial = folder / f"{target}.partial"
            partial.write_bytes(content)
            partial.replace(folder / target)
        for old in folder.glob("resume-*.pt"):
            if old.name != name:
                old.unlink()

    def _resume(self, folder: Path) -> None:
        seal = _Seal.read(folder / "resume.json")
        if seal.of != self._of:
            raise InputError(
                "belongs to another run", str(folder), "Give another folder, or that run's recipe and seed."
            )
        state: Any = None
        for path in sorted(folder.glob("resume-*.pt")):
            data = read_bytes(path)
            if hashlib.sha256(data).hexdigest() == seal.sha256:
                state = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
        if state is None:
            raise InputError(
                "holds no state whose SHA-256 is that of resume.json", str(folder), "Begin in a new folder."
            )
        self.learner.resume(state["learner"])
        self.curve = [Point(*point) for point in state["curve"]]
