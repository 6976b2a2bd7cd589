"""Ways to choose a rule for each role within so many evaluations, learned and not."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from benchmarks.carrying.pairs import Carried
from benchmarks.carrying.proposals import NAMES, Features, Proposal, Searched, Sight
from benchmarks.carrying.trees import Array, Boosted, boosted

Scores = Callable[[Features], Array]
#: Gains count up to so much of the step, losses up to so much.
MOST, LEAST = 0.03, -0.01
SENT = NAMES.index("change of time sent / step")
#: Features by which the table tells proposals apart, in so many classes each.
TOLD = ("rule's step / best", "change of time sent / step", "change of the largest load", "on the critical chain")
CLASSES, ALONE = 5, 30.0


class Seen(NamedTuple):
    """What was learned from: ``features`` [n, F], relative ``gain`` [n], ``state`` [n]: the number of the base."""

    features: Features
    gain: Array
    state: Array


class Learned(NamedTuple):
    """Scores of proposals, each made from pairs of other architectures."""

    table: Scores
    trees: Scores
    chance: Scores


def learned(seen: Seen) -> Learned:
    """What is learned from evaluated proposals; each base counts the same."""
    weight = 1.0 / np.bincount(seen.state.astype(np.int64))[seen.state.astype(np.int64)]
    weight *= len(weight) / weight.sum()
    clipped = np.clip(seen.gain, LEAST, MOST) / MOST
    trees = boosted(seen.features, clipped, weight)
    chance = boosted(seen.features, (seen.gain > 1e-4).astype(float), weight)
    return Learned(_table(seen, clipped, weight), trees.of, chance.of)


def _table(seen: Seen, gain: Array, weight: Array) -> Scores:
    """The mean gain of each rule and class of features, drawn towards the mean of all."""
    columns = [NAMES.index(one) for one in TOLD]
    edges = [np.unique(np.quantile(seen.features[:, f], np.linspace(0, 1, CLASSES + 1)[1:-1])) for f in columns]

    def cell(x: Features) -> Array:
        code: Array = x[:, : NAMES.index(TOLD[0])].argmax(axis=1)
        for f, own in zip(columns, edges, strict=True):
            code = code * CLASSES + np.searchsorted(own, x[:, f], "left")
        return code

    code = cell(seen.features)
    cells = int(NAMES.index(TOLD[0]) * CLASSES ** len(columns))
    mean = float(np.average(gain, weights=weight))
    value = (np.bincount(code, gain * weight, cells) + ALONE * mean) / (np.bincount(code, weight, cells) + ALONE)
    return lambda x: value[cell(x)]


def by_work(searched: Searched, limit: int) -> None:
    """Roles of the most work first, each rule in turn: what the chain does."""
    searched.in_order(searched.proposals, limit)


def at_random(seed: int) -> Callable[[Searched, int], None]:
    """Proposals in a random order."""

    def way(searched: Searched, limit: int) -> None:
        order = np.random.default_rng(seed).permutation(len(searched.proposals))
        searched.in_order([searched.proposals[k] for k in order], limit)

    return way


def random_choice(seed: int) -> Callable[[Searched, int], None]:
    """Random rules for all roles at once, the best of as many as may be evaluated."""

    def way(searched: Searched, limit: int) -> None:
        draw, base = np.random.default_rng(seed), searched.best[2].copy()
        while searched.evaluations < limit:
            devices = base.copy()
            for role in searched.roles:
                mine = searched.mine[role]
                choice = int(draw.integers(len(searched.found.plans) + 1))
                devices[mine] = (base if choice == 0 else searched.found.plans[choice - 1])[mine]
            placed = searched.evaluate(devices)
            if placed is not None and placed[:2] < searched.best[:2]:
                searched.best = placed

    return way


def less_sent(x: Features) -> Array:
    """By how much less time the links need: nothing is learned."""
    return -x[:, SENT]


def ordered(scores: Scores) -> Callable[[Searched, int], None]:
    """Proposals in the order of their scores beside the first plan."""

    def way(searched: Searched, limit: int) -> None:
        value = scores(Sight(searched).features(searched.proposals))
        searched.in_order([searched.proposals[k] for k in np.argsort(-value, kind="stable")], limit)

    return way


def again(scores: Scores) -> Callable[[Searched, int], None]:
    """The proposal of the highest score; after one is taken all scores are computed anew."""

    def way(searched: Searched, limit: int) -> None:
        sight, open_ = Sight(searched), list(searched.proposals)
        while open_ and searched.evaluations < limit:
            value = scores(sight.features(open_))
            order, taken = np.argsort(-value, kind="stable"), -1
            for number, k in enumerate(order):
                if searched.evaluations >= limit or searched.tried([open_[k]]):
                    taken = number
                    break
            gone = {int(k) for k in order[: taken + 1 if taken >= 0 else len(order)]}
            open_ = [one for k, one in enumerate(open_) if k not in gone]
            open_ = [one for one in open_ if (searched.best[2][one.mine] != one.devices).any()]

    return way


def together(scores: Scores) -> Callable[[Searched, int], None]:
    """The best proposal of each role, all those of one sign at once; what doesn't help is halved."""

    def way(searched: Searched, limit: int) -> None:
        value = scores(Sight(searched).features(searched.proposals))
        order = np.argsort(-value, kind="stable")
        first = dict[int, Proposal]()
        for k in order:
            one = searched.proposals[k]
            if one.role not in first and value[k] > 0:
                first[one.role] = one
        queue = [list(first.values())]
        while queue and searched.evaluations < limit:
            some = queue.pop(0)
            if not some or searched.tried(some) or len(some) == 1:
                continue
            half = len(some) // 2
            queue += [some[:half], some[half:]]
        searched.in_order([searched.proposals[k] for k in order], limit)

    return way


def by_oracle(searched: Searched, limit: int) -> None:
    """Proposals in the order of their true gains beside the first plan, which aren't counted: what no order by features
    knows better."""
    gains = [gain_of(searched, one) for one in searched.proposals]
    searched.evaluations = 0
    searched.in_order([searched.proposals[k] for k in np.argsort(np.negative(gains), kind="stable")], limit)


def gain_of(searched: Searched, one: Proposal) -> float:
    """The share of the step that a proposal saves beside the best placement so far."""
    placed = searched.evaluate(searched.with_([one]))
    return -1.0 if placed is None else 1 - placed[1] / searched.best[1]


def seen_at(searched: Searched, number: int, seed: int) -> Seen:
    """The features and exact gains of all proposals beside two bases: the first plan, and after a third of a pass."""
    parts = list[Seen]()
    for base in range(2):
        if base:
            order = np.random.default_rng(seed).permutation(len(searched.proposals))
            some = [searched.proposals[k] for k in order[: len(order) // 3]]
            searched.in_order(some, searched.evaluations + len(some))
        left = [one for one in searched.proposals if (searched.best[2][one.mine] != one.devices).any()]
        if not left:
            break
        features = Sight(searched).features(left)
        gains = [gain_of(searched, one) for one in left]
        parts.append(Seen(features, np.array(gains), np.full(len(left), 2 * number + base)))
    return Seen(*(np.concatenate(one) for one in zip(*parts, strict=True)))


def searched_by(found: Carried, way: Callable[[Searched, int], None], limit: int) -> Searched:
    """What a way finds within so many evaluations."""
    searched = Searched(found)
    way(searched, limit)
    return searched


__all__ = ["Boosted"]
