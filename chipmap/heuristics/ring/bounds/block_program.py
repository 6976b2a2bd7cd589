"""The linear program of one chip between two prefixes: how far a chip gets from where the chips before it ended.

Needs C1. The operations on the chips before a chip are an ideal I of the flow graph, those on the chips up to it an
ideal J, and what it does is the block J \\ I. With i_v = 1 for v in I and j_v = 1 for v in J, both 0 or 1,

    i_v <= j_v,   i_w <= i_v  and  j_w <= j_v  for every flow (v, w),   x_v = j_v - i_v,
    work(I) = Σ time(v) · i_v <= after,   work(J) = Σ time(v) · j_v >= beyond.

What the chip pays in the mode ``sum`` is at most T: a storage unless all or none of its ends (its producer and readers)
are on it. What passes by costs nothing. With 0 <= l_s <= x_v <= u_s <= 1 for the ends v of each storage s,

    Σ time(v) · x_v + Σ ticks(s) · (u_s - l_s) <= T,
    Σ weights(v) · x_v + 2 · Σ bytes(s) · (u_s - l_s) <= S    (with C4, in either grade).

The program is built without the operations whose place is certain: in I because it would otherwise have less than
``beyond`` - T of work, outside J because it would bring along more than ``after`` + T.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.heuristics.engines.ideals import bits
from chipmap.heuristics.ring.bounds.closure_cuts import relation
from chipmap.heuristics.ring.programs.flow_graph import FlowGraph
from chipmap.instances.ring.problem import IntArray, RingProblem, Storage

#: Operations at most: the relation takes their square in bytes.
MOST_OPERATIONS = 6000
#: By what share of the mean work of a chip every limit is moved, so that a solver's tolerances (1e-6) cut nothing off.
MARGIN = 1e-5

Row = tuple[dict[int, float], float, float]


class Term(NamedTuple):
    """A column (-1: none) and a constant: what a variable is where its value is certain."""

    column: int
    constant: float


class Program(NamedTuple):
    """min cost · x over rows low <= Σ a · x <= high, every x 0 or 1; the work of J is ``offset`` - the cost. All in
    units of the mean work of a chip.
    """

    rows: list[Row]
    cost: NDArray[np.float64]
    offset: float


class BlockPrograms:
    """The programs of one problem (relations are made once). Raises ValueError where they don't apply."""

    def __init__(self, problem: RingProblem, graph: FlowGraph) -> None:
        if not problem.has("C1") or problem.cost_mode != "sum":
            raise ValueError("programs of one block rest on C1 and on what chips pay in the mode sum")
        if not problem.total_ticks:
            raise ValueError("nothing takes time, so that no step is long")
        if graph.n > MOST_OPERATIONS:
            raise ValueError(f"programs of one block take at most {MOST_OPERATIONS:,} operations")
        self.problem, self.n, self.total = problem, graph.n, problem.total_ticks
        self.ticks: IntArray = problem.ticks[list(graph.operation)]
        self.before: IntArray = relation(graph.ancestors, graph.n) @ self.ticks
        self.behind: IntArray = relation(graph.descendants, graph.n) @ self.ticks
        self.unit = self.total / problem.chips
        index = {v: i for i, v in enumerate(graph.operation)}
        self.storages = [(s, [index[s.producer], *(index[v] for v in s.readers)]) for s in problem.storages]
        self.weights = problem.floor_bytes[list(graph.operation)]
        self.flows = [(u, v) for v in range(graph.n) for u in bits(_nearest(graph, v))]

    def program(self, after: int, beyond: int, most: int) -> Program:
        """Of the furthest J with work >= ``beyond`` that a chip paying at most ``most`` reaches from an I with work
        <= ``after`` (ticks).
        """
        return _Build(self, after, beyond, most).program()


def _nearest(graph: FlowGraph, v: int) -> int:
    """The producers of ``v`` that are no ancestors of its other producers: the flows from these imply the others."""
    further = 0
    for u in bits(graph.producers[v]):
        further |= graph.ancestors[u]
    return graph.producers[v] & ~further


