"""Who comes before whom: reachability, and the skip connections that C3 forbids to spread."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chipmap.instances.ring.problem import IntArray, RingProblem
from chipmap.networks.graph import neighbours
from chipmap.records import kept

BoolMatrix = NDArray[np.bool_]


def reachable(problem: RingProblem) -> BoolMatrix:
    """[n, n]: whether a path of zero or more edges of the graph leads from u to v (with C1, f(u) <= f(v))."""
    return kept(problem, "_reachable", lambda one: _closure(one, one.edges))


def flow_reachable(problem: RingProblem) -> BoolMatrix:
    """[n, n]: whether a path of zero or more flows leads from u to v."""
    return kept(problem, "_flow_reachable", lambda one: _closure(one, one.flows))


def _closure(problem: RingProblem, pairs: NDArray[np.int32]) -> BoolMatrix:
    below = np.eye(problem.n, dtype=np.bool_)
    after = neighbours(problem.n, pairs.tolist())
    for u in reversed(problem.order):
        for v in after[u]:
            below[u] |= below[v]
    return below


def between(problem: RingProblem, u: int, v: int) -> IntArray:
    """The operations strictly between u and v on paths of flows."""
    below = flow_reachable(problem)
    inside = below[u] & below[:, v]
    inside[[u, v]] = False
    return np.flatnonzero(inside)


def skips(problem: RingProblem) -> IntArray:
    """Triples (u, w, v): a flow (u, v) and an operation w between its ends, for all flows inside no other flow.

    C1 and C3 put w with u or with v: else chip f(u) would feed f(v) both directly and by way of f(w). A flow inside
    another (both its ends on paths between the other's ends) adds nothing: its ends and all between them are already
    on the two chips of the outer one.
    """
    return kept(problem, "_skips", _skips)


def _skips(problem: RingProblem) -> IntArray:
    below = flow_reachable(problem)
    flows = [(u, v, inside) for u, v in problem.flows.tolist() if len(inside := between(problem, u, v))]
    if not flows:
        return np.zeros((0, 3), dtype=np.int64)
    u, v = np.array([flow[:2] for flow in flows]).T
    within = below[np.ix_(u, u)] & below[np.ix_(v, v)].T
    np.fill_diagonal(within, False)
    outer = np.flatnonzero(~within.any(axis=0)).tolist()
    triples = [(flows[i][0], w, flows[i][1]) for i in outer for w in flows[i][2].tolist()]
    return np.array(triples, dtype=np.int64)


def last_readers(problem: RingProblem, readers: tuple[int, ...]) -> tuple[int, ...]:
    """The readers with no other reader after them: with C1, one of them is the farthest."""
    if not problem.has("C1"):
        return readers
    below = reachable(problem)
    return tuple(v for v in readers if below[v, list(readers)].sum() == 1)


def steps_alive(problem: RingProblem) -> list[tuple[int, ...]]:
    """Sets of storages that are alive at one step of the order of execution if they stay on one chip (maximal ones).

    Whatever the chip, the peak of the bytes made and read on it only is the largest of its sums over these sets: at
    any step, those that stay on the chip were all alive when the chip ran the latest of their producers.
    """
    rank = {v: i for i, v in enumerate(problem.order)}
    lives = [(rank[s.producer], max(rank[v] for v in s.readers)) for s in problem.storages]
    sized = [t for t, storage in enumerate(problem.storages) if storage.bytes]
    sets = {frozenset(t for t in sized if lives[t][0] <= step <= lives[t][1]) for step in {lives[t][0] for t in sized}}
    maximal = [alive for alive in sets if not any(alive < other for other in sets)]
    return sorted(tuple(sorted(alive)) for alive in maximal)
