"""The station search: chains of states chip by chip, ideals made only when reached, within station windows.

Decides whether a mapping with objective <= T exists under C1, C2 and C3. Level k holds the states after k blocks
(:mod:`chipmap.heuristics.ring.programs.triangle` says what a state is and why it suffices). Only those are kept that
can still lead to V: the work left fits on the chips left; every operation lies within its station window for T
(:mod:`chipmap.instances.ring.station_windows`); no group reaches another with a reader of the first to come after an
operation of the second (C3 would break, ``windowed_kernel.dead``). As in the bounded dynamic programming of assembly
line balancing (Bautista and Pereira 2009) a level keeps at most ``width`` states, and a state tries at most ``nodes``
ideals depth first in each of several orders. Half of the states kept are those with most work done, the others are
spread evenly over the rest: the fullest chips are alike, and may share what makes them lead nowhere.

**What it proves.** If nothing was left out and no chain reaches V, no mapping has an objective <= T: T + 1 is a lower
bound. Memory and pins are ignored, in the cost modes ``sum`` and ``sum_forward`` a block costs at least its work:
relaxations, so that the bound holds for these too; mappings are for the checker to judge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.deadline import Deadline
from chipmap.heuristics.ring.programs.ideals import FlowGraph, bits, flow_graph, to_words
from chipmap.heuristics.ring.station_search.kernel import CUT_SHORT, FULL, enter, expand
from chipmap.instances.ring.problem import RingProblem
from chipmap.instances.ring.station_windows import Windows, windows

#: Words of one level's states at most (8 bytes each), and states.
MAX_WORDS = 1 << 25
MAX_STATES = 1 << 20
#: States expanded between two looks at the clock.
CHUNK = 64


@dataclass(frozen=True)
class SearchResult:
    """``chips`` per operation of the problem (-1 where not computing), or None. ``complete``: nothing was left out."""

    chips: tuple[int, ...] | None
    complete: bool
    states: int
    levels: int


class StationSearch:
    """The search on one problem (arrays are made once). Needs C1, C2 and C3; raises ValueError without them."""

    def __init__(self, problem: RingProblem, graph: FlowGraph | None = None) -> None:
        if not all(problem.has(label) for label in ("C1", "C2", "C3")):
            raise ValueError("the station search rests on C1, C2 and C3")
        self.problem = problem
        self.graph = graph = graph or flow_graph(problem)
        n = graph.n
        index = {v: i for i, v in enumerate(graph.operation)}
        self.ticks = problem.ticks[list(graph.operation)]
        self.producers = to_words(graph.producers, n)
        self.readers = to_words(graph.readers, n)
        self.ancestors = to_words(graph.ancestors, n)
        self.descendants = to_words(graph.descendants, n)
        charged = problem.storages if problem.cost_mode != "sum" else ()
        charged = tuple(s for s in charged if s.ticks > 0)
        self.storage_producer = np.array([index[s.producer] for s in charged], dtype=np.int32)
        self.storage_readers = to_words([sum(1 << index[v] for v in s.readers) for s in charged], n)
        self.storage_ticks = np.array([s.ticks for s in charged], dtype=np.int64)
        self.blocks = min(problem.chips, n)

    def decide(
        self,
        target: int,
        width: int,
        nodes: int,
        deadline: Deadline = Deadline(),
        orders: Sequence[int] = (1,),
        seed: int = 0,
    ) -> SearchResult:
        """A mapping with max(work, load) <= ``target`` ticks per chip, or None (a proof if ``complete``).

        ``orders`` in which blocks take operations, by number in :func:`slicing.topological_orders` (1 depth first).
        """
        within = windows(self.problem, target)
        if within is None:
            return SearchResult(None, True, 0, 0)
        ranks = self._ranks(orders, seed)
        total = int(self.ticks.sum())
        level = _Level(np.zeros(self.producers.shape[1] + 1, dtype=np.uint64), self.producers.shape[1])
        levels = [level]
        complete, states = True, 0
        noise = np.random.default_rng(seed)
        for k in range(self.blocks):
            early, must = self._window(within, k)
            demands = _Demands(target, total - (self.blocks - k - 1) * target, nodes, early, must)
            following = _Room(self.producers.shape[1])
            for s in range(len(level.done)):
                if s % CHUNK == 0:
                    deadline.check()
                complete &= self._follow(level, s, following, demands, ranks)
                if following.flags[FULL]:
                    following.keep(following.best(width, noise))
            count = int(following.sizes[0])
            states += count
            if not count:
                return SearchResult(None, complete, states, k + 1)
            if count > width:
                complete = False
                following.keep(following.best(width, noise))
            level.forget()
            level = following.level()
            levels.append(level)
            ends = np.flatnonzero(level.done == total).tolist()
            ends = [s for s in ends if level.mask(s).bit_count() == self.graph.n]
            if ends:
                return SearchResult(self._mapping(levels, ends[0]), complete, states, k + 1)
        return SearchResult(None, complete, states, self.blocks)

    def _follow(
        self, level: _Level, s: int, following: _Room, demands: _Demands, ranks: list[NDArray[np.int64]]
    ) -> bool:
        """Enter what follows state ``s``, by all orders or until one leaves nothing out; whether one did.

        Sets the flag FULL where no more room can be had.
        """
        for rank in ranks:
            following.flags[:] = 0
            self._expand(level, s, following, demands, rank)
            while following.flags[FULL] and following.roomy:
                following.grow()
                following.flags[:] = 0
                self._expand(level, s, following, demands, rank)
            if following.flags[FULL]:
                return False
            if not following.flags[CUT_SHORT]:
                return True
        return False

    def _expand(
        self,
        level: _Level,
        s: int,
        following: _Room,
        demands: _Demands,
        rank: NDArray[np.int64],
    ) -> None:
        expand(
            level.pool,
            int(level.at[s]),
            s,
            int(level.done[s]),
            demands.limit,
            demands.least,
            demands.nodes,
            rank,
            demands.early,
            demands.must,
            self.ticks,
            self.producers,
            self.readers,
            self.ancestors,
            self.descendants,
            self.storage_producer,
            self.storage_readers,
            self.storage_ticks,
            following.table,
            following.at,
            following.pool,
            following.sizes,
            following.parent,
            following.done,
            following.flags,
        )

    def _ranks(self, orders: Sequence[int], seed: int) -> list[NDArray[np.int64]]:
        """The place of each operation in each of ``orders``."""
        from chipmap.heuristics.ring.programs.slicing import topological_orders

        every = list(topological_orders(self.graph, max(orders) + 1, seed))
        return [np.argsort(np.array(every[order], dtype=np.int64)) for order in orders]

    def _window(self, within: Windows, chip: int) -> tuple[NDArray[np.bool_], NDArray[np.uint64]]:
        """The operations that may lie on ``chip`` or before, and those that must."""
        positions = list(self.graph.operation)
        must = 0
        for v in np.flatnonzero(within.hi[positions] <= chip).tolist():
            must |= 1 << v
        return within.lo[positions] <= chip, to_words([must], self.graph.n)[0]

    def _mapping(self, levels: list[_Level], state: int) -> tuple[int, ...]:
        chips = [-1] * self.problem.n
        for k in range(len(levels) - 1, 0, -1):
            parent = int(levels[k].parent[state])
            for v in bits(levels[k].mask(state) & ~levels[k - 1].mask(parent)):
                chips[self.graph.operation[v]] = k - 1
            state = parent
        return tuple(chips)


class _Demands(NamedTuple):
    """What a block must keep to: the kernel's ``limit``, ``least``, ``nodes``, ``early`` and ``must``."""

    limit: int
    least: int
    nodes: int
    early: NDArray[np.bool_]
    must: NDArray[np.uint64]


