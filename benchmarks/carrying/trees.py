"""Boosted regression trees with NumPy alone: squares of what is left, features in at most 32 bins."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
BINS, DEPTH, LEAST = 32, 4, 40
#: Shrinkage of leaves: the sum of a leaf is divided by its count and this.
RIDGE = 20.0


class Tree(NamedTuple):
    """A full tree of :data:`DEPTH` questions: node i asks ``feature[i]`` > ``bound[i]``; ``leaf`` [2^DEPTH]."""

    feature: NDArray[np.int64]
    bound: Array
    leaf: Array

    def of(self, x: Array) -> Array:
        """What the tree says of rows [n, F]."""
        at = np.zeros(len(x), dtype=np.int64)
        for _ in range(DEPTH):
            at = 2 * at + 1 + (x[np.arange(len(x)), self.feature[at]] > self.bound[at])
        return self.leaf[at - len(self.feature)]


class Boosted(NamedTuple):
    """A constant and trees."""

    start: float
    trees: list[Tree]

    def of(self, x: Array) -> Array:
        """The prediction of rows [n, F]."""
        return self.start + sum((tree.of(x) for tree in self.trees), np.zeros(len(x)))


def boosted(x: Array, y: Array, weight: Array, rounds: int = 120, rate: float = 0.1) -> Boosted:
    """Trees that predict ``y`` [n] from ``x`` [n, F] with ``weight`` [n]; each sees a half of the rows."""
    draw = np.random.default_rng(0)
    edges = [np.unique(np.quantile(x[:, f], np.linspace(0, 1, BINS + 1)[1:-1])) for f in range(x.shape[1])]
    binned = np.stack([np.searchsorted(edges[f], x[:, f], "left") for f in range(x.shape[1])], axis=1)
    start = float(np.average(y, weights=weight))
    left, trees = y - start, list[Tree]()
    for _ in range(rounds):
        some = draw.random(len(y)) < 0.5
        tree = _grown(binned[some], edges, left[some], weight[some], rate)
        left = left - tree.of(x)
        trees.append(tree)
    return Boosted(start, trees)


def _grown(binned: NDArray[np.int64], edges: list[Array], left: Array, weight: Array, rate: float) -> Tree:
    """One tree, level by level."""
    nodes = 2**DEPTH - 1
    feature, bound = np.zeros(nodes, dtype=np.int64), np.full(nodes, np.inf)
    at = np.zeros(len(left), dtype=np.int64)
    for level in range(DEPTH):
        first, count = 2**level - 1, 2**level
        best = np.full(count, 1e-12)
        for f, own in enumerate(edges):
            if not len(own):
                continue
            code, size = (at - first) * BINS + binned[:, f], count * BINS
            sums = [np.bincount(code, by, size).reshape(count, BINS) for by in (left * weight, weight)]
            low = [one.cumsum(axis=1)[:, : len(own)] for one in sums]
            whole = [one.sum(axis=1, keepdims=True) for one in sums]
            rows = np.bincount(code, minlength=size).reshape(count, BINS)
            few = rows.cumsum(axis=1)[:, : len(own)]
            fine = (few >= LEAST) & (rows.sum(axis=1, keepdims=True) - few >= LEAST)
            gain = low[0] ** 2 / (low[1] + RIDGE) + (whole[0] - low[0]) ** 2 / (whole[1] - low[1] + RIDGE)
            gain = np.where(fine, gain - whole[0] ** 2 / (whole[1] + RIDGE), 0.0)
            k = gain.argmax(axis=1)
            most = gain[np.arange(count), k]
            better = most > best
            best[better] = most[better]
            feature[first : first + count][better] = f
            bound[first : first + count][better] = own[k[better]]
        asked, limit = feature[at], bound[at]
        place = np.array([np.searchsorted(edges[f], b, "left") for f, b in zip(feature, bound, strict=True)])
        at = 2 * at + 1 + ((binned[np.arange(len(at)), asked] > place[at]) & (limit < np.inf))
    sums = [np.bincount(at - nodes, by, nodes + 1) for by in (left * weight, weight)]
    return Tree(feature, bound, rate * sums[0] / (sums[1] + RIDGE))
