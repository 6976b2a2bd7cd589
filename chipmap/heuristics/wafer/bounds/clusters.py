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

**Links.** A triangle with all in x and b in the middle has a and c on either side of b; an edge of b to some p outside
(its *link*) then passes a or c, or p lies between b and it, or p is above or below it. With u for a or c, m for the
least side of p's boxes, half tiles, wires and link together have at least

    min(2·X_u over both u, Y_u over both u, 4·m, Y_b - X_b)

more than the case and the thin sides min(X, Y) of b and p. Proof: let p be apart from b in x, on the side of u.

- p beyond u in x: the link is 2·X_u longer. p between u and b: the tour is 4·X_p longer. p and u apart in y: the tour
  has 2·|y_u - y_b| and the link |y_b - y_p|, together at least (Y_u + Y_p) / 2 tiles.
- p apart from b in y only: the link is Y_b + Y_p long, Y_b - X_b more than X_b and p's thin side.
- Where p is the middle of a triangle of its own, with v on b's side, both ask for more on the same link. If u and v
  are both between p and b but not apart in x, they are apart in y: the wires in y are Y_u + Y_v, as both tours and the
  link join u to v. If u and p are apart in y, and so are v and b, then the wires in y are at least
  max(Y_u + Y_p, Y_v + Y_b), no less than half the sum of all four; as what is asked for is at most Y_b and at most
  Y_p too, that is enough for both. A triangle of p with all in y asks for X_p - Y_p at most, by which the link is
  longer than with p's thin side. In all other cases the two lie in different directions or on different wires.

So edges that are links count with their ends' thin sides, or what :mod:`.links` says, and each triangle with one link
per member.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import combinations, permutations, product
from typing import NamedTuple

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from chipmap.instances.wafer.problem import IntArray, WaferProblem

#: The least share of the kernels in a core.
CORE = 0.8
#: Coefficients (X, Y) of each member.
Parts = list[tuple[int, int]]


class ClusterCase(NamedTuple):
    """Coefficients of one case; where ``link`` >= 0, four times the least side of that member's link is added.

    ``extra``: what the link adds, as member and coefficients.
    """

    parts: Parts
    link: int = -1
    extra: tuple[int, tuple[int, int]] = (0, (0, 0))


class Cases(NamedTuple):
    """Cases of a cluster: ``full`` [cases, members, 4], coefficients of x and y, and what a link adds to them; the same
    as ``coefficients`` [e, 4] with ``chosen`` [cases, members - 1], which one each member but the last (the root) has,
    and ``root`` [cases, 4], those of the root; ``link`` [cases] as in :class:`ClusterCase`."""

    full: IntArray
    coefficients: IntArray
    chosen: IntArray
    root: IntArray
    link: IntArray


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
    """Members of a cluster; the last is its root. Clusters are listed so that the root comes up again later.

    ``links``: the kernel at the other end of each member's link, -1 for none. ``link``: it is an edge that is a link.
    ``looped``: it lies on cycles of the kernel graph, and is no link.
    """

    members: tuple[int, ...]
    shape: Shape
    links: tuple[int, ...]
    looped: bool
    link: bool = False


@dataclass(frozen=True, eq=False)
class Plan:
    """Clusters that form a forest over the kernels, its ``roots``, and the number of other edges at each kernel.

    ``outside`` [n]: kernels outside the core, where the graph has one: a part that stays connected without any one of
    its edges and holds most kernels.
    """

    clusters: tuple[Cluster, ...]
    roots: tuple[int, ...]
    loose: IntArray
    outside: NDArray[np.bool_]

    @property
    def core(self) -> bool:
        """Whether the graph has a core."""
        return not self.outside.all()


def _both(cases: list[ClusterCase]) -> list[ClusterCase]:
    turned = [(case, case.extra[1][::-1]) for case in cases]
    return cases + [ClusterCase([(b, a) for a, b in c.parts], c.link, (c.extra[0], extra)) for c, extra in turned]


def _triangle_cases(linked: tuple[bool, ...] = (False, False, False)) -> list[ClusterCase]:
    rows = [case for middle in range(3) for case in _row_cases(middle, linked[middle])]
    mixed = [ClusterCase([(2, 0) if i == other else (1, 2) for i in range(3)]) for other in range(3)]
    return _both(rows + mixed)


