"""What rollouts teach, and the gradients of PPO's objective by logits, written down."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Cycle(NamedTuple):
    """k rollouts to learn from: what was ``drawn`` [k, T, n], what is ``credited`` [k, T, n], the ``old`` logarithms of
    all probabilities [k, T, n, C], ``was`` [k, T, n] those of what is credited, and the ``advantage`` [k] or [k, n];
    ``prior`` [k, n, C] and ``start`` [k, n] as in :class:`~chipmap.learned.ring.proposal_priors.Bases`.

    With true behaviour probabilities ``was`` of the last round is of the distribution that was drawn from, by
    ``temperature`` [k] over what was ``left`` [k, n, C]; ``chosen`` [k, n]: what was a choice of the policy."""

    drawn: Tensor
    credited: Tensor
    old: Tensor
    was: Tensor
    advantage: Tensor
    prior: Tensor | None = None
    start: Tensor | None = None
    temperature: Tensor | None = None
    left: Tensor | None = None
    chosen: Tensor | None = None

    def part(self, of: Tensor) -> Cycle:
        """Some of the rollouts, by their numbers."""
        return Cycle(*(None if each is None else each[of] for each in self))  # type: ignore[arg-type]


def objective_slope(chances: Tensor, credited: Tensor, was: Tensor, gain: Tensor, clip: float) -> Tensor:
    """The gradient of :func:`~chipmap.learned.trainer.surrogate` by the logarithms of all probabilities.

    ``chances`` [b, n, C], or [1, n, C] for all rollouts; ``credited`` [b, n], ``was`` [b, n] the logarithms of their
    probabilities when drawn, ``gain`` [b, 1] or [b, n].
    """
    rollouts = len(credited)
    moved = chances.expand(rollouts, -1, -1).gather(-1, credited[..., None])[..., 0] - was
    ratio = moved.clamp(-20.0, 20.0).exp()
    gained = ratio * gain
    counts = (gained <= ratio.clamp(1.0 - clip, 1.0 + clip) * gain) & (moved.abs() <= 20.0)
    pull = torch.where(counts, gained, 0.0) / max(1, moved.numel())
    slope = torch.zeros_like(chances)
    if len(chances) == rollouts:
        return slope.scatter_add_(-1, credited[..., None], pull[..., None])
    slope[0].scatter_add_(-1, credited.T, pull.T)
    return slope


def drawn_from(logits: Tensor, temperature: Tensor, left: Tensor) -> Tensor:
    """[k, n, C] logarithms of the probabilities that SAMPLE draws by: of ``logits`` [k or 1, n, C] over ``temperature``
    [k], over what is ``left`` [k, n, C]."""
    return (logits / temperature[:, None, None]).masked_fill(~left, -1e9).log_softmax(-1)


def true_slope(logits: Tensor, cycle: Cycle, gain: Tensor, clip: float) -> Tensor:
    """The gradient of :func:`~chipmap.learned.trainer.surrogate` by the ``logits`` of the last round, where the ratio
    is that of :func:`drawn_from`, and what wasn't the policy's choice counts for nothing."""
    assert cycle.left is not None and cycle.temperature is not None and cycle.chosen is not None
    chances = drawn_from(logits, cycle.temperature, cycle.left)
    slope = objective_slope(chances, cycle.credited[:, -1], cycle.was[:, -1], gain * cycle.chosen, clip)
    slope = (slope - chances.exp() * slope.sum(-1, keepdim=True)) / cycle.temperature[:, None, None]
    return slope if len(logits) == len(slope) else slope.sum(0, keepdim=True)
