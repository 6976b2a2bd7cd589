"""Lower bounds from the cuts of prefixes: what some link carries once a given share of the work is done.

Needs C1 and a cost mode in which a link's load is paid for by a chip or link (``period``, ``sum_forward``). Let T be a
target, x < total - T an amount of work, and take a mapping with objective <= T. Let c be the first chip for which the
operations on the chips 0 … c, an ideal I of the flow graph, have more work than x. Before c there was at most x, and
c has at most T, so that x < work(I) <= x + T < total. Hence c isn't the last chip, and the link c carries cut(I): the
ticks of the storages made in I and read outside it. So T is refuted if for some x every ideal I with

    x < work(I) <= x + T      has      cut(I) > T.

In ``sum_forward`` chip c pays work(c) + cut(I) <= T, so that I must even obey work(I) + cut(I) <= x + T. There two
chips pay for each link as well, and the ideals for x = 0, T, 2T … are at different links. So T is refuted, too, if all
work and twice the least cuts for these x exceed C · T.

**Search.** Such an ideal is looked for by branch and bound. A node says which operations are inside and which outside.
It is tightened: an operation that would bring along (with its ancestors) more work than x + T is outside, one that
would keep out (with its descendants) so much that no more than x is left is inside. The least cut that obeys both is a
minimum cut (Picard's closure construction); above T the node is done. Else the minimum cut's ideal may have the work
asked for, and x isn't refuted; or an operation goes inside in one child and outside in the other. A search that
exceeds its nodes refutes nothing.

Only x at which no ideal known to be cheap does are tried: every ideal met is kept with its work and its cut, beginning
with those of the incumbent. Without branching the time is polynomial.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.deadline import Deadline
from chipmap.heuristics.ring.bounds.cuts import INFINITE, MOST
from chipmap.heuristics.ring.programs.ideals import FlowGraph
from chipmap.instances.ring.problem import IntArray, RingProblem

BoolArray = NDArray[np.bool_]
#: Operations at most: the relations take their square in bytes, twice.
MOST_OPERATIONS = 6000
#: Where in a gap between two cheap ideals x is tried, in shares of what the gap leaves.
PLACES = (0.0, 1.0, 0.5)


class _Node(NamedTuple):
    """What is ``inside`` and ``outside`` [n], and a lower bound on the cut of every ideal that obeys it."""

    inside: BoolArray
    outside: BoolArray
    cut: int


class PrefixCuts:
    """The bound of one problem (arrays are made once). Raises ValueError where it doesn't apply."""

    def __init__(self, problem: RingProblem, graph: FlowGraph) -> None:
        if not problem.has("C1") or problem.cost_mode == "sum":
            raise ValueError("cuts of prefixes rest on C1 and on links that are paid for")
        if graph.n > MOST_OPERATIONS:
            raise ValueError(f"cuts of prefixes take at most {MOST_OPERATIONS:,} operations")
        if not any(storage.ticks for storage in problem.storages):
            raise ValueError("nothing is to be paid for")
        self.problem, self.graph, self.total = problem, graph, problem.total_ticks
        self.ticks: IntArray = problem.ticks[list(graph.operation)]
        self.up, self.down = (_relation(masks, graph.n) for masks in (graph.ancestors, graph.descendants))
        self.network = _Network(problem, graph)
        self.known: dict[int, int] = {0: 0, self.total: 0}
        self.hints: list[int] = []

    def know(self, chips: IntArray) -> None:
        """Keep the prefixes of a mapping (chip per operation of the problem)."""
        on = chips[list(self.graph.operation)]
        for chip in range(int(on.max(initial=0))):
            self._keep(on <= chip)

    def refutes(self, target: int, nodes: int = 1, deadline: Deadline = Deadline()) -> bool:
        """Whether some x refutes ``target`` ticks with at most so many ``nodes`` each."""
        if target <= 0:
            return self.total > 0
        if self.overdrawn(target, deadline):
            return True
        tried: set[int] = set()
        while True:
            places = [x for x in self._places(target) if x not in tried]
            if not places:
                return False
            for x in places:
                tried.add(x)
                if self._covered(x, target):
                    continue
                if self.search(x, target, nodes, deadline):
                    self.hints = [x, *(hint for hint in self.hints if hint != x)][:4]
                    return True

    def overdrawn(self, target: int, deadline: Deadline) -> bool:
        """Whether work and links together are more than all chips have time for in mode ``sum_forward``."""
        if self.problem.cost_mode != "sum_forward":
            return False
        due, n = self.total, len(self.ticks)
        for x in range(0, self.total - target, target):
            deadline.check()
            node = _Node(np.zeros(n, dtype=bool), np.zeros(n, dtype=bool), 0)
            if not self._tighten(node, x, x + target):
                return True
            due += 2 * self.network.least(node.inside, node.outside)[0]
        return due > self.problem.chips * target

    def _places(self, target: int) -> list[int]:
        """Where to try x: in gaps between the works of cheap ideals, places that refuted others first."""
        cheap = sorted(work for work, cut in self.known.items() if cut <= target)
        found = list(self.hints)
        for a, b in pairwise(cheap):
            if b + self._paid(self.known[b]) - a > target:
                found += [a + int(share * max(0, b - a - target - 1)) for share in PLACES]
        return [x for x in dict.fromkeys(found) if not self._covered(x, target)]

    def _paid(self, cut: int) -> int:
        """What the chip before a link with this load has less time for."""
        return cut if self.problem.cost_mode == "sum_forward" else 0

    def _covered(self, x: int, target: int) -> bool:
        """Whether a known ideal obeys what (x, target) asks, or nothing is asked."""
        return x + target >= self.total or any(
            x < work <= x + target - self._paid(cut) and cut <= target for work, cut in self.known.items()
        )

    def search(self, x: int, target: int, nodes: int, deadline: Deadline = Deadline()) -> bool:
        """Whether no ideal obeys what (x, ``target``) asks; False as well if ``nodes`` are too few to say."""
        n = len(self.ticks)
        stack = [_Node(np.zeros(n, dtype=bool), np.zeros(n, dtype=bool), 0)]
        while stack:
            deadline.check()
            nodes -= 1
            if nodes < 0:
                return False
            node = stack.pop()
            if not self._tighten(node, x, x + target - self._paid(node.cut)):
                continue
            least, ideals = self.network.least(node.inside, node.outside)
            if least > target or int(self.ticks[node.inside].sum()) > x + target - self._paid(least):
                continue
            for ideal in ideals:
                self._keep(ideal)
            if self._covered(x, target):
                return False
            free = np.flatnonzero(~node.inside & ~node.outside)
            if len(free):
                v = self._branch(node, free)
                inside, outside = node.inside | self.up[v], node.outside | self.down[v]
                stack.append(_Node(inside, node.outside.copy(), least))
                stack.append(_Node(node.inside.copy(), outside, least))
        return True

    def _tighten(self, node: _Node, x: int, most: int) -> bool:
        """Put inside and outside what x < work <= ``most`` forces; whether any work in between can be had."""
        inside, outside = node.inside, node.outside
        while True:
            within, left = int(self.ticks[inside].sum()), self.total - int(self.ticks[outside].sum())
            if within > most or left <= x:
                return False
            free = np.flatnonzero(~inside & ~outside)
            more = (self.up[free] & ~inside) @ self.ticks
            less = (self.down[free] & ~outside) @ self.ticks
            out, into = free[within + more > most], free[left - less <= x]
            if not len(out) and not len(into):
                return True
            outside |= self.down[out].any(axis=0)
            inside |= self.up[into].any(axis=0)
            if (inside & outside).any():
                return False

    def _branch(self, node: _Node, free: IntArray) -> int:
        """The free operation of which both decisions settle most work."""
        more = (self.up[free] & ~node.inside) @ self.ticks
        less = (self.down[free] & ~node.outside) @ self.ticks
        return int(free[np.argmax(np.minimum(more, less))])

    def _keep(self, ideal: BoolArray) -> None:
        """Keep the work and the cut of an ideal."""
        work, cut = int(self.ticks[ideal].sum()), self.network.cut(ideal)
        self.known[work] = min(cut, self.known.get(work, cut))


