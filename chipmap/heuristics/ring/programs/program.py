"""Exact programs over pairs of ideals: the best chain of at most C blocks under a local rule.

For every rule the program minimises max over blocks of cost(I, J), where block J \\ I is one chip's operations:

======  ==================================================================  ==========================================
rule    pairs (I, J) that may follow each other                             proves, with all ideals
======  ==================================================================  ==========================================
free    all                                                                 the optimum under C1, C2 (and C4)
n1      no operation of the block lies strictly between an operation of I   a lower bound under C3 too: an operation
        and one outside J that a flow joins directly                        between two chips joined directly breaks it
path    every reader of I lies in J                                         the optimum of the mappings with
                                                                            f(v) - f(u) <= 1 on all flows, which all
                                                                            obey C3: an upper bound
======  ==================================================================  ==========================================

So free <= n1 <= optimum <= path. Memory (C4; grade ``full`` by a screen), pins and all cost modes depend on the pair
and the chip only, so that each program is exact for them as well. Needs C1. Over a sub-family of the ideals (prefixes
of some orders) a program is a restriction: its mappings count, its value is no bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.deadline import Deadline
from chipmap.heuristics.engines.ideals import IdealFamily, bits, to_words
from chipmap.heuristics.ring.incidence import Rows, incidence
from chipmap.heuristics.ring.programs.cut import cut_ticks
from chipmap.heuristics.ring.programs.flow_graph import FlowGraph, flow_graph
from chipmap.heuristics.ring.programs.kernel import (
    INFINITE,
    Chains,
    Constants,
    Lattice,
    Operations,
    Storages,
    Terms,
    sweep,
)
from chipmap.heuristics.ring.programs.screens import Charge, Screen, charged, full_memory, relax_pairs, screened
from chipmap.instances.ring.problem import RingProblem

Rule = Literal["free", "n1", "path"]
RULES: dict[Rule, int] = {"free": 0, "n1": 1, "path": 2}
MODES = {"period": 0, "sum": 1, "sum_forward": 2}
#: Chips are bits of one word where pins or forbidden chips are in force.
MAX_CHIPS_WITH_PINS = 64
#: Ideals per compiled sweep.
CHUNK = 256
#: Ideals times operations between them on large graphs, where an ideal takes milliseconds.
PER_CHUNK = 2**20


class ProgramResult(NamedTuple):
    """The outcome: ``value`` in ticks and ``chips`` per operation of the problem (-1 where not computing).

    Both None when no chain has a value of at most the ``upper`` that was asked for.
    """

    value: int | None
    chips: tuple[int, ...] | None


class Programs:
    """The programs of one problem (arrays are made once). Raises ValueError without C1, or for pins on > 64 chips."""

    def __init__(self, problem: RingProblem, graph: FlowGraph | None = None) -> None:
        if not problem.has("C1"):
            raise ValueError("the programs over ideals rest on C1")
        restricted = any(chips is not None for chips in problem.allowed)
        if restricted and problem.chips > MAX_CHIPS_WITH_PINS:
            raise ValueError(f"pins and forbidden chips need at most {MAX_CHIPS_WITH_PINS} chips here")
        if problem.groups:
            raise ValueError("keep-together groups that aren't merged (C4 in grade full) are beyond the programs")
        if restricted and problem.full_memory and not problem.has("C2"):
            raise ValueError("C4 in grade full with pins needs C2 here")
        self.problem = problem
        self.graph = graph or flow_graph(problem)
        self.operations, self.storages = _arrays(problem, self.graph)
        #: Further conditions on the pairs (:mod:`chipmap.heuristics.ring.programs.screens`); need C2.
        self.screens: list[Screen] = []
        #: Further ticks of the pairs, in every rule; with pins they need C2.
        self.charges: list[Charge] = []
        if problem.full_memory:
            self.screens.append(full_memory(self.operations, self.storages, problem.sram_bytes))

    def solve(
        self, rule: Rule, ideals: IdealFamily, upper: int | None = None, deadline: Deadline = Deadline()
    ) -> ProgramResult:
        """The best chain with value <= ``upper`` (ticks; None: any)."""
        best = np.full((len(ideals), self.blocks + 1), INFINITE, dtype=np.int64)
        parent = np.full((len(ideals), self.blocks + 1), -1, dtype=np.int32)
        best[0, 0] = 0
        if self.screens or self.charges:
            for start, count, target, cost, chips in self.pairs(rule, ideals, upper):
                relax_pairs(start, count, target, cost, chips, best, parent)
                deadline.check()
        else:
            for _ in self._sweeps(rule, ideals, upper, Chains(best, parent)):
                deadline.check()
        row = best[-1]
        k = int(np.argmin(row))
        if row[k] >= INFINITE:
            return ProgramResult(None, None)
        chain = [len(ideals) - 1]
        for blocks in range(k, 0, -1):
            chain.append(int(parent[chain[-1], blocks]))
        return ProgramResult(int(row[k]), self.mapping(ideals, chain[::-1]))

    def pairs(
        self, rule: Rule, ideals: IdealFamily, upper: int | None, backwards: bool = False
    ) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int32], NDArray[np.int64], NDArray[np.uint64]]]:
        """The pairs that obey ``rule`` at a cost of at most ``upper``, for some hundred ideals at a time.

        Yields (first ideal, pairs per ideal, and for each pair its target, cost and the chips allowed); from the last
        ideals to the first with ``backwards``.
        """
        for start, part in self._sweeps(rule, ideals, upper, None, backwards):
            kept = screened(self.screens, ideals, start, part[1:]) if self.screens else part[1:]
            yield start, *(charged(self.charges, ideals, start, kept, upper) if self.charges else kept)

    def mapping(self, ideals: IdealFamily, chain: list[int]) -> tuple[int, ...]:
        """The chip of each operation (-1 where not computing) in the chain of ideals, from first to last."""
        chips = [-1] * self.problem.n
        for chip, (i, j) in enumerate(pairwise(chain)):
            for v in bits(ideals.masks[j] & ~ideals.masks[i]):
                chips[self.graph.operation[v]] = chip
        return tuple(chips)

    @property
    def blocks(self) -> int:
        """The most blocks that a chain may have: the chips, or without empty chips at most one per operation."""
        return min(self.problem.chips, self.graph.n) if self.problem.has("C2") else self.problem.chips

    def _sweeps(
        self, rule: Rule, ideals: IdealFamily, upper: int | None, chains: Chains | None, backwards: bool = False
    ) -> Iterator[tuple[int, Any]]:
        """Compiled sweeps over the ideals, some hundred at a time, so that a deadline is noticed in between.

        Without ``chains`` to be prolonged, the pairs are collected.
        """
        nothing = np.full((1, self.blocks + 1), INFINITE, dtype=np.int64)
        given, collect = chains or Chains(nothing, nothing.astype(np.int32)), chains is None
        problem, storages = self.problem, self.storages
        cut = cut_ticks(ideals.words, ideals.first, ideals.added, ideals.target, storages)
        lattice = Lattice(ideals.words, ideals.first, ideals.added, ideals.target, cut)
        terms = Terms(
            rule=RULES[rule if problem.has("C3") else "free"],
            mode=MODES[problem.cost_mode],
            sram=problem.sram_bytes if problem.has("C4") else -1,
            upper=int(INFINITE) - 1 if upper is None else int(upper),
            chips=self.blocks,
            may_skip=not problem.has("C2"),
        )
        chunk = max(16, min(CHUNK, PER_CHUNK // max(1, self.graph.n)))
        starts = range(0, len(ideals), chunk)
        for start in reversed(starts) if backwards else starts:
            stop = min(len(ideals), start + chunk)
            yield start, sweep(lattice, self.operations, storages, terms, collect, start, stop, given)


def _arrays(problem: RingProblem, graph: FlowGraph) -> tuple[Operations, Storages]:
    """What the compiled sweep knows of operations and storages."""
    positions, n = list(graph.operation), graph.n
    on = incidence(problem, positions)
    allowed = [problem.allowed[v] for v in positions]
    masks = [(1 << 64) - 1 if chips is None else sum(1 << c for c in chips) for chips in allowed]
    operations = Operations(
        ticks=problem.ticks[positions],
        weights=problem.weight_bytes[positions],
        constants=Constants(_words(on.shared_readers, n), on.shared_bytes, *on.shared),
        allowed=np.array(masks, dtype=np.uint64),
        producers=to_words(graph.producers, n),
        ancestors=to_words(graph.ancestors, n),
        descendants=to_words(graph.descendants, n),
    )
    return operations, Storages(on.producer, _words(on.readers, n), on.ticks, on.bytes, *on.reads, *on.made)


def _words(rows: Rows, n: int) -> NDArray[np.uint64]:
    """The rows as bit sets [rows, w]."""
    return to_words([sum(1 << v for v in rows.items[a:b].tolist()) for a, b in pairwise(rows.first.tolist())], n)
