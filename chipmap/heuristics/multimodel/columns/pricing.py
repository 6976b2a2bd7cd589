"""The window of least reduced cost, for every length of window at once.

A window of cell t lasts more than ``edges[t]`` and at most ``edges[t + 1]``. In it a model runs a range of layers along
a path of chiplets, or pauses. Prices are potentials at both sides of the window: a range from layer i to layer j costs
its energy + before[i] − behind[j + 1], a pause at i costs before[i] − behind[i]. The least sum over the models comes in
four steps:

1. of all entries of a model's table (signature, range, cell, energy), the least cost by signature and cell; a cell has
   what shorter ones have;
2. by set of chiplets (a bit mask): the least of the signatures whose paths cover that set, or a part of it;
3. models side by side: the least sum over disjoint sets, model after model;
4. with the weight λ of time: the least λ · (edges[t] + 1) + sum over t.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.kernels import njit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Entries(NamedTuple):
    """A model's table: real segmentations of layers ``first`` to ``last`` along a path of ``signature`` lie above it.

    Those of windows of cell t take at least the least ``energy`` (pJ) over entries with ``cell`` <= t.
    """

    signature: NDArray[np.int16]
    first: NDArray[np.int16]
    last: NDArray[np.int16]
    cell: NDArray[np.int16]
    energy: Floats


class Places(NamedTuple):
    """Where signatures lie: paths of signature ``signature[i]`` cover exactly the chiplets of ``mask[i]``."""

    mask: NDArray[np.int64]
    signature: NDArray[np.int64]
    signatures: int
    chiplets: int


class Range(NamedTuple):
    """A model's part of a window: layers first..last (pause: last = first − 1, entry −1)."""

    first: int
    last: int
    signature: int
    mask: int
    entry: int


class PricedWindow(NamedTuple):
    """A window of cell ``cell``: a range per model, its least energy (pJ), and its reduced cost."""

    cell: int
    ranges: tuple[Range, ...]
    energy: float
    reduced: float


class Pricing:
    """Windows of least reduced cost under given potentials; ``edges`` [T + 1] in ns."""

    def __init__(self, tables: list[Entries], places: Places, edges: Ints) -> None:
        self.tables, self.places, self.edges = tables, places, edges
        self.cells = len(edges) - 1
        shape = (places.signatures, self.cells)
        self.values = [np.empty(shape) for _ in tables]
        self.which = [np.empty(shape, dtype=np.int64) for _ in tables]
        self.sets = [np.empty((1 << places.chiplets, self.cells)) for _ in tables]
        self.pauses = [0] * len(tables)
        self.floors = np.zeros(len(tables))

    def price(self, before: list[Floats], behind: list[Floats]) -> Floats:
        """The least sum over the models by cell [T]: energy and potentials, without time."""
        total = None
        for m, table in enumerate(self.tables):
            by_signature(*table, before[m], behind[m], self.values[m], self.which[m])
            pause = before[m] - behind[m]
            self.pauses[m] = int(np.argmin(pause))
            self.floors[m] = float(pause[self.pauses[m]])
            by_set(self.places.mask, self.places.signature, self.values[m], self.floors[m], self.sets[m])
            if total is None:
                total = self.sets[m]
            elif m < len(self.tables) - 1:
                total = side_by_side(total, self.sets[m])
        assert total is not None
        if len(self.tables) == 1:
            return np.array(total[-1])
        return full(total, self.sets[-1])

    def fixed(self, nodes: Sequence[tuple[int, int]]) -> Floats:
        """The least energy by cell [T] of windows that take each model from the first node to the second.

        :meth:`window` and :attr:`pauses` then speak of these.
        """
        total = None
        for m, (low, high) in enumerate(nodes):
            if low == high:
                self.pauses[m], self.floors[m] = low, 0.0
                self.sets[m][:] = 0.0
                self.values[m][:] = np.inf
            else:
                self.floors[m] = np.inf
                begin, end = self._span(m, low, high - 1)
                none = np.zeros(high + 1)
                part, table = slice(begin, end), self.tables[m]
                own = Entries(
                    table.signature[part], table.first[part], table.last[part], table.cell[part], table.energy[part]
                )
                by_signature(*own, none, none, self.values[m], self.which[m])
                self.which[m][self.which[m] >= 0] += begin
                by_set(self.places.mask, self.places.signature, self.values[m], np.inf, self.sets[m])
            if total is None:
                total = self.sets[m]
            elif m < len(nodes) - 1:
                total = side_by_side(total, self.sets[m])
        assert total is not None
        return np.array(total[-1]) if len(nodes) == 1 else full(total, self.sets[-1])

    def _span(self, m: int, first: int, last: int) -> tuple[int, int]:
        """Where the entries of a range stand; tables are sorted by first and last layer."""
        table = self.tables[m]  # values of the arrays' own type, so that these aren't copied
        low, high = np.searchsorted(table.first, np.array([first, first + 1], table.first.dtype))
        begin, end = np.searchsorted(table.last[low:high], np.array([last, last + 1], table.last.dtype))
        return int(low + begin), int(low + end)

    def window(self, cell: int, reduced: float) -> PricedWindow:
        """The window behind the sum at ``cell`` of the last :meth:`price` or :meth:`fixed`."""
        columns = [np.ascontiguousarray(one[:, cell]) for one in self.sets]
        masks = divide(np.stack(columns))
        ranges = [self._range(m, int(mask), cell) for m, mask in enumerate(masks)]
        energy = sum(float(self.tables[m].energy[r.entry]) for m, r in enumerate(ranges) if r.entry >= 0)
        return PricedWindow(cell, tuple(ranges), energy, reduced)

    def _range(self, m: int, mask: int, cell: int) -> Range:
        """The range of model m that costs least on chiplets of ``mask``."""
        inside = (self.places.mask & ~mask) == 0
        values = np.where(inside, self.values[m][self.places.signature, cell], np.inf)
        best = int(np.argmin(values)) if len(values) else 0
        if not len(values) or not values[best] < self.floors[m]:
            return Range(self.pauses[m], self.pauses[m] - 1, -1, 0, -1)
        signature = int(self.places.signature[best])
        entry, table = int(self.which[m][signature, cell]), self.tables[m]
        return Range(int(table.first[entry]), int(table.last[entry]), signature, int(self.places.mask[best]), entry)


