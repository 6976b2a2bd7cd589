"""The flow graph of the computing operations as bit sets.

With C1 and C2 a mapping onto chips 0, 1, … is a chain of its order ideals, of which chip k runs I_{k+1} \\ I_k.
"""

from __future__ import annotations

from dataclasses import dataclass

from chipmap.heuristics.engines.ideals import bits
from chipmap.instances.ring.problem import RingProblem


@dataclass(frozen=True, eq=False)
class FlowGraph:
    """The flows among the computing operations, renumbered 0 … n-1 in topological order.

    ``operation[i]`` is the position of i in the problem; ``producers``/``readers``/``ancestors``/``descendants`` are
    Python integers used as bit sets (bit j: operation j), strict.
    """

    operation: tuple[int, ...]
    producers: tuple[int, ...]
    readers: tuple[int, ...]
    ancestors: tuple[int, ...]
    descendants: tuple[int, ...]

    @property
    def n(self) -> int:
        """Number of computing operations."""
        return len(self.operation)


def flow_graph(problem: RingProblem) -> FlowGraph:
    """The flow graph of ``problem`` as bit sets."""
    operation = tuple(v for v in problem.order if problem.computing[v])
    index = {v: i for i, v in enumerate(operation)}
    n = len(operation)
    producers, readers, ancestors, descendants = [0] * n, [0] * n, [0] * n, [0] * n
    for u, v in problem.flows.tolist():
        producers[index[v]] |= 1 << index[u]
        readers[index[u]] |= 1 << index[v]
    for i in range(n):
        for j in bits(producers[i]):
            ancestors[i] |= ancestors[j] | 1 << j
    for i in reversed(range(n)):
        for j in bits(readers[i]):
            descendants[i] |= descendants[j] | 1 << j
    return FlowGraph(operation, tuple(producers), tuple(readers), tuple(ancestors), tuple(descendants))
