"""The exact program over order ideals up to symmetry: interchangeable branches count only by how far they are.

E branches of L kernels in a row have (L+1)^E ideals but C(E+L, L) up to permutations of the branches. A state is a
canonical ideal (the branches of each group sorted by how far they are) with its open schemes. A permutation of branches
maps mappings to mappings of the same cost, so each state stands for all its images, and of the partitions that follow
it one per orbit is enough: among branches that stand alike, none overtakes the one before it. It proves what the plain
program proves (:mod:`chipmap.heuristics.dataflow.program.program`); schemes of equal kernels may differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from chipmap.deadline import Deadline
from chipmap.heuristics.dataflow.program.kernel import add_entry
from chipmap.heuristics.dataflow.program.label_setting import NO_LIMIT, Labels, empty_labels
from chipmap.heuristics.dataflow.program.lattice import TooWideError
from chipmap.heuristics.dataflow.program.program import ENTRIES, WIDTH, Chain, Program, arcs_of, ends_of
from chipmap.heuristics.dataflow.program.signature import Field
from chipmap.heuristics.dataflow.program.watch import watched
from chipmap.heuristics.dataflow.symmetric.branches import Group, interchangeable
from chipmap.heuristics.dataflow.symmetric.exchanges import permutable
from chipmap.heuristics.dataflow.symmetric.kernel import (
    Branches,
    IdealState,
    Search,
    Wanted,
    fill_index,
    fill_table,
    partition_time,
)
from chipmap.heuristics.engines.ideals import IdealFamily, TooManyIdealsError, bits, to_words, without_steps
from chipmap.instances.dataflow.problem import DataflowProblem, IntArray
from chipmap.records import counted

#: Kernels with a choice of schemes that a signature holds.
SLOTS = 20


class SymmetricProgram(Program):
    """The program of a problem's layer up to symmetry. Raises :class:`TooWideError` beyond ``limit`` ideals, and where
    no branches are interchangeable or what kernels pay depends on their order."""

    def __init__(self, problem: DataflowProblem, limit: int = 20_000) -> None:
        self.groups = interchangeable(problem)
        if not self.groups:
            raise TooWideError("no branches are interchangeable")
        several = sum(len(problem.options[v]) > 1 for group in self.groups for branch in group for v in branch)
        if several > SLOTS:
            raise TooWideError(
                f"more than {SLOTS} kernels of interchangeable branches have a choice of sharding schemes: {several}"
            )
        if not permutable(problem, self.groups):
            raise TooWideError("what kernels pay depends on which of the equal branches runs first")
        super().__init__(problem, limit=limit)
        self.graph = self.graph._replace(outside=self.graph.outside[:, :0])
        self.placed = self._placed()
        self.rows = [branch for group in self.placed for branch in group]
        self.branches = self._branches()

    def _placed(self) -> list[Group]:
        """The groups by places in the order: positions ascending, and each branch before the next at each of them."""
        place = {v: i for i, v in enumerate(self.order)}
        placed = []
        for group in self.groups:
            order = sorted(range(len(group[0])), key=lambda j: place[group[0][j]])
            branches = sorted(tuple(place[branch[j]] for j in order) for branch in group)
            across = all(a < b for one, two in pairwise(branches) for a, b in zip(one, two, strict=True))
            if not across or any(a >= b for branch in branches for a, b in pairwise(branch)):
                raise TooWideError("the order of kernels doesn't follow that of the branches")
            placed.append(tuple(branches))
        return placed

    def _ideals(self, producers: list[int], limit: int) -> IdealFamily:
        groups = self._placed()

        def larger(ideal: int) -> Iterator[int]:
            closed = ideal | _behind(ideal, groups)
            for v, needs in enumerate(producers):
                if not closed >> v & 1 and not needs & ~ideal:
                    yield canonical(ideal | 1 << v, groups)

        try:
            return without_steps(larger, len(producers), limit)
        except TooManyIdealsError:
            raise TooWideError(f"the graph has more than {limit:,} order ideals up to symmetry") from None

    def _known_together(self, fields: Sequence[Field]) -> NDArray[np.bool_]:
        """Kernels of branches may stand for each other, so that all of theirs are known together."""
        branched = {v for group in self._placed() for branch in group for v in branch}
        known = super()._known_together(fields)
        for f, field in enumerate(fields):
            known[:, f] |= not branched.isdisjoint((*field.of, *(field.until if field.passing else ())))
        return known

    def _branches(self) -> Branches:
        n, rows = len(self.order), self.rows
        member = np.full((len(rows), max(map(len, rows))), -1, dtype=np.int64)
        branch, position = np.full(n, -1, dtype=np.int64), np.zeros(n, dtype=np.int64)
        for i, row in enumerate(rows):
            member[i, : len(row)] = row
            branch[list(row)], position[list(row)] = i, range(len(row))
        trunk = sum(1 << v for v in range(n) if branch[v] < 0)
        size = 4
        while size < 2 * len(self.lattice.masks):
            size *= 2
        table = np.full(size, -1, dtype=np.int64)
        fill_index(table, self.graph.sets)
        start = np.cumsum([0, *map(len, self.placed)]).astype(np.int64)
        return Branches(member, start, branch, position, to_words([trunk], n)[0], table, self.forward)

    def best_up_to_symmetry(
        self,
        most: int | None,
        exactly: bool = False,
        fused: bool = True,
        *,
        upper: int = NO_LIMIT,
        deadline: Deadline = Deadline(),
    ) -> Chain | None:
        """As :meth:`Program.best`, below ``upper`` picoseconds and before the ``deadline``."""
        n, count = len(self.order), len(self.lattice.masks)
        if exactly and most is not None and most > n:
            return None
        top = 1 if most is None else min(most, n)
        rules = self.rules(None, fused)._replace(most=top)
        width = WIDTH if count * WIDTH * (top + 1) <= ENTRIES // 4 else 16
        if count * width * (top + 1) > ENTRIES:
            raise TooWideError(f"{counted(count, 'order ideal')} and {counted(top, 'partition')} are too many")
        table = self._table(count, width, top)
        add_entry(table, 0, 0)
        table.value[0, 0, 0] = 0
        gate, nothing = np.zeros(width, np.int64), self._wanted_end((-1, 0, 0))
        search = Search(self.graph, rules, self.branches, table, empty_labels(0), most is not None, upper)
        with watched(self.work, deadline):
            if not fill_table(search, exactly, gate, IdealState(-1, -1), nothing):
                raise TooWideError("too many combinations of sharding schemes are open at once")
        ends = ends_of(table, top, exactly)
        return self._retrace(search, gate, min(ends)) if ends else None

    def _wanted_end(self, end: tuple[int, int, int]) -> Wanted:
        """The partition that ends with this ideal, signature and cost, to be found."""
        words = np.zeros(self.graph.sets.shape[1], np.uint64)
        return Wanted(np.array(end, dtype=np.int64), words, np.full(len(self.rows) + 1, -1, np.int64))

    def _retrace(self, search: Search, gate: IntArray, end: tuple[int, int, int]) -> Chain:
        """The mapping behind the value ``end`` (ticks, signature number, partitions) of the last ideal."""
        g, rules, table = search.graph, search.rules, search.table
        arcs = arcs_of(g, table, gate, end[1], end[2], search.capped)
        partitions, picked = [0] * len(self.order), [0] * len(self.order)
        real = list(range(len(self.order)))  # the kernel that each place of the canonical ideal stands for
        for number, (root, before, j, s, cost) in enumerate(arcs):
            found = self._wanted_end((j, int(table.signature[j, s]), cost))
            fill_table(search._replace(pool=empty_labels(0)), False, gate, IdealState(root, before), found)
            grown = int.from_bytes(found.words.tobytes(), "little")
            inside = bits(grown & ~self.lattice.masks[root])
            kernels = np.array(inside, dtype=np.int64)

            def wanted(
                pool: Labels, i: int, found: Wanted = found, inside: IntArray = kernels, cost: int = cost
            ) -> bool:
                ends = pool.signature[i] & g.fields.lasting == found.taken[-1]
                return bool(ends and partition_time(g, rules, pool, i, inside, found.words) == cost)

            begins = int(table.signature[root, before]), cost + 1
            options = self._options(g, rules, begins, root, inside, wanted)
            for v, option in zip(inside, options, strict=True):
                partitions[self.order[real[v]]], picked[self.order[real[v]]] = number, option
            moved = list(real)
            for i, row in enumerate(self.rows):
                for v, u in zip(row, self.rows[int(found.taken[i])], strict=True):
                    moved[v] = real[u]
            real = moved
        costs = tuple(cost for *_, cost in arcs)
        return Chain(end[0], tuple(partitions), tuple(picked), costs)


def _behind(ideal: int, groups: Sequence[Group]) -> int:
    """The kernels of branches that stand where the one before them does: to add to that one is the same."""
    found = 0
    for group in groups:
        codes = [tuple(ideal >> v & 1 for v in branch) for branch in group]
        found |= sum(1 << v for i in range(1, len(group)) if codes[i] == codes[i - 1] for v in group[i])
    return found


def canonical(ideal: int, groups: Sequence[Group]) -> int:
    """The ideal with the branches of each group sorted: those that are furthest first."""
    for group in groups:
        codes = sorted((tuple(ideal >> v & 1 for v in branch) for branch in group), reverse=True)
        for branch, code in zip(group, codes, strict=True):
            for v, bit in zip(branch, code, strict=True):
                ideal = ideal & ~(1 << v) | bit << v
    return ideal