@njit(nogil=True, cache=True)
def by_signature(signature, first, last, cell, energy, before, behind, value, which):  # type: ignore[no-untyped-def]
    """Step 1: ``value`` [signature, cell] and the entry that has it, ``which``."""
    value[:] = np.inf
    which[:] = -1
    for e in range(len(energy)):
        cost = energy[e] + before[first[e]] - behind[last[e] + 1]
        s, t = signature[e], cell[e]
        if cost < value[s, t]:
            value[s, t] = cost
            which[s, t] = e
    for s in range(value.shape[0]):
        for t in range(1, value.shape[1]):
            if value[s, t - 1] < value[s, t]:
                value[s, t] = value[s, t - 1]
                which[s, t] = which[s, t - 1]


@njit(nogil=True, cache=True)
def by_set(mask, signature, value, pause, sets):  # type: ignore[no-untyped-def]
    """Step 2: ``sets`` [mask, cell], at most the cost of a pause."""
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
    """Step 3: the least left[a] + right[b] over disjoint a and b of each set, by cell."""
    found = np.full_like(left, np.inf)
    for k in range(left.shape[0]):
        a = k
        while True:
            for t in range(left.shape[1]):
                found[k, t] = min(found[k, t], left[a, t] + right[k ^ a, t])
            if a == 0:
                break
            a = (a - 1) & k
    return found


@njit(nogil=True, cache=True)
def full(left, right):  # type: ignore[no-untyped-def]
    """Step 3 for the last model: the set of all chiplets only."""
    found = np.full(left.shape[1], np.inf)
    top = left.shape[0] - 1
    for a in range(top + 1):
        for t in range(left.shape[1]):
            found[t] = min(found[t], left[a, t] + right[top ^ a, t])
    return found


@njit(nogil=True, cache=True)
def divide(values):  # type: ignore[no-untyped-def]
    """Which set each model gets, for costs ``values`` [model, mask] of one cell."""
    models, size = values.shape
    best = np.empty((models, size))
    kept = np.zeros((models, size), dtype=np.int64)
    for k in range(size):
        best[0, k], kept[0, k] = values[0, k], k
    for m in range(1, models):
        for k in range(size):
            best[m, k] = np.inf
            a = k
            while True:
                cost = best[m - 1, a] + values[m, k ^ a]
                if cost < best[m, k]:
                    best[m, k] = cost
                    kept[m, k] = k ^ a
                if a == 0:
                    break
                a = (a - 1) & k
    found = np.zeros(models, dtype=np.int64)
    rest = size - 1
    for m in range(models - 1, -1, -1):
        found[m] = kept[m, rest]
        rest ^= found[m]
    return found
