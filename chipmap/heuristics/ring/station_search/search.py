"""The station search: chains of states chip by chip, ideals made only when reached, within station windows.

Decides whether a mapping with objective <= T exists under C1, C2 and C3. Level k holds the states after k blocks
(:mod:`chipmap.heuristics.ring.programs.triangle` says what a state is and why it suffices). Only those are kept that
can still lead to V: the work left fits on the chips left; every operation lies within its station window for T
(:mod:`chipmap.instances.ring.station_windows`); no group reaches another with a reader of the first to come after an
operation of the second (C3 would break, ``forced_kernel.dead``). As in the bounded dynamic programming of assembly
line balancing (Bautista and Pereira 2009) a level keeps at most ``width`` states, and a state tries at most ``nodes``
ideals depth first in each of several orders. Half of the states kept are those with most work done, the others are
spread evenly over the rest: the fullest chips are alike, and may share what makes them lead nowhere.

**What it proves.** If nothing was left out and no chain reaches V, no mapping has an objective <= T: T + 1 is a lower
bound. Memory and pins are ignored, in the cost modes ``sum`` and ``sum_forward`` a block costs at least its work:
relaxations, so that the bound holds for these too; mappings are for the checker to judge.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.deadline import Deadline
from chipmap.heuristics.engines.ideals import bits, to_words
from chipmap.heuristics.ring.programs.flow_graph import FlowGraph, flow_graph
from chipmap.heuristics.ring.programs.patterns import empty, keep, longer
from chipmap.heuristics.ring.station_search.kernel import COMPLETE, CUT_SHORT, NO_ROOM, Charged, Demands, Level, expand
from chipmap.instances.ring.problem import RingProblem
from chipmap.instances.ring.station_windows import StationWindows, station_windows

#: Words of one level's states at most (8 bytes each), and states.
MAX_WORDS = 1 << 25
MAX_STATES = 1 << 20
#: States expanded between two looks at the clock.
CHUNK = 64


class SearchResult(NamedTuple):
    """``chips`` per operation of the problem (-1 where not computing), or None. ``complete``: nothing was left out."""

    chips: tuple[int, ...] | None
    complete: bool


class StationSearch:
    """The search on one problem (arrays are made once). Needs C1, C2 and C3; raises ValueError without them."""

    def __init__(self, problem: RingProblem, graph: FlowGraph | None = None) -> None:
        if not all(problem.has(label) for label in ("C1", "C2", "C3")):
            raise ValueError("the station search rests on C1, C2 and C3")
        self.problem = problem
        self.graph = graph = graph or flow_graph(problem)
        n = graph.n
        index = {v: i for i, v in enumerate(graph.operation)}
        relations = (graph.producers, graph.readers, graph.ancestors, graph.descendants)
        self.ticks = problem.ticks[list(graph.operation)]
        self.relations = np.stack([to_words(masks, n) for masks in relations])
        charged = [s for s in problem.storages if s.ticks > 0 and problem.cost_mode != "sum"]
        self.charged = Charged(
            producer=np.array([index[s.producer] for s in charged], dtype=np.int32),
            readers=to_words([sum(1 << index[v] for v in s.readers) for s in charged], n),
            ticks=np.array([s.ticks for s in charged], dtype=np.int64),
        )
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
        within = station_windows(self.problem, target)
        if within is None:
            return SearchResult(None, True)
        ranks = self._ranks(orders, seed)
        words = self.relations.shape[2]
        total = int(self.ticks.sum())
        level = _Level(np.zeros(words + 1, dtype=np.uint64), words)
        levels = [level]
        complete = True
        noise = np.random.default_rng(seed)
        for k in range(self.blocks):
            demands = self._demands(within, k, nodes, ranks)
            following = _Room(words)
            for s in range(len(level.done)):
                if s % CHUNK == 0:
                    deadline.check()
                stopped = self._follow(level, s, following, demands)
                complete &= stopped == COMPLETE
                if stopped == NO_ROOM:
                    following.keep(following.best(width, noise))
            count = len(following)
            if not count:
                return SearchResult(None, complete)
            if count > width:
                complete = False
                following.keep(following.best(width, noise))
            level.forget()
            level = following.level()
            levels.append(level)
            ends = np.flatnonzero(level.done == total).tolist()
            ends = [s for s in ends if level.mask(s).bit_count() == self.graph.n]
            if ends:
                return SearchResult(self._mapping(levels, ends[0]), complete)
        return SearchResult(None, complete)

    def _follow(self, level: _Level, s: int, following: _Room, demands: list[Demands]) -> int:
        """Enter what follows state ``s``, by all orders or until one leaves nothing out; what stopped the last one.

        NO_ROOM where no more room can be had.
        """
        row, done = level.pool[level.at[s] : level.at[s + 1]], int(level.done[s])
        for demand in demands:
            stopped = expand(row, s, done, self.ticks, self.relations, self.charged, demand, following.arrays)
            while stopped == NO_ROOM and following.roomy:
                following.grow()
                stopped = expand(row, s, done, self.ticks, self.relations, self.charged, demand, following.arrays)
            if stopped != CUT_SHORT:
                return int(stopped)
        return CUT_SHORT

    def _ranks(self, orders: Sequence[int], seed: int) -> list[NDArray[np.int64]]:
        """The place of each operation in each of ``orders``."""
        from chipmap.heuristics.ring.programs.slicing import topological_orders

        every = list(topological_orders(self.graph, max(orders) + 1, seed))
        return [np.argsort(np.array(every[order], dtype=np.int64)) for order in orders]

    def _demands(self, within: StationWindows, chip: int, nodes: int, ranks: list[NDArray[np.int64]]) -> list[Demands]:
        """What a block on ``chip`` must keep to, for each order of the operations."""
        positions, ticks = list(self.graph.operation), self.ticks
        must = 0
        for v in np.flatnonzero(within.hi[positions] <= chip).tolist():
            must |= 1 << v
        target = within.target
        late = np.where(within.lo[positions] <= chip, ticks, target + 1)
        least = int(ticks.sum()) - (self.blocks - chip - 1) * target
        return [Demands(target, least, nodes, late, to_words([must], self.graph.n)[0], rank) for rank in ranks]

    def _mapping(self, levels: list[_Level], state: int) -> tuple[int, ...]:
        chips = [-1] * self.problem.n
        for k in range(len(levels) - 1, 0, -1):
            parent = int(levels[k].parent[state])
            for v in bits(levels[k].mask(state) & ~levels[k - 1].mask(parent)):
                chips[self.graph.operation[v]] = k - 1
            state = parent
        return tuple(chips)


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
        states = 1 << 12
        self.width = width
        rows = empty(states, states * 8 * (width + 2))
        self.arrays = Level(rows, np.full(states, -1, dtype=np.int64), np.zeros(states, dtype=np.int64))

    def __len__(self) -> int:
        return int(self.arrays.rows.sizes[0])

    @property
    def roomy(self) -> bool:
        """Whether it may still grow."""
        return 2 * len(self.arrays.rows.pool) <= MAX_WORDS and 2 * len(self.arrays.done) <= MAX_STATES

    def grow(self) -> None:
        """Twice the room."""
        rows, parent, done = self.arrays
        self.arrays = Level(longer(rows), *(np.concatenate((array, np.zeros_like(array))) for array in (parent, done)))

    def keep(self, states: NDArray[np.int64]) -> None:
        """Only these states."""
        rows, parent, done = self.arrays
        keep(rows, states)
        parent[: len(states)], done[: len(states)] = parent[states], done[states]

    def best(self, width: int, noise: np.random.Generator) -> NDArray[np.int64]:
        """``width`` states: half of them those with most work done, the others spread over the rest by work done.

        Ties at random.
        """
        done = self.arrays.done[: len(self)]
        order = np.lexsort((noise.random(len(done)), -done))
        fullest = (width + 1) // 2
        others = np.linspace(fullest, len(order) - 1, width - fullest).astype(np.int64)
        return np.sort(order[np.concatenate((np.arange(fullest), others))])

    def level(self) -> _Level:
        """What has been found, as a level."""
        (_, at, pool, sizes), parent, done = self.arrays
        level = _Level(pool[: sizes[1]].copy(), self.width)
        count = len(self)
        level.at, level.parent, level.done = at[: count + 1].copy(), parent[:count], done[:count]
        level.ideals = level.pool[level.at[:-1, None] + np.arange(self.width)]
        return level
