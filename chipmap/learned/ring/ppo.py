"""The ring policy as a search strategy that learns while it samples: PPO on what its repaired mappings are worth.

A cycle makes ``rollouts`` mappings. Each one refines its assignment for T rounds and hands the last round's
distribution to the constraint solver (SAMPLE), or an assignment y drawn from it (FIX). It hears what the valid
mapping y' is worth. Then the networks are trained in ``epochs`` passes, in ``batches`` mini-batches of rollouts, by
the objective

    mean over operations of min(r A, clip(r, 1 - ε, 1 + ε) A) + entropy · H,    r = p_new(y_v) / p_old(y_v),

summed over the rounds. The last round is credited with the repaired assignment y' (ours) or with y as it was proposed
(the paper's text leaves that open; its recipe is read so). A is the advantage of the rollout among those of its cycle:
its rank, from -1 to 1 (ours), or its reward, less the mean and over the standard deviation. The reward is least /
objective: the share of the throughput that the plain bound on the period would allow; 0 where no valid mapping was
found. With an evaluator, objective is the measured cost: neither advantage depends on its unit.

Where the recipe says so, rollouts refine the best mappings so far (ours; :mod:`chipmap.learned.ring.proposal_priors`).

What was learnt is kept in two ways (ours; see :class:`~chipmap.learned.ring.recipe.Recipe`): passes end when the policy
has moved far enough, and a policy that gets worse goes back to its best weights.

A :class:`Trainer` holds the networks; a :class:`Learner` is one graph. Learners of several graphs may share a trainer:
one policy for all of them, whatever their numbers of chips.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from chipmap.heuristics.ring.sampling.evaluate import INVALID
from chipmap.heuristics.ring.sampling.search import Proposal
from chipmap.instances.ring.problem import IntArray, RingProblem
from chipmap.learned.features import of_ring
from chipmap.learned.ring.policy import Arrays, RingPolicy, arrays
from chipmap.learned.ring.proposal_priors import Bases, Pool, bases
from chipmap.learned.ring.recipe import LIMITS, OURS, PAPER, WINDOW, Recipe
from chipmap.learned.ring.slopes import Cycle, drawn_from, objective_slope, true_slope
from chipmap.learned.trainer import Optimised
from chipmap.records import InputError

#: Graphs of a step, where several are trained together.
TOGETHER = 8
#: Advantage of a refinement that is worth what it began with: most are, or are worse, and few of them are better.
STAYED = 0.1
__all__ = ["LIMITS", "OURS", "PAPER", "Cycle", "Learner", "Recipe", "Trainer", "advantages"]


class Trainer(Optimised[RingPolicy]):
    """The networks, their optimiser and the randomness of training.

    Same seed, same result, on the same number of threads. Raises :class:`InputError` for a recipe that is none.
    """

    def __init__(self, recipe: Recipe = OURS, seed: int = 0) -> None:
        recipe.check()
        self.recipe = recipe
        super().__init__(lambda: RingPolicy(recipe.layers, recipe.width), recipe.rate, seed)

    def train(self, graph: Arrays, cycle: Cycle) -> int:
        """PPO on a cycle's rollouts of one graph; how many steps were made."""
        recipe, steps = self.recipe, 0
        for _ in range(recipe.epochs):
            for part in torch.randperm(len(cycle.drawn), generator=self.random).tensor_split(recipe.batches):
                if not self._step([(graph, cycle.part(part))]):
                    return steps
                steps += 1
        return steps

    def train_together(self, cycles: Sequence[tuple[Arrays, Cycle]]) -> int:
        """PPO on a cycle of each of several graphs; how many steps were made.

        A step has all rollouts of :data:`TOGETHER` graphs. One graph after the other, each trained on alone, unlearns
        what the others taught: 66 graphs then end far below the prior.
        """
        steps = 0
        for _ in range(self.recipe.epochs):
            order = torch.randperm(len(cycles), generator=self.random)
            for part in order.split(TOGETHER):
                if not self._step([cycles[k] for k in part.tolist()]):
                    return steps
                steps += 1
        return steps

    def imitate(self, lessons: Sequence[tuple[Arrays, Tensor]]) -> int:
        """Down the cross-entropy with each graph's target [n, C], in steps of :data:`TOGETHER` graphs; how many.

        Every round of refinement is given the target; what it sees of the round before is drawn from the policy.
        """
        steps = 0
        for _ in range(self.recipe.epochs):
            for part in torch.randperm(len(lessons), generator=self.random).split(TOGETHER):
                parts = [self._cross_entropy(*lessons[k]) for k in part.tolist()]
                self.descend(self.gradient([torch.stack(parts).mean()]))
                steps += 1
        return steps

    def _cross_entropy(self, graph: Arrays, target: Tensor) -> Tensor:
        """The mean over operations of -Σ_c target_vc log p(v, c), summed over the rounds."""
        embedded, before, loss = self.network.embed(graph), None, torch.zeros(())
        for _ in range(self.recipe.rounds):
            chances = self.network.logits(graph, embedded, before)[0].log_softmax(-1)
            loss = loss - (target * chances).sum(-1).mean()
            before = torch.multinomial(chances.detach().exp(), 1, generator=self.random)[None, :, 0]
        return loss

    def _step(self, cycles: Sequence[tuple[Arrays, Cycle]]) -> bool:
        """One step of Adam on some rollouts [b] of each graph; False: none, as the policy has moved far enough."""
        rounds, moved = list[tuple[Tensor, Tensor]](), 0.0
        for graph, cycle in cycles:
            embedded = self.network.embed(graph)
            for t in range(self.recipe.rounds):
                before = cycle.drawn[:, t - 1] if t else cycle.start
                logits = self.network.logits(graph, embedded, before, prior=cycle.prior)
                slope, away = self._slope(logits.detach(), graph, cycle, t)
                rounds.append((logits, slope / len(cycles)))
                moved += away / len(cycles)
        if self.recipe.kl and moved > self.recipe.kl:
            return False
        self.descend(self.gradient(*zip(*rounds, strict=True)))
        return True

    def _slope(self, logits: Tensor, graph: Arrays, cycle: Cycle, t: int) -> tuple[Tensor, float]:
        """The gradient by the ``logits`` of round t, and how far the policy has moved there, per round.

        The logits are [b, n, C], or [1, n, C] in the first round, which all rollouts share. Their gradient is written
        down, as PyTorch's own one of these few numbers takes about as long as a layer.
        """
        recipe, chances = self.recipe, logits.log_softmax(-1)
        gain = cycle.advantage if cycle.advantage.ndim == 2 else cycle.advantage[:, None]
        odds = chances.exp()
        if cycle.left is not None and t == recipe.rounds - 1:
            pull = true_slope(logits, cycle, gain, recipe.clip)
        else:
            pull = objective_slope(chances, cycle.credited[:, t], cycle.was[:, t], gain, recipe.clip)
            pull = pull - odds * pull.sum(-1, keepdim=True)
        held = (recipe.entropy + recipe.anchor) * chances
        if recipe.anchor:
            prior = graph.prior if cycle.prior is None else cycle.prior
            held = held - recipe.anchor * prior.log_softmax(-1)
        slope = odds * held / (len(chances) * len(graph.features))
        moved = 0.0
        if recipe.kl:
            old = cycle.old[: len(chances), t]
            moved = float((old.exp() * (old - chances)).sum(-1).mean()) / recipe.rounds
        return slope - odds * slope.sum(-1, keepdim=True) - pull, moved


