"""Columns that equations make whole numbers, and the models that HiGHS gets wrong where they aren't stated so."""

from __future__ import annotations

from random import Random

import highspy
import numpy as np
import pyomo.environ as pyo
import pytest
from packaging.version import Version
from scipy.sparse import csr_array

from chipmap.methods.dataflow.models import mip
from chipmap.run import Run, SolveOptions
from chipmap.solvers import solve_model
from chipmap.solvers.implied_integers import implied_integers
from chipmap.solvers.outcome import SolveRequest
from chipmap.solvers.repeated import Repeated
from chipmap.validation.brute_force import brute_force
from chipmap.validation.dataflow.checker import check
from tests.dataflow.feature_mix import feature_mix, with_its_dram
from tests.solvers.models import MIP_SOLVERS, SmallModel

INFINITE = float("inf")
#: The smallest model found: x0 .. x4, all zero at the optimum. x1 = x3 + x4, and 3200 x1 + 32 x2 <= 2500 bounds it by
#: 0.78, which HiGHS 1.13.1 uses in x1 <= x2 as if it were whole: then x2 >= 0.78 · (1 - 0.78), and x0 = 0.534.
ROWS: tuple[tuple[dict[int, float], float, float], ...] = (
    ({1: 1.0, 2: -1.0}, -INFINITE, 0.0),
    ({1: 3200.0, 2: 32.0}, -INFINITE, 2500.0),
    ({1: -1.0, 3: 1.0, 4: 1.0}, 0.0, 0.0),
    ({0: -1.0, 1: 9.765625, 2: 3.125}, -INFINITE, 0.0),
)
UPPER, INTEGER = [INFINITE, 1.0, 1.0, 1.0, 1.0], [False, False, False, True, True]


def test_highs_itself_is_wrong() -> None:
    """Up to 1.13. The mend can go when pyproject.toml asks for 1.16 at least, which is right."""
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.addVars(5, np.zeros(5), np.array(UPPER))
    for j in (3, 4):
        highs.changeColIntegrality(j, highspy.HighsVarType.kInteger)
    for row, low, high in ROWS:
        highs.addRow(low, high, len(row), np.array(list(row), np.int32), np.array(list(row.values())))
    highs.changeColCost(0, 1.0)
    highs.run()
    highspy.Highs.resetGlobalScheduler(True)
    wrong = 3.125 * 0.78125 * (1 - 0.78125)
    expected = wrong if Version(highs.version()) < Version("1.16") else 0.0
    assert highs.getInfo().objective_function_value == pytest.approx(expected)


@pytest.mark.parametrize("solver", MIP_SOLVERS)
def test_smallest_model(solver: str) -> None:
    m = pyo.ConcreteModel()
    m.x = pyo.Var(range(5), bounds=lambda _, j: (0, None if j == 0 else 1))
    for j in (3, 4):
        m.x[j].domain = pyo.Binary
    m.rows = pyo.Constraint(
        range(4),
        rule=lambda m, i: pyo.inequality(
            None if ROWS[i][1] == -INFINITE else ROWS[i][1], sum(a * m.x[j] for j, a in ROWS[i][0].items()), ROWS[i][2]
        ),
    )
    m.goal = pyo.Objective(expr=m.x[0])
    outcome = solve_model(SmallModel("mip", m, [m.x[0]]), SolveRequest(time_limit=60.0), solver)
    assert outcome.termination.reason == "optimal" and outcome.objective == pytest.approx(0.0)


def test_smallest_model_solved_again_and_again() -> None:
    answer = Repeated(UPPER, INTEGER, ROWS).minimise(np.array([1.0, 0, 0, 0, 0]), 60.0, 0.0)
    assert answer.bound == pytest.approx(0.0)


def test_mapping_that_was_cut_off() -> None:
    """The instance of the random comparison (seed 2052), kernels sharing tiles: 134,022,604,000 was claimed."""
    random = Random("dataflow mix 2052")
    instance = with_its_dram(feature_mix(random), random)
    run = Run(instance, SolveOptions(time_limit=600.0, threads=1, solver="highs"), check)
    assert mip(instance, run).reason == "optimal"
    assert run.upper == brute_force(instance, check)[0] == 133_992_320_000


def test_what_equations_imply() -> None:
    rows = [
        ([1.0, -1, -1, 0, 0, 0], 0.0, 0.0),  # x0 = x1 + x2: whole
        ([-2.0, 0, 0, 2, 0, 0], 4.0, 4.0),  # x3 = x0 + 2, once x0 is known: whole
        ([0.0, 1, 0, 0, 2, 0], 1.0, 1.0),  # 2 x4 = 1 - x1: halves
        ([0.0, 1, 0, 0, 0, 1], -INFINITE, 1.0),  # no equation
    ]
    matrix = csr_array(np.array([row for row, _, _ in rows]))
    low, high = np.array([one[1] for one in rows]), np.array([one[2] for one in rows])
    whole = implied_integers(matrix, low, high, np.array([False, True, True, False, False, False]))
    assert whole.tolist() == [True, True, True, True, False, False]
