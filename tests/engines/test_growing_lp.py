"""The growing master program against scipy's linear programs, solved anew."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy.optimize import linprog

from chipmap.heuristics.engines.growing_lp import Master, smoothed
from chipmap.solvers.repeated import GrowingProgram


@pytest.mark.parametrize("warm", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_every_step_is_the_optimum_of_the_columns_so_far(seed: int, warm: bool) -> None:
    """Columns come in handfuls, under other costs each time; value, prices and amounts fit each other."""
    random = np.random.default_rng(seed)
    equal, capacities = random.integers(0, 5, 4).astype(float), random.integers(1, 4, seed % 3).astype(float)
    master, penalty = Master(partial(GrowingProgram, warm=warm), equal.tolist(), capacities.tolist()), 1e3
    matrix = np.zeros((len(equal) + len(capacities), 0))
    master.add([])
    for _ in range(5):
        more = random.integers(-1, 3, (len(matrix), int(random.integers(0, 6)))).astype(float)
        master.add([{row: float(a) for row, a in enumerate(column) if a} for column in more.T])
        matrix = np.concatenate([matrix, more], axis=1)
        cost = random.integers(1, 50, matrix.shape[1]).astype(float)
        found = master.minimise(cost, penalty, np.inf)
        assert found is not None
        signs = np.concatenate([np.eye(4), -np.eye(4)], axis=1)
        expected = linprog(
            np.concatenate([cost, np.full(8, penalty)]),
            A_eq=np.concatenate([matrix[:4], signs], axis=1),
            b_eq=equal,
            A_ub=np.concatenate([matrix[4:], np.zeros((len(capacities), 8))], axis=1) if len(capacities) else None,
            b_ub=capacities if len(capacities) else None,
        )
        assert found.value == pytest.approx(expected.fun)
        assert found.value == pytest.approx(cost @ found.amounts + penalty * found.missing)
        assert found.value == pytest.approx(float(np.concatenate([equal, capacities]) @ found.prices))
        assert np.all(cost - found.prices @ matrix >= -1e-6) and np.all(found.prices[4:] <= 1e-9)


def test_smoothed_prices_lie_between() -> None:
    """A share of the best prices and the rest of those of now, part by part."""
    best, now = [np.array([4.0]), np.array([0.0, 8.0])], [np.array([0.0]), np.array([4.0, 0.0])]
    assert [part.tolist() for part in smoothed(best, now, 0.75)] == [[3.0], [1.0, 6.0]]
