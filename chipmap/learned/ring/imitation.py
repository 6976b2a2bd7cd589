"""What a policy learns from proved optima: a distribution over chips for every operation of a graph.

Most graphs have many optimal mappings: only the busiest chip counts, and the others have room. A single one would
teach where an exact program happened to look. So a walk starts at the optimum: SAMPLE draws mappings near the current
one, and those that are worth at least :data:`QUALITY` of the optimum may be the next. The target of operation v is

    t_vc = (1 - s) · (share of the walk's mappings that have v on chip c) + s · p_vc,

p the policy's prior, s = :data:`SHARE_OF_PRIOR`: what the walk has not seen keeps a chance. The loss is the mean over
operations of -Σ_c t_vc log p_new(v, c) (:meth:`chipmap.learned.ring.ppo.Trainer.imitate`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from chipmap.heuristics.ring.sampling.evaluate import INVALID, Evaluator
from chipmap.heuristics.ring.sampling.sample_fix import Sampler

#: What mappings of a walk are worth at least, optimum / objective.
QUALITY = 0.95
#: Steps of a walk, and mappings drawn in each.
STEPS, DRAWN = 40, 16
#: How likely an operation leaves its chip, one step after the other.
LEAVING = (0.02, 0.05, 0.1, 0.2)
#: The part of a target that is the prior.
SHARE_OF_PRIOR = 0.2


def walk(sampler: Sampler, optimum: Sequence[int], seed: int = 0) -> NDArray[np.int64]:
    """[k, n] mappings worth :data:`QUALITY` of the optimal one [n] or more, the optimum first."""
    current = np.array(optimum, dtype=np.int64)
    worth, random, chips = Evaluator(sampler.problem), np.random.default_rng(seed), np.arange(sampler.problem.chips)
    best, found = float(worth(current[None])[0]), [current]
    for step in range(STEPS):
        near = np.exp(-((chips - current[:, None]) ** 2) / 2.0)
        leaving = LEAVING[step % len(LEAVING)]
        given = leaving * near / near.sum(axis=1, keepdims=True)
        given[np.arange(len(current)), current] += 1.0 - leaving
        made = sampler.sample(DRAWN, seed, given, first=step * DRAWN)
        values = worth(made.chips[made.valid]).astype(np.float64)
        good = made.chips[made.valid][(values < INVALID) & (best >= QUALITY * values)]
        if len(good):
            current = good[random.integers(len(good))]
            found.append(current)
    return np.array(found)


def target(sampler: Sampler, optimum: Sequence[int], prior: Tensor, seed: int = 0) -> Tensor:
    """[n, C] probabilities to imitate, of an optimal mapping [n]; ``prior`` [n, C] logits."""
    seen = torch.as_tensor(shares(walk(sampler, optimum, seed), sampler.problem.chips), dtype=torch.float32)
    return (1.0 - SHARE_OF_PRIOR) * seen + SHARE_OF_PRIOR * prior.softmax(-1)


def shares(mappings: NDArray[np.int64], chips: int) -> NDArray[np.float64]:
    """[n, C]: the share of the mappings [k, n] that have each operation on each chip."""
    return np.asarray((mappings[..., None] == np.arange(chips)).mean(axis=0), dtype=np.float64)
