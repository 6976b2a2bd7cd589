"""Interchangeable branches of a kernel graph, such as the experts of a layer.

Branches are interchangeable if every permutation of them is an automorphism: it maps mappings to mappings of the same
cost. They are found by colour refinement (equal kernels with equally coloured makers and readers keep one colour).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

import networkx as nx

from chipmap.instances.dataflow.problem import DataflowProblem
from chipmap.networks.graph import neighbours, topological

#: The kernels of interchangeable branches: [branch][position], equal kernels at equal positions.
Group = tuple[tuple[int, ...], ...]


def interchangeable(problem: DataflowProblem) -> tuple[Group, ...]:
    """The groups of at least two interchangeable branches in a layer; no kernel is in two.

    A branch is a connected set of kernels that have equals elsewhere. Kernels that the task pins in any way are
    equal to no other. What has more symmetry inside a branch is told apart by the kernels' order, which may miss
    branches but never makes any up.
    """
    edges = problem.edges.tolist()
    graph = nx.Graph(edges)
    graph.add_nodes_from(range(problem.n))
    task = problem.instance.task
    pinned = {name for group in (*task.together, *task.apart) for name in group}
    pinned |= {pin.kernel for pin in task.pins} | {one.kernel for one in task.forbidden}
    kernels = (k.replace(name=k.name if k.name in pinned else "") for k in problem.instance.workload.kernels)
    colours = _numbered(list(zip(kernels, problem.options, strict=True)))
    while True:
        colours = _refined(colours, edges)
        repeated = {colour for colour, count in Counter(colours).items() if count > 1}
        several = [v for v, colour in enumerate(colours) if colour in repeated]
        parts = sorted(map(sorted, nx.connected_components(graph.subgraph(several))))
        ranks = [0] * problem.n
        for part in parts:
            seen = Counter[int]()
            for v in part:
                ranks[v] = seen[colours[v]]
                seen[colours[v]] += 1
        if not any(ranks):
            break
        colours = _numbered(list(zip(colours, ranks, strict=True)))
    groups: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for part in parts:
        branch = sorted(part, key=lambda v: colours[v])
        groups.setdefault(tuple(colours[v] for v in branch), []).append(tuple(branch))
    return tuple(_in_order(branches, edges) for branches in groups.values() if len(branches) > 1)


def _numbered(keys: Sequence[Hashable]) -> list[int]:
    number = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    return [number[key] for key in keys]


def _refined(colours: list[int], edges: Sequence[tuple[int, int]]) -> list[int]:
    """The coarsest colouring finer than ``colours`` in which equal kernels have equally coloured neighbours."""
    while True:
        before: list[list[int]] = [[] for _ in colours]
        after: list[list[int]] = [[] for _ in colours]
        for u, v in edges:
            before[v].append(colours[u])
            after[u].append(colours[v])
        keys = [
            (colour, tuple(sorted(a)), tuple(sorted(b))) for colour, a, b in zip(colours, before, after, strict=True)
        ]
        finer = _numbered(keys)
        if len(set(finer)) == len(set(colours)):
            return finer
        colours = finer


def _in_order(branches: list[tuple[int, ...]], edges: Sequence[tuple[int, int]]) -> Group:
    """The same branches with their positions in a topological order."""
    first = branches[0]
    place = {v: j for j, v in enumerate(first)}
    inside = ((place[u], place[v]) for u, v in edges if u in place and v in place)
    order = topological(neighbours(len(first), inside))
    return tuple(tuple(branch[j] for j in order) for branch in branches)
