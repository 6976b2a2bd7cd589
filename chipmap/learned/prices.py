"""Dual prices of a cover by partitions, predicted from its kernels by ridge regression. Needs numpy alone.

A cover (:mod:`chipmap.heuristics.dataflow.cover.column_generation`) has a price for each class of kernels. With n
classes and Σ over them, and T = Σ of the first prices (those of the linear program over sums of partitions), a class
has:

=============  ====================================================================
column         what it is (each class at its least option)
=============  ====================================================================
``one``        1
``compute``    c = n · compute time / T
``stream``     s = n · time of reading weights / T
``moved``      i = n · DRAM time of the tensors that it reads or writes / T
``first``      n · first price / T
``weights``    w = weight bytes / SRAM
``buffers``    bytes of those tensors / SRAM
``slowest``    max(c, s + i)
``square``     w², and c · w, s · w
``steps``      w > 1/3, w > 1/2, max(0, w - 1/3), max(0, w - 1/2): how many fit beside
``whole``      Σ compute / T, Σ stream / T, mean of w, and c, s and w times these
=============  ====================================================================

The prediction is n · price / T. It proves nothing: :meth:`PartitionBound.propose` makes a bound of it that holds
whatever it says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from chipmap.heuristics.dataflow.cover.column_generation import PartitionBound
from chipmap.heuristics.dataflow.cover.compact import first_prices
from chipmap.heuristics.dataflow.cover.pricing import Floats


class Described(NamedTuple):
    """``rows`` [classes, columns] of a cover, and the ``unit`` that a prediction is multiplied by: T / n."""

    rows: Floats
    unit: float


def described(bound: PartitionBound) -> Described | None:
    """The table of a cover; None where its first linear program has no solution."""
    classes, sram = bound.classes, float(bound.classes.problem.sram)
    first = first_prices(bound.pricing, bound.sizes, bound.matches, bound.most)
    total = 0.0 if first is None else float(np.abs(first.covers).sum())
    if first is None or total <= 0.0:
        return None
    n = len(classes.kernels)
    options = [classes.options(c) for c in range(n)]
    compute, stream = (
        np.array([min(getattr(option, field) for option in choice) for choice in options]) * (n / bound.unit / total)
        for field in ("compute", "stream")
    )
    weights = np.array([min(option.weights for option in choice) for choice in options]) / sram
    moved, buffers = np.zeros(n), np.zeros(n)
    for link in classes.links:
        made = min(options[link.u], key=lambda option: option.dram)
        for end in (link.u, link.v):
            moved[end] += made.dram * (n / bound.unit / total)
            buffers[end] += made.buffer / sram
    one, share, read, full = np.ones(n), compute.mean(), stream.mean(), weights.mean()
    columns = [one, compute, stream, moved, first.covers * (n / total), weights, buffers]
    columns += [np.maximum(compute, stream + moved), weights**2, compute * weights, stream * weights]
    columns += [
        (weights > 1 / 3).astype(np.float64),
        (weights > 1 / 2).astype(np.float64),
        np.maximum(0.0, weights - 1 / 3),
        np.maximum(0.0, weights - 1 / 2),
    ]
    columns += [one * share, one * read, one * full, compute * share, stream * share, compute * read, stream * read]
    columns += [weights * full, weights * read, weights * share]
    return Described(np.column_stack(columns).astype(float), total / n)


class Ridge(NamedTuple):
    """A linear model of centred and scaled columns: ``mean``, ``spread`` and ``weights`` [columns]."""

    mean: Floats
    spread: Floats
    weights: Floats

    def covers(self, table: Described) -> Floats:
        """[classes] the predicted prices, none below 0."""
        scaled = (table.rows - self.mean) / self.spread
        return np.maximum(scaled @ self.weights, 0.0) * table.unit


def fitted(examples: Sequence[tuple[Described, Floats]], penalty: float) -> Ridge:
    """The model nearest to the prices [classes] of some covers: min Σ (prediction - price)² + penalty · |w|²."""
    rows = np.concatenate([table.rows for table, _ in examples])
    wanted = np.concatenate([prices / table.unit for table, prices in examples])
    mean, spread = rows.mean(axis=0), rows.std(axis=0) + 1e-9
    mean[0], spread[0] = 0.0, 1.0
    scaled = (rows - mean) / spread
    weights = np.linalg.solve(scaled.T @ scaled + penalty * np.eye(scaled.shape[1]), scaled.T @ wanted)
    return Ridge(mean, spread, weights)
