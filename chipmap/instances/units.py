"""Operations that must stay together, as units in a topological order; plain Python, linear in the edges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from chipmap.networks.graph import neighbours, topological


def units_in_order(
    count: int, edges: Sequence[tuple[int, int]], groups: Iterable[Sequence[int]] = (), later: Sequence[bool] = ()
) -> list[list[int]]:
    """The units of ``count`` operations, producers before readers: each group with what lies between its members
    (the strongly connected components of the edges and both directions within a group), each other operation alone.

    Of several units that may come next it takes the one with the first position, those that are ``later`` last.
    Members are sorted.
    """
    tied = list(edges)
    for group in groups:
        tied += zip(group, (*group[1:], *group[:1]), strict=True)
    of = components(count, tied)
    members: list[list[int]] = [[] for _ in range(max(of, default=-1) + 1)]
    for v, unit in enumerate(of):
        members[unit].append(v)
    after: list[set[int]] = [set() for _ in members]
    for u, v in edges:
        if of[u] != of[v]:
            after[of[u]].add(of[v])

    def rank(unit: int) -> tuple[bool, int]:
        first = members[unit][0]
        return bool(later) and later[first], first

    return [members[unit] for unit in topological([list(readers) for readers in after], rank)]


def components(count: int, edges: Iterable[tuple[int, int]]) -> list[int]:
    """The number of each operation's strongly connected component (Tarjan, 1972, without recursion)."""
    readers = neighbours(count, edges)
    number, low, of = [-1] * count, [0] * count, [-1] * count
    stack, found, met = list[int](), 0, 0
    for root in range(count):
        path = [(root, iter(readers[root]))] if number[root] < 0 else []
        while path:
            v, left = path[-1]
            if number[v] < 0:
                number[v] = low[v] = met
                met += 1
                stack.append(v)
            for w in left:
                if number[w] < 0:
                    path.append((w, iter(readers[w])))
                    break
                if of[w] < 0:
                    low[v] = min(low[v], number[w])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[v])
                if low[v] == number[v]:
                    while True:
                        w = stack.pop()
                        of[w] = found
                        if w == v:
                            break
                    found += 1
    return of
