"""Simple fits of measured kernels: shares of peaks by size, and a fixed cost beside them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.h100.rows import Row

#: The data sheet's peaks in FLOP per microsecond by format, and bytes per microsecond of DRAM.
PEAKS = {"": 989.4e6, "fp8": 1978.9e6}
DRAM = 3350e3
#: Bytes of the L2 cache.
CACHE = 50 * 2**20


class Fit(NamedTuple):
    """us = fixed + max(FLOP / (compute · peak), bytes / (memory · rate)); the median of its relative errors, and what
    nine in ten don't exceed."""

    fixed: float
    compute: float
    memory: float
    median: float
    ninth: float


#: What a fit tries: microseconds, and shares of the peak or of the rate; and how often.
FIXED = np.arange(0, 401) / 10
SHARES = np.arange(10, 101) / 100
ROUNDS = 6


def fitted(rows: Sequence[Row]) -> Fit:
    """The fit with the least sum of absolute logarithms of measured over fitted, one number after the other."""
    flop = np.array([row.flop / PEAKS[row.format] for row in rows])
    moved, measured = np.array([row.bytes / DRAM for row in rows]), np.array([row.us for row in rows])

    def error(fixed: float, compute: float, memory: float) -> np.ndarray:
        found: np.ndarray = np.log((fixed + np.maximum(flop / compute, moved / memory)) / measured)
        return found

    def least(tried: np.ndarray, error_of: Callable[[float], np.ndarray]) -> float:
        return float(tried[int(np.argmin([round(float(np.abs(error_of(one)).sum()), 9) for one in tried]))])

    fixed, compute, memory = 2.0, 0.8, 0.8
    for _ in range(ROUNDS):
        fixed = least(FIXED, lambda one: error(one, compute, memory))  # noqa: B023
        compute = least(SHARES, lambda one: error(fixed, one, memory))  # noqa: B023
        memory = least(SHARES, lambda one: error(fixed, compute, one))  # noqa: B023
    errors = np.abs(np.expm1(error(fixed, compute, memory)))
    middle, ninth = (float(np.percentile(errors, part)) for part in (50, 90))
    return Fit(fixed, compute, memory, middle, ninth)


def spread(values: Iterable[float]) -> tuple[float, float, float]:
    """The 10th percentile, the median and the 90th."""
    found = np.percentile(list(values), (10, 50, 90))
    return float(found[0]), float(found[1]), float(found[2])


def in_percent(values: Iterable[float]) -> str:
    """10th percentile, median and 90th as cells."""
    return " | ".join(f"{100 * one:.0f}" for one in spread(values))


def share(row: Row) -> float:
    """Of the peak of its format."""
    return row.flop / row.us / PEAKS[row.format]


def of_roof(row: Row) -> float:
    """Of what the data sheet allows: the longer of FLOP at the peak and bytes at DRAM's rate."""
    return max(row.flop / PEAKS[row.format], row.bytes / DRAM) / row.us


def classes(rows: Sequence[Row], size: Callable[[Row], float]) -> list[tuple[int, list[Row]]]:
    """Rows by powers of ten of a size, from small to large, with the power."""
    powers = sorted({math.floor(math.log10(size(row))) for row in rows})
    return [(power, [row for row in rows if math.floor(math.log10(size(row))) == power]) for power in powers]
