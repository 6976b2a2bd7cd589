"""What the rollouts of a cycle start from: the prior of all operations, or one of the best mappings so far.

A rollout's logits are a base, the same for all networks, and what the network adds to it. There are three bases:

* the *prior* of the graph (:mod:`chipmap.learned.ring.policy`), which spreads the work over all chips;
* a *narrowed* prior, for rollouts without the network only: it spreads the work over a share of the chips, drawn from
  :data:`LEAST_REACH` to 1. C3 can make mappings on fewer chips the better ones;
* the *neighbourhood* of one of the :data:`POOL` best mappings y* so far, the rollout refines it:
  p(y_v = c) = (1 - e) [c = y*_v] + e q_vc, q_vc ∝ exp(-(c - y*_v)² / 2), for e of :data:`LEAVING` in turn. The network
  sees y* as the assignment before (eq. 7 of the paper).

Without the network the last one is a local search, which needs no model of the cost: only which mappings were best.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from chipmap.learned.ring.policy import Arrays, spread
from chipmap.learned.ring.recipe import Recipe

#: The best mappings that are kept and refined.
POOL = 4
#: e: the expected share of the operations whose chip is drawn anew.
LEAVING = (0.02, 0.05, 0.1, 0.2)
#: The least share of the chips that a narrowed prior reaches.
LEAST_REACH = 0.4


class Bases(NamedTuple):
    """Of k rollouts: ``prior`` [k, n, C] logits (None: the graph's prior for all); ``start`` [k, n] the mapping that is
    refined, -1 where there is none (None: nowhere); ``temperature`` [k], what divides the logits; ``plain`` [k]: the
    network has no say; ``refined`` [k]; ``worth`` [k] the reward of what is refined (0: nothing is)."""

    prior: Tensor | None
    start: Tensor | None
    temperature: Tensor
    plain: Tensor
    refined: Tensor
    worth: Tensor

    def given(self, logits: Tensor, prior: Tensor) -> Tensor:
        """[k, n, C]: the distributions for the solver, of the policy's ``logits`` [k, n, C] and the graph's prior."""
        base = prior if self.prior is None else self.prior
        return (torch.where(self.plain[:, None, None], base, logits) / self.temperature[:, None, None]).softmax(-1)


class Pool:
    """The :data:`POOL` best distinct mappings so far with their rewards, the best first, of equal ones the newest."""

    def __init__(self, best: Sequence[tuple[float, Tensor]] = ()) -> None:
        self.best = list(best)

    def add(self, reward: float, chips: Tensor) -> None:
        """Take a mapping [n] in if it is good enough."""
        if any(reward == other and torch.equal(chips, one) for other, one in self.best):
            return
        self.best = sorted([(reward, chips), *self.best], key=lambda one: -one[0])[:POOL]


def bases(recipe: Recipe, graph: Arrays, pool: Pool, random: torch.Generator) -> Bases:
    """Those of a cycle. Rollouts of one kind (refined or not) come in blocks: of as many as there are temperatures, of
    which the share ``mixed`` is without the network, or of one for each e."""
    numbers, kinds = torch.arange(recipe.rollouts), len(recipe.temperatures)
    refined = _evenly(numbers // kinds, recipe.refined) & bool(pool.best)
    rank = torch.where(refined, refined.cumsum(0), (~refined).cumsum(0)) - 1
    plain = _evenly(rank // torch.where(refined, len(LEAVING), kinds), recipe.mixed)
    temperature = torch.where(refined, 1.0, torch.tensor(recipe.temperatures)[rank % kinds])
    worth = torch.zeros(recipe.rollouts, dtype=torch.float64)
    if not recipe.narrowed and not refined.any():
        return Bases(None, None, temperature, plain, refined, worth)
    prior = graph.prior.repeat(recipe.rollouts, 1, 1)
    start = torch.full(prior.shape[:2], -1) if refined.any() else None
    for k in range(recipe.rollouts):
        if start is not None and refined[k]:
            worth[k], start[k] = pool.best[int(torch.randint(len(pool.best), (1,), generator=random))]
            prior[k] = neighbourhood(start[k], graph.chips, LEAVING[int(rank[k]) % len(LEAVING)])
        elif plain[k] and float(torch.rand(1, generator=random)) < recipe.narrowed:
            reach = LEAST_REACH + (1.0 - LEAST_REACH) * float(torch.rand(1, generator=random))
            prior[k] = spread(graph.position, graph.chips, reach)
    return Bases(prior, start, temperature, plain, refined, worth)


def neighbourhood(chips: Tensor, count: int, leaving: float) -> Tensor:
    """[n, C] logits round a mapping ``chips`` [n] on ``count`` chips."""
    away = (torch.arange(count) - chips[:, None]).float()
    stays = (away == 0).float()
    return ((1.0 - leaving) * stays + leaving * (-(away**2) / 2).softmax(-1)).clamp(min=1e-12).log()


def _evenly(blocks: Tensor, share: float) -> Tensor:
    """Which of the blocks 0, 1, … have a property that this share of them has."""
    return torch.floor((blocks.double() + 1) * share) != torch.floor(blocks.double() * share)
