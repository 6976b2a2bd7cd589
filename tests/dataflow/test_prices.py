"""Proposed prices: whatever is proposed, the bound holds, never falls, and true prices give it at once."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from benchmarks.dataflow_prices import made
from chipmap.deadline import Deadline
from chipmap.heuristics.dataflow.cover.column_generation import PartitionBound
from chipmap.heuristics.dataflow.symmetric.classes import classes
from chipmap.instances.dataflow.problem import total_ticks
from chipmap.learned.prices import described, fitted
from chipmap.solvers.repeated import Repeated
from tests.dataflow.test_tight_bounds import WHOLE, fixed, optimum
from tests.dataflow.test_wide import branched, exact, problem_of


def poisoned(kind: str, n: int, seed: int) -> np.ndarray:
    """Prices of a network that has gone wrong."""
    random = np.random.default_rng(seed)
    return {
        "random": random.exponential(300.0, n),
        "huge": np.full(n, 1e300),
        "negative": -random.exponential(300.0, n),
        "nothing": np.zeros(n),
        "not a number": np.where(random.random(n) < 0.5, np.nan, np.inf),
    }[kind]


@pytest.mark.parametrize("kind", ["random", "huge", "negative", "nothing", "not a number"])
def test_whatever_is_proposed_the_bound_holds(kind: str) -> None:
    """Against the exact program, with and without a cap on partitions, and after rounds that begin there."""
    asked = 0
    for seed in (2, 12, 43):
        problem = problem_of(branched(Random(seed)))
        best = exact(problem)
        cover = PartitionBound(classes(problem), problem.instance.asked[0], Repeated)
        cover.run(0, Deadline(), lambda _: None)
        before = cover.bound
        asked += cover.propose(poisoned(kind, len(cover.sizes), seed), 3, Deadline())
        assert cover.bound >= before
        assert best is None or cover.bound * cover.unit <= best * (1 + 1e-6), seed
        cover.run(10, Deadline(), lambda _: None)
        assert best is None or cover.bound * cover.unit <= best * (1 + 1e-6), seed
    assert (asked > 0) == (kind in ("random", "huge"))


@pytest.mark.parametrize("seed", range(2))
def test_a_poisoned_proposal_against_brute_force(seed: int) -> None:
    """Three kernels of which the SRAM holds two: the bound is the best of all mappings, whatever was proposed."""
    instance = fixed(dict.fromkeys("abc", WHOLE), "ab bc", partitions=None, sram_bytes=250)
    problem = problem_of(instance)
    cover = PartitionBound(classes(problem), None, Repeated)
    heard: list[int] = []
    cover.run(0, Deadline(), heard.append)
    cover.propose(poisoned("random", len(cover.sizes), seed), 3, Deadline())
    cover.run(20, Deadline(), heard.append)
    best = optimum(instance)
    assert best is not None and total_ticks(problem, max(heard)) == best


def test_true_prices_are_the_bound_at_once() -> None:
    """One question instead of some twenty: what rounds look for are prices."""
    problem = made(1010)
    slow = PartitionBound(classes(problem), None, Repeated)
    slow.growing = None
    rounds: list[int] = []
    slow.run(60, Deadline(), rounds.append)
    quick = PartitionBound(classes(problem), None, Repeated)
    quick.run(0, Deadline(), lambda _: None)
    first = quick.bound
    assert quick.propose(slow.best.covers, 1, Deadline()) == 1
    assert len(rounds) > 10 and first < 0.995 * slow.bound
    assert quick.bound == pytest.approx(slow.bound, rel=1e-6)


def test_a_ridge_regression_learns_what_it_is_given() -> None:
    """The model has the prices of its own examples nearly, and depends on no unit."""
    problem = made(1010)
    cover = PartitionBound(classes(problem), None, Repeated)
    cover.run(0, Deadline(), lambda _: None)
    table = described(cover)
    assert table is not None and np.isfinite(table.rows).all()
    wanted = 3.0 * cover.best.covers + table.rows[:, 5] * table.unit
    model = fitted([(table, wanted)], 1e-6)
    assert model.covers(table) == pytest.approx(np.maximum(wanted, 0.0), rel=1e-2, abs=1e-2 * table.unit)
