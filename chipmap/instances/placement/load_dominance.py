"""Units of a throughput instance that may be joined, because some optimal placement has them together.

**Rule.** Let u and v be units, and let v be allowed wherever u is. A is the cost of all nets of v without u, and B that
of the net {u, v}. Let A <= B. On each device that u may be on, let the time of v be 0, or p + A <= B where the device
pays for transfers and loads are sums. (Where memory is limited, v and the nets of A hold no bytes.) Then moving v to
u's device makes no load larger. *Proof:* v leaves device X for device Y. Nets with u aren't cut anew, and no further
device touches them. Net {u, v} is cut no more: X and Y save B each, if they pay. The other nets of v can cost X and Y
at most A more, and Y works for p more. Any third device that touches such a net paid for it before, as v was elsewhere.
**With C7** v must fit into u's block: what v reads comes from u or from what u depends on, and its readers are u or
depend on u. Joining may be repeated, as each step keeps an optimum of the problem before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from chipmap.instances.placement.load_graph import LoadGraph, load_graph
from chipmap.instances.placement.problem import PlacementProblem
from chipmap.networks.graph import neighbours, topological


def joined_by_dominance(problem: PlacementProblem, below: int | None = None) -> LoadGraph:
    """The units and nets of ``problem``, with those joined that an optimal placement has together.

    A placement with a load smaller than ``below`` (if there is one) is kept, though not each.
    """
    if problem.apart:  # the other device may have one that is to be apart
        return load_graph(problem, below)
    together: list[list[int]] = []
    while True:
        graph = load_graph(problem, below, together)
        found = list(_joins(graph)) if graph.placeable else []
        if not found:
            return graph
        together += [[graph.members[u][0], graph.members[v][0]] for v, u in found]


def _joins(graph: LoadGraph) -> Iterator[tuple[int, int]]:
    """(v, u) of the rule; no unit is both a v and a u, so that all hold side by side."""
    limited = bool((graph.memory >= 0).any())
    inside = _inside(graph)
    moved, targets = set[int](), set[int]()
    for v in range(graph.units):
        if v in targets or (limited and graph.bytes[v]):
            continue
        nets = [graph.nets[n] for n in graph.nets_of[v]]
        total = sum(cost for _, cost, _ in nets)
        for u in sorted({u for units, _, _ in nets for u in units} - moved - {v}):
            shared = [net for net in nets if u in net[0]]
            away = total - sum(cost for _, cost, _ in shared)
            saved = sum(cost for units, cost, _ in shared if len(units) == 2)
            fits = not limited or all(u in units or not size for units, _, size in nets)
            if away <= saved and fits and _bears(graph, u, v, saved - away) and inside(u, v):
                moved.add(v)
                targets.add(u)
                yield v, u
                break


def _bears(graph: LoadGraph, u: int, v: int, saved: int) -> bool:
    """Whether v may be on each device that u may be on, and takes no more time there than moving it saves."""
    here, summed = graph.allowed[u], not graph.problem.instance.task.overlap
    if (here & ~graph.allowed[v]).any():
        return False
    return bool((graph.time[v] <= np.where(graph.paying & summed, saved, 0))[here].all())


def _inside(graph: LoadGraph) -> Callable[[int, int], bool]:
    """Whether v fits into u's block (C7)."""
    if not graph.problem.instance.task.contiguous:
        return lambda u, v: True
    producers, readers, above, below = _order(graph)

    def inside(u: int, v: int) -> bool:
        block = producers[v] & ~(above[u] | 1 << u) == 0 and readers[v] & ~(below[u] | 1 << u) == 0
        return block and bool(graph.free[v] or not graph.free[u])

    return inside


def _order(graph: LoadGraph) -> tuple[list[int], list[int], list[int], list[int]]:
    """The producers and readers of each unit, and all that it depends on or that depends on it, as bit sets."""
    producers, readers = [0] * graph.units, [0] * graph.units
    for u, v in graph.before:
        producers[v] |= 1 << u
        readers[u] |= 1 << v
    order = topological(neighbours(graph.units, graph.before))
    above, below = [0] * graph.units, [0] * graph.units
    for v in order:
        for u in (u for u in range(graph.units) if producers[v] >> u & 1):
            above[v] |= above[u] | 1 << u
    for v in reversed(order):
        for w in (w for w in range(graph.units) if readers[v] >> w & 1):
            below[v] |= below[w] | 1 << w
    return producers, readers, above, below
