"""The arrays of a placement instance that models and heuristics work on, and the load of a placement.

The formulas are those of ``docs/families/placement.md``. The checker states them a second time, on its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from chipmap.instances.placement.exact import exact_times, transfer
from chipmap.instances.placement.instance import PlacementInstance, PlacementSolution, Transfer, allowed_devices
from chipmap.instances.placement.system import routes_of
from chipmap.networks.graph import OperationGraph
from chipmap.records import InputError, kept
from chipmap.records.decimals import exact

IntArray = NDArray[np.int64]
#: Sums of times stay below this many ns.
MAX_TOTAL = 2**60


class DisjointSets:
    """Operations that share a device, by union and find; a set is named by its least member."""

    def __init__(self, count: int) -> None:
        self.first, self.count = list(range(count)), count

    def find(self, v: int) -> int:
        """The least member of the set of v."""
        while self.first[v] != v:
            self.first[v] = self.first[self.first[v]]
            v = self.first[v]
        return v

    def join(self, members: Iterable[int]) -> None:
        """Make one set of those of the members."""
        found = sorted({self.find(v) for v in members})
        for v in found[1:]:
            self.first[v] = found[0]
            self.count -= 1


@dataclass(frozen=True, eq=False)
class Storages:
    """S storages that placed operations make, in the order of ``graph.tensors``.

    ``tensor`` [S]: the position in ``graph.tensors``; ``producer`` [S]; ``bytes`` [S]; the readers of storage s are
    ``readers[reader_at[s]:reader_at[s + 1]]``. ``output`` and ``resident`` [S]. ``time`` [S, K]: c over each of the K
    kinds of routes.
    """

    tensor: IntArray
    producer: IntArray
    bytes: IntArray
    reader_at: IntArray
    readers: IntArray
    output: NDArray[np.bool_]
    resident: NDArray[np.bool_]
    time: IntArray

    def __len__(self) -> int:
        return len(self.tensor)

    @cached_property
    def read(self) -> IntArray:
        """The storage that each of ``readers`` reads."""
        return np.repeat(np.arange(len(self)), np.diff(self.reader_at))

    @cached_property
    def sources(self) -> IntArray:
        """The producer of what each of ``readers`` reads."""
        return self.producer[self.read]

    def read_by(self, s: int) -> list[int]:
        """The readers of storage s."""
        found: list[int] = self.readers[self.reader_at[s] : self.reader_at[s + 1]].tolist()
        return found


@dataclass(frozen=True, eq=False)
class Network:
    """The routes between D devices: ``kind[a, b]`` is the column of ``Storages.time`` (-1: none), ``gap[a, b]`` ns.

    The channels of a to b are ``channels[channel_at[a * D + b]:channel_at[a * D + b + 1]]``, those of all ``names``.
    """

    kind: IntArray
    gap: IntArray
    channel_at: IntArray
    channels: IntArray
    names: tuple[str, ...]

    @property
    def count(self) -> int:
        """The number of channels."""
        return len(self.names)

    def held(self, a: int, b: int) -> list[int]:
        """The channels of the route from device a to b."""
        at = a * len(self.kind) + b
        found: list[int] = self.channels[self.channel_at[at] : self.channel_at[at + 1]].tolist()
        return found


@dataclass(frozen=True, eq=False)
class PlacementProblem:
    """A placement instance as arrays. N placed operations have positions in the order of ``graph.operations``.

    ``position`` [N]: those in the graph. ``time`` [N, D]: p in ns (also where the device isn't allowed). ``allowed``
    [N, D]. ``weights`` [N] bytes. ``order`` [N]: topological. ``gap`` [D]. ``memory`` [D]: bytes, -1 without a limit.
    ``copies``: (bytes, readers) of weights that each device with a reader has. C1: operations with the same number in
    ``group`` [N] share a device, no two of a group in ``apart`` do.
    """

    instance: PlacementInstance
    position: IntArray
    time: IntArray
    allowed: NDArray[np.bool_]
    weights: IntArray
    order: IntArray
    gap: IntArray
    memory: IntArray
    storages: Storages
    network: Network
    copies: tuple[tuple[int, tuple[int, ...]], ...]
    group: IntArray
    apart: tuple[tuple[int, ...], ...] = ()

    @property
    def operations(self) -> int:
        """N."""
        return len(self.position)

    @property
    def devices(self) -> int:
        """D."""
        return len(self.gap)

    @property
    def timed(self) -> bool:
        """Whether the objective is step time."""
        return self.instance.task.objective == "step_time"

    @cached_property
    def names(self) -> list[str]:
        """The operations' names [N]."""
        return [self.instance.graph.operations[v].name for v in self.position.tolist()]

    @cached_property
    def device_names(self) -> list[str]:
        """The devices' names [D]."""
        return [device.name for device in self.instance.system.devices]

    @cached_property
    def producers(self) -> list[list[int]]:
        """For each operation the storages that it reads."""
        found: list[list[int]] = [[] for _ in range(self.operations)]
        for s, v in zip(self.storages.read.tolist(), self.storages.readers.tolist(), strict=True):
            found[v].append(s)
        return found

    @cached_property
    def made(self) -> list[list[int]]:
        """For each operation the storages that it makes."""
        found: list[list[int]] = [[] for _ in range(self.operations)]
        for s, u in enumerate(self.storages.producer.tolist()):
            found[u].append(s)
        return found

    @cached_property
    def groups(self) -> list[list[int]]:
        """The operations of each group."""
        found: dict[int, list[int]] = {}
        for v, g in enumerate(self.group.tolist()):
            found.setdefault(g, []).append(v)
        return list(found.values())

    @cached_property
    def backward(self) -> set[int]:
        """The operations that C7 says nothing of."""
        named = set(self.instance.backward)
        return {v for v, name in enumerate(self.names) if name in named}

    @cached_property
    def paying(self) -> list[bool]:
        """Whether transfers cost a device time, in objective throughput."""
        kinds = {one.name: one.pays_transfers for one in self.instance.system.classes}
        return [kinds[device.kind] for device in self.instance.system.devices]

    @cached_property
    def horizon(self) -> int:
        """An upper limit on the starts and ends of schedules that leave no chance out, in ns."""
        rest = self.gap.max(initial=0) * self.operations
        longest = np.where(self.allowed, self.time, 0).max(axis=1, initial=0).sum()
        targets = np.minimum(self.devices - 1, np.diff(self.storages.reader_at))
        moved = (self.storages.time.max(axis=1, initial=0) + self.network.gap.max(initial=0)) * targets
        return int(rest + longest + moved.sum())

    def names_of(self, devices: IntArray) -> dict[str, str]:
        """Devices [N] as a solution names them."""
        return {name: self.device_names[d] for name, d in zip(self.names, devices.tolist(), strict=True)}

    def devices_of(self, solution: PlacementSolution) -> IntArray:
        """The devices [N] of a solution. Raises :class:`InputError` where an operation has none of the instance."""
        at = {name: d for d, name in enumerate(self.device_names)}
        lacking = next((name for name in self.names if solution.devices.get(name) not in at), None)
        if lacking is not None:
            remedy = "Take a solution of this very instance; `chipmap check` says more."
            raise InputError(f"operation {lacking!r} has no device of the instance", "solution.devices", remedy)
        return np.array([at[solution.devices[name]] for name in self.names], dtype=np.int64)

    def without_route(self, devices: IntArray) -> tuple[int, int] | None:
        """(producer, reader) of something that would be sent on devices [N] between which no route leads; the first."""
        a, b = devices[self.storages.sources], devices[self.storages.readers]
        lost = np.flatnonzero((a != b) & (self.network.kind[a, b] < 0))[:1].tolist()
        return (int(self.storages.sources[lost[0]]), int(self.storages.readers[lost[0]])) if lost else None

    def solution(
        self, devices: IntArray, start: Sequence[int] = (), moves: Iterable[tuple[int, int, int]] = ()
    ) -> PlacementSolution:
        """The placement on these devices [N]; with step time the starts [N], and (storage, device, start) of each
        transfer."""
        tensors, names = self.storages.tensor.tolist(), self.device_names
        return PlacementSolution(
            instance=self.instance.name,
            devices=self.names_of(devices),
            start=dict(zip(self.names, start, strict=self.timed)),
            transfers=tuple(Transfer(tensor=tensors[s], to=names[d], start=at) for s, d, at in moves),
        )


def placement_problem(instance: PlacementInstance) -> PlacementProblem:
    """The arrays of ``instance`` (kept on it: a second call is free)."""
    return kept(instance, "_problem", _build)


def _build(instance: PlacementInstance) -> PlacementProblem:
    graph = instance.graph
    needed, variable = graph.needed(), instance.task.weights == "variable"
    roles = ("compute", "constant") if variable else ("compute",)
    placed = [v for v, one in enumerate(graph.operations) if needed[v] and one.role in roles]
    index = {v: i for i, v in enumerate(placed)}
    network, kinds = network_of(instance)
    storages, copies = _storages(instance, index, kinds)
    order = [index[v] for v in graph.topological_order() if v in index]
    names = [device.name for device in instance.system.devices]
    classes = {one.name: one for one in instance.system.classes}
    by_class = {name: list(map(math.ceil, exact_times(instance, one, placed))) for name, one in classes.items()}
    group, apart = _groups(instance, index)
    problem = PlacementProblem(
        instance=instance,
        position=np.array(placed, dtype=np.int64),
        time=np.array([by_class[one.kind] for one in instance.system.devices], dtype=np.int64).T.reshape(
            -1, len(names)
        ),
        allowed=_allowed(instance, placed),
        weights=np.array([graph.operations[v].weight_bytes for v in placed], dtype=np.int64),
        order=np.array(order, dtype=np.int64),
        gap=np.array([classes[one.kind].gap_ns for one in instance.system.devices], dtype=np.int64),
        memory=np.array(
            [-1 if (m := one.memory_bytes) is None else m for one in instance.system.devices], dtype=np.int64
        ),
        storages=storages,
        network=network,
        copies=tuple(copies),
        group=group,
        apart=apart,
    )
    if problem.horizon > MAX_TOTAL:
        raise InputError("all times together exceed 64 bits", "graph", "Give smaller times.")
    return problem


def _allowed(instance: PlacementInstance, placed: list[int]) -> NDArray[np.bool_]:
    """Whether each placed operation may run on each device [N, D]; most share their set of devices with others."""
    names, allowed = [device.name for device in instance.system.devices], allowed_devices(instance)
    rows: dict[int, NDArray[np.bool_]] = {}
    found = np.empty((len(placed), len(names)), dtype=bool)
    for i, v in enumerate(placed):
        some = allowed[instance.graph.operations[v].name]
        if id(some) not in rows:
            rows[id(some)] = np.array([name in some for name in names], dtype=bool)
        found[i] = rows[id(some)]
    return found


def network_of(instance: PlacementInstance) -> tuple[Network, list[tuple[Fraction, Fraction | None]]]:
    """The routes, and (latency, rate) of each kind of them."""
    names = [device.name for device in instance.system.devices]
    count, routes = len(names), routes_of(instance.system)
    kind, gap = np.full((count, count), -1, dtype=np.int64), np.zeros((count, count), dtype=np.int64)
    kinds: dict[tuple[Fraction, Fraction | None], int] = {}
    channels: dict[str, int] = {}
    held: list[list[int]] = []
    for a, source in enumerate(names):
        for b, target in enumerate(names):
            route = routes.get((source, target))
            held.append([])
            if route is not None:
                rate = None if route.bytes_per_ns is None else exact(route.bytes_per_ns)
                kind[a, b] = kinds.setdefault((exact(route.latency_ns), rate), len(kinds))
                gap[a, b] = route.gap_ns
                held[-1] = [channels.setdefault(name, len(channels)) for name in route.channels]
    starts, flat = _flat(held)
    return Network(kind, gap, starts, flat, tuple(channels)), list(kinds)


def _storages(
    instance: PlacementInstance, index: dict[int, int], kinds: list[tuple[Fraction, Fraction | None]]
) -> tuple[Storages, list[tuple[int, tuple[int, ...]]]]:
    """The storages, and the weights that are copied to each device with a reader."""
    graph = instance.graph
    operations, tensors = graph.operations, graph.tensors
    behind, returned = _readers(graph, index)
    mine = [t for t, tensor in enumerate(tensors) if tensor.producer in index]
    starts, flat = _flat([sorted(behind[t]) for t in mine])
    times, known = list[list[int]](), dict[int, list[int]]()
    for t in mine:
        size, given = tensors[t].bytes, instance.transfer_ns[t] if instance.transfer_ns else None
        if size not in known:
            known[size] = [math.ceil(transfer(size, *kind)) for kind in kinds] or [0]
        times.append(known[size] if given is None else [math.ceil(exact(given)) if kinds else 0] * max(1, len(kinds)))
    storages = Storages(
        tensor=np.array(mine, dtype=np.int64),
        producer=np.array([index[tensors[t].producer] for t in mine], dtype=np.int64),
        bytes=np.array([tensors[t].bytes for t in mine], dtype=np.int64),
        reader_at=starts,
        readers=flat,
        output=np.array([returned[t] for t in mine], dtype=bool),
        resident=np.array([operations[tensors[t].producer].role == "constant" for t in mine], dtype=bool),
        time=np.array(times, dtype=np.int64).reshape(-1, max(1, len(kinds))),
    )
    copies = [
        (tensor.bytes, tuple(sorted(behind[t])))
        for t, tensor in enumerate(tensors)
        if tensor.producer not in index and operations[tensor.producer].role == "constant" and behind[t]
    ]
    return storages, copies


def _readers(graph: OperationGraph, index: dict[int, int]) -> tuple[list[set[int]], list[bool]]:
    """For each tensor: the placed computing operations that read it, through views or not; whether it is returned."""
    operations, tensors, views = graph.operations, graph.tensors, set[int]()
    place = [-1] * len(operations)
    for v, one in enumerate(operations):
        if one.role == "view":
            views.add(v)
        elif one.role == "compute":
            place[v] = index.get(v, -1)
    found = [{place[v] for v in tensor.readers} - {-1} for tensor in tensors]
    returned = [tensor.output for tensor in tensors]
    if views:
        made: list[list[int]] = [[] for _ in operations]
        for t, tensor in enumerate(tensors):
            made[tensor.producer].append(t)
        for v in reversed(graph.topological_order()):
            for t in made[v]:
                for s in (s for w in tensors[t].readers if w in views for s in made[w]):
                    found[t] |= found[s]
                    returned[t] |= returned[s]
    return found, returned


def _groups(instance: PlacementInstance, index: dict[int, int]) -> tuple[IntArray, tuple[tuple[int, ...], ...]]:
    """The least position among the operations that share a device, for each; the positions of each group apart."""
    groups, at = DisjointSets(len(index)), {instance.graph.operations[v].name: i for v, i in index.items()}
    for names in instance.together:
        groups.join(at[name] for name in names if name in at)
    apart = tuple(tuple(sorted({at[name] for name in names if name in at})) for names in instance.apart)
    return np.array([groups.find(v) for v in range(len(index))], dtype=np.int64), apart


def _flat(lists: list[list[int]]) -> tuple[IntArray, IntArray]:
    """(where each list begins and the last one ends, all of them in a row)."""
    starts = np.cumsum([0, *(len(one) for one in lists)], dtype=np.int64)
    return starts, np.array([x for one in lists for x in one], dtype=np.int64)
