"""What the page says about an instance of family ``ring`` before anything is mapped, in plain loops.

Sections "What is placed" and "Costs of an operation" of ``docs/families/ring.md``. Written from the page alone; it
shares nothing with the arrays that models and heuristics work on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from chipmap.instances.ring.instance import RingInstance
from chipmap.networks.graph import Tensor
from chipmap.records import kept
from chipmap.validation.decimals import written

TICKS_PER_NS = 100


@dataclass(frozen=True)
class Stored:
    """The tensor of a computing operation ``made_by``, and the computing operations ``read_by`` that need it."""

    made_by: int
    read_by: tuple[int, ...]
    bytes: int
    ticks: int


@dataclass(frozen=True)
class Resting:
    """A constant's storage and the computing operations ``read_by`` (at least one): it rests with each of them."""

    read_by: tuple[int, ...]
    bytes: int


@dataclass(frozen=True)
class Facts:
    """``computing`` operations with their ``ticks`` and ``weights`` (bytes, without constants); storages, constants.

    ``edges`` are the distinct (producer, reader) of the whole graph; ``position`` finds an operation by its name.
    """

    computing: tuple[int, ...]
    ticks: dict[int, int]
    weights: dict[int, int]
    stored: tuple[Stored, ...]
    constants: tuple[Resting, ...]
    edges: tuple[tuple[int, int], ...]
    position: dict[str, int]


def facts(instance: RingInstance) -> Facts:
    """The facts of ``instance``, a valid one (kept on it, so that the next check starts from them)."""
    return kept(instance, "_checked_facts", _collect)


def _collect(instance: RingInstance) -> Facts:
    graph, tensors = instance.graph, instance.graph.tensors
    reads: list[set[int]] = [set() for _ in graph.operations]
    makes: list[list[int]] = [[] for _ in graph.operations]
    for t, tensor in enumerate(tensors):
        makes[tensor.producer].append(t)
        for v in tensor.readers:
            reads[v].add(t)
    live = _live(tensors, reads)
    computing = [v for v, op in enumerate(graph.operations) if op.role == "compute" and (live is None or v in live)]
    ticks: dict[int, int] = {}
    weights: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    users: dict[int, list[int]] = {}
    for v in computing:
        moved_in, needed = 0, set()
        for t in reads[v]:
            behind = _storages_behind(instance, reads, t)
            moved_in += min(tensors[t].bytes, sum(tensors[s].bytes for s in behind))
            needed |= behind
        moved_out = sum(tensors[t].bytes for t in makes[v])
        ticks[v] = operation_ticks(instance, v, moved_in, moved_out)
        weights[v] = graph.operations[v].weight_bytes
        for s in needed:
            maker = graph.operations[tensors[s].producer]
            if maker.role == "constant":
                users.setdefault(s, []).append(v)
            elif maker.role == "compute":
                readers.setdefault(s, []).append(v)
    return Facts(
        computing=tuple(computing),
        ticks=ticks,
        weights=weights,
        stored=tuple(
            Stored(tensors[s].producer, tuple(read_by), tensors[s].bytes, link_ticks(instance, tensors[s].bytes))
            for s, read_by in sorted(readers.items())
        ),
        constants=tuple(Resting(tuple(read_by), tensors[s].bytes) for s, read_by in sorted(users.items())),
        edges=tuple(sorted({(tensor.producer, v) for tensor in tensors for v in tensor.readers})),
        position={operation.name: v for v, operation in enumerate(graph.operations)},
    )


def _live(tensors: tuple[Tensor, ...], reads: list[set[int]]) -> set[int] | None:
    """The operations from which a path leads to a maker of an output tensor; None when no tensor is marked."""
    todo = [tensor.producer for tensor in tensors if tensor.output]
    if not todo:
        return None
    live: set[int] = set()
    while todo:
        v = todo.pop()
        if v not in live:
            live.add(v)
            todo += [tensors[t].producer for t in reads[v]]
    return live


def _storages_behind(instance: RingInstance, reads: list[set[int]], t: int) -> set[int]:
    """The tensors that a reader of tensor ``t`` reads in truth: back through any number of views."""
    operations, tensors = instance.graph.operations, instance.graph.tensors
    storages, seen, todo = set(), {t}, [t]
    while todo:
        s = todo.pop()
        maker = tensors[s].producer
        if operations[maker].role != "view":
            storages.add(s)
            continue
        todo += reads[maker] - seen
        seen |= reads[maker]
    return storages


def operation_ticks(instance: RingInstance, v: int, moved_in: int, moved_out: int) -> int:
    """time(v) in ticks: ⌈100 · (max(F / (peak · efficiency), bytes / SRAM rate) + launch)⌉, or the measured time."""
    if instance.time_ns is not None and (measured := instance.time_ns[v]) is not None:
        return math.ceil(TICKS_PER_NS * written(measured))
    operation, package = instance.graph.operations[v], instance.package
    if instance.traffic == "in_out":
        stated = operation.moved_bytes
        moved = stated if stated is not None else moved_in + moved_out + operation.weight_bytes
    else:
        moved = 2 * moved_out + operation.weight_bytes
    compute = operation.flop / _reached(package.flop_per_ns, package.efficiency.get(operation.kind, 1))
    memory = moved / written(package.sram_bytes_per_ns)
    return math.ceil(TICKS_PER_NS * (max(compute, memory) + written(package.launch_ns)))


@lru_cache(maxsize=1_000)
def _reached(peak: float, efficiency: float) -> Fraction:
    """The FLOP per ns that operations of a kind reach; most operations of a large graph share it with others."""
    return written(peak) * written(efficiency)


def link_ticks(instance: RingInstance, size: int) -> int:
    """⌈100 · bytes / B⌉: a storage's time on one link, 0 when links are free."""
    rate = instance.package.link_bytes_per_ns
    return 0 if rate is None else math.ceil(TICKS_PER_NS * size / written(rate))
