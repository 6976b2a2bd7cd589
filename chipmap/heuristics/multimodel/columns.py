"""Lower bounds on λ · T1 + T2 by column generation over windows (Dantzig and Wolfe, 1960).

A schedule is a sequence of W windows, some perhaps empty. Behind each window every model stands at a node: the number
of its layers that are done. The linear program takes shares of windows for each place in the sequence, so that they add
up to one, and so that each node is left as often as it is reached. A window costs λ · T + its energy.

Its dual gives each node of each boundary a price. For *any* prices the least reduced costs of a window at each place
add up to a bound on every schedule (Lagrange). :class:`~chipmap.heuristics.multimodel.pricing.Pricing` finds them.

With ``ordered`` false all places are alike: prices don't depend on the boundary, and at most W windows are taken
altogether. The program is W times smaller and bounds less: it may mix one long window with very many short ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.multimodel.any_windows import SAFE
from chipmap.heuristics.multimodel.pricing import Floats, Pricing, Window

#: Share of the best prices so far in those that are priced next (Wentges 1997).
SMOOTH = 0.8
#: Relative distance of bound and program at which a weight is done.
NEAR = 1e-3
#: Windows added for a place in one round.
ADDED = 10
#: Cost of a unit of flow that no window carries, in costs of the dearest window; at most :data:`MOST_MISSING`.
MISSING, MOST_MISSING = 10.0, 1e7
#: No schedule costs so much (pJ): where bounds rise above it there is none, and prices would grow without end.
ENDLESS = 1e25


class Column(NamedTuple):
    """A window at a place: its time (ns), energy (pJ), and for each model the nodes before and behind it."""

    place: int
    time: float
    energy: float
    nodes: tuple[tuple[int, int], ...]


class Optimum(Protocol):
    """What :class:`Program` finds."""

    @property
    def value(self) -> float: ...
    @property
    def prices(self) -> Floats: ...
    @property
    def amounts(self) -> Floats: ...


class Program(Protocol):
    """A linear program min cost · x over rows of equations that grows by columns."""

    def add(self, columns: Sequence[dict[int, float]]) -> None: ...
    def minimise(self, cost: Floats, seconds: float) -> Optimum | None: ...


class Prices(NamedTuple):
    """For each boundary (one where places are alike) and model the price of its nodes [L + 1]."""

    nodes: list[list[Floats]]


class WindowColumns:
    """The program of one problem and one set of tables; :meth:`bound` solves it for a weight of time."""

    def __init__(
        self,
        layers: Sequence[int],
        windows: int,
        pricing: Pricing,
        program: Callable[[Sequence[float]], Program],
        ordered: bool = True,
    ) -> None:
        self.layers, self.windows, self.pricing = list(layers), windows, pricing
        self.ordered = ordered and windows > 1
        self.places = windows if self.ordered else 1
        self.columns: list[Column] = []
        self._known: set[Column] = set()
        self.rows = self._rows()
        self.program = program(self._right())
        self._artificial()
        self.rounds = 0
        #: (T1, T2) of the program's last optimum.
        self.point: tuple[float, float] | None = None
        self._amounts = np.zeros(0)

    # rows: where places are alike, a node row for each model and node 1..L, then the row of the number of windows;
    # else the rows of places, then those of the nodes 0..L of the boundaries between them.
    def _rows(self) -> list[list[int]]:
        """First row of the nodes by boundary and model."""
        starts, at = [], self.places if self.ordered else 0
        for _ in range(self.places - 1 if self.ordered else 1):
            own = []
            for count in self.layers:
                own.append(at)
                at += count + 1
            starts.append(own)
        self.count = at + (0 if self.ordered else 1)
        return starts

    def _right(self) -> list[float]:
        right = np.zeros(self.count)
        if self.ordered:
            right[: self.places] = 1.0
        else:
            for row, count in zip(self.rows[0], self.layers, strict=True):
                right[row + count] = 1.0
            right[-1] = self.windows
        return [float(amount) for amount in right]

    def _artificial(self) -> None:
        """Flow into and out of each node at a high cost; idle windows at none."""
        columns: list[dict[int, float]] = []
        for own in self.rows:
            for row, count in zip(own, self.layers, strict=True):
                for node in range(count + 1):
                    if self.ordered or node:
                        columns += [{row + node: 1.0}, {row + node: -1.0}]
        if self.ordered:
            columns += [{place: 1.0} for place in range(self.places)]
        self.artificial = len(columns)
        if not self.ordered:
            columns.append({self.count - 1: 1.0})
        self.free = len(columns) - self.artificial
        self.program.add(columns)

    def add(self, columns: Sequence[Column]) -> int:
        """Take in columns that aren't there; how many."""
        new = [column for column in dict.fromkeys(columns) if column not in self._known]
        if new:
            self._known.update(new)
            self.columns += new
            self.program.add([self._entries(column) for column in new])
        return len(new)

    def _entries(self, column: Column) -> dict[int, float]:
        entries: dict[int, float] = {column.place if self.ordered else self.count - 1: 1.0}
        for m, (i, j) in enumerate(column.nodes):
            if self.ordered:
                if column.place > 0:
                    entries[self.rows[column.place - 1][m] + i] = -1.0
                if column.place < self.places - 1:
                    entries[self.rows[column.place][m] + j] = 1.0
            elif i != j:
                if i:
                    entries[self.rows[0][m] + i] = -1.0
                entries[self.rows[0][m] + j] = 1.0
        return entries

    def start(self, layers: list[Floats]) -> Prices:
        """Prices that charge each layer its own (pJ)."""
        nodes = [np.concatenate([[0.0], np.cumsum(own)]) for own in layers]
        return Prices([nodes for _ in self.rows])

    def _prices(self, rows: Floats) -> Prices:
        found = []
        for own in self.rows:
            nodes = [np.array(rows[row : row + count + 1]) for row, count in zip(own, self.layers, strict=True)]
            if not self.ordered:
                for one in nodes:
                    one[0] = 0.0
            found.append(nodes)
        return Prices(found)

    def _sides(self, prices: Prices, place: int) -> tuple[list[Floats], list[Floats]]:
        """Potentials before and behind the window at a place: a model begins at node 0 and ends at node L."""
        if not self.ordered:
            return prices.nodes[0], prices.nodes[0]
        before, behind = [], []
        for m, count in enumerate(self.layers):
            first, last = np.full(count + 1, np.inf), np.full(count + 1, -np.inf)
            first[0] = last[-1] = 0.0
            before.append(first if place == 0 else prices.nodes[place - 1][m])
            behind.append(last if place == self.places - 1 else prices.nodes[place][m])
        return before, behind

    def price(self, prices: Prices, rate: float) -> tuple[float, list[Column]]:
        """The bound on rate · T1 + T2 under these prices, and the windows of least reduced cost."""
        total, found = 0.0, list[Column]()
        times = rate * (self.pricing.edges[:-1] + 1)
        for place in range(self.places):
            before, behind = self._sides(prices, place)
            sums = self.pricing.price(before, behind) + times
            idle = float(sum(self.pricing.floors))
            least = min(idle, float(sums.min()))
            total += least if self.ordered else self.windows * least
            for cell in _lowest(sums, ADDED):
                found.append(self._column(place, self.pricing.window(cell, float(sums[cell]))))
            if self.ordered:
                found.append(Column(place, 0.0, 0.0, tuple((p, p) for p in self.pricing.pauses)))
        if not self.ordered:
            total += sum(float(nodes[-1]) for nodes in prices.nodes[0])
        return total, found

    def again(self, columns: Sequence[Column], rate: float) -> None:
        """Add the windows that take models from and to the same nodes as ``columns`` do, at these tables' costs."""
        times = rate * (self.pricing.edges[:-1] + 1)
        for nodes in dict.fromkeys(column.nodes for column in columns):
            energies = self.pricing.fixed(nodes)
            for cell in _lowest(energies + times, ADDED):
                time, energy = float(self.pricing.edges[cell] + 1), float(energies[cell])
                self.add([Column(0, time, energy, nodes)])

    def used(self) -> list[Column]:
        """The columns of the program's last optimum."""
        return [column for column, amount in zip(self.columns, self._amounts, strict=False) if amount > 1e-6]

    def _column(self, place: int, window: Window) -> Column:
        nodes = tuple((one.first, one.last + 1) for one in window.ranges)
        return Column(place, float(self.pricing.edges[window.cell] + 1), window.energy, nodes)

    def bound(
        self,
        rate: float,
        prices: Prices,
        deadline: Deadline,
        report: Callable[[float], None],
        near: float = NEAR,
        rounds: int = 10**9,
    ) -> tuple[float, Prices]:
        """The best bound on rate · T1 + T2 until ``near``, with its prices; ``report`` hears of each better one."""
        best, centre, trial, missing = -np.inf, prices, prices, MISSING
        optimum: Optimum | None = None
        mixed = False
        for _ in range(rounds):
            deadline.check()
            self.rounds += 1
            value, found = self.price(trial, rate)
            if value > best:
                best, centre = value, trial
                report(best * (1 - SAFE))
            new = self.add(found)
            if optimum is not None and (optimum.value * self.unit <= best + near * abs(best) or not (new or mixed)):
                if not optimum.amounts[: self.artificial].sum() > 1e-6 or missing >= MOST_MISSING:
                    break
                missing *= 10
            if best > ENDLESS:
                break
            optimum = self.program.minimise(self._cost(rate, best, missing), deadline.seconds)
            if optimum is None:
                break
            self.point = self._point(optimum)
            current = self._prices(optimum.prices * self.unit)
            mixed = bool(new)
            trial = _mix(centre, current, SMOOTH) if mixed else current
        return best * (1 - SAFE), centre

    def _point(self, optimum: Optimum) -> tuple[float, float]:
        self._amounts = amounts = optimum.amounts[self.artificial + self.free :]
        terms = np.array([(column.time, column.energy) for column in self.columns]).reshape(-1, 2)
        time, energy = amounts @ terms
        return float(time), float(energy)

    def _cost(self, rate: float, value: float, missing: float) -> Floats:
        self.unit = max(1.0, abs(value)) / 1e3
        own = np.array([rate * column.time + column.energy for column in self.columns]) / self.unit
        penalty = missing * max(1e3, float(own.max()) if len(own) else 0.0)
        return np.concatenate([np.full(self.artificial, penalty), np.zeros(self.free), own])


def _mix(a: Prices, b: Prices, share: float) -> Prices:
    return Prices(
        [
            [share * x + (1 - share) * y for x, y in zip(one, other, strict=True)]
            for one, other in zip(a.nodes, b.nodes, strict=True)
        ]
    )


def _lowest(sums: Floats, count: int) -> list[int]:
    """The cells of the lowest sums, no two of them neighbours unless the lower is the later."""
    falls = [t for t in range(len(sums)) if np.isfinite(sums[t]) and (t == 0 or sums[t] < sums[t - 1])]
    return sorted(falls, key=lambda t: float(sums[t]))[:count]
