"""A policy of moves with credit by exact differences.

The policy is a distribution over moves (unit i, device d) away from a base, the best placement so far:

    π(i, d) = (1 − u) softmax(z)(i, d) + u / P,    z = network(features of the move), over the P moves that are left.

The last layer starts at zero: an untrained policy draws each move alike. A rollout draws ``moves`` moves of different
units, one after the other; each is drawn from what is left of π, and moves that this base has shown to be no gain
aren't left. It is the new base if it is no worse.

**Credit.** Unit i's gain in rollout y is the exact difference of the objective when i alone returns to the base,

    g_i = (T(y with y_i = base_i) − T(y)) / T(base),

-1 or 1 where the memory decides. For a rollout of one move T(y with y_i = base_i) is T(base): credit costs no
evaluation. Of more moves, units on the critical chain come first, ``differences`` units a rollout, each at an
evaluation, whose placement may become the base as well. A unit whose difference isn't evaluated has no credit;
with 0 differences all units share the gain of the rollout.

**Learning.** The advantage A of a move is its gain where that is positive (0 otherwise), less the mean over the last
:data:`WINDOW` moves and over their standard deviation. A step of Adam goes up the mean over credited moves of
min(r A, clip(r, 1 − ε, 1 + ε) A) + entropy · H(softmax(z)), where r = π_new(i, d) / π_old(i, d) is that of the
distribution that was drawn from: with the share u, and without what wasn't left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from chipmap.instances.placement.problem import IntArray
from chipmap.learned.placement.scene import Scene, Worth
from chipmap.learned.placement.situation import MOVE_COLUMNS, Situation, Viewer
from chipmap.learned.ring.recipe import require_within
from chipmap.learned.trainer import Optimised, surrogate
from chipmap.records import Record

#: Moves whose gains say what is usual.
WINDOW = 256
#: The most that an advantage may be: one move in a hundred may gain.
MOST = 5.0
#: What can't be drawn.
_NOT_LEFT = -1e9


class MoveRecipe(Record, frozen=True, kw_only=True):
    """Sizes of the network, ``uniform`` (u), and how it learns: ``epochs`` steps after ``rollouts``."""

    schema: Literal["placement-moves/1"] = "placement-moves/1"
    layers: int = 2
    width: int = 32
    uniform: float = 0.1
    moves: int = 1
    differences: int = 1
    rollouts: int = 8
    epochs: int = 4
    rate: float = 3e-3
    clip: float = 0.2
    entropy: float = 1e-2

    def check(self) -> None:
        """Raise :class:`~chipmap.records.InputError` for what makes no network or no cycle."""
        sizes = (("layers", 1, 16), ("width", 1, 1024), ("moves", 1, 64), ("differences", 0, 64), ("epochs", 0, 1000))
        shares = (("uniform", 0.0, 1.0), ("rate", 0.0, 1.0), ("clip", 0.0, 1.0), ("entropy", 0.0, 1.0))
        require_within(self, (*sizes, ("rollouts", 1, 10_000), *shares))


#: On one graph, from scratch. Untuned.
ALONE = MoveRecipe()


class MovePolicy(nn.Module):
    """The logits z of moves with so many features (``columns``)."""

    def __init__(self, recipe: MoveRecipe, columns: int = len(MOVE_COLUMNS)) -> None:
        super().__init__()
        width, parts = columns, list[nn.Module]()
        for _ in range(recipe.layers):
            parts += [nn.Linear(width, recipe.width), nn.ReLU()]
            width = recipe.width
        self.inner, self.last = nn.Sequential(*parts), nn.Linear(width, 1)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, features: Tensor) -> Tensor:
        """[..., P, F] → [..., P]."""
        found: Tensor = self.last(self.inner(features))[..., 0]
        return found


def behaviour(logits: Tensor, left: Tensor, uniform: float) -> Tensor:
    """log π [..., P] of the moves that are ``left`` [..., P]; what isn't has :data:`_NOT_LEFT`."""
    chances = logits.masked_fill(~left, _NOT_LEFT).softmax(-1)
    mixed = (1.0 - uniform) * chances + uniform / left.sum(-1, keepdim=True).clamp(min=1)
    return mixed.clamp(min=1e-30).log().masked_fill(~left, _NOT_LEFT)


@dataclass
class Visit:
    """Rollouts from one base: ``drawn`` [R][K] numbers of moves, with the logarithms ``old`` of their probabilities
    and their ``gain`` (not a number: not credited)."""

    unit: Tensor
    features: Tensor
    drawn: list[list[int]] = field(default_factory=list)
    old: list[list[float]] = field(default_factory=list)
    gain: list[list[float]] = field(default_factory=list)

    def left(self) -> Tensor:
        """[R, K, P]: what was left for each draw."""
        rows = list[Tensor]()
        left = torch.ones(len(self.unit), dtype=torch.bool)
        for drawn in self.drawn:
            if not bool(left.any()):
                left = torch.ones_like(left)
            one = left.clone()
            for k in drawn:
                rows.append(one.clone())
                one &= self.unit != self.unit[k]
            if len(drawn) == 1:
                left[drawn[0]] = False
        return torch.stack(rows).view(len(self.drawn), -1, len(self.unit))


