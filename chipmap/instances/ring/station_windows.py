"""Station windows: the chips on which each operation can sit in any solution whose objective is at most a target.

They are the time windows of assembly line balancing (Patterson and Albracht 1975), here for several resources (time,
weights, operations too large to share a chip) over every interval of chips, with the consequences of C3 beside them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chipmap.deadline import Deadline
from chipmap.instances.ring.precedence import BoolMatrix, between, reachable, skips
from chipmap.instances.ring.problem import IntArray, RingProblem

#: Operations larger than 1/2, 1/3 … of the target: at most 1, 2 … of them share a chip.
LARGE_ITEM_CLASSES = 4
#: Of more operations all chips stay open: some 24 bytes for each pair of them would be more than 1.5 GB.
MOST_OPERATIONS = 8000
Resource = tuple[NDArray[np.float64], float]


@dataclass(frozen=True, eq=False)
class StationWindows:
    """``lo`` [n] and ``hi`` [n]: in every solution with objective <= ``target`` ticks, lo[v] <= f(v) <= hi[v]."""

    target: int
    lo: IntArray
    hi: IntArray

    def pairs(self) -> dict[int, tuple[int, int]]:
        """(lo, hi) by operation: the ``windows`` choice of the models."""
        return {v: (int(a), int(b)) for v, (a, b) in enumerate(zip(self.lo, self.hi, strict=True))}


class _Empty(Exception):  # noqa: N818 - a finding, not an error
    """Some window is empty: no solution reaches the target."""


def station_windows(
    problem: RingProblem, target: int, rounds: int = 50, within: StationWindows | None = None
) -> StationWindows | None:
    """The windows for objective <= ``target`` ticks, or None if they prove that no solution has it.

    With C1, ⌈work(ancestors of v, and v) / target⌉ - 1 <= f(v) <= C - ⌈work(v and its descendants) / target⌉; the
    same for every interval of chips and every resource, repeated with pins, groups and C3 until nothing changes (at
    most ``rounds`` times: any round's windows are valid). ``within``: windows of a target at least as high, to start
    from. Beyond :data:`MOST_OPERATIONS` operations only the longest one is held against the target.
    """
    if problem.n and int(problem.ticks.max()) > target:
        return None
    if problem.n > MOST_OPERATIONS:
        return StationWindows(target, np.zeros(problem.n, np.int64), np.full(problem.n, problem.chips - 1, np.int64))
    try:
        state = _WindowsState(problem, target)
        if within is not None and within.target >= target:
            state.lo, state.hi = within.lo.copy(), within.hi.copy()
        for _ in range(rounds):
            before = state.lo.copy(), state.hi.copy()
            state.tighten()
            if np.array_equal(before[0], state.lo) and np.array_equal(before[1], state.hi):
                break
    except _Empty:
        return None
    return StationWindows(target, state.lo, state.hi)


def least_target(
    problem: RingProblem, low: int, high: int, deadline: Deadline = Deadline(), precision: float = 0.0
) -> int:
    """A lower bound on the objective: a target just above one that :func:`station_windows` refutes, by bisection.

    Assumes that nothing below ``low`` and something at ``high`` ticks has windows; stops when the two are within the
    relative ``precision``.
    """
    widest: StationWindows | None = None
    while low < high and high - low > precision * high:
        deadline.check()
        middle = (low + high) // 2
        found = station_windows(problem, middle, within=widest)
        if found is None:
            low = middle + 1
        else:
            high, widest = middle, found
    return low


def resources(problem: RingProblem, target: int) -> list[Resource]:
    """(amount per operation, limit per chip) of what every chip of a solution <= ``target`` keeps within limits."""
    ticks = problem.ticks.astype(np.float64)
    found: list[Resource] = [(ticks, float(target))]
    for share in range(1, LARGE_ITEM_CLASSES + 1):
        large = problem.ticks * (share + 1) > target
        if large.any():
            found.append((large.astype(np.float64), float(share)))
    if problem.has("C4"):
        found.append((problem.floor_bytes.astype(np.float64), float(problem.sram_bytes)))
    return found


class _WindowsState:
    """The windows on their way to a fixed point.

    ``before`` [n, n] is the preorder behind them: f(u) <= f(v) in every solution <= target (both ways: one chip).
    """

    def __init__(self, problem: RingProblem, target: int) -> None:
        self.problem = problem
        self.lo: IntArray = np.zeros(problem.n, dtype=np.int64)
        self.hi: IntArray = np.full(problem.n, problem.chips - 1, dtype=np.int64)
        self.resources = resources(problem, target)
        self.before = reachable(problem).copy() if problem.has("C1") else np.eye(problem.n, dtype=np.bool_)
        starts, ends = np.triu_indices(problem.chips)
        self.intervals: tuple[IntArray, IntArray] = starts.astype(np.int64), ends.astype(np.int64)
        chained = problem.has("C1") and problem.has("C3")
        self.triples = skips(problem) if chained else np.zeros((0, 3), dtype=np.int64)
        pairs = [(group[0], v) for group in problem.groups for v in group[1:]]
        pairs += unsplittable(problem, target)
        self._join(pairs)
        while pairs := self._split_skips():
            self._join(pairs)

    def _join(self, pairs: list[tuple[int, int]]) -> None:
        """Put each pair on one chip, with all that lies between."""
        before = self.before
        for one, other in pairs:
            for u, v in ((one, other), (other, one)):
                if not before[u, v]:
                    before |= before[:, u, None] & before[v]

    def _split_skips(self) -> list[tuple[int, int]]:
        """C1, C3: w between the ends of a flow (u, v) sits with u if w to v is too much for one chip, or with v.

        New pairs that share a chip, from one round. Raises when both are too much.
        """
        u, w, v = self.triples.T
        left, right = np.zeros(len(u), dtype=np.bool_), np.zeros(len(u), dtype=np.bool_)
        for amount, limit in self.resources:
            inside = _inside(self.before, amount)
            if (np.diagonal(inside) > limit).any():
                raise _Empty
            left |= inside[w, v] > limit
            right |= inside[u, w] > limit
        if (left & right).any():
            raise _Empty
        pairs = [*zip(w[left], u[left], strict=True), *zip(w[right], v[right], strict=True)]
        return [(int(a), int(b)) for a, b in pairs if not (self.before[a, b] and self.before[b, a])]

    def tighten(self) -> None:
        """One round of every rule."""
        self._allowed()
        self._order()
        self._spans()
        self._ends_of_skips()
        for amount, limit in self.resources:
            self._intervals(amount, limit)
        if (self.lo > self.hi).any():
            raise _Empty

    def _allowed(self) -> None:
        """C0: pins and forbidden chips."""
        for v, chips in enumerate(self.problem.allowed):
            if chips is not None:
                left = [c for c in chips if self.lo[v] <= c <= self.hi[v]]
                if not left:
                    raise _Empty
                self.lo[v], self.hi[v] = min(left), max(left)

    def _order(self) -> None:
        """f(u) <= f(v) for u before v."""
        self.lo = np.where(self.before, self.lo[:, None], 0).max(axis=0, initial=0)
        self.hi = np.where(self.before, self.hi, self.problem.chips).min(axis=1, initial=self.problem.chips)

    def _spans(self) -> None:
        """C1, C2, C3: f(v) - f(u) <= 1 + i on a flow (u, v), where i operations can sit on chips between.

        An ancestor of u, a descendant of v, or an operation between u and v can't; C2 wants one on each.
        """
        if all(map(self.problem.has, ("C1", "C2", "C3"))):
            u, v, span = _flow_spans(self.problem)
            np.minimum.at(self.hi, v, self.hi[u] + span)
            np.maximum.at(self.lo, u, self.lo[v] - span)

    def _ends_of_skips(self) -> None:
        """C1, C3: w between the ends of a flow (u, v) sits with v if it can't with u, and the other way round."""
        u, w, v = self.triples.T
        for apart, home in ((self.hi[u] < self.lo[w], v), (self.hi[w] < self.lo[v], u)):
            for one, other in ((w[apart], home[apart]), (home[apart], w[apart])):
                np.maximum.at(self.lo, one, self.lo[other])
                np.minimum.at(self.hi, one, self.hi[other])

    def _intervals(self, amount: NDArray[np.float64], limit: float) -> None:
        """Energetic check: what must sit on chips first to last fits there; v is pushed out where it doesn't.

        If first <= f(v) <= last, then all before v that start at ``first`` or later sit there too.
        """
        first, last = self.intervals
        room = (last - first + 1) * limit
        some, free = np.flatnonzero(amount), np.flatnonzero(self.lo < self.hi)
        if not len(some):
            return
        some = some[np.lexsort((self.hi[some], self.lo[some]))]
        size, lo, hi = amount[some, None], self.lo[some], self.hi[some]
        # operations with the same window count as one
        group = np.flatnonzero(np.r_[True, (np.diff(lo) != 0) | (np.diff(hi) != 0)])
        starts, ends = lo[group, None] >= first, hi[group, None] <= last
        inside = np.add.reduceat(size, group)[:, 0] @ (starts & ends).astype(np.float64)
        if (inside > room).any():
            raise _Empty
        ahead = np.add.reduceat(self.before[np.ix_(some, free)] * size, group)
        out = ahead.T @ (starts & ~ends).astype(np.float64) > room - inside
        out &= self.lo[free, None] >= first
        self.lo[free] = np.maximum(self.lo[free], np.where(out, last + 1, 0).max(axis=1))
        behind = np.add.reduceat(self.before[np.ix_(free, some)].T * size, group)
        out = behind.T @ (ends & ~starts).astype(np.float64) > room - inside
        out &= self.hi[free, None] <= last
        self.hi[free] = np.minimum(self.hi[free], np.where(out, first - 1, self.problem.chips).min(axis=1))


def unsplittable(problem: RingProblem, target: int) -> list[tuple[int, int]]:
    """(producer, reader) pairs that share a chip in every solution <= ``target``: their storage is too slow to cross.

    On two chips it costs a link its ticks (mode ``period``), or each of the two chips, beside the operation there.
    Without C1, only mode ``sum`` charges a reader on an earlier chip.
    """
    ticks = problem.ticks
    period = problem.cost_mode == "period"
    if not (problem.has("C1") or problem.cost_mode == "sum"):
        return []
    return [
        (s.producer, v)
        for s in problem.storages
        for v in s.readers
        if s.ticks + (0 if period else int(max(ticks[s.producer], ticks[v]))) > target
    ]


def _inside(before: BoolMatrix, amount: NDArray[np.float64]) -> NDArray[np.float64]:
    """[u, v]: the amount of all that sits on one chip with u and v if these two share one (u and v included)."""
    some = np.flatnonzero(amount)
    return np.asarray((before[:, some] * amount[some]) @ before[some].astype(np.float64))


def _flow_spans(problem: RingProblem) -> tuple[IntArray, IntArray, IntArray]:
    """(u, v, largest f(v) - f(u)) of the flows, for solutions within C1, C2 and C3."""
    u, v = problem.flows.astype(np.int64).T
    computing = problem.computing
    below = reachable(problem)[np.ix_(computing, computing)]
    place = np.cumsum(computing) - 1
    ancestors, descendants = below.sum(axis=0), below.sum(axis=1)
    other = int(computing.sum()) - ancestors[place[u]] - descendants[place[v]]
    inside = [len(between(problem, a, b)) for a, b in problem.flows.tolist()]
    return u, v, 1 + other - np.array(inside, dtype=np.int64)
