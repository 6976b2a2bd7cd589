"""A layer's kernels up to symmetry: equal positions of interchangeable branches are one class with a multiplicity."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from chipmap.heuristics.dataflow.symmetric.branches import Group, interchangeable
from chipmap.instances.dataflow.alike import Alike, Payers, layout_changes, payers
from chipmap.instances.dataflow.options import Option
from chipmap.instances.dataflow.problem import DataflowProblem


class Link(NamedTuple):
    """The ``tensors`` from class ``u`` to class ``v``: each takes ``waits`` buffers on chip.

    ``made`` and ``taken`` part the options of u and v by what a change of layout costs, ``made`` also by DRAM time and
    buffer; ``converts`` [made][taken] are the least picoseconds for which one of the ``payers`` makes the change.
    """

    u: int
    v: int
    tensors: int
    waits: int
    made: tuple[Alike, ...]
    taken: tuple[Alike, ...]
    converts: tuple[tuple[int, ...], ...]
    payers: Payers = "reader"


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
        where = {v: c for c, kernels in enumerate(self.kernels) for v in kernels}
        return [where[v] for v in range(self.problem.n)]


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
    keys = [(option.dram, option.buffer) for option in problem.options[u]]
    changes = layout_changes(problem, u, v, keys, least=True)
    return Link(*pair, count, int(problem.distance[e]) + 1, *changes, payers(problem, u, v))
