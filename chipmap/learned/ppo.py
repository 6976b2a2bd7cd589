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
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from chipmap.heuristics.ring.sampling.evaluate import INVALID
from chipmap.heuristics.ring.sampling.search import Proposal
from chipmap.instances.ring.problem import IntArray, RingProblem
from chipmap.learned.features import of_ring
from chipmap.learned.policy import RingPolicy, arrays
from chipmap.records import InputError, Record


class Recipe(Record, frozen=True, kw_only=True):
    """Sizes of the networks and how they are trained; :data:`OURS` and :data:`PAPER` are the two that are compared."""

    schema: Literal["ring-policy/1"] = "ring-policy/1"
    layers: int = 8
    width: int = 128
    prior: bool = True
    rounds: int = 2
    rollouts: int = 20
    batches: int = 4
    epochs: int = 10
    rate: float = 3e-4
    clip: float = 0.2
    entropy: float = 1e-3
    credit: Literal["repaired", "proposed"] = "repaired"
    advantage: Literal["rank", "reward"] = "rank"
    repair: Literal["sample", "fix"] = "sample"

    def check(self) -> None:
        """Raise :class:`InputError` for sizes that make no network or no cycle."""
        for name, least, most in LIMITS:
            if not least <= getattr(self, name) <= most:
                raise InputError(f"is {getattr(self, name)}", name, f"Give {least:,} to {most:,}.")
        if self.batches > self.rollouts:
            raise InputError(
                f"is {self.batches} for {self.rollouts} rollouts", "batches", "Give no more than rollouts."
            )


LIMITS = (
    ("layers", 0, 64),
    ("width", 1, 1024),
    ("rounds", 1, 64),
    ("rollouts", 2, 10_000),
    ("batches", 1, 10_000),
    ("epochs", 1, 1000),
    ("rate", 0.0, 1.0),
    ("clip", 0.0, 1.0),
    ("entropy", 0.0, 1.0),
)
OURS = Recipe()
#: The paper's recipe: no prior, and the proposed assignment is credited.
PAPER = Recipe(prior=False, credit="proposed", advantage="reward")


class Rollout(NamedTuple):
    """``drawn`` [T, n]: the assignment of each round; ``logarithms`` [T, n] of their probabilities when drawn."""

    drawn: Tensor
    logarithms: Tensor


