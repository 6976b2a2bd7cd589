"""A graph of operations as numbers for a network: one table of features, for the graphs of every family.

With n operations, Σ over all of them, and in(v) and out(v) the distinct producers and readers of v:

==================  =====================================================  ==========
column              feature of operation v                                 range
==================  =====================================================  ==========
``work``            log(1 + n · work(v) / Σ work)                          0 to log n
``flop``            log(1 + n · FLOP(v) / Σ FLOP)                          0 to log n
``weights``         log(1 + n · weight bytes(v) / Σ weight bytes)          0 to log n
``output``          log(1 + n · output bytes(v) / Σ output bytes)          0 to log n
``in``, ``out``     log(1 + number of in(v)), log(1 + number of out(v))    0 to log n
``depth``           edges of the longest path to v / those of the graph    0 to 1
``height``          edges of the longest path from v / those of the graph  0 to 1
``position``        (work before v in an order + work(v) / 2) / Σ work     0 to 1
``kind 0`` to 15    1 for the CRC-32 of the kind's name modulo 16          0 or 1
==================  =====================================================  ==========

Sums that are 0 leave their columns 0. The order is the problem's own topological one: ``position`` depends on it where
operations are incomparable; every other column depends on the graph alone. No column depends on units or on the number
of chips.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chipmap.instances.placement.problem import PlacementProblem
from chipmap.instances.ring.problem import RingProblem

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: Columns for the kinds of operations.
KINDS = 16
COLUMNS = (
    *("work", "flop", "weights", "output", "in", "out", "depth", "height", "position"),
    *(f"kind {k}" for k in range(KINDS)),
)


@dataclass(frozen=True, eq=False)
class Graph:
    """n operations: ``kinds`` [n] names; ``work`` [n] in any unit, ``flop``, ``weights`` and ``output`` [n] (bytes);
    ``edges`` [m, 2] from producers to readers, distinct; ``order`` [n], a topological one."""

    kinds: Sequence[str]
    work: Floats
    flop: Floats
    weights: Floats
    output: Floats
    edges: Integers
    order: Integers

    @property
    def n(self) -> int:
        """Number of operations."""
        return len(self.kinds)


def of_ring(problem: RingProblem) -> Graph:
    """The operations of a ring problem that holds computing ones alone; work is their time in ticks."""
    operations = problem.instance.graph.operations[-problem.n :] if problem.n else ()
    output = np.zeros(problem.n)
    for storage in problem.storages:
        output[storage.producer] += storage.bytes
    return Graph(
        kinds=[operation.kind for operation in operations],
        work=problem.ticks.astype(np.float64),
        flop=np.array([operation.flop for operation in operations], dtype=np.float64),
        weights=problem.weight_bytes.astype(np.float64),
        output=output,
        edges=problem.flows.astype(np.int64),
        order=np.array(problem.order, dtype=np.int64),
    )


def of_placement(problem: PlacementProblem) -> Graph:
    """The placed operations of a placement problem; work is their least time in ns over the devices allowed."""
    operations = [problem.instance.graph.operations[v] for v in problem.position.tolist()]
    storages, output = problem.storages, np.zeros(problem.operations)
    np.add.at(output, storages.producer, storages.bytes)
    edges = np.column_stack((storages.sources, storages.readers))
    longest = problem.time.max(initial=0)
    return Graph(
        kinds=[one.kind for one in operations],
        work=np.where(problem.allowed, problem.time, longest).min(axis=1, initial=longest).astype(np.float64),
        flop=np.array([one.flop for one in operations], dtype=np.float64),
        weights=problem.weights.astype(np.float64),
        output=output,
        edges=np.unique(edges, axis=0).reshape(-1, 2),
        order=problem.order,
    )


def table(graph: Graph) -> Floats:
    """[n, :data:`COLUMNS`] features."""
    degree = [np.bincount(graph.edges[:, side], minlength=graph.n) for side in (1, 0)]
    depth, height = _longest(graph, 0), _longest(graph, 1)
    kinds = np.zeros((graph.n, KINDS))
    kinds[np.arange(graph.n), [zlib.crc32(kind.encode()) % KINDS for kind in graph.kinds]] = 1.0
    shares = [_relative(part) for part in (graph.work, graph.flop, graph.weights, graph.output)]
    longest = max(1.0, float(depth.max(initial=0.0)))
    columns = [*shares, *np.log1p(degree), depth / longest, height / longest, position(graph)]
    return np.column_stack((*columns, kinds))


def position(graph: Graph) -> Floats:
    """[n] in 0 to 1: the share of all work up to the middle of each operation, in the order."""
    work = graph.work[graph.order]
    found = np.zeros(graph.n)
    found[graph.order] = (np.cumsum(work) - work / 2) / max(1.0, work.sum())
    return found


def _relative(amounts: Floats) -> Floats:
    """log(1 + amount / mean)."""
    total = float(amounts.sum())
    found: Floats = np.log1p(amounts * (len(amounts) / total)) if total > 0.0 else np.zeros(len(amounts))
    return found


def _longest(graph: Graph, end: int) -> Floats:
    """[n]: edges of the longest path to (``end`` 0) or from (``end`` 1) each operation."""
    found, into = np.zeros(graph.n), [[] for _ in range(graph.n)]  # type: tuple[Floats, list[list[int]]]
    for u, v in graph.edges.tolist():
        into[u if end else v].append(v if end else u)
    for v in reversed(graph.order.tolist()) if end else graph.order.tolist():
        found[v] = max((found[u] + 1.0 for u in into[v]), default=0.0)
    return found
