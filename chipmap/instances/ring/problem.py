"""The arrays of a ring instance that models, programs and heuristics work on.

The formulas are those of ``docs/families/ring.md`` ("What is placed", "Costs of an operation", "Objective"). The
checker states them a second time, on its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from chipmap.instances.ring.instance import RingInstance
from chipmap.networks.graph import neighbours
from chipmap.records import InputError, kept
from chipmap.records.decimals import exact

#: Ticks of 10 ps per nanosecond.
TICKS_PER_NS = 100
#: Largest sum of costs or of sizes, such that it and what a chip adds up (weights, tensors sent and received, twice: at
#: most 5 such) are exact in 64 bits, and sums of them in floating point (the station windows) as well.
MAX_TOTAL = 2**52
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Storage:
    """Bytes made by ``producer`` and read by other computing operations ``readers`` (sorted, distinct, never empty).

    ``ticks`` is the time on one link, rounded up.
    """

    producer: int
    readers: tuple[int, ...]
    bytes: int
    ticks: int


@dataclass(frozen=True)
class Shared:
    """Bytes of constants that the same computing operations ``readers`` (sorted, at least two) read.

    They rest once on each chip that has one of these.
    """

    readers: tuple[int, ...]
    bytes: int


@dataclass(frozen=True, eq=False)
class RingProblem:
    """A ring instance as arrays over its n operations (positions as in ``instance.graph.operations``).

    ``computing`` [n] says which operations matter to C2, C3, C4 and the costs; ``ticks`` [n] is their time in ticks,
    ``weight_bytes`` [n] their weights with the constants that no other operation reads (both 0 where not computing);
    ``shared`` are the constants with several readers. ``edges`` [m, 2] are all edges of the graph, ``flows`` [k, 2]
    those between computing operations (through views), both unique and sorted. ``allowed`` [n] is the set of chips that
    pins and forbidden chips leave, None where all are allowed; ``groups`` are the keep-together groups,
    ``apart`` those of which no two share a chip.
    """

    instance: RingInstance
    computing: NDArray[np.bool_]
    ticks: IntArray
    weight_bytes: IntArray
    shared: tuple[Shared, ...]
    edges: NDArray[np.int32]
    flows: NDArray[np.int32]
    storages: tuple[Storage, ...]
    allowed: tuple[frozenset[int] | None, ...]
    groups: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]
    apart: tuple[tuple[int, ...], ...] = ()

    @property
    def n(self) -> int:
        """Number of operations, of every role."""
        return len(self.computing)

    @property
    def chips(self) -> int:
        """C, the number of chips."""
        return self.instance.package.chips

    @property
    def sram_bytes(self) -> int:
        """S, the bytes of a chip's SRAM."""
        return self.instance.package.sram_bytes

    @property
    def cost_mode(self) -> str:
        """``period``, ``sum`` or ``sum_forward``."""
        return self.instance.cost_mode

    @property
    def full_memory(self) -> bool:
        """Whether C4 is in force in grade ``full``."""
        return self.has("C4") and self.instance.memory_grade == "full"

    def has(self, label: str) -> bool:
        """Whether constraint ``label`` (C1 to C4) is in force."""
        return label in self.instance.constraints

    @property
    def total_ticks(self) -> int:
        """The work of all computing operations."""
        return int(self.ticks.sum())

    @property
    def least_ticks(self) -> int:
        """max(⌈total work / C⌉, longest operation): some chip has its share of the work, and one that operation."""
        return max(-(-self.total_ticks // self.chips), int(self.ticks.max(initial=0)))

    @property
    def most_ticks(self) -> int:
        """What no mapping's objective exceeds: all work, and every storage sent and received on one chip."""
        return self.total_ticks + 2 * sum(storage.ticks for storage in self.storages)

    @property
    def most_bytes(self) -> int:
        """What C4 counts at most on a chip, in either grade: all weights, and every storage twice."""
        return int(self.floor_bytes.sum()) + 2 * sum(storage.bytes for storage in self.storages)

    @cached_property
    def storage_arrays(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """The storages as arrays: producers, all pairs (storage, reader) [2, pairs], bytes, ticks."""
        pairs = [(t, v) for t, storage in enumerate(self.storages) for v in storage.readers]
        rows = [(storage.producer, storage.bytes, storage.ticks) for storage in self.storages]
        producer, bytes_, ticks = np.array(rows, dtype=np.int64).reshape(-1, 3).T
        return producer, np.array(pairs, dtype=np.int64).reshape(-1, 2).T, bytes_, ticks

    @cached_property
    def floor_bytes(self) -> IntArray:
        """[n]: weights, where the first reader of a shared constant answers for it.

        Whatever chips hold some operations, their weights are at least the sum over these operations.
        """
        floor = self.weight_bytes.copy()
        for constant in self.shared:
            floor[constant.readers[0]] += constant.bytes
        return floor

    @cached_property
    def alone_bytes(self) -> IntArray:
        """[n]: weights on a chip that runs this operation only: with all constants that it reads."""
        alone = self.weight_bytes.copy()
        for constant in self.shared:
            alone[list(constant.readers)] += constant.bytes
        return alone

    @property
    def least_weights(self) -> int:
        """Weights that the fullest chip holds at least: ⌈all / C⌉, or those of an operation by itself."""
        return max(-(-int(self.floor_bytes.sum()) // self.chips), int(self.alone_bytes.max(initial=0)))

    def weights_of(self, operations: Iterable[int]) -> int:
        """Weights on a chip that runs these operations."""
        here = set(operations)
        constants = sum(constant.bytes for constant in self.shared if not here.isdisjoint(constant.readers))
        return int(self.weight_bytes[list(here)].sum()) + constants


def ring_problem(instance: RingInstance) -> RingProblem:
    """The arrays of ``instance`` (kept on it: a second call is free)."""
    return kept(instance, "_problem", _build)


def _build(instance: RingInstance) -> RingProblem:
    graph = instance.graph
    order = graph.topological_order()
    n = len(graph.operations)
    makes = neighbours(n, ((tensor.producer, t) for t, tensor in enumerate(graph.tensors)))
    reads = neighbours(n, ((v, t) for t, tensor in enumerate(graph.tensors) for v in set(tensor.readers)))
    live = _live(instance, reads, order)
    computing = np.array([op.role == "compute" and v in live for v, op in enumerate(graph.operations)], dtype=bool)
    roots = storages_behind(instance, reads, makes, order)
    readers: dict[int, set[int]] = {}
    constants: dict[int, list[int]] = {}
    for v in np.flatnonzero(computing).tolist():
        for t in set().union(*(roots[t] for t in reads[v])) if reads[v] else ():
            producer = graph.tensors[t].producer
            if graph.operations[producer].role == "constant":
                constants.setdefault(t, []).append(v)
            elif computing[producer] and producer != v:
                readers.setdefault(t, set()).add(v)
    rate = instance.package.link_bytes_per_ns
    storages = tuple(
        Storage(
            producer=graph.tensors[t].producer,
            readers=tuple(sorted(readers[t])),
            bytes=graph.tensors[t].bytes,
            ticks=0 if rate is None else math.ceil(TICKS_PER_NS * graph.tensors[t].bytes / exact(rate)),
        )
        for t in sorted(readers)
    )
    on = computing.tolist()
    times = [_time(instance, v, reads[v], makes[v], roots) if on[v] else [] for v in range(n)]
    ticks = [max((-(-one // parts) for one, parts in time), default=0) for time in times]
    weights = [graph.operations[v].weight_bytes if on[v] else 0 for v in range(n)]
    shared = _constants(instance, constants, weights)
    _summable([*weights, *(constant.bytes for constant in shared)], "weights (bytes)", instance)
    _summable([storage.ticks for storage in storages], "link times (10 ps)", instance)
    _summable([storage.bytes for storage in storages], "tensors (bytes)", instance)
    return RingProblem(
        instance=instance,
        computing=computing,
        ticks=_summable(ticks, "operation times (10 ps)", instance),
        weight_bytes=np.array(weights, dtype=np.int64),
        shared=shared,
        edges=_pairs({(t.producer, v) for t in graph.tensors for v in t.readers}),
        flows=_pairs({(s.producer, v) for s in storages for v in s.readers}),
        storages=storages,
        allowed=_allowed(instance, computing),
        groups=_groups(instance, instance.together, computing),
        order=order,
        apart=_groups(instance, instance.apart, computing),
    )


def _constants(instance: RingInstance, readers: dict[int, list[int]], weights: list[int]) -> tuple[Shared, ...]:
    """The constants among tensors with these computing ``readers`` that several read; the others add to ``weights``.

    Those with the same readers are always on the same chips, so that they count as one.
    """
    found: dict[tuple[int, ...], int] = {}
    for t, read_by in readers.items():
        size = instance.graph.tensors[t].bytes
        if len(read_by) == 1:
            weights[read_by[0]] += size
        elif size:
            found[tuple(read_by)] = found.get(tuple(read_by), 0) + size
    return tuple(Shared(readers, found[readers]) for readers in sorted(found))


def _summable(values: list[int], what: str, instance: RingInstance) -> IntArray:
    """``values`` as an array; :class:`InputError` when sums of them may not be exact in all methods."""
    total = sum(values)
    if total > MAX_TOTAL:
        remedy = f"Sums up to {MAX_TOTAL} are exact. Check the units: rates are per ns, sizes in bytes, times in ns."
        raise InputError(f"the {what} add up to {total}", instance.name, remedy)
    return np.array(values, dtype=np.int64)


def _pairs(pairs: set[tuple[int, int]]) -> NDArray[np.int32]:
    return np.array(sorted(pairs), dtype=np.int32).reshape(-1, 2)


def _live(instance: RingInstance, reads: list[list[int]], order: tuple[int, ...]) -> set[int]:
    """Live: the operation has a path to one that makes an output tensor (all are, when none is marked)."""
    tensors = instance.graph.tensors
    live = {tensor.producer for tensor in tensors if tensor.output} or set(order)
    for v in reversed(order):
        if v in live:
            live.update(tensors[t].producer for t in reads[v])
    return live


def storages_behind(
    instance: RingInstance, reads: list[list[int]], makes: list[list[int]], order: tuple[int, ...]
) -> list[frozenset[int]]:
    """For each tensor the storages behind it: itself, or for a view's tensor those behind what the view reads."""
    graph = instance.graph
    roots: list[frozenset[int]] = [frozenset()] * len(graph.tensors)
    for v in order:
        for t in makes[v]:
            if graph.operations[v].role == "view":
                roots[t] = frozenset().union(*(roots[r] for r in reads[v]))
            else:
                roots[t] = frozenset((t,))
    return roots


def exact_times(instance: RingInstance, problem: RingProblem) -> dict[int, Fraction]:
    """time(v) of the page in ticks before it is rounded up, by computing operation."""
    graph = instance.graph
    n = len(graph.operations)
    makes = neighbours(n, ((tensor.producer, t) for t, tensor in enumerate(graph.tensors)))
    reads = neighbours(n, ((v, t) for t, tensor in enumerate(graph.tensors) for v in set(tensor.readers)))
    roots = storages_behind(instance, reads, makes, problem.order)
    computing = np.flatnonzero(problem.computing).tolist()
    return {v: max(Fraction(*one) for one in _time(instance, v, reads[v], makes[v], roots)) for v in computing}


def _time(
    instance: RingInstance, v: int, reads: list[int], makes: list[int], roots: list[frozenset[int]]
) -> list[tuple[int, int]]:
    """time(v) of the page in ticks, the largest of these (numerator, denominator): roofline, or measured time."""
    measured = instance.time_ns[v] if instance.time_ns is not None else None
    if measured is not None:
        return [(TICKS_PER_NS * exact(measured)).as_integer_ratio()]
    operation, package, tensors = instance.graph.operations[v], instance.package, instance.graph.tensors
    out = sum(tensors[t].bytes for t in makes)
    if instance.traffic == "twice_out":
        moved = 2 * out + operation.weight_bytes
    elif operation.moved_bytes is not None:
        moved = operation.moved_bytes
    else:
        read = sum(min(tensors[t].bytes, sum(tensors[r].bytes for r in roots[t])) for t in set(reads))
        moved = read + out + operation.weight_bytes
    efficiency = package.efficiency.get(operation.kind, 1.0)
    return [
        _rate_ticks(operation.flop, package.flop_per_ns, efficiency, package.launch_ns),
        _rate_ticks(moved, package.sram_bytes_per_ns, 1.0, package.launch_ns),
    ]


def _rate_ticks(amount: int, rate: float, efficiency: float, launch_ns: float) -> tuple[int, int]:
    """100 · (amount / (rate · efficiency) + launch), exact: numerator and denominator."""
    factor, constant, divisor = _line(rate, efficiency, launch_ns)
    return factor * amount + constant, divisor


@lru_cache(maxsize=256)
def _line(rate: float, efficiency: float, launch_ns: float) -> tuple[int, int, int]:
    """Whole numbers (a, b, d) with (a · amount + b) / d = 100 · (amount / (rate · efficiency) + launch)."""
    per, start = TICKS_PER_NS / (exact(rate) * exact(efficiency)), TICKS_PER_NS * exact(launch_ns)
    return (
        per.numerator * start.denominator,
        start.numerator * per.denominator,
        per.denominator * start.denominator,
    )


def _allowed(instance: RingInstance, computing: NDArray[np.bool_]) -> tuple[frozenset[int] | None, ...]:
    index = {operation.name: v for v, operation in enumerate(instance.graph.operations)}
    every = frozenset(range(instance.package.chips))
    limits = [(pin.operation, frozenset((pin.chip,))) for pin in instance.pins]
    limits += [(item.operation, every.difference(item.chips)) for item in instance.forbidden]
    allowed: dict[int, frozenset[int]] = {}
    for name, chips in limits:
        allowed[index[name]] = allowed.get(index[name], every) & chips
    return tuple(allowed.get(v) if computing[v] else None for v in range(len(index)))


def _groups(
    instance: RingInstance, named: tuple[tuple[str, ...], ...], computing: NDArray[np.bool_]
) -> tuple[tuple[int, ...], ...]:
    """The computing operations of groups given by name, two or more each."""
    index = {operation.name: v for v, operation in enumerate(instance.graph.operations)}
    groups = (tuple(sorted({index[name] for name in group if computing[index[name]]})) for group in named)
    return tuple(group for group in groups if len(group) > 1)