class Learner:
    """A :class:`~chipmap.heuristics.ring.sampling.search.Policy` on one problem (its computing operations alone).

    Same seed, same result, on the same number of threads. With ``learn`` False the policy stays as it is (zero-shot).
    Raises :class:`InputError` for more chips than policies are made for.
    """

    def __init__(self, problem: RingProblem, recipe: Recipe = OURS, seed: int = 0, learn: bool = True) -> None:
        recipe.check()
        self.recipe, self._learn = recipe, learn
        try:
            self._graph = arrays(of_ring(problem), problem.chips, recipe.prior)
        except ValueError as error:
            raise InputError(str(error), "package.chips", "Take another method, such as ring/annealing.") from None
        self._random = torch.Generator().manual_seed(seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.network = RingPolicy(recipe.layers, recipe.width)
        self._adam = torch.optim.Adam(self.network.parameters(), lr=recipe.rate)
        self._least = float(max(1, problem.least_ticks))
        #: The rollouts of the cycle.
        self.planned: list[Rollout] = []
        #: Of the last round of each rollout [k, n, C]: probabilities, and their logarithms.
        self._chances = self._logarithms = torch.zeros(0)
        self._rewards: list[float] = []
        self._mended: list[Tensor | None] = []

    def propose(self) -> Proposal:
        """The next rollout: its last round's distribution for SAMPLE, or an assignment drawn from it for FIX."""
        if len(self._rewards) == len(self.planned):
            self._plan()
        k = len(self._rewards)
        if self.recipe.repair == "fix":
            return Proposal(mode="fix", candidate=self.planned[k].drawn[-1].numpy())
        return Proposal(probabilities=self._chances[k].double().numpy())

    def observe(self, chips: IntArray | None, value: float) -> None:
        """Take a rollout's mapping [n] and what it is worth; after a cycle, train."""
        self._rewards.append(0.0 if chips is None or value >= INVALID else self._least / max(float(value), 1e-300))
        self._mended.append(None if chips is None else torch.as_tensor(np.array(chips, dtype=np.int64)))
        if len(self._rewards) == len(self.planned):
            if self._learn:
                self._train()
            self.planned, self._rewards, self._mended = [], [], []

    @torch.no_grad()
    def _plan(self) -> None:
        """The rollouts of a cycle, all at once."""
        recipe, n = self.recipe, len(self._graph.features)
        embedded, before = self.network.embed(self._graph), None
        drawn, logarithms = [], []
        for _ in range(recipe.rounds):
            chances = self.network.logits(self._graph, embedded, before, recipe.rollouts).log_softmax(-1)
            self._chances = chances.exp()
            flat = self._chances.reshape(-1, self._graph.chips)
            before = torch.multinomial(flat, 1, generator=self._random).reshape(recipe.rollouts, n)
            drawn.append(before)
            logarithms.append(chances.gather(-1, before[..., None])[..., 0])
            self._logarithms = chances
        stacked = torch.stack(drawn, 1), torch.stack(logarithms, 1)
        self.planned = [Rollout(*one) for one in zip(*stacked, strict=True)]

    def _train(self) -> None:
        """PPO on the cycle's rollouts."""
        recipe = self.recipe
        advantage = torch.as_tensor(advantages(np.array(self._rewards), recipe.advantage), dtype=torch.float32)
        drawn = torch.stack([one.drawn for one in self.planned])
        old = torch.stack([one.logarithms for one in self.planned])
        credited = drawn.clone()
        if recipe.credit == "repaired":
            for k, mended in enumerate(self._mended):
                if mended is not None:
                    credited[k, -1] = mended
            old[:, -1] = self._logarithms.gather(-1, credited[:, -1][..., None])[..., 0]
        for _ in range(recipe.epochs):
            for part in torch.randperm(len(old), generator=self._random).tensor_split(recipe.batches):
                self._step(drawn[part], credited[part], old[part], advantage[part])

    def _step(self, drawn: Tensor, credited: Tensor, old: Tensor, advantage: Tensor) -> None:
        """One step of Adam on some rollouts [b]: ``drawn``, ``credited`` and ``old`` [b, T, n], ``advantage`` [b]."""
        recipe, loss = self.recipe, torch.zeros(())
        embedded = self.network.embed(self._graph)
        for t in range(recipe.rounds):
            before = drawn[:, t - 1] if t else None
            chances = self.network.logits(self._graph, embedded, before, len(drawn)).log_softmax(-1)
            ratio = (chances.gather(-1, credited[:, t][..., None])[..., 0] - old[:, t]).clamp(-20.0, 20.0).exp()
            gain = advantage[:, None]
            clipped = ratio.clamp(1.0 - recipe.clip, 1.0 + recipe.clip)
            loss = loss - torch.minimum(ratio * gain, clipped * gain).mean()
            loss = loss + recipe.entropy * (chances.exp() * chances).sum(-1).mean()
        self._adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self._adam.step()

    @torch.no_grad()
    def log_probability(self, drawn: Tensor) -> float:
        """Logarithm of the probability of assignments [T, n], round by round, per operation and round."""
        embedded, found = self.network.embed(self._graph), 0.0
        for t, chips in enumerate(drawn):
            before = drawn[None, t - 1] if t else None
            chances = self.network.logits(self._graph, embedded, before).log_softmax(-1)[0]
            found += float(chances.gather(-1, chips[:, None]).mean()) / len(drawn)
        return found

    def state(self) -> dict[str, Any]:
        """All that a later run needs to go on as if there had been no break. Only between two cycles."""
        if self._rewards:
            raise ValueError("a cycle is under way")
        return {
            "network": self.network.state_dict(),
            "adam": self._adam.state_dict(),
            "random": self._random.get_state(),
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from a :meth:`state`."""
        self.network.load_state_dict(state["network"])
        self._adam.load_state_dict(state["adam"])
        self._random.set_state(state["random"])
        self.planned, self._rewards, self._mended = [], [], []


def advantages(rewards: np.ndarray[Any, np.dtype[np.float64]], kind: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """[k] advantages of rollouts with these rewards; equal ones are worth the same, and all equal ones nothing."""
    if kind == "rank":
        below = (rewards[:, None] > rewards).sum(axis=1) - (rewards[:, None] < rewards).sum(axis=1)
        return np.asarray(below / max(1, len(rewards) - 1), dtype=np.float64)
    spread = float(rewards.std())
    return np.asarray((rewards - rewards.mean()) / spread if spread > 1e-12 else np.zeros_like(rewards))
