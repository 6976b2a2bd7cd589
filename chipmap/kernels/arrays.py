"""Arrays filled with a value, and the least value, for kernels: for each way of asking numpy numba compiles functions
of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from chipmap.kernels import njit


@njit(part=True)
def integers(count: int, value: int) -> Any:
    """``value`` [count]."""
    return np.full(count, value, np.int64)


@njit(part=True)
def floats(count: int, value: float) -> Any:
    """``value`` [count]."""
    return np.full(count, value, np.float64)


@njit(part=True)
def integer_table(rows: int, columns: int, value: int) -> Any:
    """``value`` [rows, columns]."""
    return np.full((rows, columns), value, np.int64)


@njit(part=True)
def float_table(rows: int, columns: int, value: float) -> Any:
    """``value`` [rows, columns]."""
    return np.full((rows, columns), value, np.float64)


@njit(part=True)
def least_of(values: Any) -> Any:
    """The least of at least one value."""
    found = values[0]
    for value in values:
        if value < found:
            found = value
    return found