def _row_cases(middle: int, linked: bool) -> list[ClusterCase]:
    """All in x; with what a link of the middle one adds."""
    parts = [(4 if i == middle else 2, 0) for i in range(3)]
    if not linked:
        return [ClusterCase(parts)]
    more = [(middle, (-1, 1))] + [(u, extra) for u in range(3) if u != middle for extra in ((2, 0), (0, 1))]
    cases = [ClusterCase(parts, middle)]
    for at, (x, y) in more:
        cases.append(ClusterCase(parts, extra=(at, (x, y))))
    return cases


def _square_cases() -> list[ClusterCase]:
    rows = [ClusterCase([(2 if i in ends else 4, 0) for i in range(4)]) for ends in combinations(range(4), 2)]
    mixed = []
    for fourth, partner in permutations(range(4), 2):
        for middle in range(4):
            if middle != fourth:
                parts = [(4 if i == middle else 2, 2 if i == partner else 0) for i in range(4)]
                parts[fourth] = (0, 2)
                mixed.append(ClusterCase(parts))
    return [*_both(rows), ClusterCase([(1, 1)] * 4), *_both(mixed)]


def _cases(cases: list[ClusterCase]) -> Cases:
    rows = [
        [(*pair, *(case.extra[1] if i == case.extra[0] else (0, 0))) for i, pair in enumerate(case.parts)]
        for case in cases
    ]
    different = sorted({row for case in rows for row in case[:-1]})
    full = np.array(rows, dtype=np.int64)
    chosen = [[different.index(row) for row in case[:-1]] for case in rows]
    return Cases(
        full,
        np.array(different, dtype=np.int64),
        np.array(chosen, dtype=np.int64),
        full[:, -1].copy(),
        np.array([case.link for case in cases], dtype=np.int64),
    )


def _shape(cases: list[ClusterCase], factor: int) -> Shape:
    across = [case for case in cases if not case.extra[1][1] and not any(b for _, b in case.parts)]
    up = [case for case in cases if not case.extra[1][0] and not any(a for a, _ in case.parts)]
    both = [case for case in cases if case not in across and case not in up]
    return Shape(_cases(cases), _cases(across), _cases(up), _cases(both) if both else None, factor)


#: By number of members; of a triangle by which members have links.
SHAPES = {
    2: _shape(_both([ClusterCase([(1, 0), (1, 0)])]), 1),
    3: _shape(_triangle_cases(), 2),
    4: _shape(_square_cases(), 2),
}
LINKED = {linked: _shape(_triangle_cases(linked), 2) for linked in product((False, True), repeat=3)}


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
    bridges = {(min(edge), max(edge)) for edge in nx.bridges(graph)}
    outside = np.ones(problem.n, bool)
    core: set[int] = max(nx.k_edge_components(graph, 2), key=len) if graph.edges else set()
    if len(core) >= CORE * problem.n and len(bridges) < len(graph.edges):
        outside[list(core)] = False
    links = _links(problem.n, chosen) if outside.all() else [-1] * problem.n
    made = _rooted(problem.n, chosen, bridges, links)
    return Plan(*made, loose, outside)


def _rooted(
    n: int, chosen: list[tuple[int, ...]], bridges: set[tuple[int, int]], links: list[int]
) -> tuple[tuple[Cluster, ...], tuple[int, ...]]:
    """The clusters from the leaves on, and the roots."""
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
                    order.append(_cluster((*others, root), links, chosen[i] not in bridges))
                    seen[list(others)] = True
                    queue.extend(others)
    return tuple(reversed(order)), tuple(roots)


def _links(n: int, chosen: list[tuple[int, ...]]) -> list[int]:
    """[n] for every kernel of just one triangle that an edge joins to another kernel: that kernel; else -1."""
    triangles = Counter(v for vertices in chosen if len(vertices) == 3 for v in vertices)
    links = [-1] * n
    for vertices in chosen:
        if len(vertices) == 2:
            for v, other in (vertices, vertices[::-1]):
                if triangles[v] == 1 and links[v] < 0:
                    links[v] = other
    return links


def _cluster(members: tuple[int, ...], links: list[int], looped: bool) -> Cluster:
    own = tuple(links[v] for v in members)
    if len(members) == 3:
        return Cluster(members, LINKED[own[0] >= 0, own[1] >= 0, own[2] >= 0], own, looped)
    if len(members) == 2 and (own[0] == members[1] or own[1] == members[0]):
        return Cluster(members, SHAPES[2], own, False, True)
    return Cluster(members, SHAPES[len(members)], own, looped)
