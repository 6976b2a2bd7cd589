"""Tables of tiny instances by listing every segmentation: what programs over compiled tables are compared with."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import combinations

import numpy as np

from chipmap.heuristics.multimodel.baselines import fits
from chipmap.heuristics.multimodel.tables.ranges import Table
from chipmap.heuristics.multimodel.tables.sets import Places
from chipmap.instances.multimodel.problem import MultiProblem, Segment, energy, latency


def simple_paths(problem: MultiProblem) -> Iterator[tuple[int, ...]]:
    """Every path of linked chiplets, none twice."""

    def grow(path: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        yield path
        for c in problem.neighbours[path[-1]]:
            if c not in path:
                yield from grow((*path, c))

    for c in range(problem.chiplets):
        yield from grow((c,))


def kinds(problem: MultiProblem) -> list[int]:
    """The type of each chiplet: equal where all costs and the SRAM are."""
    seen: dict[object, int] = {}
    found = []
    for c in range(problem.chiplets):
        costs = tuple(
            tuple(array[:, c].tolist())
            for model in problem.models
            for array in (
                model.time,
                model.energy,
                model.read_time,
                model.read_energy,
                model.write_time,
                model.write_energy,
                model.weight_energy,
            )
        )
        found.append(seen.setdefault((costs, problem.instance.module.chiplets[c].sram_bytes), len(seen)))
    return found


def segmentations(problem: MultiProblem, m: int, path: tuple[int, ...]) -> Iterator[list[Segment]]:
    """All ranges of a model cut into as many segments as the path has chiplets."""
    layers = problem.models[m].layers
    for first in range(layers):
        for last in range(first + len(path) - 1, layers):
            for cuts in combinations(range(first + 1, last + 1), len(path) - 1):
                firsts, lasts = (first, *cuts), (*(cut - 1 for cut in cuts), last)
                found = [(m, i, j, c) for i, j, c in zip(firsts, lasts, path, strict=True)]
                if all(fits(problem, one) for one in found):
                    yield found


def slow_places(problem: MultiProblem) -> tuple[Places, dict[tuple[int, ...], int]]:
    """Masks of all paths by signature, and the signatures' numbers."""
    of, numbers, pairs = kinds(problem), dict[tuple[int, ...], int](), set()
    for path in simple_paths(problem):
        signature = numbers.setdefault(tuple(of[c] for c in path), len(numbers))
        pairs.add((sum(1 << c for c in path), signature))
    masks, signatures = (np.array(one, dtype=np.int64) for one in zip(*sorted(pairs), strict=True))
    return Places(masks, signatures, len(numbers), problem.chiplets), numbers


def slow_table(problem: MultiProblem, m: int, edges: list[int], numbers: dict[tuple[int, ...], int]) -> Table:
    """The table of one model, exact at every edge."""
    of = kinds(problem)
    least: dict[tuple[int, int, int, int], int] = {}
    done = set()
    for path in simple_paths(problem):
        signature = tuple(of[c] for c in path)
        if signature in done:
            continue
        done.add(signature)
        for segments in segmentations(problem, m, path):
            cell = bisect_left(edges, latency(problem, segments)) - 1
            if cell < len(edges) - 1:
                key = (numbers[signature], segments[0][1], segments[-1][2], max(0, cell))
                cost = energy(problem, segments)
                least[key] = min(cost, least.get(key, cost))
    rows = sorted(least.items(), key=lambda row: (row[0][1:], row[0][0]))  # by layers
    columns = [np.array([key[i] for key, _ in rows], dtype=np.int16) for i in range(4)]
    return Table(columns[0], columns[1], columns[2], columns[3], np.array([float(cost) for _, cost in rows]))


def latencies(problem: MultiProblem) -> list[int]:
    """Every latency of a range, in order: cells that begin just below them lose nothing."""
    found = set()
    for m in range(len(problem.models)):
        for path in simple_paths(problem):
            found |= {latency(problem, one) for one in segmentations(problem, m, path)}
    return sorted(found)
