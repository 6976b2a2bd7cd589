"""Boundaries of windows by numbers of chiplets, where paths are too many to list, or their tables take too long.

Tables of numbers (:mod:`chipmap.heuristics.multimodel.tables.counts`) say of each window how many chiplets of each
group a model takes. Paths of free chiplets with these numbers are then laid model by model, a few times in another
order, until all find their chiplets. Cuts along each path come from labels of its real costs. What the tables leave out
is made good by annealing, which begins warmer than from tables of paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.multimodel.columns.pricing import Pricing
from chipmap.heuristics.multimodel.tables.counts import Counts
from chipmap.heuristics.multimodel.tables.paths import Paths
from chipmap.heuristics.multimodel.tables.segmentation import Chain
from chipmap.heuristics.multimodel.windows.boundaries import RATES, Boundaries, Sets
from chipmap.instances.multimodel.problem import IntArray, MultiProblem, Segment

#: Orders of the models, and paths looked at for a model in each.
TRIES, PATHS = 12, 300
#: How much longer than by the tables a real window may be, tried one after the other.
LONGER = (1.0, 1.03, 1.1, 1.3, 1.8)


class Counted(Boundaries):
    """The search over tables of numbers of chiplets."""

    hot = 0.02

    def __init__(self, problem: MultiProblem, counts: Counts, pricing: Pricing, deadline: Deadline) -> None:
        super().__init__(problem, counts, pricing, deadline)
        self.counts, self.random = counts, Random(0)
        self.of = [0] * problem.chiplets
        for k, group in enumerate(counts.groups):
            for c in group.tolist():
                self.of[c] = k

    def _cell(
        self, parts: list[tuple[int, int, int]], known: list[Sets], t: int, masks: list[int], rate: float
    ) -> list[Segment] | None:
        places, wanted, hoped, window = self.pricing.places, list[list[int]](), list[float](), list[Segment]()
        for own, mask in zip(known, masks, strict=True):
            if not (least := places.within(mask, own.values[:, t], 1)):
                return None
            hoped.append(least[0][0])
            wanted.append(self.counts.vectors[places.signature[least[0][1]]].tolist())
        ways = laid(self.problem, self.of, wanted, self.random)
        if ways is None:
            return None
        for (m, low, high), way, energy in zip(parts, ways, hoped, strict=True):
            self.deadline.check()
            chain = Chain(self.problem, (m, low, high - 1), along(self.problem, way), [share * rate for share in RATES])
            latest = float(self.pricing.edges[t + 1])
            tries = (chain.best(len(way) - 1, int(longer * latest), energy) for longer in LONGER)
            found = next((one for one in tries if one is not None), None)
            if found is None:
                return None
            ends = [*found.starts[1:], high]
            window += [(m, a, b - 1, c) for a, b, c in zip(found.starts, ends, way, strict=True)]
        return window


def over(problem: MultiProblem, paths: Paths | Counts, pricing: Pricing, deadline: Deadline) -> Boundaries:
    """The search over tables of paths, or of numbers."""
    kind = Counted if isinstance(paths, Counts) else Boundaries
    return kind(problem, paths, pricing, deadline)  # type: ignore[arg-type]


def along(problem: MultiProblem, way: Sequence[int]) -> Paths:
    """One path and its beginnings, each chiplet a type of its own; signature number s has s + 1 chiplets."""
    every, count = np.arange(problem.chiplets, dtype=np.int64), len(way)
    parent: IntArray = np.arange(count, dtype=np.int64) - 1
    none = np.zeros((0, 1), dtype=np.int64)
    return Paths(every, every, parent, np.array(way, dtype=np.int64), (), (), none[:, 0], none)


def laid(
    problem: MultiProblem, of: Sequence[int], wanted: Sequence[Sequence[int]], random: Random
) -> list[tuple[int, ...]] | None:
    """Disjoint paths of as many chiplets of each group as ``wanted`` [model, group], or where no try finds them, the
    longest ones; None where a model finds no chiplet. ``of`` [chiplet]: its group."""
    best, most, total = None, 0, sum(map(sum, wanted))
    for _ in range(TRIES):
        free, ways = set(range(problem.chiplets)), list[tuple[int, ...]]([()] * len(wanted))
        for m in sorted(range(len(wanted)), key=lambda m: -sum(wanted[m]) * (0.5 + random.random())):
            ways[m] = _way(problem, of, wanted[m], free, random)
            free -= set(ways[m])
        size = sum(map(len, ways))
        if all(ways) and size > most:
            best, most = ways, size
        if most == total:
            break
    return best


def _way(
    problem: MultiProblem, of: Sequence[int], wanted: Sequence[int], free: set[int], random: Random
) -> tuple[int, ...]:
    """A path of free chiplets with these numbers, else the longest one that was looked at; through narrow places first,
    so that the free chiplets stay together."""
    near = problem.neighbours

    def wide_first(some: Sequence[int], path: tuple[int, ...]) -> list[int]:
        open_to = {c: sum(n in free and n not in path for n in near[c]) + random.random() for c in some}
        return sorted(some, key=lambda c: -open_to[c])

    best: tuple[int, ...] = ()
    stack: list[tuple[int, ...]] = [(c,) for c in wide_first([c for c in sorted(free) if wanted[of[c]]], ())]
    for _ in range(PATHS):
        if not stack:
            break
        path = stack.pop()
        best = max(best, path, key=len)
        if len(path) == sum(wanted):
            break
        left = list(wanted)
        for c in path:
            left[of[c]] -= 1
        fitting = [n for n in near[path[-1]] if n in free and n not in path and left[of[n]] > 0]
        stack += [(*path, n) for n in wide_first(fitting, path)]
    return best