class _Level:
    """The states of one level: ``pool`` their rows (see the kernel), ``ideals`` [states, w] what remains of them."""

    def __init__(self, pool: NDArray[np.uint64], width: int) -> None:
        self.pool = pool
        self.at = np.array([0, len(pool)], dtype=np.int64)
        self.parent = np.array([-1], dtype=np.int64)
        self.done = np.array([0], dtype=np.int64)
        self.ideals = pool[:width].reshape(1, width).copy()

    def mask(self, state: int) -> int:
        """The ideal of a state as a Python integer."""
        return int.from_bytes(self.ideals[state].astype("<u8").tobytes(), "little")

    def forget(self) -> None:
        """Keep what the mapping needs."""
        self.pool = self.pool[:0]


class _Room:
    """Room for the states of a level in the making; it grows by doubling up to the limits of this module."""

    def __init__(self, width: int) -> None:
        rows = 1 << 12
        self.width = width
        self.pool = np.zeros(rows * 8 * (width + 2), dtype=np.uint64)
        self.at = np.zeros(rows + 2, dtype=np.int64)
        self.table = np.full(4 * rows, -1, dtype=np.int64)
        self.sizes = np.zeros(2, dtype=np.int64)
        self.flags = np.zeros(2, dtype=np.int64)
        self.parent = np.full(rows, -1, dtype=np.int64)
        self.done = np.zeros(rows, dtype=np.int64)

    @property
    def roomy(self) -> bool:
        """Whether it may still grow."""
        return 2 * len(self.pool) <= MAX_WORDS and 2 * len(self.done) <= MAX_STATES

    def grow(self) -> None:
        """Twice the room."""
        self.pool = np.concatenate((self.pool, np.zeros_like(self.pool)))
        self.parent = np.concatenate((self.parent, np.zeros_like(self.parent)))
        self.done = np.concatenate((self.done, np.zeros_like(self.done)))
        self.at = np.concatenate((self.at, np.zeros(len(self.done) + 2 - len(self.at), dtype=np.int64)))
        self.table = np.full(4 * len(self.done), -1, dtype=np.int64)
        enter(self.table, self.at, self.pool, int(self.sizes[0]))

    def keep(self, states: NDArray[np.int64]) -> None:
        """Only these states."""
        rows = [self.pool[self.at[s] : self.at[s + 1]] for s in states.tolist()]
        ends = np.cumsum([0, *map(len, rows)])
        self.pool[: ends[-1]] = np.concatenate(rows)
        self.at[: len(ends)] = ends
        self.parent[: len(states)], self.done[: len(states)] = self.parent[states], self.done[states]
        self.sizes[:] = len(states), ends[-1]
        self.table[:] = -1
        enter(self.table, self.at, self.pool, len(states))

    def best(self, width: int, noise: np.random.Generator) -> NDArray[np.int64]:
        """``width`` states: half of them those with most work done, the others spread over the rest by work done.

        Ties at random.
        """
        done = self.done[: self.sizes[0]]
        order = np.lexsort((noise.random(len(done)), -done))
        fullest = (width + 1) // 2
        others = np.linspace(fullest, len(order) - 1, width - fullest).astype(np.int64)
        return np.sort(order[np.concatenate((np.arange(fullest), others))])

    def level(self) -> _Level:
        """What has been found, as a level."""
        count = int(self.sizes[0])
        level = _Level(self.pool[: self.sizes[1]].copy(), self.width)
        level.at, level.parent, level.done = self.at[: count + 1].copy(), self.parent[:count], self.done[:count]
        level.ideals = level.pool[level.at[:-1, None] + np.arange(self.width)]
        return level
