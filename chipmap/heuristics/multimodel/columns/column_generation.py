"""Lower bounds on λ · T1 + T2 by column generation over windows (Dantzig and Wolfe, 1960).

A schedule is a sequence of at most W windows. Before and behind each every model stands at a node: the number of its
layers that are done. The linear program takes shares of windows, at most W altogether, so that each node is left as
often as it is reached. A window costs λ · T + its energy. The order of windows is left out: the program may mix one
long window with very many short ones. But one window is told apart: the first one that isn't empty. It begins with all
models at their first nodes, and there is exactly one.

Its dual gives each node a price. For *any* prices the least reduced cost of a first window, W − 1 times that of any
window, and the prices of the last nodes add up to a bound on every schedule (Lagrange). A first window pays no price of
the nodes before it. :class:`~chipmap.heuristics.multimodel.columns.pricing.Pricing` finds both.

With hundreds of nodes the prices take very many rounds to settle. So the program begins with prices at a few nodes
alone, its **knots**; between two knots prices rise as those that the search begins with. Then it takes more knots, at
last all nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.engines.growing_lp import EmptyProgram, Master, MasterOptimum, smoothed
from chipmap.heuristics.multimodel.columns.pricing import Floats, Pricing
from chipmap.heuristics.multimodel.windows.any_windows import SAFE

#: Share of the best prices so far in those that are priced next (Wentges 1997).
SMOOTH = 0.8
#: Relative distance of bound and program at which a weight is done.
NEAR = 1e-3
#: Windows added for a place in one round.
ADDED = 10
#: Knots of each model, one program after the other; then all nodes.
KNOTS = (4, 8, 16, 32, 64)
#: Share of a model's price that is spread evenly over its layers when knots are placed.
EVEN = 1e-3
#: Cost of a unit of flow that no window carries, in costs of the dearest window; at most :data:`MOST_MISSING`.
MISSING, MOST_MISSING = 10.0, 1e7
#: No schedule costs so much (pJ): where bounds rise above it there is none, and prices would grow without end.
ENDLESS = 1e25


class Column(NamedTuple):
    """A window: its time (ns), energy (pJ), for each model the nodes before and behind it, and whether it is the first
    one."""

    time: float
    energy: float
    nodes: tuple[tuple[int, int], ...]
    first: bool = False


#: For each model the price of its nodes [L + 1].
Prices = list[Floats]


class WindowColumns:
    """The program of one problem and one set of tables; :meth:`bound` solves it for a weight of time."""

    def __init__(
        self,
        layers: Sequence[int],
        windows: int,
        pricing: Pricing,
        program: EmptyProgram,
    ) -> None:
        self.layers, self.windows, self.pricing, self.empty = list(layers), windows, pricing, program
        self.columns: list[Column] = []
        self._known: set[Column] = set()
        self.rounds = 0
        #: (T1, T2) of the program's last optimum.
        self.point: tuple[float, float] | None = None
        #: The prices of the best bound of the last weight, also of one that was cut short.
        self.best: Prices | None = None
        self._amounts = np.zeros(0)
        self._take([np.eye(count + 1) for count in self.layers])

    def _take(self, shares: list[Floats]) -> None:
        """Begin a program with these shares of the knots' prices in those of the nodes: [L + 1, knots] by model.

        Its rows are the knots, model after model, then the number of windows after the first one. A node's unit of flow
        counts for its knots by their shares. As each model's flow is 1, so is the number of first windows.
        """
        self.shares = shares
        self.rows = np.cumsum([0, *(share.shape[1] for share in shares)])
        right = np.zeros(self.rows[-1])
        right[self.rows[1:] - 1] = 1.0
        # flow into and out of each knot at a high cost; idle windows at none
        self.master = Master(self.empty, right.tolist(), [self.windows - 1])
        self.master.add([self._entries(column) for column in self.columns])

    @property
    def whole(self) -> bool:
        """Whether the program has prices of all nodes; not where a bound was cut short at its knots."""
        return int(self.rows[-1]) == sum(count + 1 for count in self.layers)

    def _knots(self, count: int, prices: Prices) -> None:
        """Begin a program with so many knots for each model, at equal steps of its prices; or with all nodes."""
        shares = []
        for own, layers in zip(prices, self.layers, strict=True):
            rise = np.concatenate([[0.0], np.cumsum(np.maximum(0.0, np.diff(own)))])
            rise += max(1.0, EVEN * rise[-1]) * np.linspace(0, 1, layers + 1)
            steps = np.searchsorted(rise, np.linspace(0, rise[-1], count + 1)[1:-1])
            at = np.unique([0, *steps.tolist(), layers]) if count < layers else np.arange(layers + 1)
            shares.append(np.array([np.interp(rise, rise[at], one) for one in np.eye(len(at))]).T)
        self._take(shares)

    def add(self, columns: Sequence[Column]) -> int:
        """Take in columns that aren't there; how many."""
        new = [column for column in dict.fromkeys(columns) if column not in self._known]
        if new:
            self._known.update(new)
            self.columns += new
            self.master.add([self._entries(column) for column in new])
        return len(new)

    def _entries(self, column: Column) -> dict[int, float]:
        entries = {} if column.first else {int(self.rows[-1]): 1.0}
        for row, share, (i, j) in zip(self.rows[:-1], self.shares, column.nodes, strict=True):
            flow = share[j] - (0.0 if column.first else share[i])
            entries |= {int(row + k): float(flow[k]) for k in np.flatnonzero(flow)}
        return entries

    def start(self, layers: list[Floats]) -> Prices:
        """Prices that charge each layer its own (pJ)."""
        return [np.concatenate([[0.0], np.cumsum(own)]) for own in layers]

    def _prices(self, rows: Floats) -> Prices:
        parts = zip(self.shares, self.rows, self.rows[1:], strict=False)
        return [share @ rows[begin:end] for share, begin, end in parts]

    def price(self, prices: Prices, rate: float) -> tuple[float, list[Column]]:
        """The bound on rate · T1 + T2 under these prices, and the windows of least reduced cost."""
        least, found = sum(float(nodes[-1]) for nodes in prices), list[Column]()
        times = self.pricing.edges[:-1] + 1
        for first in (True, False):
            sums = self.pricing.first(prices, rate) if first else self.pricing.price(prices, prices, rate)
            sums = sums + rate * times
            cells = _lowest(sums, ADDED)
            found += [Column(float(times[cell]), *self.pricing.window(cell), first) for cell in cells]
            least += float(sums.min()) if first else (self.windows - 1) * min(0.0, float(sums.min()))
        return min(least, 2 * ENDLESS), found  # infinite where no window can be the first one

    def again(self, columns: Sequence[Column], rate: float, deadline: Deadline) -> None:
        """Add the windows that take models from and to the same nodes as ``columns`` do, at these tables' costs, for
        as many of them as there is time."""
        times = rate * (self.pricing.edges[:-1] + 1)
        for nodes, first in dict.fromkeys((column.nodes, column.first) for column in columns):
            if not deadline.keep_going():
                break
            energies = self.pricing.fixed(nodes)
            for cell in _lowest(energies + times, ADDED):
                time, energy = float(self.pricing.edges[cell] + 1), float(energies[cell])
                self.add([Column(time, energy, nodes, first)])

    def used(self) -> list[Column]:
        """The columns of the program's last optimum."""
        return [column for column, amount in zip(self.columns, self._amounts, strict=False) if amount > 1e-6]

    def bound(
        self,
        rate: float,
        prices: Prices,
        deadline: Deadline,
        report: Callable[[float], None],
        near: float = NEAR,
        knots: Sequence[int] = (),
    ) -> tuple[float, Prices]:
        """The best bound on rate · T1 + T2 until ``near``, with its prices; ``report`` hears of each better one.

        Programs of so many ``knots`` come first.
        """
        best, first, most = -np.inf, prices, max(self.layers)
        self.best = None
        for count in (*(count for count in knots if count < most), most):
            if knots or not self.whole:
                self._knots(count, first)
            best, prices = self._settle(rate, prices, best, deadline, report, near)
        return best * (1 - SAFE), prices

    def _settle(
        self,
        rate: float,
        centre: Prices,
        best: float,
        deadline: Deadline,
        report: Callable[[float], None],
        near: float,
    ) -> tuple[float, Prices]:
        """Rounds of program and prices from ``centre`` on, until the program lies ``near`` the bound."""
        trial, missing = centre, MISSING
        optimum: MasterOptimum | None = None
        mixed = False
        while True:
            deadline.check()
            self.rounds += 1
            value, found = self.price(trial, rate)
            if value > best:
                best, centre = value, trial
                self.best = centre
                report(best * (1 - SAFE))
            new = self.add(found)
            if optimum is not None and (optimum.value * self.unit <= best + near * abs(best) or not (new or mixed)):
                if not optimum.missing > 1e-6 or missing >= MOST_MISSING:
                    break
                missing *= 10
            if best > ENDLESS:
                break
            cost = self._cost(rate, best)
            penalty = missing * max(1e3, float(cost.max(initial=0.0)))
            optimum = self.master.minimise(cost, penalty, deadline.seconds)
            if optimum is None:
                break
            self.point = self._point(optimum)
            current = self._prices(optimum.prices * self.unit)
            mixed = bool(new)
            trial = smoothed(centre, current, SMOOTH) if mixed else current
        return best, centre

    def _point(self, optimum: MasterOptimum) -> tuple[float, float]:
        self._amounts = amounts = optimum.amounts
        terms = np.array([(column.time, column.energy) for column in self.columns]).reshape(-1, 2)
        time, energy = amounts @ terms
        return float(time), float(energy)

    def _cost(self, rate: float, value: float) -> Floats:
        self.unit = max(1.0, abs(value)) / 1e3
        return np.array([rate * column.time + column.energy for column in self.columns]) / self.unit


def _lowest(sums: Floats, count: int) -> list[int]:
    """The cells of the lowest sums, no two of them neighbours unless the lower is the later."""
    falls = [t for t in range(len(sums)) if np.isfinite(sums[t]) and (t == 0 or sums[t] < sums[t - 1])]
    return sorted(falls, key=lambda t: float(sums[t]))[:count]
