"""Minimum cuts over the ideals of the flow graph (Picard's closure construction), with prices on operations."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chipmap.heuristics.ring.programs.flow_graph import FlowGraph
from chipmap.instances.ring.problem import IntArray, RingProblem

BoolArray = NDArray[np.bool_]
#: An arc that no minimum cut takes, and what all other capacities sum up to at most: flows are computed in 32 bits.
INFINITE, MOST = 1 << 30, 1 << 29


def relation(masks: tuple[int, ...], n: int) -> BoolArray:
    """[n, n]: row v the operations of ``masks[v]``, and v."""
    width = (n + 7) // 8
    data = b"".join(mask.to_bytes(width, "little") for mask in masks)
    rows = np.frombuffer(data, dtype=np.uint8).reshape(n, width)
    found = np.unpackbits(rows, axis=1, bitorder="little")[:, :n].astype(bool)
    found[np.arange(n), np.arange(n)] = True
    return found


class ClosureCuts:
    """The flow network of minimum cuts: node 0 is the source, 1 the sink, then operations, then storages.

    Its arcs stay; only the capacities from the source and to the sink say what is inside and outside, and what
    operations cost. Capacities are those of the problem divided by ``scale`` and rounded down.
    """

    def __init__(self, problem: RingProblem, graph: FlowGraph) -> None:
        from scipy.sparse import csr_array

        n, index = graph.n, {v: i for i, v in enumerate(graph.operation)}
        charged = [storage for storage in problem.storages if storage.ticks]
        self.producer = np.array([index[s.producer] for s in charged], dtype=np.int64)
        pairs = [(s, index[v]) for s, storage in enumerate(charged) for v in storage.readers]
        self.storage, self.reader = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        self.amounts = np.array([s.ticks for s in charged], dtype=np.int64)
        self.scale = int(self.amounts.sum()) // MOST + 1
        index_of = np.full(problem.n, -1, dtype=np.int64)
        index_of[list(graph.operation)] = np.arange(n)
        u, v = index_of[problem.flows.T]
        every, storages = 2 + np.arange(n), 2 + n + np.arange(len(charged))
        tails = np.concatenate((np.zeros(n, dtype=np.int64), every, 2 + v, 2 + self.producer, storages[self.storage]))
        heads = np.concatenate((every, np.ones(n, dtype=np.int64), 2 + u, storages, 2 + self.reader))
        room = np.full(len(tails), INFINITE, dtype=np.int32)
        room[2 * n + len(u) : 2 * n + len(u) + len(charged)] = self.amounts // self.scale
        nodes = 2 + n + len(charged)
        order = np.lexsort((heads, tails))
        place = np.empty(len(tails), dtype=np.int64)
        place[order] = np.arange(len(tails))
        self.first, self.last = place[:n], place[n : 2 * n]
        starts = np.searchsorted(tails[order], np.arange(nodes + 1)).astype(np.int32)
        self.arcs = csr_array((room[order], heads[order].astype(np.int32), starts), shape=(nodes, nodes))

    def cut(self, ideal: BoolArray) -> int:
        """The ticks of the storages made in ``ideal`` and read outside it."""
        crossing = np.zeros(len(self.amounts), dtype=bool)
        crossing[self.storage[~ideal[self.reader]]] = True
        return int(self.amounts[crossing & ideal[self.producer]].sum())

    def least(
        self, inside: BoolArray, outside: BoolArray, missed: IntArray | None = None, taken: IntArray | None = None
    ) -> tuple[int, BoolArray, BoolArray]:
        """(a lower bound on cut(I) + scale · (``missed`` of what is outside I + ``taken`` of what is in I) over the
        ideals I with ``inside`` and nothing of ``outside``, the least and the greatest I of that value up to rounding).

        Each of ``missed`` and ``taken`` [n] may add up to MOST.
        """
        from scipy.sparse.csgraph import breadth_first_order, maximum_flow

        n = len(inside)
        self.arcs.data[self.first] = np.where(inside, INFINITE, 0 if missed is None else missed)
        self.arcs.data[self.last] = np.where(outside, INFINITE, 0 if taken is None else taken)
        found = maximum_flow(self.arcs, 0, 1)
        left = self.arcs - found.flow
        left.eliminate_zeros()
        least, rest = np.zeros((2, self.arcs.shape[0]), dtype=bool)
        least[breadth_first_order(left, 0, return_predecessors=False)] = True
        rest[breadth_first_order(left.T.tocsr(), 1, return_predecessors=False)] = True
        return self.scale * int(found.flow_value), least[2 : 2 + n], ~rest[2 : 2 + n]
