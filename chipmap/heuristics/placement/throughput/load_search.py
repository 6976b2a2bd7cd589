"""A search for throughput: annealing over the devices of units, towards equal loads.

The value of a placement is Σ over devices of what their loads exceed an aim by, plus what their memories lack (weighted
so that this counts most). The aim lies between a lower bound and the best load, so that all devices near the largest
load count. A move puts a unit on another device, mostly that of a unit with which it shares a net, or swaps two units.
Loads are kept up to date net by net: a move looks only at the nets of its units. C7 isn't looked at.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.placement.search.annealing import seed_with
from chipmap.instances.placement.load_graph import LoadGraph
from chipmap.instances.placement.problem import IntArray
from chipmap.kernels import njit

#: Moves of a round from hot to cold, temperatures at its first and last as shares of the aim.
MOVES, HOT, COLD = 1_000_000, 3e-3, 1e-5
#: Moves between two looks at the clock.
CHUNK = 50_000
#: How far below the best load, on the way to a lower bound, a round aims: the bound may be weak.
AIMS = (1.0, 0.8, 0.5, 0.2)
#: Shares of moves: to any device, and swaps.
ANY, SWAP = 0.2, 0.3


class Graph(NamedTuple):
    """``time`` [U, D], ``bytes`` [U], ``allowed`` [U, D], ``paying`` [D], ``memory`` [D]; the units of net n are
    ``units[unit_at[n]:unit_at[n + 1]]``, the nets of unit u ``nets[net_at[u]:net_at[u + 1]]``; of nets ``cost`` and
    ``size`` in bytes. ``overlap``: the larger of computing and transfers counts.
    """

    time: Any
    bytes: Any
    allowed: Any
    paying: Any
    memory: Any
    unit_at: Any
    units: Any
    net_at: Any
    nets: Any
    cost: Any
    size: Any
    overlap: bool


class Place(NamedTuple):
    """``device`` [U] and ``best`` [U], units of net n on device d ``count`` [n, d], devices that touch it ``touched``
    [n]; per device ``work``, ``moved`` ns and ``held`` bytes.
    """

    device: Any
    best: Any
    count: Any
    touched: Any
    work: Any
    moved: Any
    held: Any


def search(
    graph: LoadGraph, start: IntArray, best: int, floor: int, seed: int, rounds: int, deadline: Deadline
) -> tuple[int, IntArray | None]:
    """(least load found, devices of the units): placements better than ``best``, from ``start`` [U] on; ``floor`` is a
    lower bound. None where there is none.
    """
    arrays, place, found = _arrays(graph, start), _place(graph), None
    seed_with(seed)
    for number in range(rounds):
        _reset(arrays, place, start if found is None else found)
        done = 0
        while done < MOVES and deadline.keep_going():
            aim = best - int(AIMS[number % len(AIMS)] * (best - floor))
            temperature = HOT * (COLD / HOT) ** (done / MOVES) * max(1, aim)
            reached = int(_anneal(arrays, place, best, aim, temperature, CHUNK))
            done += CHUNK
            if reached < best:
                best, found = reached, place.best.copy()
        if not deadline.keep_going():
            break
    return best, found


def _arrays(graph: LoadGraph, start: IntArray) -> Graph:
    """The graph as arrays; units with operations that are to be apart stay where they are."""
    kind, unit = graph.kind_of, {v: u for u, members in enumerate(graph.members) for v in members}
    allowed = np.ascontiguousarray(graph.allowed[:, kind])
    for u in {unit[v] for some in graph.problem.apart for v in some}:
        allowed[u] = np.arange(graph.problem.devices) == start[u]
    return Graph(
        time=np.ascontiguousarray(graph.time[:, kind]),
        bytes=graph.bytes,
        allowed=allowed,
        paying=graph.paying[kind],
        memory=graph.memory[kind],
        unit_at=np.cumsum([0, *(len(units) for units, _, _ in graph.nets)]).astype(np.int64),
        units=np.array([u for units, _, _ in graph.nets for u in units], dtype=np.int64),
        net_at=np.cumsum([0, *map(len, graph.nets_of)]).astype(np.int64),
        nets=np.array([n for nets in graph.nets_of for n in nets], dtype=np.int64),
        cost=np.array([cost for _, cost, _ in graph.nets], dtype=np.int64),
        size=np.array([size for _, _, size in graph.nets], dtype=np.int64),
        overlap=graph.problem.instance.task.overlap,
    )


def _place(graph: LoadGraph) -> Place:
    units, nets, devices = graph.units, len(graph.nets), graph.problem.devices
    unit, device = np.zeros(units, dtype=np.int64), np.zeros(devices, dtype=np.int64)
    count, touched = np.zeros((nets, devices), dtype=np.int64), np.zeros(nets, dtype=np.int64)
    return Place(unit, unit.copy(), count, touched, device, device.copy(), device.copy())


@njit(part=True)
def _put(graph: Graph, place: Place, u: int, d: int, sign: int) -> None:
    """Add unit u to device d (``sign`` 1), or take it away (-1)."""
    place.work[d] += sign * graph.time[u, d]
    place.held[d] += sign * graph.bytes[u]
    for r in range(graph.net_at[u], graph.net_at[u + 1]):
        n = graph.nets[r]
        before = place.count[n, d]
        place.count[n, d] = before + sign
        if max(before, before + sign) > 1:
            continue  # the device touches the net before and after
        place.held[d] += sign * graph.size[n]
        others = place.touched[n] - (1 if sign < 0 else 0)  # devices that touch it beside d
        place.touched[n] += sign
        if others > 0:
            place.moved[d] += sign * graph.cost[n]
        if others == 1:  # the other device begins, or ceases, to have a cut net
            for e in range(len(place.work)):
                if e != d and place.count[n, e] > 0:
                    place.moved[e] += sign * graph.cost[n]


@njit(cache=True)
def _reset(graph: Graph, place: Place, device: Any) -> None:
    """Everything as ``device`` says."""
    place.count[:] = 0
    place.touched[:] = 0
    place.work[:] = 0
    place.moved[:] = 0
    place.held[:] = 0
    for u in range(len(device)):
        place.device[u] = device[u]
        _put(graph, place, u, device[u], 1)


@njit(part=True)
def _load(graph: Graph, place: Place, d: int) -> int:
    if not graph.paying[d]:
        return int(place.work[d])
    if graph.overlap:
        return int(max(place.work[d], place.moved[d]))
    return int(place.work[d] + place.moved[d])


@njit(part=True)
def _largest(graph: Graph, place: Place) -> int:
    """T2, or more than any load where a memory is too small."""
    found = 0
    for d in range(len(place.work)):
        found = max(found, _load(graph, place, d))
        if graph.memory[d] >= 0 and place.held[d] > graph.memory[d]:
            found = 2**62
    return found


@njit(part=True)
def _value(graph: Graph, place: Place, target: int) -> float:
    """What loads exceed the target by, and what memories lack: ten targets where one lacks all."""
    found = 0.0
    for d in range(len(place.work)):
        over = _load(graph, place, d) - target
        if over > 0:
            found += over
        if graph.memory[d] >= 0 and place.held[d] > graph.memory[d]:
            found += (place.held[d] - graph.memory[d]) / max(1, graph.memory[d]) * 10 * max(1, target) + 1
    return found


@njit(cache=True, long=True)
def _anneal(graph: Graph, place: Place, best: int, aim: int, temperature: float, moves: int) -> int:
    """So many moves towards loads of ``aim``; the least load below ``best`` reached, its devices in ``place.best``."""
    units, devices = len(place.device), len(place.work)
    now = _value(graph, place, aim)
    for _ in range(moves):
        u = np.random.randint(units)
        d = np.random.randint(devices)
        other = -1
        degree = graph.net_at[u + 1] - graph.net_at[u]
        if degree > 0 and np.random.random() >= ANY:
            n = graph.nets[graph.net_at[u] + np.random.randint(degree)]
            d = place.device[graph.units[graph.unit_at[n] + np.random.randint(graph.unit_at[n + 1] - graph.unit_at[n])]]
        old = place.device[u]
        if np.random.random() < SWAP:
            other = np.random.randint(units)
            d = place.device[other]
            if not graph.allowed[other, old]:
                continue
        if d == old or not graph.allowed[u, d]:
            continue
        _put(graph, place, u, old, -1)
        _put(graph, place, u, d, 1)
        if other >= 0:
            _put(graph, place, other, d, -1)
            _put(graph, place, other, old, 1)
        value = _value(graph, place, aim)
        if value <= now or np.random.random() < np.exp((now - value) / temperature):
            now = value
            place.device[u] = d
            if other >= 0:
                place.device[other] = old
            if value < devices * (best - aim) and _largest(graph, place) < best:
                best = _largest(graph, place)
                for one in range(units):
                    place.best[one] = place.device[one]
        else:
            if other >= 0:
                _put(graph, place, other, old, -1)
                _put(graph, place, other, d, 1)
            _put(graph, place, u, d, -1)
            _put(graph, place, u, old, 1)
    return best