class Kept:
    """The best weights so far, which come back, at half the rate, once a policy has become worse by ``recipe.keep``."""

    def __init__(self, trainer: Trainer) -> None:
        #: Mean rewards of the last cycles; the best mean of a window, and the weights that earned it.
        self._means: list[float] = []
        self._best, self._weights = -1.0, copy.deepcopy(trainer.network.state_dict())

    def went_back(self, trainer: Trainer, rewards: Sequence[float]) -> bool:
        """Judge the weights by the rewards of the cycles that they and their forerunners drew; whether the best ones
        are back. They never are where ``recipe.keep`` is 0."""
        if not trainer.recipe.keep:
            return False
        self._means = [*self._means, float(np.mean(rewards))][-WINDOW:]
        if len(self._means) < WINDOW:
            return False
        mean = float(np.mean(self._means))
        if mean >= self._best:
            self._best, self._weights = mean, copy.deepcopy(trainer.network.state_dict())
        elif mean < (1.0 - trainer.recipe.keep) * self._best:
            trainer.network.load_state_dict(self._weights)
            for group in trainer.adam.param_groups:
                group["lr"] /= 2.0
            self._means = []
            return True
        return False

    def state(self) -> dict[str, Any]:
        """All that a later run needs to go on as if there had been no break."""
        return {"means": self._means, "best": self._best, "weights": self._weights}

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from a :meth:`state`."""
        self._means, self._best, self._weights = list(state["means"]), state["best"], state["weights"]


class Learner:
    """A :class:`~chipmap.heuristics.ring.sampling.search.Policy` on one problem (its computing operations alone).

    With ``learn`` False the policy stays as it is (zero-shot). With a ``trainer`` its recipe counts and its networks
    propose; it isn't trained here, but what it shall learn from stands in ``cycles``. Raises :class:`InputError` for
    more chips than policies are made for.
    """

    def __init__(
        self,
        problem: RingProblem,
        recipe: Recipe = OURS,
        seed: int = 0,
        learn: bool = True,
        trainer: Trainer | None = None,
    ) -> None:
        self.trainer = trainer or Trainer(recipe, seed)
        self.recipe, self._learn, self._alone = self.trainer.recipe, learn, trainer is None
        try:
            self.graph = arrays(of_ring(problem), problem.chips, self.recipe.prior)
        except ValueError as error:
            raise InputError(str(error), "package.chips", "Take another method, such as ring/annealing.") from None
        self._least = float(max(1, problem.least_ticks))
        #: The rollouts of the cycle: the assignment of each round [T, n].
        self.planned: Sequence[Tensor] = []
        #: What they start from; probabilities [k, n, C] that the solver is given.
        self._pool = Pool()
        self._bases = bases(self.recipe, self.graph, self._pool, torch.Generator())
        self._given = torch.zeros(0)
        #: Logarithms of all probabilities [k, T, n, C] of the cycle.
        self._old = torch.zeros(0)
        #: What the trainer of several graphs shall be given.
        self.cycles: list[tuple[Arrays, Cycle]] = []
        self._rewards: list[float] = []
        self._mended: list[Tensor | None] = []
        self._left: list[Tensor] = []
        self._kept = Kept(self.trainer)

    @property
    def network(self) -> RingPolicy:
        """The policy."""
        return self.trainer.network

    def propose(self) -> Proposal:
        """The next rollout: its last round's distribution for SAMPLE, or an assignment drawn from it for FIX."""
        if len(self._rewards) == len(self.planned):
            self._plan()
        k = len(self._rewards)
        if self.recipe.repair == "fix":
            return Proposal(mode="fix", candidate=self.planned[k][-1].numpy())
        # without refinement all rollouts share one distribution
        alike = self.recipe.rounds == len(self.recipe.temperatures) == 1
        alike = alike and not self.recipe.mixed and not self.recipe.refined
        given = self._given[k].double().numpy()
        if self.recipe.behaviour == "true":
            return Proposal(probabilities=given, heard=lambda left: self._left.append(torch.as_tensor(left)))
        return Proposal(probabilities=given, count=len(self.planned) - k if alike else 1)

    def observe(self, chips: IntArray | None, value: float) -> None:
        """Take a rollout's mapping [n] and what it is worth; after a cycle, train."""
        self._rewards.append(0.0 if chips is None or value >= INVALID else self._least / max(float(value), 1e-300))
        self._mended.append(None if chips is None else torch.as_tensor(np.array(chips, dtype=np.int64)))
        if self._alone and self._mended[-1] is not None and self._rewards[-1] > 0.0:
            self._pool.add(self._rewards[-1], self._mended[-1])
        if len(self._rewards) == len(self.planned):
            if not self._alone:
                self.cycles.append((self.graph, self._cycle()))
            elif self._learn and not self._kept.went_back(self.trainer, self._rewards):
                self.trainer.train(self.graph, self._cycle())
            self.planned, self._rewards, self._mended, self._left = [], [], [], []

    @torch.no_grad()
    def _plan(self) -> None:
        """The rollouts of a cycle, all at once."""
        recipe, n = self.recipe, len(self.graph.features)
        self._bases = base = bases(recipe, self.graph, self._pool, self.trainer.random)
        embedded, before = self.network.embed(self.graph), base.start
        drawn, old = [], []
        for _ in range(recipe.rounds):
            chances = self.network.logits(self.graph, embedded, before, prior=base.prior).log_softmax(-1)
            chances = chances.expand(recipe.rollouts, -1, -1)
            flat = chances.exp().reshape(-1, self.graph.chips)
            before = torch.multinomial(flat, 1, generator=self.trainer.random).reshape(recipe.rollouts, n)
            drawn.append(before)
            old.append(chances)
        self._old = torch.stack(old, 1)
        self._given = base.given(self._old[:, -1], self.graph.prior)
        if recipe.repair == "fix" and (base.plain.any() or (base.temperature != 1.0).any()):
            flat = self._given.reshape(-1, self.graph.chips)
            drawn[-1] = torch.multinomial(flat, 1, generator=self.trainer.random).reshape(recipe.rollouts, n)
        self.planned = torch.stack(drawn, 1).unbind()

    def _cycle(self) -> Cycle:
        """What the cycle's rollouts teach."""
        rewards, base = np.array(self._rewards), self._bases
        drawn = torch.stack(list(self.planned))
        credited = drawn.clone()
        if self.recipe.credit == "repaired":
            for k, mended in enumerate(self._mended):
                if mended is not None:
                    credited[k, -1] = mended
        was = self._old.gather(-1, credited[..., None])[..., 0]
        if base.start is None:
            advantage = torch.as_tensor(advantages(rewards, self.recipe.advantage), dtype=torch.float32)
        else:
            advantage = refined_advantages(torch.as_tensor(rewards), base, credited[:, -1], self.recipe.advantage)
        cycle = Cycle(drawn, credited, self._old, was, advantage, base.prior, base.start)
        return cycle if self.recipe.behaviour == "network" else self._true(cycle)

    def _true(self, cycle: Cycle) -> Cycle:
        """The cycle with the probabilities that its mappings were drawn by, and what was chosen in them."""
        base, found = self._bases, torch.tensor([one is not None for one in self._mended])
        if self.recipe.repair == "fix":
            left = torch.ones_like(self._given, dtype=torch.bool)
            kept = cycle.drawn[:, -1] if self.recipe.credit == "proposed" else cycle.credited[:, -1]
            chosen = kept == cycle.drawn[:, -1]
        else:
            left = torch.stack(self._left)
            chosen = (left.sum(-1) > 1) & left.gather(-1, cycle.credited[:, -1, :, None])[..., 0]
        true = drawn_from(self._old[:, -1], base.temperature, left)
        was = cycle.was.clone()
        was[:, -1] = true.gather(-1, cycle.credited[:, -1, :, None])[..., 0]
        chosen = chosen & ~base.plain[:, None] & found[:, None]
        return cycle._replace(was=was, temperature=base.temperature, left=left, chosen=chosen)

    def state(self) -> dict[str, Any]:
        """All that a later run needs to go on as if there had been no break. Only between two cycles."""
        if self._rewards:
            raise ValueError("a cycle is under way")
        return {**self.trainer.state(), **self._kept.state(), "pool": self._pool.best}

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from a :meth:`state`."""
        self.trainer.resume(state)
        self._kept.resume(state)
        self._pool = Pool(state.get("pool", ()))
        self.planned, self._rewards, self._mended, self._left = [], [], [], []


def refined_advantages(rewards: Tensor, base: Bases, credited: Tensor, kind: str) -> Tensor:
    """[k, n]. Where a mapping was refined, the operations that left their chip (``credited`` [k, n] are the new ones)
    have 1 if it got better, :data:`STAYED` if it is worth the same, minus that if less, and the others 0. Fresh
    rollouts compete with each other, by :func:`advantages` of that ``kind``."""
    assert base.start is not None
    better = torch.sign(rewards - base.worth)
    gain = torch.where(better > 0, 1.0, torch.where(better < 0, -STAYED, STAYED)).float()
    others = ~base.refined
    found = gain[:, None] * (credited != base.start)
    if others.any():
        own = torch.as_tensor(advantages(rewards[others].numpy(), kind), dtype=torch.float32)
        found[others] = own[:, None].expand(-1, credited.shape[-1])
    return found


def advantages(rewards: np.ndarray[Any, np.dtype[np.float64]], kind: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """[k] advantages of rollouts with these rewards; equal ones are worth the same, and all equal ones nothing."""
    if kind == "rank":
        below = (rewards[:, None] > rewards).sum(axis=1) - (rewards[:, None] < rewards).sum(axis=1)
        return np.asarray(below / max(1, len(rewards) - 1), dtype=np.float64)
    spread = float(rewards.std())
    return np.asarray((rewards - rewards.mean()) / spread if spread > 1e-12 else np.zeros_like(rewards))
