"""Sets of chiplets (bit masks): the least amount by set and cell, and models side by side on disjoint sets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.heuristics.multimodel.tables.counts import Counts, Vectors
from chipmap.heuristics.multimodel.tables.paths import Paths
from chipmap.instances.multimodel.problem import FloatArray, IntArray
from chipmap.kernels import njit
from chipmap.kernels.arrays import float_table


class Places(NamedTuple):
    """Where signatures lie: paths of signature ``signature[i]`` cover exactly the chiplets of ``mask[i]``."""

    mask: NDArray[np.int64]
    signature: NDArray[np.int64]
    signatures: int
    chiplets: int

    @property
    def sets(self) -> int:
        """Number of sets."""
        return 1 << self.chiplets

    def fill(self, value: FloatArray, pause: float, sets: FloatArray) -> None:
        """:func:`by_set`."""
        by_set(self.mask, self.signature, value, pause, sets)

    def least(self, value: FloatArray, pause: float = np.inf) -> FloatArray:
        """[set, cell]: the least of paths within the set, and of a pause; ``value`` [signature, cell]."""
        sets = np.empty((self.sets, value.shape[1]))
        self.fill(value, pause, sets)
        return sets

    def apart(self, one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether two sets are disjoint."""
        found: NDArray[np.bool_] = (one & other) == 0
        return found

    def side_by_side(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """:func:`side_by_side`."""
        return np.array(side_by_side(left, right))

    def inside(self, whole: int) -> IntArray:
        """The sets within the set ``whole``."""
        every = np.arange(whole + 1)
        return every[(every & ~whole) == 0]

    def within(self, mask: int, value: FloatArray, most: int) -> list[tuple[float, int]]:
        """(value, position of the place) of at most so many least places within a set; ``value`` [signature]."""
        values = np.where((self.mask & ~mask) == 0, value[self.signature], np.inf)
        return [(float(values[at]), int(at)) for at in np.argsort(values, kind="stable")[:most] if values[at] < np.inf]


def places(paths: Paths | Counts) -> Places | Vectors:
    """Masks of all paths with their signatures; vectors of all nodes."""
    if isinstance(paths, Counts):
        return paths.places()
    counts = [len(masks) for masks in paths.masks]
    signatures = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    return Places(np.concatenate(paths.masks).astype(np.int64), signatures, len(counts), len(paths.types))


@njit(nogil=True, cache=True)
def by_set(mask, signature, value, pause, sets):  # type: ignore[no-untyped-def]
    """Write to ``sets`` [set, cell] the least ``value`` [signature, cell] of paths within a set, at most ``pause``."""
    sets[:] = pause
    for i in range(len(mask)):
        s, k = signature[i], mask[i]
        for t in range(value.shape[1]):
            sets[k, t] = min(sets[k, t], value[s, t])
    size = sets.shape[0]
    bit = 1
    while bit < size:
        for k in range(size):
            if k & bit:
                for t in range(sets.shape[1]):
                    sets[k, t] = min(sets[k, t], sets[k ^ bit, t])
        bit *= 2


@njit(nogil=True, cache=True)
def side_by_side(left, right):  # type: ignore[no-untyped-def]
    """[set, cell]: the least left[a] + right[b] over disjoint a and b of each set."""
    found = float_table(left.shape[0], left.shape[1], np.inf)
    for k in range(left.shape[0]):
        a = k
        while True:
            for t in range(left.shape[1]):
                found[k, t] = min(found[k, t], left[a, t] + right[k ^ a, t])
            if a == 0:
                break
            a = (a - 1) & k
    return found
