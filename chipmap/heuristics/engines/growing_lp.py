"""The master program of column generation: a linear program that grows by columns (Dantzig and Wolfe, 1960).

    min cost · x + penalty · (y + z)   rows: Σ a · x + y - z = right;  Σ a · x <= capacity;  x, y, z >= 0

y and z are what each equation lacks and has too much, at a penalty, so that there is a solution from the first columns
on. The solver's program is given (:class:`chipmap.solvers.repeated.GrowingProgram`): it goes on from the last optimum,
or keeps the columns alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Optimum(Protocol):
    """What :class:`EqualityProgram` finds."""

    @property
    def value(self) -> float: ...
    @property
    def prices(self) -> Floats: ...
    @property
    def amounts(self) -> Floats: ...


class EqualityProgram(Protocol):
    """A linear program min cost · x over rows of equations that grows by columns."""

    def add(self, columns: Sequence[dict[int, float]]) -> None: ...
    def minimise(self, cost: Floats, seconds: float) -> Optimum | None: ...


#: Makes the program of these right sides, without columns.
EmptyProgram = Callable[[Sequence[float]], EqualityProgram]


class MasterOptimum(NamedTuple):
    """Least cost, the prices of the rows, the amounts of the columns, and what the equations lack and have too much."""

    value: float
    prices: Floats
    amounts: Floats
    missing: float


class Master:
    """Rows: equations with the right sides ``equal``, then at most ``capacities``."""

    def __init__(self, empty: EmptyProgram, equal: Sequence[float], capacities: Sequence[float] = ()) -> None:
        rows, last = len(equal) + len(capacities), len(equal)
        self.program = empty([float(amount) for amount in (*equal, *capacities)])
        self.artificial, self.idle = 2 * last, len(capacities)
        missing = [{row: sign} for row in range(last) for sign in (1.0, -1.0)]
        self.program.add([*missing, *({row: 1.0} for row in range(last, rows))])

    def add(self, columns: Sequence[dict[int, float]]) -> None:
        """More columns: their entries by row."""
        if columns:
            self.program.add(columns)

    def minimise(self, cost: Floats, penalty: float, seconds: float) -> MasterOptimum | None:
        """The optimum where the columns cost ``cost``; None where there is none within ``seconds``."""
        costs = np.concatenate([np.full(self.artificial, penalty), np.zeros(self.idle), cost])
        found = self.program.minimise(costs, seconds)
        if found is None:
            return None
        amounts = found.amounts[self.artificial + self.idle :]
        return MasterOptimum(found.value, found.prices, amounts, float(found.amounts[: self.artificial].sum()))


def smoothed(best: Sequence[Floats], now: Sequence[Floats], share: float) -> list[Floats]:
    """``share`` of the best prices so far and the rest of those of now (Wentges 1997)."""
    return [share * x + (1 - share) * y for x, y in zip(best, now, strict=True)]
