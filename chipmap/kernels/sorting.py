"""The order of an array's values, and places in it, for kernels: numba's own functions take seconds to compile.

:func:`argsort` is the same algorithm as numba's (``misc/quicksort.py``: quicksort about the median of three, insertion
in short ranges), and so gives the same order of equal values.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chipmap.kernels import njit

#: Ranges up to this length are sorted by insertion.
SHORT = 15
#: Ranges that wait: the longer part of each division, so that 64 are enough.
WAITING = 64


@njit(part=True)
def argsort(values: Any, count: int, sign: int) -> Any:
    """The places [count] of the first ``count`` of ``values`` by rising ``sign`` · value."""
    order, waiting = np.arange(count), np.empty((WAITING, 2), np.int64)
    waiting[0, 0], waiting[0, 1], size = 0, count - 1, 1
    while size > 0:
        size -= 1
        low, high = waiting[size, 0], waiting[size, 1]
        while high - low >= SHORT:
            i = _divide(values, order, low, high, sign)
            if high - i > i - low:
                waiting[size, 0], waiting[size, 1], high = i + 1, high, i - 1
            else:
                waiting[size, 0], waiting[size, 1], low = low, i - 1, i + 1
            size += 1
        for i in range(low + 1, high + 1):
            k, j = order[i], i
            while j > low and sign * values[k] < sign * values[order[j - 1]]:
                order[j] = order[j - 1]
                j -= 1
            order[j] = k
    return order


@njit(part=True)
def _divide(values: Any, order: Any, low: int, high: int, sign: int) -> int:
    """Divide ``order[low:high + 1]`` into smaller values, the one at the place that is returned, and larger ones."""
    middle = (low + high) >> 1
    for a, b in ((low, middle), (middle, high), (low, middle)):
        if sign * values[order[b]] < sign * values[order[a]]:
            order[a], order[b] = order[b], order[a]
    pivot = sign * values[order[middle]]
    order[high], order[middle] = order[middle], order[high]
    i, j = low, high - 1
    while True:
        while i < high and sign * values[order[i]] < pivot:
            i += 1
        while j >= low and pivot < sign * values[order[j]]:
            j -= 1
        if i >= j:
            break
        order[i], order[j] = order[j], order[i]
        i, j = i + 1, j - 1
    order[i], order[high] = order[high], order[i]
    return i


@njit(part=True)
def position(values: Any, count: int, wanted: float, behind: bool) -> int:
    """Where ``wanted`` belongs among the first ``count`` of ``values``, which rise: before its equals, or ``behind``
    them."""
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < wanted or (behind and values[middle] == wanted):
            low = middle + 1
        else:
            high = middle
    return low
