"""Programs that are solved again and again keep the limit of each time, however long the earlier ones took."""

from __future__ import annotations

import highspy
import numpy as np
import pytest

from chipmap.solvers.repeated import GrowingProgram, Repeated

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


def test_a_solve_of_somebody_else_does_no_harm() -> None:
    """HiGHS refuses to run with another number of threads than the last solve of this thread had, whoever made it."""
    other = highspy.Highs()
    other.setOptionValue("output_flag", False)
    other.setOptionValue("threads", 2)
    other.addVars(2, np.zeros(2), np.ones(2))
    other.addRow(1.0, 2.0, 2, np.arange(2, dtype=np.int32), np.ones(2))
    other.run()
    try:
        program = Repeated([1.0] * 3, [True] * 3, [({0: 2.0, 1: 2.0, 2: 2.0}, 3.0, np.inf)])
        assert program.minimise(np.ones(3), 60.0, 0.0).bound == pytest.approx(2.0)
        growing = GrowingProgram([1.0])
        growing.add([{0: 1.0}])
        optimum = growing.minimise(np.ones(1), 60.0)
        assert optimum is not None and optimum.value == pytest.approx(1.0)
    finally:
        highspy.Highs.resetGlobalScheduler(True)
