"""The contracted lattice's bound: chains of ideals of a sub-order, for graphs with too many ideals.

Keep some operations S (those with most work and link ticks) and contract the others into the gaps between them: what is
left of an ideal I of the whole graph is its *trace* J = I ∩ S, an ideal of the order on S. Whatever I is,

- all of S ∩ I, and what comes before it, lies inside I: at least inner(J) ticks of work;
- all of S outside I, and what comes after it, lies outside I: at most outer(J) ticks of work are inside;
- the storages made by the former and read by the latter cross: at least cut(J) ticks.

Let ∅ = I_0 ⊂ … ⊂ I_K = V, K <= C, be the chain of a mapping with objective <= T (C1 holds, chips that run nothing are
passed over; in ``sum`` and ``sum_forward`` a block costs at least its work). With J_k the trace of I_k:

- inner(J_k) <= k · T and total - outer(J_k) <= (C - k) · T;
- in ``period`` and ``sum_forward`` cut(J_k) <= T, if J_k is reached on a chip before the last;
- the block between has work <= T: work(J_{k+1} ∖ J_k) <= T, and inner(J_{k+1}) - outer(J_k) <= T.

So for each trace k lies in an interval [a, b], and once reached at some k it can be kept until b. If no chain of traces
from ∅ to S keeps to all that, T is refuted: the optimum is at least T + 1. With S = V this is the program ``free``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.deadline import Deadline
from chipmap.heuristics.engines.ideals import IdealFamily, TooManyIdealsError, all_ideals, bits
from chipmap.heuristics.ring.bounds.cuts import least
from chipmap.heuristics.ring.programs.flow_graph import FlowGraph
from chipmap.instances.ring.problem import RingProblem

#: Ideals of the sub-order at most: pairs of them are looked at for every target.
IDEALS = 2000
#: Share of the operations that is kept when there were too many ideals.
SHARE = 0.8


class Traces(NamedTuple):
    """The ideals of the sub-order: bit sets [m, w], and per ideal ``kept`` (its own work), inner, outer and cut."""

    words: NDArray[np.uint64]
    kept: NDArray[np.int64]
    inner: NDArray[np.int64]
    outer: NDArray[np.int64]
    cut: NDArray[np.int64]


def contracted_bound(
    problem: RingProblem, graph: FlowGraph, low: int, high: int, deadline: Deadline = Deadline(), limit: int = IDEALS
) -> int:
    """The least target in [low, high], in ticks, that the contracted lattice doesn't refute (by bisection)."""
    if not problem.has("C1") or not graph.n:
        return low
    found = traces(problem, graph, limit)
    return least(lambda target: refutes(problem, found, target), low, high, deadline)


def traces(problem: RingProblem, graph: FlowGraph, limit: int = IDEALS) -> Traces:
    """The ideals of the largest sub-order tried that has at most ``limit`` of them."""
    ticks = problem.ticks[list(graph.operation)]
    weight = ticks.astype(np.int64)
    index = {v: i for i, v in enumerate(graph.operation)}
    for storage in problem.storages:
        weight[index[storage.producer]] += storage.ticks
    order = np.argsort(-weight, kind="stable").tolist()
    count = graph.n
    while True:
        kept = sorted(order[:count])
        try:
            return _measured(problem, graph, kept, all_ideals(_sub_order(graph, kept).producers, max(limit, count + 1)))
        except TooManyIdealsError:
            count = max(1, int(SHARE * count))


def _sub_order(graph: FlowGraph, kept: list[int]) -> FlowGraph:
    """The order on ``kept`` as a flow graph: every ancestor counts as a producer."""
    place = {v: i for i, v in enumerate(kept)}

    def within(masks: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sum(1 << place[u] for u in bits(masks[v]) if u in place) for v in kept)

    before, after = within(graph.ancestors), within(graph.descendants)
    return FlowGraph(tuple(graph.operation[v] for v in kept), before, after, before, after)


def _measured(problem: RingProblem, graph: FlowGraph, kept: list[int], ideals: IdealFamily) -> Traces:
    ticks = [int(problem.ticks[v]) for v in graph.operation]
    index = {v: i for i, v in enumerate(graph.operation)}
    charged = [(index[s.producer], sum(1 << index[v] for v in s.readers), s.ticks) for s in problem.storages if s.ticks]
    total, everything = sum(ticks), (1 << len(kept)) - 1
    rows = []
    for mask in ideals.masks:
        inside = outside = 0
        for i in bits(mask):
            inside |= graph.ancestors[kept[i]] | 1 << kept[i]
        for i in bits(everything & ~mask):
            outside |= graph.descendants[kept[i]] | 1 << kept[i]
        own = sum(ticks[kept[i]] for i in bits(mask))
        cut = sum(amount for u, readers, amount in charged if inside >> u & 1 and readers & outside)
        rows.append((own, sum(ticks[v] for v in bits(inside)), total - sum(ticks[v] for v in bits(outside)), cut))
    own, inner, outer, cuts = np.array(rows, dtype=np.int64).T
    return Traces(ideals.words, own, inner, outer, cuts)


def refutes(problem: RingProblem, found: Traces, target: int) -> bool:
    """Whether no chain of traces keeps to ``target`` ticks."""
    chips, total = problem.chips, int(found.outer[-1])
    if target <= 0:
        return total > 0
    first = -(-found.inner // target)
    last = chips + (found.outer - total) // target  # C - ⌈(total - outer) / T⌉
    usable = first <= last
    if problem.cost_mode != "sum":
        usable &= found.cut <= target
    soonest = np.full(len(first), chips + 1, dtype=np.int64)
    if usable[0]:
        soonest[0] = 0
    for i in range(len(first)):
        if soonest[i] > last[i]:
            continue
        above = usable & (found.kept - found.kept[i] <= target) & (found.inner - found.outer[i] <= target)
        above &= (first <= last[i] + 1) & (soonest > soonest[i] + 1)
        above[: i + 1] = False
        following = np.flatnonzero(above)
        following = following[((found.words[i] & ~found.words[following]) == 0).all(axis=1)]
        reached = np.maximum(soonest[i] + 1, first[following])
        fits = reached <= last[following]
        soonest[following[fits]] = np.minimum(soonest[following[fits]], reached[fits])
    return bool(soonest[-1] > chips)
