"""The exact program under C3 in full: chains of ideals whose states remember what C3 needs of the past.

When chip b gets the block J \\ I, all its incoming flows are known: they come from operations of I that still have
readers outside I (the *open* ones). Group the open operations by chip and let R be the reachability between these
chips in the quotient graph. All paths that end in b end with one of b's incoming edges, and all of those appear now.
So C3 holds for the edges into b if and only if the chips A that send to b form an antichain of R; nothing placed later
can add a path between chips up to b. The state (ideal, groups of open operations, R among the groups) therefore
decides all that follows, and a chain of states is exactly a mapping that obeys C1, C2 and C3.

Networks have few open operations at a time, so there are hardly more states than ideals. Each state keeps, for every
number k of blocks, the least maximum of block costs (:mod:`chipmap.heuristics.ring.program` has costs and memory).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from chipmap.heuristics.ring.ideals import IdealFamily, bits
from chipmap.heuristics.ring.kernel import INFINITE
from chipmap.heuristics.ring.program import Checkpoint, Pairs, ProgramResult, Programs

#: Open operations by chip (bit sets, in the order of chips), and for each group the bit set of groups it reaches.
Pattern = tuple[tuple[int, ...], tuple[int, ...]]


class TooLargeError(Exception):
    """More pairs or states than the limits allow."""


@dataclass(eq=False)
class _State:
    """A state: its ideal, and per number of blocks k the best value and the state it came from."""

    ideal: int
    value: NDArray[np.int64]
    parent: NDArray[np.int64]


@dataclass(eq=False)
class _Search:
    """The states found so far, per ideal by pattern, and all by number."""

    blocks: int
    at: list[dict[Pattern, int]]
    states: list[_State] = field(default_factory=list)

    def state(self, ideal: int, pattern: Pattern) -> _State:
        number = self.at[ideal].get(pattern)
        if number is None:
            number = self.at[ideal][pattern] = len(self.states)
            value = np.full(self.blocks + 1, INFINITE, dtype=np.int64)
            self.states.append(_State(ideal, value, np.full(self.blocks + 1, -1, dtype=np.int64)))
        return self.states[number]


def solve_exact(
    programs: Programs,
    ideals: IdealFamily,
    upper: int,
    checkpoint: Checkpoint,
    state_limit: int = 2_000_000,
) -> ProgramResult:
    """The best chain under C1, C2, C3 (and C4, pins) with value <= ``upper``; value None when there is none.

    Over all ideals that is the optimum, and None proves that no mapping is as good as ``upper``. Needs C3 and C2 in
    force. ``checkpoint`` is called now and then and may raise. Raises :class:`TooLargeError` beyond the limits.
    """
    pairs = programs.pairs("n1", ideals, upper, checkpoint=checkpoint)
    if pairs is None:
        raise TooLargeError("too many pairs of ideals")
    last = len(ideals) - 1
    before, after = _fewest_blocks(pairs, last)
    search = _Search(programs.blocks, [{} for _ in range(last + 1)])
    start = search.state(0, ((), ()))
    start.value[0] = 0
    flows = _Flows(programs, ideals)
    visited = 0
    for i in range(last):
        if not search.at[i] or before[i] + after[i] > search.blocks:
            continue
        low, high = pairs.first[i], pairs.first[i + 1]
        useful = [p for p in range(low, high) if before[i] + 1 + after[pairs.target[p]] <= search.blocks]
        for pattern, number in search.at[i].items():
            checkpoint()
            senders = flows.readers(pattern)
            for p in useful:
                _relax(search, flows, number, pattern, senders, i, int(pairs.target[p]), pairs, p, after)
        visited += len(useful) * len(search.at[i])
        search.at[i] = {}
        if len(search.states) > state_limit:
            raise TooLargeError("too many states")
    return _best(programs, ideals, search, visited)


def _relax(
    search: _Search,
    flows: _Flows,
    number: int,
    pattern: Pattern,
    senders: list[int],
    i: int,
    j: int,
    pairs: Pairs,
    p: int,
    after: NDArray[np.int64],
) -> None:
    """Extend a state by one block, unless that breaks C3 or leaves too few chips."""
    following = flows.extend(pattern, senders, i, j)
    if following is None:
        return
    origin = search.states[number]
    value = np.maximum(origin.value[:-1], pairs.cost[p])
    value[origin.value[:-1] >= INFINITE] = INFINITE
    value[search.blocks - int(after[j]) :] = INFINITE
    chips = int(pairs.chips[p])
    if chips != (1 << 64) - 1:
        value[[not chips >> k & 1 for k in range(search.blocks)]] = INFINITE
    state = search.state(j, following)
    better = value < state.value[1:]
    state.value[1:][better] = value[better]
    state.parent[1:][better] = number


def _fewest_blocks(pairs: Pairs, last: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The fewest blocks from ∅ to each ideal and from each ideal to V over the pairs (large when there is no way)."""
    never = 1 << 30
    before = np.full(last + 1, never, dtype=np.int64)
    after = np.full(last + 1, never, dtype=np.int64)
    before[0], after[last] = 0, 0
    for i in range(last):
        targets = pairs.target[pairs.first[i] : pairs.first[i + 1]]
        np.minimum.at(before, targets, before[i] + 1)
    for i in range(last - 1, -1, -1):
        targets = pairs.target[pairs.first[i] : pairs.first[i + 1]]
        if len(targets):
            after[i] = min(never, after[targets].min() + 1)
    return before, after


