"""Stages that share out kernels, as pieces of one order: a mapping at once.

A restriction, as the pieces themselves (:mod:`.program`): no bound follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from chipmap.heuristics.dataflow.contiguous_partitions.kernel import NEVER, Line, Table
from chipmap.heuristics.dataflow.contiguous_partitions.program import Pieces, starts_of
from chipmap.heuristics.dataflow.program.lattice import TooWideError

#: Times that a stage may be longer than the last one tried, and halvings of what is left then.
LONGER, HALVINGS = 40, 4


class Stage(NamedTuple):
    """A piece of the order that is one stage: its positions, and the number of its partitions where these count."""

    begin: int
    end: int
    pieces: int


def staged(pieces: Pieces, chosen: Sequence[int], stays: bool) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """(partition of each kernel, stage of each partition) of stages of about equal time; None where none were found.

    For a length of a stage, each is as long as that allows, one after the other. Lengths grow by a quarter from an
    equal share of all on, until the stages hold all kernels; then the interval is halved. What stages send to each
    other isn't looked at. Where ``stays``, each stage is one partition, whose weights stay in SRAM; else weights are
    read from DRAM. Raises :class:`TooWideError` where there are too many numbers
    of partitions to count.
    """
    if pieces.problem.instance.asked[1]:
        return None
    of = _Stages(pieces, chosen, stays)
    length, found = of.share, None
    for _ in range(LONGER):
        found = of.divided(length)
        if found is not None:
            break
        length += length // 4 + 1
    if found is None:
        return None
    low, high = length - length // 5 - 1, length
    for _ in range(HALVINGS):
        middle = (low + high) // 2
        other = of.divided(middle)
        low, high, found = (middle, high, found) if other is None else (low, middle, other)
    starts, number = list[int](), list[int]()
    for stage, one in enumerate(found):
        some = starts_of(of.table(one.begin), one.begin, one.end, one.pieces)
        starts, number = starts + some, number + [stage] * len(some)
    return pieces.partitions(starts), tuple(number)


class _Stages:
    """The tables of pieces from those positions on where stages begin."""

    def __init__(self, pieces: Pieces, chosen: Sequence[int], stays: bool) -> None:
        self.pieces, self.count = pieces, len(pieces.order)
        self.most = 1 if stays else pieces.problem.instance.asked[0]
        self.stages = pieces.problem.degrees.pipeline
        self.line: Line = pieces.line(chosen)
        if stays:
            options = [pieces.problem.options[v % pieces.problem.n][chosen[v]] for v in pieces.order]
            self.line = self.line._replace(stream=np.array([option.fetch for option in options], np.int64))
        self.tables: dict[int, Table] = {}
        reached = self.table(0).value.min(axis=1)
        self.share = max(1, int(reached[reached < NEVER].max()) // self.stages)

    def table(self, begin: int) -> Table:
        """The fewest picoseconds from there to each later position, by the number of pieces where it counts.

        Raises :class:`TooWideError` where these are too many.
        """
        if begin not in self.tables:
            capped, fused = (
                None if self.most is None else min(self.most, self.count),
                self.pieces.problem.instance.asked[2],
            )
            made = self.pieces.table(self.line, begin, self.count, capped, fused)
            if made is None:
                raise TooWideError("too many numbers of partitions")
            self.tables[begin] = made
        return self.tables[begin]

    def divided(self, longest: int) -> list[Stage] | None:
        """Stages of at most ``longest`` picoseconds, each up to the last kernel that this allows."""
        found, begin = list[Stage](), 0
        while begin < self.count and len(found) < self.stages:
            least = self.table(begin).value.min(axis=1)
            end = int(np.flatnonzero(least <= longest)[-1])
            if end == begin:
                return None
            found.append(Stage(begin, end, int(self.table(begin).value[end].argmin())))
            begin = end
        return found if begin == self.count else None
