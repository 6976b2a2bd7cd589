"""HiGHS on one linear or integer program that is solved again and again under other costs and with more rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import highspy
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from chipmap.solvers.implied_integers import implied_integers

Floats = NDArray[np.float64]

#: HiGHS's number of the primal simplex method.
PRIMAL = 4
#: Ends of HiGHS after which its bound is one: after an error it may hold anything.
HONEST = ("kOptimal", "kObjectiveTarget", "kTimeLimit", "kIterationLimit", "kSolutionLimit", "kInterrupt")


class Answer(NamedTuple):
    """The best columns' values found (None: none), and a lower bound on the cost (None: proved infeasible; -inf: none,
    as after an error)."""

    values: Floats | None
    bound: float | None


class Repeated:
    """min cost · x, rows low <= Σ a · x <= high, 0 <= x <= upper, some x integer; HiGHS keeps it in between."""

    def __init__(
        self,
        upper: Sequence[float],
        integer: Sequence[bool],
        rows: Sequence[tuple[dict[int, float], float, float]],
    ) -> None:
        self.highs = highspy.Highs()
        self.columns, self.upper = len(upper), list(upper)
        self.whole = any(integer)
        self.highs.setOptionValue("output_flag", False)
        self.highs.setOptionValue("threads", 1)
        self.highs.setOptionValue("mip_allow_restart", False)  # small programs: as much again for little
        self.highs.addVars(self.columns, np.zeros(self.columns), np.array(upper, float))
        whole = np.flatnonzero(_whole(self.columns, integer, rows)).astype(np.int32)
        kinds = np.full(len(whole), highspy.HighsVarType.kInteger)
        self.highs.changeColsIntegrality(len(whole), whole, kinds)
        for row in rows:
            self.add_row(*row)

    def add_row(self, row: dict[int, float], low: float, high: float) -> None:
        """One more row."""
        columns, factors = np.array(list(row), np.int32), np.array(list(row.values()), float)
        self.highs.addRow(low, high, len(columns), columns, factors)

    def set_lower(self, column: int, low: float) -> None:
        """Another lower bound of a column."""
        self.highs.changeColBounds(column, low, self.upper[column])

    def minimise(self, cost: Floats, seconds: float, gap: float) -> Answer:
        """The least cost within ``seconds``, to an absolute ``gap``."""
        highs = self.highs
        highs.changeColsCost(self.columns, np.arange(self.columns, dtype=np.int32), cost)
        # towards the limit HiGHS counts this very run of an integer program, but all runs of a linear one so far
        until = seconds if self.whole else highs.getRunTime() + seconds
        options: dict[str, Any] = {"time_limit": until, "mip_abs_gap": gap, "mip_rel_gap": 0.0}
        for name, value in options.items():
            highs.setOptionValue(name, value)
        highs.clearSolver()
        _run(highs)
        status, info = highs.getModelStatus(), highs.getInfo()
        if status == highspy.HighsModelStatus.kInfeasible:
            return Answer(None, None)
        found = info.primal_solution_status == highspy.kSolutionStatusFeasible
        bound = float(info.mip_dual_bound)
        if status.name not in HONEST or not math.isfinite(bound):
            bound = -math.inf
        return Answer(np.array(highs.getSolution().col_value) if found else None, bound)


def _run(highs: Any) -> None:
    """Run HiGHS, whatever number of threads other solves in this thread, also those of a caller, have had or will."""
    highspy.Highs.resetGlobalScheduler(True)
    try:
        highs.run()
    finally:
        highspy.Highs.resetGlobalScheduler(True)


def _whole(
    columns: int, integer: Sequence[bool], rows: Sequence[tuple[dict[int, float], float, float]]
) -> NDArray[np.bool_]:
    """The integer columns, and where there are any, those that rows imply."""
    if not any(integer):
        return np.zeros(columns, bool)
    starts = np.cumsum([0, *(len(row) for row, _, _ in rows)])
    data = np.array([a for row, _, _ in rows for a in row.values()], float)
    indices = np.array([j for row, _, _ in rows for j in row], int)
    matrix = csr_array((data, indices, starts), shape=(len(rows), columns))
    low, high = (np.array([row[side] for row in rows], float) for side in (1, 2))
    return implied_integers(matrix, low, high, np.array(integer, bool))


class Optimum(NamedTuple):
    """Least cost of the columns so far, the prices of the rows and the amounts of the columns."""

    value: float
    prices: Floats
    amounts: Floats


class GrowingProgram:
    """min cost · x, rows Σ a · x = right, x >= 0: columns are added, and HiGHS goes on from where it was.

    Not ``warm`` it keeps the columns alone and begins anew with its presolve. That takes longer, but of several optima
    it ends at another one, by whose prices a pricing question may be much easier.
    """

    def __init__(self, right: Sequence[float], warm: bool = True) -> None:
        self.highs, self.warm = highspy.Highs(), warm
        self.highs.setOptionValue("output_flag", False)
        self.highs.setOptionValue("threads", 1)
        if warm:  # the last optimum stays feasible when columns come
            self.highs.setOptionValue("simplex_strategy", PRIMAL)
        self.columns, nothing = 0, np.zeros(0)
        for amount in right:
            self.highs.addRow(float(amount), float(amount), 0, nothing.astype(np.int32), nothing)

    def add(self, columns: Sequence[dict[int, float]]) -> None:
        """More columns: their entries by row. They cost nothing until :meth:`minimise` says what."""
        starts = np.cumsum([0, *(len(column) for column in columns[:-1])]).astype(np.int32)
        rows = np.array([row for column in columns for row in column], np.int32)
        entries = np.array([entry for column in columns for entry in column.values()], float)
        count, infinite = len(columns), highspy.kHighsInf
        self.highs.addCols(
            count, np.zeros(count), np.zeros(count), np.full(count, infinite), len(rows), starts, rows, entries
        )
        self.columns += count

    def minimise(self, cost: Floats, seconds: float) -> Optimum | None:
        """The optimum under these costs; None where there is none within ``seconds``."""
        highs = self.highs
        highs.changeColsCost(self.columns, np.arange(self.columns, dtype=np.int32), cost)
        highs.setOptionValue("time_limit", highs.getRunTime() + min(seconds, 1e9))
        if not self.warm:
            highs.clearSolver()
        _run(highs)
        if highs.getModelStatus() == highspy.HighsModelStatus.kUnknown:  # rounding: from scratch
            highs.clearSolver()
            _run(highs)
        if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        found = highs.getSolution()
        value = float(highs.getInfo().objective_function_value)
        return Optimum(value, np.array(found.row_dual), np.array(found.col_value))
