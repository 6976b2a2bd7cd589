"""A layer's kernels up to symmetry: equal positions of interchangeable branches are one class with a multiplicity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from chipmap.heuristics.dataflow.symmetric.branches import Group, interchangeable
from chipmap.instances.dataflow.problem import DataflowProblem, Option

#: The numbers of options that are alike in what is asked of them.
Alike = tuple[int, ...]


class Link(NamedTuple):
    """The ``tensors`` from class ``u`` to class ``v``: each takes ``waits`` buffers on chip.

    ``made`` and ``taken`` part the options of u and v by what a change of layout costs, ``made`` also by DRAM time and
    buffer; ``converts`` [made][taken] are the picoseconds of the change.
    """

    u: int
    v: int
    tensors: int
    waits: int
    made: tuple[Alike, ...]
    taken: tuple[Alike, ...]
    converts: tuple[tuple[int, ...], ...]


class Classes(NamedTuple):
    """The classes of a layer: the kernels of each, its options, and the links between them.

    ``backward`` says of each class whether it is of the second phase.
    """

    problem: DataflowProblem
    groups: tuple[Group, ...]
    kernels: tuple[tuple[int, ...], ...]
    links: tuple[Link, ...]
    backward: tuple[bool, ...]

    def options(self, c: int) -> tuple[Option, ...]:
        """The options of class c."""
        return self.problem.options[self.kernels[c][0]]

    def size(self, c: int) -> int:
        """How many kernels class c has."""
        return len(self.kernels[c])

    def of(self) -> list[int]:
        """The class of each kernel."""
        where = [0] * self.problem.n
        for c, kernels in enumerate(self.kernels):
            for v in kernels:
                where[v] = c
        return where


def classes(problem: DataflowProblem) -> Classes:
    """The classes of ``problem``'s layer."""
    groups = interchangeable(problem)
    members = [tuple(branch[j] for branch in group) for group in groups for j in range(len(group[0]))]
    grouped = {v for one in members for v in one}
    members += [(v,) for v in range(problem.n) if v not in grouped]
    members.sort()
    where = {v: c for c, one in enumerate(members) for v in one}
    counts, first = Counter[tuple[int, int]](), dict[tuple[int, int], int]()
    for e, (u, v) in enumerate(problem.edges.tolist()):
        counts[where[u], where[v]] += 1
        first.setdefault((where[u], where[v]), e)
    links = tuple(_link(problem, pair, counts[pair], e) for pair, e in first.items())
    kernels = problem.instance.workload.kernels
    backward = tuple(kernels[one[0]].phase == "backward" for one in members)
    return Classes(problem, groups, tuple(members), links, backward)


def _link(problem: DataflowProblem, pair: tuple[int, int], count: int, e: int) -> Link:
    u, v = problem.edges[e].tolist()
    producers, consumers = problem.options[u], problem.options[v]
    change = [[problem.converts(u, v, s, t) for t in range(len(consumers))] for s in range(len(producers))]
    made = alike([(o.dram, o.buffer, *row) for o, row in zip(producers, change, strict=True)])
    taken = alike(list(zip(*change, strict=True)))
    converts = tuple(tuple(change[g[0]][h[0]] for h in taken) for g in made)
    return Link(*pair, count, int(problem.distance[e]) + 1, made, taken, converts)


def alike(keys: Sequence[Hashable]) -> tuple[Alike, ...]:
    """The positions of equal keys, together."""
    found: dict[Hashable, list[int]] = {}
    for number, key in enumerate(keys):
        found.setdefault(key, []).append(number)
    return tuple(tuple(one) for one in found.values())
