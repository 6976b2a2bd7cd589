"""An order of the units in which few nets are open at a time: open nets have units before a position and after it."""

from __future__ import annotations

from dataclasses import dataclass

from chipmap.instances.placement.load_graph import LoadGraph

#: Nets that may be open at a time: each is a bit.
WIDEST = 31


class TooWideError(Exception):
    """Too many nets are open at a time, or too many patterns of them."""


@dataclass(frozen=True, eq=False)
class Sweep:
    """Unit ``order[i]`` is met at position i. ``nets[i]``: (bit, cost in ns) of its nets that cost something.
    ``closed[i]``: the bits of those whose last unit it is. ``target``: only loads below it count.
    """

    graph: LoadGraph
    target: int
    order: tuple[int, ...]
    nets: tuple[tuple[tuple[int, int], ...], ...]
    closed: tuple[int, ...]


def sweep(graph: LoadGraph, target: int) -> Sweep:
    """The better of two orders: that of the graph, and one that opens few nets. Raises :class:`TooWideError`."""
    nets = [n for n, (_, cost, _) in enumerate(graph.nets) if cost]
    orders = [list(range(graph.units)), _few_open(graph)]
    order = min(orders, key=lambda order: _widths(graph, nets, order))
    place = {u: i for i, u in enumerate(order)}
    last = {n: max(place[u] for u in graph.nets[n][0]) for n in nets}
    bit, spare, made = dict[int, int](), list[int](), 0
    met, closed = [], []
    for i, u in enumerate(order):
        mine = [n for n in graph.nets_of[u] if n in last]
        for n in mine:
            if n not in bit:
                bit[n] = spare.pop() if spare else made
                made = max(made, bit[n] + 1)
        met.append(tuple((1 << bit[n], graph.nets[n][1]) for n in mine))
        over = [bit[n] for n in mine if last[n] == i]
        closed.append(sum(1 << b for b in over))
        spare += over
    if made > WIDEST:
        raise TooWideError(f"{made} nets are open at a time")
    return Sweep(graph, target, tuple(order), tuple(met), tuple(closed))


def _widths(graph: LoadGraph, nets: list[int], order: list[int]) -> tuple[int, int]:
    """(most, sum) of the numbers of open nets after each position."""
    place, step = {u: i for i, u in enumerate(order)}, [0] * (graph.units + 1)
    for n in nets:
        places = [place[u] for u in graph.nets[n][0]]
        step[min(places)] += 1
        step[max(places)] -= 1
    now = most = total = 0
    for one in step:
        now += one
        most, total = max(most, now), total + now
    return most, total


def _few_open(graph: LoadGraph) -> list[int]:
    """From a unit with few nets on, always the neighbour of what was met that leaves the fewest nets open; then the one
    whose net has been open for longest."""
    left = [len(units) for units, _, _ in graph.nets]
    born, order, near = dict[int, int](), list[int](), dict[int, None]()
    rest = dict.fromkeys(sorted(range(graph.units), key=lambda u: len(graph.nets_of[u])))

    def rank(u: int) -> tuple[int, int, int]:
        mine = graph.nets_of[u]
        change = sum((n not in born) - (left[n] == 1) for n in mine)
        return change, min((born.get(n, graph.units) for n in mine), default=graph.units), u

    while rest:
        u = min(near, key=rank) if near else next(iter(rest))
        del rest[u]
        near.pop(u, None)
        order.append(u)
        for n in graph.nets_of[u]:
            born.setdefault(n, len(order))
            left[n] -= 1
            near.update(dict.fromkeys(v for v in graph.nets[n][0] if v in rest))
    return order
