"""The exact program under C3 in full: chains of ideals whose states remember what C3 needs of the past.

When chip b gets the block J \\ I, all its incoming flows are known: they come from operations of I that still have
readers outside I (the *open* ones). Group the open operations by chip and let R be the reachability between these
chips in the quotient graph. All paths that end in b end with one of b's incoming edges, and all of those appear now.
So C3 holds for the edges into b if and only if the chips that send to b form an antichain of R; nothing placed later
can add a path between chips up to b. The state (ideal, groups of open operations, R among the groups) therefore
decides all that follows, and a chain of states is exactly a mapping that obeys C1, C2 and C3.

Networks have few open operations at a time, so there are hardly more states than ideals. Each state keeps, for every
number k of blocks, the least maximum of block costs (:mod:`chipmap.heuristics.ring.programs.program` has costs and
memory).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chipmap.deadline import Deadline
from chipmap.heuristics.ring.programs.ideals import IdealFamily, bits, to_words
from chipmap.heuristics.ring.programs.kernel import INFINITE
from chipmap.heuristics.ring.programs.program import ProgramResult, Programs
from chipmap.heuristics.ring.programs.triangle_kernel import FULL, TOO_MANY_GROUPS, fewest_after, relax

#: More blocks than any chain has.
NEVER = 1 << 30


class TooManyStatesError(Exception):
    """More states than the limit allows, or more than 64 chips open at once."""


class _States:
    """The states found so far, in arrays that grow by doubling."""

    def __init__(self, ideals: int, blocks: int, width: int) -> None:
        room = 1 << 12
        self.head = np.full(ideals, -1, dtype=np.int64)
        self.following = np.full(room, -1, dtype=np.int64)
        self.table = np.full(4 * room, -1, dtype=np.int64)
        self.ideal = np.zeros(room, dtype=np.int64)
        self.at = np.zeros(room, dtype=np.int64)
        self.pool = np.zeros(room * (2 + 2 * width), dtype=np.uint64)
        self.sizes = np.array([1, 1], dtype=np.int64)  # state 0: ideal ∅ with no groups, pool word 0
        self.value = np.full((room, blocks + 1), INFINITE, dtype=np.int64)
        self.parent = np.full((room, blocks + 1), -1, dtype=np.int32)
        self.head[0] = 0
        self.value[0, 0] = 0

    def grow(self) -> None:
        """Twice the room for whatever is full."""
        states, words = (int(size) for size in self.sizes)
        if 2 * words > len(self.pool):
            self.pool = np.concatenate((self.pool, np.zeros_like(self.pool)))
        if 2 * states > len(self.ideal):
            more = len(self.ideal)
            self.following = np.concatenate((self.following, np.full(more, -1, dtype=np.int64)))
            self.ideal = np.concatenate((self.ideal, np.zeros(more, dtype=np.int64)))
            self.at = np.concatenate((self.at, np.zeros(more, dtype=np.int64)))
            self.value = np.concatenate((self.value, np.full_like(self.value, INFINITE)))
            self.parent = np.concatenate((self.parent, np.full_like(self.parent, -1)))
            self._rehash(4 * len(self.ideal))

    def _rehash(self, slots: int) -> None:
        from chipmap.heuristics.ring.programs.triangle_kernel import rehash

        self.table = np.full(slots, -1, dtype=np.int64)
        rehash(self.table, self.ideal, self.at, self.pool, int(self.sizes[0]), int(self.sizes[1]))


def solve_exact(
    programs: Programs, ideals: IdealFamily, upper: int, deadline: Deadline = Deadline(), state_limit: int = 1_000_000
) -> ProgramResult:
    """The best chain under C1, C2, C3 (and C4, pins) with value <= ``upper``; value None when there is none.

    Over all ideals that is the optimum, and None proves that no mapping is as good as ``upper``. Raises
    :class:`TooManyStatesError`, and ValueError for problems without C3 (it
    is enforced here) or with pins but without C2 (chips may then stay empty, which no pair stands for).
    """
    problem = programs.problem
    if not problem.has("C3"):
        raise ValueError("the exact program enforces C3")
    if not problem.has("C2") and any(chips is not None for chips in problem.allowed):
        raise ValueError("pins without C2 may leave chips empty")
    after = np.full(len(ideals), NEVER, dtype=np.int64)
    after[-1] = 0
    for start, count, target, _, _ in programs.pairs("n1", ideals, upper, backwards=True):
        fewest_after(start, count, target, after)
        deadline.check()
    if after[0] > programs.blocks:
        return ProgramResult(None, None, 0)
    graph = programs.graph
    readers = to_words(graph.readers, graph.n)
    open_words = to_words([_open(mask, graph.readers) for mask in ideals.masks], graph.n)
    states = _States(len(ideals), programs.blocks, readers.shape[1])
    visited = 0
    for start, count, target, cost, chips in programs.pairs("n1", ideals, upper):
        first = 0
        for i in range(start, start + len(count)):
            high = first + int(count[i - start])
            if states.head[i] >= 0 and high > first:
                part = slice(first, high)
                visited += _relax(
                    states, i, target[part], cost[part], chips[part], after, ideals.words, open_words, readers
                )
            first = high
        deadline.check()
        if states.sizes[0] > state_limit:
            raise TooManyStatesError(f"more than {state_limit} states")
    return _best(programs, ideals, states, visited)


def _open(mask: int, readers: tuple[int, ...]) -> int:
    """The operations of an ideal that have readers outside it."""
    return sum(1 << u for u in bits(mask) if readers[u] & ~mask)


def _relax(
    states: _States,
    i: int,
    target: NDArray[np.int32],
    cost: NDArray[np.int64],
    chips: NDArray[np.uint64],
    after: NDArray[np.int64],
    words: NDArray[np.uint64],
    open_words: NDArray[np.uint64],
    readers: NDArray[np.uint64],
) -> int:
    """Extend all states of ideal i by all its pairs, with as much room as that takes; returns the extensions tried."""
    while True:
        tried = relax(
            i,
            0,
            len(target),
            target,
            cost,
            chips,
            after,
            words,
            open_words,
            readers,
            states.head,
            states.following,
            states.table,
            states.ideal,
            states.at,
            states.pool,
            states.sizes,
            states.value,
            states.parent,
        )
        if tried == TOO_MANY_GROUPS:
            raise TooManyStatesError("more than 64 chips have open operations at once")
        if tried != FULL:
            return int(tried)
        states.grow()


def _best(programs: Programs, ideals: IdealFamily, states: _States, visited: int) -> ProgramResult:
    """The best state at V, and the mapping that its parents tell."""
    best, number, blocks = int(INFINITE), -1, 0
    state = int(states.head[-1])
    while state >= 0:
        k = int(np.argmin(states.value[state]))
        if states.value[state, k] < best:
            best, number, blocks = int(states.value[state, k]), state, k
        state = int(states.following[state])
    if number < 0:
        return ProgramResult(None, None, visited)
    chain = [int(states.ideal[number])]
    for k in range(blocks, 0, -1):
        number = int(states.parent[number, k])
        chain.append(int(states.ideal[number]))
    return ProgramResult(best, programs.mapping(ideals, chain[::-1]), visited)