class _Build:
    """One program on its way."""

    def __init__(self, of: BlockPrograms, after: int, beyond: int, most: int) -> None:
        self.of, self.after, self.beyond, self.most = of, after, beyond, most
        self.columns = 0
        self.rows: list[Row] = []
        self.split: dict[Storage, list[tuple[float, Term]]] = {}
        done = of.behind > of.total - (beyond - most)
        never = of.before > after + most
        self.i = [self._end(done[v], of.before[v] > after) for v in range(of.n)]
        self.j = [self._end(done[v] or of.behind[v] > of.total - beyond, never[v]) for v in range(of.n)]

    def program(self) -> Program:
        """All rows, and work(J) as what is maximised."""
        of = self.of
        for v in range(of.n):
            self._at_most([(1.0, self.i[v]), (-1.0, self.j[v])], 0.0)
        for u, v in of.flows:
            self._at_most([(1.0, self.i[v]), (-1.0, self.i[u])], 0.0)
            self._at_most([(1.0, self.j[v]), (-1.0, self.j[u])], 0.0)
        work = [(t / of.unit, v) for v, t in enumerate(of.ticks.tolist()) if t]
        first, last = ([(t, side[v]) for t, v in work] for side in (self.i, self.j))
        self._at_most(first, self.after / of.unit + MARGIN)
        self._at_most([(-t, term) for t, term in first], (self.most - self.beyond) / of.unit + MARGIN)
        self._at_most([(-t, term) for t, term in last], -self.beyond / of.unit + MARGIN)
        self._limits(last + [(-t, term) for t, term in first])
        cost = np.zeros(self.columns)
        for t, term in last:
            if term.column >= 0:
                cost[term.column] -= t
        return Program(self.rows, cost, sum(t * term.constant for t, term in last))

    def _limits(self, work: list[tuple[float, Term]]) -> None:
        """What the chip pays, and its memory."""
        of, problem = self.of, self.of.problem
        paid = [(s.ticks / of.unit, x) for s, ends in of.storages if s.ticks for x in self._split(s, ends)]
        self._at_most(work + [(a * t, x) for t, (a, x) in paid], self.most / of.unit + MARGIN)
        if problem.has("C4") and problem.most_bytes > problem.sram_bytes:
            size = float(problem.sram_bytes)
            held = [(a * w / size, x) for v, w in enumerate(of.weights.tolist()) if w for a, x in self._on(v)]
            sent = [(2 * s.bytes / size, x) for s, ends in of.storages if s.bytes for x in self._split(s, ends)]
            self._at_most(held + [(a * b, x) for b, (a, x) in sent], 1.0 + MARGIN)

    def _column(self) -> int:
        self.columns += 1
        return self.columns - 1

    def _end(self, inside: bool, outside: bool) -> Term:
        """Whether an operation is in an ideal: certain, or a column."""
        if inside or outside:
            return Term(-1, float(inside))
        return Term(self._column(), 0.0)

    def _on(self, v: int) -> list[tuple[float, Term]]:
        """x_v = j_v - i_v."""
        return [(1.0, self.j[v]), (-1.0, self.i[v])]

    def _split(self, storage: Storage, ends: list[int]) -> list[tuple[float, Term]]:
        """u - l: 1 where some of a storage's ``ends`` are on the chip and some are not, 0 otherwise. Made once."""
        if storage in self.split:
            return self.split[storage]
        certain = [v for v in ends if self.i[v].column < 0 and self.j[v].column < 0]
        sure = {self.j[v].constant - self.i[v].constant for v in certain}
        found: list[tuple[float, Term]] = []
        if sure == {0.0, 1.0}:
            found = [(1.0, Term(-1, 1.0))]
        elif len(certain) < len(ends):
            high = Term(-1, 1.0) if 1.0 in sure else Term(self._column(), 0.0)
            low = Term(-1, 0.0) if 0.0 in sure else Term(self._column(), 0.0)
            for v in set(ends).difference(certain):
                self._at_most([*self._on(v), (-1.0, high)], 0.0)
                self._at_most([(1.0, low), *((-a, x) for a, x in self._on(v))], 0.0)
            found = [(1.0, high), (-1.0, low)]
        return self.split.setdefault(storage, found)

    def _at_most(self, row: list[tuple[float, Term]], high: float) -> None:
        """One more row Σ factor · variable <= high, unless it always holds."""
        factors: dict[int, float] = {}
        for a, term in row:
            high -= a * term.constant
            if term.column >= 0:
                factors[term.column] = factors.get(term.column, 0.0) + a
        if sum(a for a in factors.values() if a > 0.0) > high + 1e-12:
            self.rows.append((factors, -np.inf, high))
