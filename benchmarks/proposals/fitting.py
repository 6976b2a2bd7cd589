"""What is fitted to logged moves: logistic regression and a small network, by Adam, in numpy alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from benchmarks.proposals.annealing import MOVE_FEATURES, Floats

#: Rows of a step of Adam, passes over all rows, its rate, and the weight of the squares of all weights.
BATCH, PASSES, RATE, DECAY = 512, 6, 3e-3, 1e-5
#: Hidden units of the network.
HIDDEN = 16


class Fitted(NamedTuple):
    """A network as :class:`~benchmarks.proposals.annealing.Learned` has it: ``inner`` [H, F + 1], ``outer`` [H + 1]."""

    inner: Floats
    outer: Floats

    def scores(self, features: Floats) -> Floats:
        """[n]: the network's outputs, logarithms of odds."""
        hidden = np.maximum(0.0, features @ self.inner[:, :-1].T + self.inner[:, -1])
        found: Floats = hidden @ self.outer[:-1] + self.outer[-1]
        return found


def network(features: Floats, labels: Floats, seed: int) -> Fitted:
    """The network with the least cross-entropy to ``labels`` [n] of 0 and 1, about."""
    random = np.random.default_rng(seed)
    scale, offset = 1.0 / np.maximum(1e-6, features.std(axis=0)), features.mean(axis=0)
    rows = (features - offset) * scale
    inner = random.normal(0.0, 1.0 / np.sqrt(MOVE_FEATURES), (HIDDEN, MOVE_FEATURES + 1))
    share = float(np.clip(labels.mean(), 1e-4, 1 - 1e-4))
    outer = np.append(np.zeros(HIDDEN), np.log(share / (1.0 - share)))
    weights = [inner, outer]
    means, squares, step = [np.zeros_like(one) for one in weights], [np.zeros_like(one) for one in weights], 0
    for _ in range(PASSES):
        for part in np.array_split(random.permutation(len(rows)), max(1, len(rows) // BATCH)):
            x, y = rows[part], labels[part]
            z = x @ inner[:, :-1].T + inner[:, -1]
            hidden = np.maximum(0.0, z)
            slope = (1.0 / (1.0 + np.exp(-(hidden @ outer[:-1] + outer[-1]))) - y) / len(part)
            back = slope[:, None] * outer[:-1] * (z > 0)
            slopes = [np.column_stack((back.T @ x, back.sum(axis=0))), np.append(hidden.T @ slope, slope.sum())]
            step += 1
            for one, mean, square, by in zip(weights, means, squares, slopes, strict=True):
                by = by + DECAY * one
                mean += 0.1 * (by - mean)
                square += 0.001 * (by * by - square)
                one -= RATE * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
    inner[:, -1] -= inner[:, :-1] @ (offset * scale)
    inner[:, :-1] *= scale
    return Fitted(inner, outer)


def logistic(features: Floats, labels: Floats, seed: int = 0, passes: int = 30) -> Fitted:
    """Logistic regression, by Newton's method; as a network of two hidden units z and -z, that is z⁺ - (-z)⁺ = z."""
    del seed
    rows = np.column_stack((features, np.ones(len(features))))
    weights = np.zeros(rows.shape[1])
    for _ in range(passes):
        chance = 1.0 / (1.0 + np.exp(-np.clip(rows @ weights, -30.0, 30.0)))
        slope = rows.T @ (chance - labels) + weights
        curve = (rows * (chance * (1.0 - chance))[:, None]).T @ rows + np.eye(rows.shape[1])
        weights = weights - np.linalg.solve(curve, slope)
    return Fitted(np.stack((weights, -weights)), np.array([1.0, -1.0, 0.0]))


def area(scores: Floats, labels: Floats) -> float:
    """The chance that a row of label 1 has a higher score than one of label 0 (area under the curve)."""
    order = np.argsort(scores, kind="stable")
    rank = np.empty(len(scores))
    rank[order] = np.arange(len(scores))
    ones = int(labels.sum())
    if not ones or ones == len(labels):
        return 0.5
    return float((rank[labels > 0].sum() - ones * (ones - 1) / 2) / (ones * (len(labels) - ones)))
