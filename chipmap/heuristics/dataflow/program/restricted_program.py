"""Mappings of graphs with too many ideals: the exact program on fewer of them, with fewer schemes.

There are two restrictions. Kernels of a class (equal positions of interchangeable branches) have the same scheme. And a
kernel may be at most ``window`` places ahead of another in one linear order of all kernels; with a window of 1
partitions are pieces of that order, and there are as many ideals as kernels. Every mapping that is found is one of the
problem, and the best under both restrictions. No bound follows from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice, product

from chipmap.deadline import Deadline
from chipmap.heuristics.dataflow.program.label_setting import NO_LIMIT
from chipmap.heuristics.dataflow.program.lattice import TooWideError
from chipmap.heuristics.dataflow.program.program import Chain, Program
from chipmap.heuristics.dataflow.symmetric.classes import Classes
from chipmap.instances.dataflow.problem import DataflowProblem, wires
from chipmap.networks.graph import neighbours, topological

#: Combinations of schemes of classes that are all tried; ideals of a restricted program.
COMBINATIONS, IDEALS = 100, 4000
#: The number of an option, by class.
Schemes = Mapping[int, int]


class RestrictedProgram:
    """Restricted programs of one problem. ``most``, ``exactly``, ``fused``, ``layers`` are as in the program;
    ``most_labels`` are the labels that a program may make."""

    def __init__(self, classes: Classes, most: int | None, exactly: bool, fused: bool, layers: int = 1) -> None:
        self.classes, self.most, self.exactly, self.fused, self.layers = classes, most, exactly, fused, layers
        problem, self.most_labels = classes.problem, 2**62
        later = [kernel.phase == "backward" for kernel in problem.instance.workload.kernels]
        self.order = topological(neighbours(problem.n * layers, wires(problem, layers)), (later * layers).__getitem__)
        self.of = classes.of()

    def solve(
        self,
        schemes: Schemes,
        window: int,
        *,
        upper: int = NO_LIMIT,
        resident: bool = False,
        cached: bool = False,
    ) -> Chain | None:
        """The best mapping below ``upper`` with these schemes of classes (all of those that it doesn't name).

        Raises :class:`TooWideError` where there are still too many ideals, or schemes open at once.
        """
        pinned = self._pinned(schemes)
        after = list(zip(self.order, self.order[window:], strict=False))
        stays, most_labels = {"resident": resident, "cached": cached}, self.most_labels
        program = Program(pinned, self.layers, **stays, limit=IDEALS, after=after, most_labels=most_labels)
        most, exactly = (1, True) if resident else (self.most, self.exactly)
        chain = program.best(most, exactly, self.fused, below=upper)
        if chain is None:
            return None
        options = enumerate(chain.chosen)
        return chain._replace(chosen=tuple(schemes.get(self.of[v % len(self.of)], option) for v, option in options))

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

    def best_schemes(self, deadline: Deadline, found: Callable[[Chain], None]) -> Schemes | None:
        """Try every combination of schemes with partitions that are pieces of the linear order.

        ``found`` hears of every mapping. Returns the schemes of the best one (None: none fits).
        """
        best: tuple[int, Schemes] | None = None
        for schemes in [self.cheapest(), *self.combinations()]:
            if not deadline.keep_going():
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
