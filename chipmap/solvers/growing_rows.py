"""A linear program over prices of units that grows by rows, solved again by HiGHS from where it was."""

from __future__ import annotations

from typing import Any

import highspy
import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]


class UnitPrices:
    """Prices pi of units: maximise Σ pi(u) with pi(S) <= s(k) for each stated set S of a kind k of devices, where the
    shares s of all devices add up to 1. Prices are the first columns, s(k) the last; sets are added as rows.
    """

    def __init__(self, units: int, count: list[int]) -> None:
        self.units, self.infinite, self.highs = units, highspy.kHighsInf, highspy.Highs()
        self.highs.setOptionValue("output_flag", False)
        for _ in range(units):
            self.highs.addVar(0.0, 1.0)
        for _ in count:
            self.highs.addVar(0.0, self.infinite)
        for u in range(units):
            self.highs.changeColCost(u, 1.0)
        self.highs.changeObjectiveSense(highspy.ObjSense.kMaximize)
        kinds = np.arange(units, units + len(count), dtype=np.int32)
        self.highs.addRow(1.0, 1.0, len(count), kinds, np.array(count, dtype=np.float64))

    def add(self, kind: int, units: IntArray) -> None:
        """pi(S) <= s(kind) for the set S of ``units``."""
        index = np.append(units, self.units + kind).astype(np.int32)
        value = np.append(np.ones(len(units)), -1.0)
        self.highs.addRow(-self.infinite, 0.0, len(index), index, value)

    def solved(self) -> tuple[float, Any]:
        """(Σ pi, pi)."""
        self.highs.run()
        return float(self.highs.getInfo().objective_function_value), np.array(
            self.highs.getSolution().col_value[: self.units]
        )
