"""Combinatorial lower bounds on the period, in ticks, each from a few lines of arithmetic.

All count computation only, so that they hold in every cost mode. The programs ``free`` and ``n1`` over all ideals
dominate them where the lattice is small enough; these always work.
"""

from __future__ import annotations

from dataclasses import dataclass

from chipmap.heuristics.engines.ideals import bits
from chipmap.heuristics.ring.programs.flow_graph import FlowGraph
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


@dataclass(frozen=True)
class SkipConnection:
    """A flow (``producer``, ``reader``; positions in the problem) with everything that lies on paths between its ends.

    ``operations`` counts both ends as well; ``ticks`` and ``weight_bytes`` are sums over them, each constant once.
    Under C1 and C3 all of them are on at most two chips, so that half of either is on one: an operation between the
    ends on a third chip would join the chips of the ends by a longer path.
    """

    producer: int
    reader: int
    operations: int
    ticks: int
    weight_bytes: int


def skip_connections(problem: RingProblem, graph: FlowGraph) -> list[SkipConnection]:
    """For every operation the flow from it with the most work under it (if anything lies between), most work first."""
    ticks = [int(problem.ticks[v]) for v in graph.operation]
    weights = [int(problem.weight_bytes[v]) for v in graph.operation]
    index = {v: i for i, v in enumerate(graph.operation)}
    constants = [(sum(1 << index[v] for v in shared.readers), shared.bytes) for shared in problem.shared]
    best: dict[int, SkipConnection] = {}
    for v in range(graph.n):
        for u in bits(graph.producers[v]):
            between = graph.descendants[u] & graph.ancestors[v]
            if not between:
                continue
            mask = between | 1 << u | 1 << v
            all_ = list(bits(mask))
            work, bytes_ = sum(ticks[w] for w in all_), sum(weights[w] for w in all_)
            bytes_ += sum(size for readers, size in constants if readers & mask)
            found = SkipConnection(graph.operation[u], graph.operation[v], len(all_), work, bytes_)
            if u not in best or (found.ticks, found.weight_bytes) > (best[u].ticks, best[u].weight_bytes):
                best[u] = found
    return sorted(best.values(), key=lambda skip: (-skip.ticks, -skip.weight_bytes, skip.producer))


def skip(problem: RingProblem, graph: FlowGraph) -> int:
    """Under C3: half of the work under the skip connection with the most (0 without any)."""
    if not (problem.has("C3") and problem.has("C1")):
        return 0
    return -(-max((found.ticks for found in skip_connections(problem, graph)), default=0) // 2)


def all_bounds(problem: RingProblem, graph: FlowGraph) -> dict[str, int]:
    """Every bound of this module by name."""
    return {
        "average": average(problem),
        "largest operation": largest(problem),
        "packing": packing(problem),
        "skip": skip(problem, graph),
    }
