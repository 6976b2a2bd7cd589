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

Static energy of the window's least length is part of its energy.

Steps 2 and 3 take most of the time. Where λ is known they are done for blocks of cells first. Sums fall with t, so that
the sum at a block's end and the time of its begin are a lower limit on each of its cells. Only blocks whose limit is
below the least sum found need their own cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from chipmap.heuristics.multimodel.tables.beside import Beside, Moving
from chipmap.heuristics.multimodel.tables.counts import Vectors
from chipmap.heuristics.multimodel.tables.ranges import Table
from chipmap.heuristics.multimodel.tables.sets import Places
from chipmap.kernels import njit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Cells of a block, and the share of the blocks whose cells are looked at whatever their limits say.
BLOCK, ALWAYS = 5, 0.1


class Pricing:
    """Windows of least reduced cost under given potentials; ``edges`` [T + 1] in ns, ``static`` in pJ per ns."""

    def __init__(self, tables: list[Table], places: Places | Vectors, edges: Ints, static: float = 0.0) -> None:
        self.tables, self.places, self.edges, self.static = tables, places, edges, static
        self.powered = static * (edges[:-1] + 1)
        self.cells = len(edges) - 1
        shape = (places.signatures, self.cells)
        self.values = [np.empty(shape) for _ in tables]
        self.which = [np.empty(shape, dtype=np.int64) for _ in tables]
        self.sets = [np.empty((places.sets, self.cells)) for _ in tables]
        self.pauses = [0] * len(tables)
        self.floors = np.zeros(len(tables))
        #: All models' sets beside each other, as of the last :meth:`price`, :meth:`first` or :meth:`fixed`; and where
        #: each cell stands there.
        self.beside: Beside
        self.at = np.arange(self.cells)

    def again(self) -> Pricing:
        """Another one over the same tables, for another thread."""
        return Pricing(self.tables, self.places, self.edges, self.static)

    def price(self, before: list[Floats], behind: list[Floats], rate: float | None = None) -> Floats:
        """The least sum by cell [T] over the models: energy and potentials, with static energy, without time.

        With the weight ``rate`` of time (pJ per ns) it is infinite where the sum with time can't be the least one.
        """
        for m, table in enumerate(self.tables):
            pause = before[m] - behind[m]
            self.pauses[m] = int(np.argmin(pause))
            self.floors[m] = float(pause[self.pauses[m]])
            by_signature(*table, before[m], behind[m], self.floors[m], self.values[m], self.which[m])
        return self._least(self._side_by_side, rate)

    def first(self, behind: list[Floats], rate: float | None = None) -> Floats:
        """As :meth:`price` of the first window: all models stand at their first nodes, and at least one moves.

        What stands before it has no potential. :meth:`window` then speaks of these.
        """
        for m, table in enumerate(self.tables):
            self.pauses[m], self.floors[m] = 0, -float(behind[m][0])
            begins = slice(0, int(np.searchsorted(table.first, table.first.dtype.type(1))))
            entries = (column[begins] for column in table)
            by_signature(*entries, np.zeros_like(behind[m]), behind[m], np.inf, self.values[m], self.which[m])
        return self._least(self._moving, rate)

    def _side_by_side(self, sets: list[Floats], values: list[Floats]) -> Beside:
        for m, own in enumerate(sets):
            self.places.fill(values[m], self.floors[m], own)
        return Beside(self.places, sets)

    def _moving(self, sets: list[Floats], values: list[Floats]) -> Beside:
        moving = []
        for m, own in enumerate(sets):
            self.places.fill(values[m], np.inf, own)
            moving.append(own.copy())
            np.minimum(own, self.floors[m], out=own)
        return Moving(self.places, sets, moving, self.floors)

    def _least(self, beside: Callable[[list[Floats], list[Floats]], Beside], rate: float | None) -> Floats:
        """The least sums by cell; with ``rate`` of the cells that may hold the least one with time."""
        self.at = np.arange(self.cells)
        if rate is None:
            self.beside = beside(self.sets, self.values)
            return self.beside.least + self.powered

        def some(cells: Ints) -> tuple[Beside, Floats]:
            sets = [np.empty((self.places.sets, len(cells))) for _ in self.tables]
            found = beside(sets, [np.ascontiguousarray(values[:, cells]) for values in self.values])
            return found, found.least

        times, begins = (self.static + rate) * (self.edges[:-1] + 1), np.arange(0, self.cells, BLOCK)
        ends = np.minimum(begins + BLOCK, self.cells) - 1
        limits = some(ends)[1] + times[begins]
        near = np.partition(limits, count := int(ALWAYS * len(limits)))[count]
        while True:
            cells = np.flatnonzero(np.repeat(limits <= near, ends - begins + 1))
            self.beside, least = some(cells)
            if (lowest := float((least + times[cells]).min())) <= near or near >= limits.max():
                break
            near = lowest
        self.at[cells] = np.arange(len(cells))
        sums = np.full(self.cells, np.inf)
        sums[cells] = least + self.powered[cells]
        return sums

    def fixed(self, nodes: Sequence[tuple[int, int]]) -> Floats:
        """The least energy by cell [T] of windows that take each model from the first node to the second.

        :meth:`window` then speaks of these.
        """
        for m, (low, high) in enumerate(nodes):
            if low == high:
                self.pauses[m], self.floors[m] = low, 0.0
                self.sets[m][:] = 0.0
                self.values[m][:] = np.inf
            else:
                self.range(m, low, high)
        self.at = np.arange(self.cells)
        self.beside = Beside(self.places, self.sets)
        return self.beside.least + self.powered

    def range(self, m: int, low: int, high: int) -> None:
        """Write what the table says of model m from node ``low`` to ``high`` to its ``values`` and ``sets``."""
        self.floors[m] = np.inf
        begin, end = self._span(m, low, high - 1)
        none = np.zeros(high + 1)
        part, table = slice(begin, end), self.tables[m]
        by_signature(*(column[part] for column in table), none, none, np.inf, self.values[m], self.which[m])
        self.which[m][self.which[m] >= 0] += begin
        self.places.fill(self.values[m], np.inf, self.sets[m])

    def _span(self, m: int, first: int, last: int) -> tuple[int, int]:
        """Where the entries of a range stand; tables are sorted by first and last layer."""
        table = self.tables[m]  # values of the arrays' own type, so that these aren't copied
        low, high = np.searchsorted(table.first, np.array([first, first + 1], table.first.dtype))
        begin, end = np.searchsorted(table.last[low:high], np.array([last, last + 1], table.last.dtype))
        return int(low + begin), int(low + end)

    def window(self, cell: int) -> tuple[float, tuple[tuple[int, int], ...]]:
        """Energy, and each model's nodes before and behind, of the window at ``cell`` of the last :meth:`price`."""
        energy, nodes, at = float(self.powered[cell]), list[tuple[int, int]](), int(self.at[cell])
        moved = self.beside.moved(at)
        for m, mask in enumerate(self.beside.divide(at)):
            best = self.places.within(mask, self.values[m][:, cell], 1)
            if not best or not (best[0][0] < self.floors[m] or m == moved):
                nodes.append((self.pauses[m], self.pauses[m]))
                continue
            entry, table = int(self.which[m][self.places.signature[best[0][1]], cell]), self.tables[m]
            nodes.append((int(table.first[entry]), int(table.last[entry]) + 1))
            energy += float(table.energy[entry])
        return energy, tuple(nodes)


@njit(nogil=True, cache=True)
def by_signature(signature, first, last, cell, energy, before, behind, pause, value, which):  # type: ignore[no-untyped-def]
    """Step 1: ``value`` [signature, cell] and the entry that has it, ``which``; of entries below ``pause`` alone."""
    value[:] = np.inf
    which[:] = -1
    for e in range(len(energy)):
        cost = energy[e] + before[first[e]] - behind[last[e] + 1]
        if cost >= pause:
            continue
        s, t = signature[e], cell[e]
        if cost < value[s, t]:
            value[s, t] = cost
            which[s, t] = e
    for s in range(value.shape[0]):
        for t in range(1, value.shape[1]):
            if value[s, t - 1] < value[s, t]:
                value[s, t] = value[s, t - 1]
                which[s, t] = which[s, t - 1]
