"""Storages as arrays of whole numbers of any size: where a sum might not fit 64 bits, they hold Python's own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

#: Whole numbers [K]: 64 bits, or Python's own.
Whole = NDArray[Any]
#: So large a sum of magnitudes fits 64 bits, as do those of several such arrays.
SAFE = 2**58


class Reads(NamedTuple):
    """Reader k reads number ``what[k]`` (of storages, say) and is operation ``reader[k]``."""

    what: NDArray[np.int64]
    reader: NDArray[np.int64]

    @classmethod
    def of(cls, readers: Iterable[tuple[int, ...]]) -> Reads:
        """Those of lists of readers."""
        all_of = list(readers)
        what = np.repeat(np.arange(len(all_of)), np.fromiter(map(len, all_of), np.int64, len(all_of)))
        return cls(what, np.array([v for some in all_of for v in some], dtype=np.int64))


def exact(values: Iterable[int]) -> Whole:
    """These numbers as an array whose sums are right; where one is no whole number, as they are."""
    listed = list(values)
    total = sum(map(abs, listed))
    return np.array(listed, dtype=np.int64 if isinstance(total, int) and total < SAFE else object)


def alike(*arrays: Whole) -> list[Whole]:
    """These arrays, all with Python's own numbers if one has them."""
    large = any(one.dtype == object for one in arrays)
    return [one.astype(object) if large else one for one in arrays]


def levels(base: int, start: Whole, end: Whole, size: Whole) -> tuple[Whole, Whole]:
    """(times, what is held from then on): ``base`` throughout and ``size`` from ``start`` up to ``end``; at one time,
    what is freed comes first."""
    lasts, size = start < end, size if base < SAFE else size.astype(object)
    times = np.concatenate((start[lasts], end[lasts]))
    order = np.argsort(times, kind="stable")
    times, now = times[order], base + np.cumsum(np.concatenate((size[lasts], -size[lasts]))[order])
    ends = np.ones(len(times), dtype=bool)
    ends[:-1] = times[1:] != times[:-1]
    return times[ends], now[ends]
