"""Slicing of topological orders: the programs over the prefixes of some orders instead of all ideals.

N operations have only N + 1 prefixes, so that this scales to any graph; the best of many orders is a good incumbent,
never a bound.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from chipmap.deadline import Deadline
from chipmap.heuristics.engines.ideals import bits, prefixes
from chipmap.heuristics.ring.programs.flow_graph import FlowGraph
from chipmap.heuristics.ring.programs.program import ProgramResult, Programs


def slice_orders(
    programs: Programs, upper: int | None, count: int = 16, seed: int = 0, deadline: Deadline = Deadline()
) -> ProgramResult:
    """The best ``path`` chain over the prefixes of ``count`` topological orders together, value <= ``upper``."""
    orders = []
    for order in topological_orders(programs.graph, count, seed):
        orders.append(order)
        deadline.check()
    return programs.solve("path", prefixes(orders, programs.graph.n), upper, deadline)


def topological_orders(graph: FlowGraph, count: int, seed: int) -> Iterator[list[int]]:
    """By number, depth first, breadth first, then random depth-first orders."""
    chooser = random.Random(seed)
    rules = {0: lambda ready: min(ready), 1: lambda ready: ready[-1], 2: lambda ready: ready[0]}
    for number in range(count):
        yield _order(graph, rules.get(number, lambda ready: _late_or_random(ready, chooser)))


def _late_or_random(ready: list[int], chooser: random.Random) -> int:
    """Mostly the operation that became ready last (so that branches stay together), now and then any."""
    return ready[-1] if chooser.random() < 0.8 else chooser.choice(ready)


def _order(graph: FlowGraph, choose) -> list[int]:  # type: ignore[no-untyped-def]
    missing = [graph.producers[v].bit_count() for v in range(graph.n)]
    ready = [v for v in range(graph.n) if not missing[v]]
    order = []
    while ready:
        v = choose(ready)
        ready.remove(v)
        order.append(v)
        for w in bits(graph.readers[v]):
            missing[w] -= 1
            if not missing[w]:
                ready.append(w)
    return order