class Batch(NamedTuple):
    """Visits as tensors: ``features`` [S, P, F]; ``left`` [S, R, P], ``drawn``, ``old``, ``advantage`` [S, R], with a
    ``count`` [S, R] that is false where there is nothing. A rollout's moves are rows of their own."""

    features: Tensor
    left: Tensor
    drawn: Tensor
    old: Tensor
    advantage: Tensor
    count: Tensor

    def to(self, device: str) -> Batch:
        """On another device."""
        return Batch(*(part.to(device) for part in self))


def gains(visits: Sequence[Visit]) -> list[float]:
    """What is credited in some visits, 0 where nothing is gained."""
    return [max(0.0, one) for visit in visits for row in visit.gain for one in row if one == one]


def batch(visits: Sequence[Visit], usual: Sequence[tuple[float, float]]) -> Batch:
    """The credited moves of some visits, with the mean and the deviation that are usual for each of them."""
    parts = list[tuple[Tensor, ...]]()
    for visit, (mean, spread) in zip(visits, usual, strict=True):
        left = visit.left().flatten(0, 1)
        gain = torch.tensor(visit.gain).flatten()
        count = ~gain.isnan()
        gain = ((gain.clamp(min=0.0) - mean) / max(spread, 1e-9)).clamp(-MOST, MOST)
        drawn, old = torch.tensor(visit.drawn).flatten(), torch.tensor(visit.old).flatten()
        parts.append((visit.features, left, drawn, old, gain.nan_to_num(), count))
    most = max(len(part[0]) for part in parts)
    wide = [nn.functional.pad(part[1], (0, most - len(part[0]))) for part in parts]
    features, *rest = ([part[k] for part in parts] for k in (0, 2, 3, 4, 5))
    return Batch(pad_sequence(features, True), pad_sequence(wide, True), *(pad_sequence(one, True) for one in rest))


class MoveTrainer(Optimised[MovePolicy]):
    """The network, its optimiser, the randomness, and the gains that are usual. Same seed, same result."""

    def __init__(
        self, recipe: MoveRecipe = ALONE, seed: int = 0, device: str = "cpu", columns: int = len(MOVE_COLUMNS)
    ) -> None:
        recipe.check()
        self.recipe = recipe
        super().__init__(lambda: MovePolicy(recipe, columns), recipe.rate, seed, device)
        self._usual: deque[float] = deque(maxlen=WINDOW)

    def learn(self, visits: Sequence[Visit], epochs: int | None = None) -> None:
        """The steps of Adam on all credited moves of some visits at once."""
        visits = [visit for visit in visits if visit.drawn]
        self._usual.extend(gains(visits))
        if not visits:
            return
        given = batch(visits, [(float(np.mean(self._usual)), float(np.std(self._usual)))] * len(visits))
        for _ in range(self.recipe.epochs if epochs is None else epochs):
            self.descend(self.gradient([self.loss(given)]))

    def loss(self, given: Batch) -> Tensor:
        """PPO's clipped loss by what was drawn from, and the entropy of what is now."""
        recipe, logits, counts = self.recipe, self.network(given.features), given.count
        now = behaviour(logits[:, None], given.left, recipe.uniform)
        moved = now.gather(-1, given.drawn[..., None])[..., 0] - given.old
        chances = logits[:, None].masked_fill(~given.left, _NOT_LEFT).log_softmax(-1)
        entropy = -(chances.exp() * chances).sum(-1)[counts].mean()
        return -surrogate(moved[counts], given.advantage[counts], recipe.clip) - recipe.entropy * entropy


