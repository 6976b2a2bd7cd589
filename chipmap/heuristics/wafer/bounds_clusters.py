"""Edges of the kernel graph in clusters whose least wire in two dimensions is known: bridges, triangles, 4-cycles.

In half tiles, for rectangles i of X_i × Y_i that do not overlap, wires from centre to centre:

- An edge is at least X_i + X_j or at least Y_i + Y_j long: two rectangles are apart in x or in y.
- Three (four) centres whose bounding box is Rx × Ry have a closed tour of at least 2·(Rx + Ry) tiles. Each pair is
  apart in x or in y; for three
    all in x: Rx = half of X_1 + X_2 + X_3 + X_middle;
    b and c in y, a in x from both: Rx >= (X_a + max(X_b, X_c)) / 2, Ry >= (Y_b + Y_c) / 2;
  and for four
    all in x: Rx = ΣX - (X_first + X_last) / 2;
    three of them in x and some pair in y: as for three in x, plus Ry of the pair (one of it is the fourth);
    otherwise both graphs of pairs contain two disjoint edges: Rx >= ΣX / 4, Ry >= ΣY / 4;
  and the same with x and y exchanged.

Every case is a sum over the members of coefficients times (X, Y), so that a program over states can choose the case.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, permutations
from typing import NamedTuple

import networkx as nx
import numpy as np

from chipmap.instances.wafer.costs import IntArray, WaferProblem

#: Coefficients (X, Y) of each member, for one case.
Case = list[tuple[int, int]]


class Cases(NamedTuple):
    """Cases of a cluster: ``full`` [cases, members, 2]; the same as ``coefficients`` [e, 2] with ``chosen`` [cases,
    members - 1], which one each member but the last (the root) has, and ``root`` [cases, 2], those of the root."""

    full: IntArray
    coefficients: IntArray
    chosen: IntArray
    root: IntArray


class Shape(NamedTuple):
    """The cases of a cluster: all, those with parts in x only, in y only, in both (None: there are none).

    An argument on which not all members agree costs at least ``factor`` adapters.
    """

    every: Cases
    across: Cases
    up: Cases
    both: Cases | None
    factor: int


@dataclass(frozen=True)
class Cluster:
    """Members of a cluster; the last is its root. Clusters are listed so that the root comes up again later."""

    members: tuple[int, ...]
    shape: Shape


@dataclass(frozen=True, eq=False)
class Plan:
    """Clusters that form a forest over the kernels, its ``roots``, and the number of other edges at each kernel."""

    clusters: tuple[Cluster, ...]
    roots: tuple[int, ...]
    loose: IntArray


def _both(cases: list[Case]) -> list[Case]:
    return cases + [[(b, a) for a, b in case] for case in cases]


def _edge_cases() -> list[Case]:
    return _both([[(1, 0), (1, 0)]])


def _triangle_cases() -> list[Case]:
    rows = [[(4 if i == middle else 2, 0) for i in range(3)] for middle in range(3)]
    mixed = [[(2, 0) if i == alone else (1, 2) for i in range(3)] for alone in range(3)]
    return _both(rows + mixed)


def _square_cases() -> list[Case]:
    rows = [[(2 if i in ends else 4, 0) for i in range(4)] for ends in combinations(range(4), 2)]
    mixed = []
    for fourth, partner in permutations(range(4), 2):
        for middle in range(4):
            if middle != fourth:
                case = [(4 if i == middle else 2, 2 if i == partner else 0) for i in range(4)]
                case[fourth] = (0, 2)
                mixed.append(case)
    return [*_both(rows), [(1, 1)] * 4, *_both(mixed)]


def _cases(cases: list[Case]) -> Cases:
    different = sorted({pair for case in cases for pair in case[:-1]})
    full = np.array(cases, dtype=np.int64)
    chosen = [[different.index(pair) for pair in case[:-1]] for case in cases]
    return Cases(full, np.array(different, dtype=np.int64), np.array(chosen, dtype=np.int64), full[:, -1].copy())


def _shape(cases: list[Case], factor: int) -> Shape:
    across = [case for case in cases if not any(b for _, b in case)]
    up = [case for case in cases if not any(a for a, _ in case)]
    both = [case for case in cases if case not in across and case not in up]
    return Shape(_cases(cases), _cases(across), _cases(up), _cases(both) if both else None, factor)


SHAPES = {2: _shape(_edge_cases(), 1), 3: _shape(_triangle_cases(), 2), 4: _shape(_square_cases(), 2)}


def _cycles(graph: nx.Graph[int]) -> list[tuple[int, ...]]:
    """All triangles, then all 4-cycles without chord."""
    triangles: list[tuple[int, ...]] = [
        (a, b, c) for a, b in graph.edges for c in nx.common_neighbors(graph, a, b) if max(a, b) < c
    ]
    squares: list[tuple[int, ...]] = []
    for a in graph:
        for b, d in combinations(sorted(graph[a]), 2):
            if a < b and not graph.has_edge(b, d):
                for c in set(graph[b]) & set(graph[d]):
                    if c > a and not graph.has_edge(a, c):
                        squares.append((a, b, c, d))
    return triangles + squares


def plan(problem: WaferProblem) -> Plan:
    """A spanning cactus of triangles, 4-cycles and edges, found greedily; the edges left over are ``loose``."""
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(problem.n))
    edges = [(min(u, v), max(u, v)) for u, v in problem.edges.tolist()]
    graph.add_edges_from(edges)
    trees = nx.utils.UnionFind(range(problem.n))
    chosen: list[tuple[int, ...]] = []
    loose = np.zeros(problem.n, np.int64)
    np.add.at(loose, problem.edges.reshape(-1), 1)
    for vertices in _cycles(graph) + sorted(graph.edges):
        if len({trees[v] for v in vertices}) == len(vertices):
            trees.union(*vertices)
            chosen.append(vertices)
            loose[list(vertices)] -= 1 if len(vertices) == 2 else 2
    return _rooted(problem.n, chosen, loose)


def _rooted(n: int, chosen: list[tuple[int, ...]], loose: IntArray) -> Plan:
    at: list[list[int]] = [[] for _ in range(n)]
    for i, vertices in enumerate(chosen):
        for v in vertices:
            at[v].append(i)
    order: list[Cluster] = []
    roots = []
    seen = np.zeros(n, bool)
    done = np.zeros(len(chosen), bool)
    for first in range(n):
        if seen[first]:
            continue
        roots.append(first)
        seen[first], queue = True, [first]
        for root in queue:
            for i in at[root]:
                if not done[i]:
                    done[i] = True
                    others = tuple(v for v in chosen[i] if v != root)
                    order.append(Cluster((*others, root), SHAPES[len(others) + 1]))
                    seen[list(others)] = True
                    queue.extend(others)
    return Plan(tuple(reversed(order)), tuple(roots), loose)
