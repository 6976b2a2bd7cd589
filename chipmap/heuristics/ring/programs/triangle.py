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

from typing import Any

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.engines.ideals import IdealFamily, bits, to_words
from chipmap.heuristics.ring.programs.kernel import INFINITE
from chipmap.heuristics.ring.programs.patterns import FULL, TOO_MANY_GROUPS, empty, longer
from chipmap.heuristics.ring.programs.program import ProgramResult, Programs
from chipmap.heuristics.ring.programs.triangle_kernel import Ideals, States, fewest_after, relax

#: More blocks than any chain has.
NEVER = 1 << 30


class TooManyStatesError(Exception):
    """More states than the limit allows, or more than 64 chips open at once."""


class _States:
    """The states found so far, in arrays that grow by doubling."""

    def __init__(self, ideals: int, blocks: int, width: int) -> None:
        room = 1 << 12
        rows = empty(room, room * (3 + 2 * width))
        rows.at[1], rows.sizes[:] = 2, (1, 2)  # state 0: the words 0 (its ideal, ∅) and 0 (its number of groups)
        self.arrays = States(
            rows,
            head=np.full(ideals, -1, dtype=np.int64),
            following=np.full(room, -1, dtype=np.int64),
            value=np.full((room, blocks + 1), INFINITE, dtype=np.int64),
            parent=np.full((room, blocks + 1), -1, dtype=np.int32),
        )
        self.arrays.head[0] = 0
        self.arrays.value[0, 0] = 0

    def __len__(self) -> int:
        return int(self.arrays.rows.sizes[0])

    def grow(self) -> None:
        """Twice the room for whatever is more than half full."""
        rows, head, following, value, parent = self.arrays
        more_rows = 2 * len(self) > len(following)
        rows = longer(rows, more_rows, more_words=2 * int(rows.sizes[1]) > len(rows.pool))
        if more_rows:
            following = np.concatenate((following, np.full_like(following, -1)))
            value = np.concatenate((value, np.full_like(value, INFINITE)))
            parent = np.concatenate((parent, np.full_like(parent, -1)))
        self.arrays = States(rows, head, following, value, parent)

    def ideal(self, state: int) -> int:
        """The number of the state's ideal."""
        rows = self.arrays.rows
        return int(rows.pool[rows.at[state]])


def solve_exact(
    programs: Programs, ideals: IdealFamily, upper: int, deadline: Deadline = Deadline(), state_limit: int = 1_000_000
) -> ProgramResult:
    """The best chain under C1, C2, C3 (and C4, pins) with value <= ``upper``; value None when there is none.

    Over all ideals that is the optimum, and None proves that no mapping is as good as ``upper``. Raises
    :class:`TooManyStatesError`, and ValueError for problems without C3 (it is enforced here) or with pins but without
    C2 (chips may then stay empty, which no pair stands for).
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
        return ProgramResult(None, None)
    graph = programs.graph
    still_open = to_words([_open(mask, graph.readers) for mask in ideals.masks], graph.n)
    arrays = Ideals(ideals.words, still_open, after, to_words(graph.readers, graph.n))
    states = _States(len(ideals), programs.blocks, ideals.words.shape[1])
    for start, count, target, cost, chips in programs.pairs("n1", ideals, upper):
        ends = np.cumsum(count)
        for i in np.flatnonzero(count).tolist():
            if states.arrays.head[start + i] >= 0:
                part = slice(ends[i] - count[i], ends[i])
                _relax(states, start + i, (target[part], cost[part], chips[part]), arrays)
        deadline.check()
        if len(states) > state_limit:
            raise TooManyStatesError(f"more than {state_limit} states")
    return _best(programs, ideals, states)


def _open(mask: int, readers: tuple[int, ...]) -> int:
    """The operations of an ideal that have readers outside it."""
    return sum(1 << u for u in bits(mask) if readers[u] & ~mask)


def _relax(states: _States, i: int, pairs: tuple[Any, Any, Any], arrays: Ideals) -> None:
    """Extend all states of ideal i by all its pairs, with as much room as that takes."""
    while (tried := relax(i, *pairs, arrays, states.arrays)) == FULL:
        states.grow()
    if tried == TOO_MANY_GROUPS:
        raise TooManyStatesError("more than 64 chips have open operations at once")


def _best(programs: Programs, ideals: IdealFamily, states: _States) -> ProgramResult:
    """The best state at V, and the mapping that its parents tell."""
    _, head, following, value, parent = states.arrays
    best, number, blocks = int(INFINITE), -1, 0
    state = int(head[-1])
    while state >= 0:
        k = int(np.argmin(value[state]))
        if value[state, k] < best:
            best, number, blocks = int(value[state, k]), state, k
        state = int(following[state])
    if number < 0:
        return ProgramResult(None, None)
    chain = [states.ideal(number)]
    for k in range(blocks, 0, -1):
        number = int(parent[number, k])
        chain.append(states.ideal(number))
    return ProgramResult(best, programs.mapping(ideals, chain[::-1]))
