"""A throughput instance by units and nets: what its loads (T2), blocks (C7) and static memory (C6) depend on.

A **unit** is a set of operations that must share a device. A **net** joins the units that make or read a storage. A
device *touches* a net if it holds one of its units, and the net is *cut* if several devices touch it. The load of a
device is the time of its units and the costs of the cut nets that it touches (a host pays none of these); its memory
holds its units' bytes and those of all nets that it touches. Both follow from the rules of
``docs/families/placement.md``: a storage costs its producer's device once, and each other device that receives it.

:func:`load_graph` merges the groups of C1. With ``below`` it also merges what no placement with a smaller load can
separate, the units of a net that costs so much by itself, and allows no device that a unit keeps busy for so long.
None of this loses a placement of a load below ``below``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from chipmap.instances.placement.problem import DisjointSets, IntArray, PlacementProblem


@dataclass(frozen=True, eq=False)
class LoadGraph:
    """U units, K kinds of equal devices and the nets of ``problem``.

    ``unit`` [N]: the unit of each operation. ``kinds``: the devices of each kind (same class, memory and units).
    ``time`` [U, K] ns, ``bytes`` [U], ``allowed`` [U, K]. ``nets``: (units, cost in ns, bytes), each set of at least
    two units once. ``memory`` [K]: bytes, -1 without a limit or where no placement of a load below ``below`` fills it.
    ``paying`` [K]. ``free`` [U]: units without an operation that C7 speaks of.
    ``before``: pairs of units (u, v) of which v reads u in the forward part.
    ``below``: no placement with a smaller load is lost.
    """

    problem: PlacementProblem
    unit: IntArray
    kinds: tuple[tuple[int, ...], ...]
    time: IntArray
    bytes: IntArray
    allowed: NDArray[np.bool_]
    nets: tuple[tuple[tuple[int, ...], int, int], ...]
    memory: IntArray
    paying: NDArray[np.bool_]
    free: NDArray[np.bool_]
    before: frozenset[tuple[int, int]]
    below: int | None

    @property
    def units(self) -> int:
        """U."""
        return len(self.time)

    @cached_property
    def members(self) -> list[list[int]]:
        """The operations of each unit."""
        found: list[list[int]] = [[] for _ in range(self.units)]
        for v, unit in enumerate(self.unit.tolist()):
            found[unit].append(v)
        return found

    @cached_property
    def nets_of(self) -> list[list[int]]:
        """The nets of each unit."""
        found: list[list[int]] = [[] for _ in range(self.units)]
        for n, (units, _, _) in enumerate(self.nets):
            for unit in units:
                found[unit].append(n)
        return found

    @property
    def placeable(self) -> bool:
        """Whether each unit has a device."""
        return bool(self.allowed.any(axis=1).all())

    def devices_of(self, of_unit: IntArray) -> IntArray:
        """The device of each operation [N], from those of the units [U]."""
        found: IntArray = of_unit[self.unit]
        return found

    def joined(self, pairs: Iterable[tuple[int, int]]) -> LoadGraph:
        """This graph with pairs of units joined."""
        merged = DisjointSets(self.problem.operations)
        for members in self.members:
            merged.join(members)
        for u, v in pairs:
            merged.join((self.members[u][0], self.members[v][0]))
        ends = _ends(self.problem)
        if self.problem.instance.task.contiguous:
            _join_circles(self.problem, merged, ends)
        return _graph(self.problem, merged, ends, self.below)

    @cached_property
    def kind_of(self) -> list[int]:
        """The kind of each device [D]."""
        found = [0] * self.problem.devices
        for k, devices in enumerate(self.kinds):
            for d in devices:
                found[d] = k
        return found


def load_graph(
    problem: PlacementProblem, below: int | None = None, together: Iterable[Iterable[int]] = ()
) -> LoadGraph:
    """The units and nets of ``problem``; ``together`` are further sets of operations that are to share a device.

    With C7, units that read from each other in a circle can't be in different blocks: they are one.
    """
    merged = DisjointSets(problem.operations)
    for group in (*problem.groups, *together):
        merged.join(group)
    task, ends = problem.instance.task, _ends(problem)
    hosts = sum(not pays for pays in problem.paying)
    while True:
        count = merged.count
        if task.contiguous:
            _join_circles(problem, merged, ends)
        if below is not None and hosts <= 1:  # of two devices that touch a cut net one pays
            _join_costly(problem, merged, ends, below)
        if merged.count == count:
            return _graph(problem, merged, ends, below)


def _ends(problem: PlacementProblem) -> list[tuple[int, ...]]:
    """The producer and readers of each storage."""
    return [(u, *problem.storages.read_by(s)) for s, u in enumerate(problem.storages.producer.tolist())]


def _forward(problem: PlacementProblem, ends: list[tuple[int, ...]]) -> Iterable[tuple[int, int]]:
    """(producer, reader) of the operations that C7 speaks of."""
    for u, *readers in ends:
        if u not in problem.backward:
            for v in readers:
                if v not in problem.backward:
                    yield u, v


def _join_circles(problem: PlacementProblem, merged: DisjointSets, ends: list[tuple[int, ...]]) -> None:
    import networkx

    pairs = {(merged.find(u), merged.find(v)) for u, v in _forward(problem, ends)}
    for circle in networkx.strongly_connected_components(networkx.DiGraph(pairs)):
        merged.join(circle)


def _join_costly(problem: PlacementProblem, merged: DisjointSets, ends: list[tuple[int, ...]], below: int) -> None:
    """Join the units of nets that cost ``below`` or more (all storages of the same units together)."""
    cost: dict[frozenset[int], int] = {}
    for s, members in enumerate(ends):
        units = frozenset(merged.find(v) for v in members)
        cost[units] = cost.get(units, 0) + int(problem.storages.time[s, 0])
    for units, time in cost.items():
        if time >= below:
            merged.join(units)


def _most_bytes(time: IntArray, held: IntArray, below: int | None) -> int:
    """At most so many bytes have units on a device whose times are less than ``below`` together: a knapsack whose last
    unit may be a part."""
    if below is None:
        return int(held.sum())
    order = np.argsort(time / np.maximum(1, held), kind="stable").tolist()
    left, found = max(0, below - 1), 0
    for unit in order:
        found += int(held[unit])
        left -= int(time[unit])
        if left < 0:
            break
    return found


def _graph(
    problem: PlacementProblem, merged: DisjointSets, ends: list[tuple[int, ...]], below: int | None
) -> LoadGraph:
    firsts = sorted({merged.find(v) for v in range(problem.operations)})
    index = {first: unit for unit, first in enumerate(firsts)}
    unit = np.array([index[merged.find(v)] for v in range(problem.operations)], dtype=np.int64)
    limited = problem.instance.task.memory != "none"
    memory = problem.memory if limited else np.full(problem.devices, -1, dtype=np.int64)
    time = np.zeros((len(firsts), problem.devices), dtype=np.int64)
    held, allowed = np.zeros(len(firsts), dtype=np.int64), np.ones((len(firsts), problem.devices), dtype=bool)
    np.add.at(time, unit, problem.time)
    np.add.at(held, unit, problem.weights)
    np.logical_and.at(allowed, unit, problem.allowed)
    if below is not None:
        allowed &= time < below
    joined: dict[tuple[int, ...], list[int]] = {}
    storages = problem.storages
    parts = [(members, int(storages.time[s, 0]), int(storages.bytes[s])) for s, members in enumerate(ends)]
    for members, cost, size in [*parts, *((readers, 0, size) for size, readers in problem.copies)]:
        units = tuple(sorted({int(unit[v]) for v in members}))
        if len(units) == 1:
            held[units[0]] += size
        else:
            net = joined.setdefault(units, [0, 0])
            net[0], net[1] = net[0] + cost, net[1] + size
    equal: dict[tuple[object, ...], list[int]] = {}
    for d, device in enumerate(problem.instance.system.devices):
        equal.setdefault((device.kind, int(memory[d]), allowed[:, d].tobytes()), []).append(d)
    kinds = tuple(tuple(devices) for devices in equal.values())
    some = [devices[0] for devices in kinds]
    kept = memory[some]
    for k, d in enumerate(some):  # a memory that can't be filled is no limit
        if kept[k] >= sum(size for _, size in joined.values()) + _most_bytes(time[:, d], held, below):
            kept[k] = -1
    free = np.ones(len(firsts), dtype=bool)
    free[[int(unit[v]) for v in range(problem.operations) if v not in problem.backward]] = False
    before = ((int(unit[u]), int(unit[v])) for u, v in _forward(problem, ends))
    return LoadGraph(
        problem=problem,
        unit=unit,
        kinds=kinds,
        time=time[:, some],
        bytes=held,
        allowed=allowed[:, some],
        nets=tuple((units, cost, size) for units, (cost, size) in joined.items()),
        memory=kept,
        paying=np.array(problem.paying)[some],
        free=free,
        before=frozenset((u, v) for u, v in before if u != v),
        below=below,
    )
