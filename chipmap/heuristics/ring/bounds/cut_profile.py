"""Lower bounds from cuts of prefixes: what a link carries once a given share of the work is done.

Needs C1 and a cost mode in which a link's load is paid for by a chip or link (``period``, ``sum_forward``). With C1 the
operations on the chips 0 … c are an ideal I of the flow graph, and the link c carries cut(I): the ticks of the storages
made in I and read outside it. The works 1 … total - 1 are divided into windows, with a lower bound m(w) on the cut of
every ideal whose work lies in window w. A mapping with objective <= T takes one step per chip, from a window to itself
or a later one, beginning at no work and ending at all work (where m = 0). A chip that steps from a window that ends at
b to one that begins at a has at least max(0, a - b) of work. So its step is one of those with

    period        a - b <= T  and  m <= T at both ends,
    sum_forward   max(0, a - b) + m + m <= T   (chip c pays for both of its links).

T is refuted if no C such steps lead from no work to all work.

**Least cuts.** m(w) comes from branch and bound, best first. A node says which operations are inside and which outside.
It is tightened: an operation that would bring along (with its ancestors) more work than the window has is outside, one
that would keep out (with its descendants) too much is inside. The least cut that obeys both is a minimum cut (Picard's
closure construction). Where the ideal of that cut has too little or too much work, its work is priced (Lagrange):

    cut(I) >= min over I of (cut(I) + price · work outside I) - price · (total - a)     for work(I) >= a,
    cut(I) >= min over I of (cut(I) + price · work(I)) - price · b                      for work(I) <= b,

each a minimum cut again, the price from the two ideals between which the window lies. Then an operation in which these
differ goes inside in one child and outside in the other.

Only what matters is computed: of the windows that the steps at the least T not refuted yet pass through, wide ones are
divided, and the others' nodes are branched on. :meth:`CutProfile.know` takes a mapping's prefixes: in mode ``period`` a
window with an ideal that T admits needs no node.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.ring.bounds.closure_cuts import MOST, BoolArray, ClosureCuts, relation
from chipmap.heuristics.ring.programs.flow_graph import FlowGraph
from chipmap.instances.ring.problem import IntArray, RingProblem

#: Operations at most: the relations take their square in bytes, twice.
MOST_OPERATIONS = 6000
#: Windows at first, per chip: in ``sum_forward`` the width of a window is lost on each chip.
PER_CHIP = {"period": 2, "sum_forward": 4}
#: A window on the way whose least cut is known is divided down to this share of the target, at the end to one work.
NARROW = 1 / 256
#: Relative precision of the bisection, until nothing is left to search.
PRECISION = 1e-4
#: Nodes of one window between two looks at the steps, and prices that a node tries.
NODES, PRICES = 8, 5
#: More than any cut, and more than any number of chips.
NO_CUT, NO_WAY = 1 << 60, 1 << 30


class _Node(NamedTuple):
    """What is ``inside`` and ``outside`` [n], a lower ``bound`` on the cut of every ideal that obeys it, and the price
    to begin with. Compared by the bound, then by ``serial``.
    """

    bound: int
    serial: int
    inside: BoolArray
    outside: BoolArray
    price: float


class _Window:
    """The ideals with work in ``first`` … ``last``: open ``nodes`` (a heap), and the least cut ``known`` of one."""

    def __init__(self, first: int, last: int, known: int) -> None:
        self.first, self.last, self.known = first, last, known
        self.nodes: list[_Node] = []

    @property
    def least(self) -> int:
        """m: a lower bound on the cut of each of these ideals."""
        return min(self.known, self.nodes[0].bound if self.nodes else NO_CUT)

    @property
    def exact(self) -> bool:
        """Whether an ideal is known that has this cut, or there is none."""
        return self.least == self.known


class CutProfile:
    """The bound of one problem (arrays are made once). Raises ValueError where it doesn't apply."""

    def __init__(self, problem: RingProblem, graph: FlowGraph) -> None:
        if not problem.has("C1") or problem.cost_mode == "sum":
            raise ValueError("cuts of prefixes rest on C1 and on links that are paid for")
        if graph.n > MOST_OPERATIONS:
            raise ValueError(f"cuts of prefixes take at most {MOST_OPERATIONS:,} operations")
        if not any(storage.ticks for storage in problem.storages):
            raise ValueError("nothing is to be paid for")
        self.problem, self.operation, self.total = problem, graph.operation, problem.total_ticks
        self.ticks: IntArray = problem.ticks[list(graph.operation)]
        self.up, self.down = (relation(masks, graph.n) for masks in (graph.ancestors, graph.descendants))
        self.cuts = ClosureCuts(problem, graph)
        self.known: dict[int, int] = {}
        self.serial = self.spent = 0
        count = min(max(2, PER_CHIP[problem.cost_mode] * problem.chips), max(1, self.total - 1))
        ends = [(self.total - 1) * i // count for i in range(count + 1)]
        nothing = np.zeros(graph.n, dtype=bool)
        self.windows = [self._window(a + 1, b, [_Node(0, 0, nothing, nothing, 0.0)]) for a, b in pairwise(ends)]

    def know(self, chips: IntArray) -> None:
        """Keep the prefixes of a mapping (chip per operation of the problem)."""
        on = chips[list(self.operation)]
        for chip in range(int(on.max(initial=0))):
            self._keep(on <= chip)

    def bound(
        self,
        low: int,
        high: int,
        nodes: int,
        deadline: Deadline = Deadline(),
        report: Callable[[int], object] = lambda bound: None,
    ) -> int:
        """A lower bound in [``low``, ``high``], in ticks, with so many ``nodes``; ``report(bound)`` hears of each one
        on the way.
        """
        most, precision, narrow = self.spent + nodes, PRECISION, NARROW
        while low < high:
            found, target = self._unrefuted(low, high, precision)
            if found > low:
                low = found
                report(low)
            way = self.steps(target)
            if low >= high or way is None:
                break
            if not self._refine(way, target, narrow, most, deadline):
                if precision == 0.0:
                    break
                precision = narrow = 0.0
        return low

    def steps(self, target: int) -> list[int] | None:
        """The windows between steps that lead from no work to all work with ``target``, None where none do."""
        first, last, least = self._table()
        count = len(first)
        chips, before = np.full(count, NO_WAY), np.full(count, -1)
        chips[0] = 0
        for to in range(1, count):
            work = np.maximum(first[to] - last[: to + 1], 0)
            if self.problem.cost_mode == "sum_forward":
                may = work + least[: to + 1] + least[to] <= target
            else:
                may = (work <= target) & (least[to] <= target)
            taken = np.where(may, chips[: to + 1], NO_WAY)
            before[to] = taken.argmin()
            chips[to] = min(NO_WAY, taken[before[to]] + 1)
        if chips[-1] > self.problem.chips:
            return None
        way = [int(before[-1])]
        while way[-1]:
            way.append(int(before[way[-1]]))
        return [window - 1 for window in way[-2::-1]]

    def _table(self) -> tuple[IntArray, IntArray, IntArray]:
        """First and last work and least cut of no work, all windows, all work."""
        rows = [(0, 0, 0), *((w.first, w.last, w.least) for w in self.windows), (self.total, self.total, 0)]
        table: IntArray = np.array(rows, dtype=np.int64).T
        return table[0], table[1], table[2]

    def _unrefuted(self, low: int, high: int, precision: float) -> tuple[int, int]:
        """(the bound, the least target found that isn't refuted), equal but for ``precision``. ``high`` counts as
        one that isn't.
        """
        if self.steps(low) is not None:
            return low, low
        if self.steps(high - 1) is None:
            return high, high
        while high - low > max(1, precision * high):
            middle = (low + high) // 2
            if self.steps(middle) is None:
                low = middle
            else:
                high = middle
        return low + 1, high

    def _refine(self, way: list[int], target: int, narrow: float, most: int, deadline: Deadline) -> bool:
        """Divide windows on the way, or branch on their nodes; whether there was anything to do."""
        busy = False
        for window in [self.windows[i] for i in way]:
            admitted = self.problem.cost_mode == "period" and window.known <= target
            if not window.exact and not admitted:
                if self.spent < most:
                    self._branch(window, target, min(NODES, most - self.spent), deadline)
                    busy = True
            elif window.last - window.first > narrow * target:
                self._divide(window)
                busy = True
        return busy

    def _window(self, first: int, last: int, nodes: list[_Node]) -> _Window:
        """A window with these nodes, and what is known of its ideals."""
        window = _Window(
            first, last, min((cut for work, cut in self.known.items() if first <= work <= last), default=NO_CUT)
        )
        window.nodes = sorted(nodes)
        return window

    def _divide(self, window: _Window) -> None:
        """Two windows instead of one, with the same nodes."""
        at, middle = self.windows.index(window), (window.first + window.last) // 2
        halves = ((window.first, middle), (middle + 1, window.last))
        self.windows[at : at + 1] = [self._window(*half, window.nodes) for half in halves]

    def _branch(self, window: _Window, target: int, nodes: int, deadline: Deadline) -> None:
        """Branch on so many nodes of a window, while its least cut isn't known and doesn't exceed the target."""
        while nodes and not window.exact and window.least <= target:
            deadline.check()
            nodes -= 1
            self.spent += 1
            node = heapq.heappop(window.nodes)
            inside, outside = node.inside.copy(), node.outside.copy()
            if not self._tighten(inside, outside, window):
                continue
            bound, price, fewer, more = self._least(inside, outside, window, node.price)
            free = np.flatnonzero(~inside & ~outside)
            if not len(free):
                continue  # its ideal is known now
            differ = free[more[free] & ~fewer[free]]
            differ = differ if len(differ) else free
            v = int(differ[np.minimum(*self._settled(inside, outside, differ)).argmax()])
            bound = max(bound, node.bound)
            self.serial += 2
            heapq.heappush(window.nodes, _Node(bound, self.serial, inside | self.up[v], outside, price))
            heapq.heappush(window.nodes, _Node(bound, self.serial + 1, inside, outside | self.down[v], price))

    def _tighten(self, inside: BoolArray, outside: BoolArray, window: _Window) -> bool:
        """Put inside and outside what the window's work forces; whether any work of the window can be had."""
        while True:
            within, left = int(self.ticks[inside].sum()), self.total - int(self.ticks[outside].sum())
            if within > window.last or left < window.first:
                return False
            free = np.flatnonzero(~inside & ~outside)
            brought, kept = self._settled(inside, outside, free)
            out, into = free[within + brought > window.last], free[left - kept < window.first]
            if not len(out) and not len(into):
                return True
            outside |= self.down[out].any(axis=0)
            inside |= self.up[into].any(axis=0)
            if (inside & outside).any():
                return False

    def _settled(self, inside: BoolArray, outside: BoolArray, free: IntArray) -> tuple[IntArray, IntArray]:
        """The work that each of the ``free`` operations brings along inside, and keeps out outside."""
        return (self.up[free] & ~inside) @ self.ticks, (self.down[free] & ~outside) @ self.ticks

    def _least(
        self, inside: BoolArray, outside: BoolArray, window: _Window, price: float
    ) -> tuple[int, float, BoolArray, BoolArray]:
        """(a lower bound on the cut of every ideal of the window that obeys a node, the last price, an ideal with less
        work, one with more, between which to branch), beginning with a ``price``.
        """
        bound, fewer, more = 0, inside, ~outside
        for _ in range(PRICES):
            least, low, high = self._priced(inside, outside, window, price)
            bound = max(bound, least)
            self._keep(low)
            self._keep(high)
            if self._work(low) <= window.last and self._work(high) >= window.first:
                fewer, more = low, high
                break
            if self._work(high) < window.first:
                fewer = high
            else:
                more = low
            before = price
            price = (self.cuts.cut(more) - self.cuts.cut(fewer)) / max(1, self._work(more) - self._work(fewer))
            if price * before < 0:
                price = 0.0
            if price == before:
                break
        return bound, price, fewer, more

    def _priced(
        self, inside: BoolArray, outside: BoolArray, window: _Window, price: float
    ) -> tuple[int, BoolArray, BoolArray]:
        """(the bound that the price gives, the ideals with least and with most operations at that price). A price
        above 0 is for work outside, one below 0 for work inside.
        """
        # rounded down by more than the products can be off
        prices = np.floor(self.ticks * (abs(price) / self.cuts.scale * (1 - 1e-9))).astype(np.int64)
        if int(prices.sum()) > MOST:
            prices, price = np.zeros_like(prices), 0.0
        numerator, denominator = abs(price).as_integer_ratio()
        if price > 0:
            least, low, high = self.cuts.least(inside, outside, missed=prices)
            owed = numerator * (self.total - window.first)
        else:
            least, low, high = self.cuts.least(inside, outside, taken=prices)
            owed = numerator * window.last
        return least + -owed // denominator, low, high

    def _work(self, ideal: BoolArray) -> int:
        return int(self.ticks[ideal].sum())

    def _keep(self, ideal: BoolArray) -> None:
        """Keep the work and the cut of an ideal."""
        work, cut = self._work(ideal), self.cuts.cut(ideal)
        if 0 < work < self.total and cut < self.known.get(work, NO_CUT):
            self.known[work] = cut
            window = self.windows[bisect_left(self.windows, work, key=lambda window: window.last)]
            window.known = min(window.known, cut)
