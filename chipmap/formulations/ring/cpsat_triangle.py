"""C3, the chip triangle, for CP-SAT: clauses over edge and reach literals, and the necessary clauses of skips."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from chipmap.formulations.cpsat import no
from chipmap.formulations.ring.cpsat_assignment import Builder
from chipmap.instances.ring.precedence import skips

Pair = tuple[int, int]


def c3_triangle_edge(builder: Builder) -> dict[Pair, Any]:
    """C3: on[u, a] and on[v, b] -> edge[a, b] for every flow (u, v) and chips a ≠ b; the edge literals by (a, b).

    One direction suffices: a solver may leave superfluous edges false.
    """
    edge: dict[Pair, Any] = {}
    ordered = builder.problem.has("C1")
    for u, v in builder.problem.flows.tolist():
        for a in builder.domain[u]:
            for b in builder.domain[v]:
                if a < b or (a != b and not ordered):
                    if (a, b) not in edge:
                        edge[a, b] = builder.literal(f"edge[{a},{b}]")
                    builder.clause("c3_triangle_edge", [no(builder.on(u, a)), no(builder.on(v, b)), edge[a, b]])
    return edge


def c3_triangle_reach(builder: Builder, edge: dict[Pair, Any]) -> dict[Pair, Any]:
    """C3: edge -> reach, and reach[a, c] and edge[c, b] -> reach[a, b]; the reach literals by (a, b).

    With C1, reach[a, b] matters only below the last chip that a can feed: the triangle closes on an edge from a.
    """
    farthest: dict[int, int] = {}
    for a, b in edge:
        farthest[a] = max(farthest.get(a, b), b)
    ordered = builder.problem.has("C1")
    chips = range(builder.problem.chips)
    wanted = [(a, b) for a in chips for b in chips if a != b and a in farthest]
    if ordered:
        wanted = [(a, b) for a, b in wanted if a < b < farthest[a]]
    reach = {pair: builder.literal(f"reach[{pair[0]},{pair[1]}]") for pair in wanted}
    for pair in wanted:
        if pair in edge:
            builder.clause("c3_triangle_reach", [~edge[pair], reach[pair]])
    for (a, c), (c_, b) in _steps(reach, edge):
        if (a, b) in reach:
            builder.clause("c3_triangle_reach", [~reach[a, c], ~edge[c_, b], reach[a, b]])
    return reach


def c3_triangle(builder: Builder, edge: dict[Pair, Any], reach: dict[Pair, Any]) -> None:
    """C3: not edge[a, b], reach[a, c] and edge[c, b] at once, for distinct chips a, c, b (equation 4)."""
    for (a, c), (c_, b) in _steps(reach, edge):
        if (a, b) in edge:
            builder.clause("c3_triangle", [~edge[a, b], ~reach[a, c], ~edge[c_, b]])


def cut_n1(builder: Builder) -> None:
    """Necessary for C1 with C3: w between the ends of a flow (u, v) sits with one of them. Valid for every solution.

    f(u) < c, f(w) = c and f(v) > c exclude each other (:func:`chipmap.instances.ring.precedence.skips`).
    """
    for u, w, v in skips(builder.problem).tolist():
        for c in builder.domain[w]:
            builder.clause("cut_n1", [no(builder.upto(u, c - 1)), no(builder.on(w, c)), builder.upto(v, c)])


def _steps(reach: dict[Pair, Any], edge: dict[Pair, Any]) -> Iterator[tuple[Pair, Pair]]:
    """Pairs (a, c) of reach and (c, b) of edge with a ≠ b."""
    after: dict[int, list[int]] = {}
    for c, b in edge:
        after.setdefault(c, []).append(b)
    for a, c in reach:
        for b in after.get(c, ()):
            if a != b:
                yield (a, c), (c, b)