def prefix_bound(
    cuts: PrefixCuts,
    low: int,
    high: int,
    nodes: int,
    precision: float = 0.0,
    deadline: Deadline = Deadline(),
    report: Callable[[int], object] = lambda bound: None,
) -> int:
    """A lower bound in [``low``, ``high``], in ticks, by bisection to a relative ``precision``, ``low`` itself first.

    ``report(bound)`` hears of each one on the way.
    """
    target, high = low, high - 1
    while low <= high:
        if cuts.refutes(target, nodes, deadline):
            low = target + 1
            report(low)
        elif target == low:
            break
        else:
            high = target - 1
        if high - low < precision * high:
            break
        target = (low + high) // 2
    return low


def _relation(masks: tuple[int, ...], n: int) -> BoolArray:
    """[n, n]: row v the operations of ``masks[v]``, and v."""
    width = (n + 7) // 8
    data = b"".join(mask.to_bytes(width, "little") for mask in masks)
    rows = np.frombuffer(data, dtype=np.uint8).reshape(n, width)
    relation = np.unpackbits(rows, axis=1, bitorder="little")[:, :n].astype(bool)
    relation[np.arange(n), np.arange(n)] = True
    return relation


class _Network:
    """The flow network of minimum cuts: node 0 is the source, 1 the sink, then operations, then storages.

    Its arcs stay; only the capacities from the source and to the sink say what is inside and outside.
    """

    def __init__(self, problem: RingProblem, graph: FlowGraph) -> None:
        from scipy.sparse import csr_array

        n, index = graph.n, {v: i for i, v in enumerate(graph.operation)}
        charged = [storage for storage in problem.storages if storage.ticks]
        self.producer = np.array([index[s.producer] for s in charged], dtype=np.int64)
        pairs = [(s, index[v]) for s, storage in enumerate(charged) for v in storage.readers]
        self.storage, self.reader = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        self.amounts = np.array([s.ticks for s in charged], dtype=np.int64)
        self.scale = int(self.amounts.sum()) // MOST + 1
        index_of = np.full(problem.n, -1, dtype=np.int64)
        index_of[list(graph.operation)] = np.arange(n)
        u, v = index_of[problem.flows.T]
        every, storages = 2 + np.arange(n), 2 + n + np.arange(len(charged))
        tails = np.concatenate((np.zeros(n, dtype=np.int64), every, 2 + v, 2 + self.producer, storages[self.storage]))
        heads = np.concatenate((every, np.ones(n, dtype=np.int64), 2 + u, storages, 2 + self.reader))
        room = np.full(len(tails), INFINITE, dtype=np.int32)
        room[2 * n + len(u) : 2 * n + len(u) + len(charged)] = self.amounts // self.scale
        nodes = 2 + n + len(charged)
        order = np.lexsort((heads, tails))
        place = np.empty(len(tails), dtype=np.int64)
        place[order] = np.arange(len(tails))
        self.first, self.last = place[:n], place[n : 2 * n]
        starts = np.searchsorted(tails[order], np.arange(nodes + 1)).astype(np.int32)
        self.arcs = csr_array((room[order], heads[order].astype(np.int32), starts), shape=(nodes, nodes))

    def cut(self, ideal: BoolArray) -> int:
        """The ticks of the storages made in ``ideal`` and read outside it."""
        crossing = np.zeros(len(self.amounts), dtype=bool)
        crossing[self.storage[~ideal[self.reader]]] = True
        return int(self.amounts[crossing & ideal[self.producer]].sum())

    def least(self, inside: BoolArray, outside: BoolArray) -> tuple[int, list[BoolArray]]:
        """(a lower bound on the cut of every ideal with ``inside`` and nothing of ``outside``, the least and the
        greatest such ideal of that cut up to rounding).
        """
        from scipy.sparse.csgraph import breadth_first_order, maximum_flow

        n = len(inside)
        self.arcs.data[self.first] = np.where(inside, INFINITE, 0)
        self.arcs.data[self.last] = np.where(outside, INFINITE, 0)
        found = maximum_flow(self.arcs, 0, 1)
        left = self.arcs - found.flow
        left.eliminate_zeros()
        least, rest = np.zeros((2, self.arcs.shape[0]), dtype=bool)
        least[breadth_first_order(left, 0, return_predecessors=False)] = True
        rest[breadth_first_order(left.T.tocsr(), 1, return_predecessors=False)] = True
        return self.scale * int(found.flow_value), [least[2 : 2 + n], ~rest[2 : 2 + n]]
