"""Programs that are solved again and again keep the limit of each time, however long the earlier ones took."""

from __future__ import annotations

import numpy as np
import pytest

from chipmap.solvers.repeated import Repeated

#: Columns, and rows that each bound the sum of a third of them.
COLUMNS, ROWS = 40, 20


@pytest.mark.parametrize("integer", [True, False])
def test_each_solve_has_its_own_limit(integer: bool) -> None:
    rng = np.random.default_rng(1)
    chosen = [rng.choice(COLUMNS, COLUMNS // 3, replace=False) for _ in range(ROWS)]
    rows = [({int(c): float(rng.integers(1, 50)) for c in some}, -np.inf, 120.0) for some in chosen]
    program = Repeated([1.0] * COLUMNS, [integer] * COLUMNS, rows)
    cost = -rng.random(COLUMNS)
    bound = program.minimise(cost, 600.0, 0.0).bound
    once = program.highs.getRunTime()
    while program.highs.getRunTime() < 6 * once:  # as much as one more solve needs several times over
        assert program.minimise(cost, 600.0, 0.0).bound == pytest.approx(bound)
    program.minimise(cost, 0.0, 0.0)
    assert program.highs.getModelStatus().name == "kTimeLimit"
