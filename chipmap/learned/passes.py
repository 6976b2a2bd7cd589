"""A pre-training on disk, pass by pass: checkpoints, a curve, and a state that a killed run goes on from.

After every pass the networks are a checkpoint (``pass-0007.pt`` with its card), a line of ``training.csv`` says what
the pass was worth, and the state is written, whole or not at all: a run that was killed goes on from its last pass as
if nothing had happened. Same seed, same checkpoints.
"""

from __future__ import annotations

import hashlib
import io
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from chipmap.deadline import Deadline
from chipmap.learned.training_state import read_sealed, resuming, write_sealed
from chipmap.records import Record, csv_text
from chipmap.records.files import write_whole

#: Columns of ``training.csv``.
COLUMNS = ("pass", "samples", "mean", "best")


class Passed(NamedTuple):
    """After a pass: its number, ``samples`` so far, and over the graphs the ``mean`` and the ``best`` of what a pass
    is worth there."""

    number: int
    samples: int
    mean: float
    best: float


class Passes(ABC):
    """``folder`` holds checkpoints, ``curve`` and state; ``instances`` are the content hashes trained on."""

    def __init__(self, folder: Path, recipe: Record, seed: int, instances: Sequence[str]) -> None:
        self.folder, self.curve = folder, list[Passed]()
        self.instances = tuple(instances)
        words = " ".join(("2", recipe.content_hash, str(seed), *self.instances))
        self._of = hashlib.sha256(words.encode()).hexdigest()

    @abstractmethod
    def save(self, path: Path, samples: int) -> None:
        """Write the checkpoint of the policy as it is."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """All that a later run needs to go on, but the curve."""

    @abstractmethod
    def resume(self, state: dict[str, Any]) -> None:
        """Go on from a :meth:`state`."""

    @abstractmethod
    def next_pass(self, deadline: Deadline = Deadline()) -> Passed:
        """One more pass over all graphs; it counts once it is whole. Raises the deadline's stop."""

    def close(self) -> None:  # noqa: B027 - most have nothing that helps
        """End what helps."""

    def go_on(self) -> None:
        """Take the state in ``folder`` over, if there is one."""
        if (self.folder / "state.json").exists():
            state = read_sealed(self.folder, "state", self._of)
            with resuming(self.folder):
                self.resume(state)
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
            self.save(self.path(0), 0)

    def passed(self, samples: int, mean: float, best: float) -> Passed:
        """Note a whole pass: checkpoint and curve first, so that the state never knows more passes than there are
        files."""
        last = Passed(len(self.curve) + 1, self.samples + samples, mean, best)
        self.curve.append(last)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.save(self.path(last.number), last.samples)
        rows = [(one.number, one.samples, f"{one.mean:.6f}", f"{one.best:.6f}") for one in self.curve]
        write_whole(self.folder / "training.csv", csv_text(COLUMNS, rows).encode())
        buffer = io.BytesIO()
        torch.save({**self.state(), "curve": [tuple(one) for one in self.curve]}, buffer)
        write_sealed(self.folder, "state", buffer.getvalue(), self._of, str(last.number))
        return last
