"""Mappings of graphs with too many ideals: the exact program on fewer of them, with fewer schemes.

Two restrictions, neither of which loses what the checker asks: kernels of a class (equal positions of interchangeable
branches) have the same scheme, and a kernel may be at most ``window`` places ahead of another in one linear order of
all kernels (window 1: partitions are pieces of that order, as many ideals as kernels). What the program finds is the
best under both; it bounds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice, product
from typing import NamedTuple

from chipmap.heuristics.dataflow.program.graph import topological
from chipmap.heuristics.dataflow.program.label_setting import NO_LIMIT
from chipmap.heuristics.dataflow.program.lattice import TooWideError
from chipmap.heuristics.dataflow.program.program import Program
from chipmap.heuristics.dataflow.symmetric.classes import Classes
from chipmap.instances.dataflow.problem import DataflowProblem, wires

#: Combinations of schemes of classes that are all tried; ideals of a restricted program.
COMBINATIONS, IDEALS = 100, 4000
#: The number of an option, by class.
Schemes = Mapping[int, int]


class Found(NamedTuple):
    """A mapping: picoseconds of a layer, partition and option of each kernel."""

    ticks: int
    partitions: tuple[int, ...]
    chosen: tuple[int, ...]


class Narrow:
    """Restricted programs of one problem. ``most``, ``exactly``, ``fused``, ``layers``: as in the program; ``labels``:
    the most that a program may make."""

    def __init__(self, classes: Classes, most: int | None, exactly: bool, fused: bool, layers: int = 1) -> None:
        self.classes, self.most, self.exactly, self.fused, self.layers = classes, most, exactly, fused, layers
        problem, self.labels = classes.problem, 2**62
        later = [kernel.phase == "backward" for kernel in problem.instance.workload.kernels]
        self.order = topological(problem.n * layers, wires(problem, layers), later * layers)
        self.of = classes.of()

    def solve(
        self,
        schemes: Schemes,
        window: int,
        *,
        upper: int = NO_LIMIT,
        resident: bool = False,
        cached: bool = False,
        limit: int = IDEALS,
    ) -> Found | None:
        """The best mapping below ``upper`` with these schemes of classes (all of those that it doesn't name).

        Raises :class:`TooWideError` where there are still too many ideals, or schemes open at once.
        """
        pinned = self._pinned(schemes)
        after = [(self.order[i], self.order[i + window]) for i in range(len(self.order) - window)]
        layers, labels = self.layers, self.labels
        program = Program(pinned, layers, resident=resident, cached=cached, limit=limit, after=after, labels=labels)
        if resident:
            chain = program.best(1, True, self.fused, below=upper)
        else:
            chain = program.best(self.most, self.exactly, self.fused, below=upper)
        if chain is None:
            return None
        chosen = tuple(schemes.get(self.of[v % len(self.of)], option) for v, option in enumerate(chain.chosen))
        return Found(chain.ticks, chain.partitions, chosen)

    def _pinned(self, schemes: Schemes) -> DataflowProblem:
        problem = self.classes.problem
        options = [
            (choice[schemes[self.of[v]]],) if self.of[v] in schemes else choice
            for v, choice in enumerate(problem.options)
        ]
        return replace(problem, options=tuple(options))

    def combinations(self) -> Iterator[dict[int, int]]:
        """Schemes for the classes of several kernels: all combinations where there are few, else some."""
        several = [c for c, kernels in enumerate(self.classes.kernels) if len(kernels) > 1]
        ranges = [range(len(self.classes.options(c))) for c in several]
        for numbers in islice(product(*ranges), COMBINATIONS):
            yield dict(zip(several, numbers, strict=True))

    def cheapest(self) -> dict[int, int]:
        """For each class the scheme with the least compute, weights' time and sums, whatever is around it."""
        return {
            c: min(range(len(options)), key=lambda o: options[o].compute + options[o].stream + options[o].collective)
            for c in range(len(self.classes.kernels))
            for options in (self.classes.options(c),)
        }

    def first(self, keep_going: Callable[[], bool], found: Callable[[Found], None]) -> Schemes | None:
        """Pieces of the linear order, for every combination of schemes: the schemes of the best (None: none fits)."""
        best: tuple[int, Schemes] | None = None
        for schemes in [self.cheapest(), *self.combinations()]:
            if not keep_going():
                break
            try:
                one = self.solve(schemes, 1)
            except TooWideError:
                continue
            if one is not None:
                found(one)
                if best is None or one.ticks < best[0]:
                    best = one.ticks, schemes
        return None if best is None else best[1]


__all__ = ["Found", "Narrow", "Schemes"]
