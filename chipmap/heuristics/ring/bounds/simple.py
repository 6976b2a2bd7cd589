"""Combinatorial lower bounds on the period, in ticks, each from a few lines of arithmetic.

All count computation only, so that they hold in every cost mode. The programs ``free`` and ``n1`` over all ideals
dominate them where the lattice is small enough; these always work.
"""

from __future__ import annotations

from chipmap.heuristics.ring.programs.ideals import FlowGraph, bits
from chipmap.instances.ring.problem import RingProblem


def average(problem: RingProblem) -> int:
    """⌈total work / C⌉: some chip has at least its share."""
    return -(-problem.total_ticks // problem.chips)


def largest(problem: RingProblem) -> int:
    """The longest operation: some chip runs it."""
    return int(problem.ticks.max(initial=0))


def packing(problem: RingProblem) -> int:
    """Of the k·C + 1 longest operations some chip runs k + 1: the sum of the k + 1 shortest of them, for the best k.

    (The classical packing bound of assembly-line balancing, SALBP-2; k = 1 is "two per chip".)
    """
    ticks = sorted((int(t) for t in problem.ticks[problem.computing]), reverse=True)
    chips, best = problem.chips, 0
    for k in range(1, (len(ticks) - 1) // chips + 1):
        best = max(best, sum(ticks[k * chips - k : k * chips + 1]))
    return best


def skip(problem: RingProblem, graph: FlowGraph) -> int:
    """Under C3: a flow (u, v) with everything strictly between lies on at most two chips: half of that work.

    (An operation between u and v on a third chip would join the chips of u and v by a longer path.)
    """
    if not (problem.has("C3") and problem.has("C1")):
        return 0
    ticks = [int(problem.ticks[v]) for v in graph.operation]
    best = 0
    for v in range(graph.n):
        for u in bits(graph.producers[v]):
            between = graph.descendants[u] & graph.ancestors[v]
            best = max(best, ticks[u] + ticks[v] + sum(ticks[w] for w in bits(between)))
    return -(-best // 2)


def all_bounds(problem: RingProblem, graph: FlowGraph) -> dict[str, int]:
    """Every bound of this module by name."""
    return {
        "average": average(problem),
        "largest operation": largest(problem),
        "packing": packing(problem),
        "skip": skip(problem, graph),
    }