class _Flows:
    """Bit-set questions about flows: who reads a group, what stays open, what a block does to a pattern."""

    def __init__(self, programs: Programs, ideals: IdealFamily) -> None:
        self._readers = programs.graph.readers
        self._masks = ideals.masks
        self._open: dict[int, int] = {}

    def readers(self, pattern: Pattern) -> list[int]:
        """For each group the readers of its operations."""
        return [self._union(group) for group in pattern[0]]

    def _union(self, group: int) -> int:
        union = 0
        for u in bits(group):
            union |= self._readers[u]
        return union

    def _open_of(self, ideal: int) -> int:
        known = self._open.get(ideal)
        if known is None:
            mask = self._masks[ideal]
            known = self._open[ideal] = sum(1 << u for u in bits(mask) if self._readers[u] & ~mask)
        return known

    def extend(self, pattern: Pattern, senders: list[int], i: int, j: int) -> Pattern | None:
        """The pattern after the block from ideal i to ideal j, or None if the block's senders break C3."""
        groups, reach = pattern
        block = self._masks[j] & ~self._masks[i]
        sending = 0
        for g, readers in enumerate(senders):
            if readers & block:
                sending |= 1 << g
        if any(sending >> g & 1 and reach[g] & sending for g in range(len(groups))):
            return None
        still_open = self._open_of(j)
        kept = [g for g in range(len(groups)) if groups[g] & still_open]
        fresh = block & still_open
        new_groups = [groups[g] & still_open for g in kept]
        new_reach = []
        for g in kept:
            row = sum(1 << position for position, h in enumerate(kept) if reach[g] >> h & 1)
            if fresh and (sending >> g & 1 or reach[g] & sending):
                row |= 1 << len(kept)
            new_reach.append(row)
        if fresh:
            new_groups.append(fresh)
            new_reach.append(0)
        return tuple(new_groups), tuple(new_reach)


def _best(programs: Programs, ideals: IdealFamily, search: _Search, visited: int) -> ProgramResult:
    """The best state at V, and the mapping that its parents tell."""
    best, number, blocks = int(INFINITE), -1, 0
    for candidate in search.at[-1].values():
        value = search.states[candidate].value
        k = int(np.argmin(value))
        if value[k] < best:
            best, number, blocks = int(value[k]), candidate, k
    if number < 0:
        return ProgramResult(None, None, visited)
    chain = [search.states[number].ideal]
    for k in range(blocks, 0, -1):
        number = int(search.states[number].parent[k])
        chain.append(search.states[number].ideal)
    return ProgramResult(best, programs.mapping(ideals, chain[::-1]), visited)