class Walk:
    """One graph: the ``base`` [units] and its ``worth``, a number of ``evaluations``, and the visits since
    :meth:`taken`."""

    def __init__(self, scene: Scene, recipe: MoveRecipe, seed: int, base: IntArray | None = None) -> None:
        self.scene, self.recipe, self.viewer = scene, recipe, Viewer(scene)
        self.random = np.random.default_rng(seed)
        first = np.unique(scene.unit, return_index=True)[1]
        self.begin(scene.split[first] if base is None else base)

    def begin(self, base: IntArray) -> None:
        """Begin anew at ``base`` [units]; nothing was seen."""
        self.base, self.worth, self.evaluations = base, self.scene.worth(self.scene.devices(base)), 0
        shape = self.scene.units, self.scene.problem.devices
        self._seen, self._gained = np.zeros(shape), np.zeros(shape)
        self.visits: list[Visit] = []
        self._now: tuple[Situation, Visit] | None = None

    @property
    def devices(self) -> IntArray:
        """The devices [n] of the base."""
        return self.scene.devices(self.base)

    def taken(self) -> list[Visit]:
        """The visits since the last call; the base's own one begins anew."""
        found, self.visits, self._now = self.visits, [], None
        return found

    @torch.no_grad()
    def rollout(self, network: MovePolicy) -> None:
        """Draw, judge, credit, and go there if it is no worse."""
        if self._now is None:
            seen = self.viewer.look(self.base, self._seen, self._gained)
            self._now = seen, Visit(torch.as_tensor(seen.unit), torch.as_tensor(seen.features))
            self.visits.append(self._now[1])
            self._logits = network(self._now[1].features)
            self._left = torch.ones(len(seen.unit), dtype=torch.bool)
        seen, visit = self._now
        if not len(seen.unit):
            self.evaluations += 1
            return
        drawn, old = self._draw(visit)
        visit.drawn.append(drawn)
        visit.old.append(old)
        self._judge(seen, visit, drawn)

    def _draw(self, visit: Visit) -> tuple[list[int], list[float]]:
        if not bool(self._left.any()):
            self._left = torch.ones_like(self._left)
        left, drawn, old = self._left.clone(), list[int](), list[float]()
        for _ in range(min(self.recipe.moves, self.scene.units)):
            if not bool(left.any()):
                break
            chances = behaviour(self._logits, left, self.recipe.uniform)
            sums = chances.double().exp().cumsum(0).numpy()
            k = min(int(np.searchsorted(sums, self.random.random() * sums[-1], side="right")), len(sums) - 1)
            drawn.append(k)
            old.append(float(chances[k]))
            left &= visit.unit != visit.unit[k]
        if len(drawn) == 1:
            self._left[drawn[0]] = False
        return drawn, old

    def _judge(self, seen: Situation, visit: Visit, drawn: list[int]) -> None:
        """Evaluate a rollout and its differences; note the gains, and take the best placement that is no worse."""
        there = self.base.copy()
        there[seen.unit[drawn]] = seen.device[drawn]
        worth = self._evaluate(there)
        found, credit = [(worth, there)], [float("nan")] * len(drawn)
        order = sorted(range(len(drawn)), key=lambda k: not seen.critical[seen.unit[drawn[k]]])
        if len(drawn) == 1:
            credit[0] = difference(self.worth, worth, self.worth)
        elif not self.recipe.differences:
            credit = [difference(self.worth, worth, self.worth)] * len(drawn)
        for k in order[: self.recipe.differences if len(drawn) > 1 else 0]:
            without = there.copy()
            without[seen.unit[drawn[k]]] = self.base[seen.unit[drawn[k]]]
            found.append((self._evaluate(without), without))
            credit[k] = difference(found[-1][0], worth, self.worth)
        visit.gain.append(credit)
        for k, gain in zip(drawn, credit, strict=True):
            if gain == gain:
                self._seen[seen.unit[k], seen.device[k]], self._gained[seen.unit[k], seen.device[k]] = 1.0, gain
        best = min(range(len(found)), key=lambda k: found[k][0])
        if found[best][0] <= self.worth:
            self.worth, self.base = found[best]
            self._now = None

    def descend(self, evaluations: int, critical: bool = False) -> None:
        """So many evaluations of *descent*: one random unit to another random device, kept if it is no worse;
        ``critical``: a unit of the critical chain. The policy has no say, and nothing is learnt."""
        allowed, units, at = self.viewer.allowed, np.arange(self.scene.units), None
        for _ in range(evaluations):
            if critical and at is None:
                _, work = self.scene.simulated(self.devices)
                at = np.unique(self.scene.unit[self.viewer.chain(self.devices, work).stop])
            one = self.random.choice(units if at is None else at)
            others = np.flatnonzero(allowed[one] & (np.arange(allowed.shape[1]) != self.base[one]))
            there = self.base.copy()
            there[one] = self.random.choice(others) if others.size else self.base[one]
            worth = self._evaluate(there)
            if worth <= self.worth:
                self.worth, self.base, self._now, at = worth, there, None, None

    def _evaluate(self, drawn: IntArray) -> Worth:
        self.evaluations += 1
        return self.scene.worth(self.scene.devices(drawn))


def difference(without: Worth, there: Worth, base: Worth) -> float:
    """(T(without) − T(there)) / T(base), from -1 to 1; where the bytes above the memories differ, they decide."""
    if without.over != there.over:
        return 1.0 if there.over < without.over else -1.0
    return max(-1.0, min(1.0, (without.step - there.step) / max(1, base.step)))


def walk(task: Walk, trainer: MoveTrainer, evaluations: int, learn: bool = True) -> Worth:
    """At least so many evaluations in all on one graph, learning after each cycle; what the base is worth."""
    while task.evaluations < evaluations:
        for _ in range(trainer.recipe.rollouts):
            if task.evaluations < evaluations:
                task.rollout(trainer.network)
        visits = task.taken()
        if learn:
            trainer.learn(visits)
    return task.worth
