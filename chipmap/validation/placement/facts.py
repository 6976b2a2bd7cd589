"""What a placement is judged by: operations that are placed, storages, times. Plain loops over the records.

It follows ``docs/families/placement.md`` ("The problem") and shares nothing with models, costs and heuristics.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.instances.placement.instance import PlacementInstance, allowed_devices
from chipmap.instances.placement.system import Device, DeviceClass, Route, routes_of
from chipmap.records import kept
from chipmap.validation.decimals import written
from chipmap.validation.placement.arrays import Reads, Whole, exact


class Storage(NamedTuple):
    """Bytes that an operation makes: tensor ``tensor`` of operation ``producer``, and the operations that read it."""

    tensor: int
    producer: int
    bytes: int
    readers: tuple[int, ...]
    output: bool
    resident: bool


class StorageArrays(NamedTuple):
    """The ``producer``, ``bytes`` of each storage [K], whether it is an ``output``, or rests (``resident``); who
    ``reads`` storages, and who reads weights of which each device has a copy."""

    producer: NDArray[np.int64]
    bytes: Whole
    output: NDArray[np.bool_]
    resident: NDArray[np.bool_]
    reads: Reads
    weight_reads: Reads

    @classmethod
    def of(cls, storages: Sequence[Storage], copies: Iterable[tuple[int, tuple[int, ...]]]) -> StorageArrays:
        """Those of lists of them."""
        return cls(
            producer=np.array([one.producer for one in storages], dtype=np.int64),
            bytes=exact(one.bytes for one in storages),
            output=np.array([one.output for one in storages], dtype=bool),
            resident=np.array([one.resident for one in storages], dtype=bool),
            reads=Reads.of(one.readers for one in storages),
            weight_reads=Reads.of(readers for _, readers in copies),
        )


class Facts:
    """The facts of one instance."""

    def __init__(self, instance: PlacementInstance) -> None:
        self.instance, self.graph = instance, instance.graph
        self.devices: dict[str, Device] = {device.name: device for device in instance.system.devices}
        self.classes: dict[str, DeviceClass] = {one.name: one for one in instance.system.classes}
        self.routes: dict[tuple[str, str], Route] = routes_of(instance.system)
        self._times: dict[tuple[int, str], int] = {}
        self._like: dict[tuple[object, ...], int] = {}  # by all that a time depends on: most operations are like others
        self.variable = instance.task.weights == "variable"
        self.inputs: list[list[int]] = [[] for _ in self.graph.operations]
        self.outputs: list[list[int]] = [[] for _ in self.graph.operations]
        for t, tensor in enumerate(self.graph.tensors):
            self.outputs[tensor.producer].append(t)
            for reader in sorted(set(tensor.readers)):
                self.inputs[reader].append(t)
        self.live = self._live()
        roles = ("compute", "constant") if self.variable else ("compute",)
        self.placed = [
            v for v, operation in enumerate(self.graph.operations) if operation.role in roles and self.live[v]
        ]
        self._sort_storages()

    def _live(self) -> list[bool]:
        """Whether an operation has a path to an output, where there are outputs."""
        if not any(tensor.output for tensor in self.graph.tensors):
            return [True] * len(self.graph.operations)
        found = [False] * len(self.graph.operations)
        left = [tensor.producer for tensor in self.graph.tensors if tensor.output]
        while left:
            v = left.pop()
            if not found[v]:
                found[v] = True
                left += [self.graph.tensors[t].producer for t in self.inputs[v]]
        return found

    def _sort_storages(self) -> None:
        """``storages``: those that placed operations make. ``copies``: (bytes, readers) of weights on each device."""
        operations, tensors = self.graph.operations, self.graph.tensors
        readers: list[list[int]] = [[] for _ in tensors]
        outputs = {t for t, tensor in enumerate(tensors) if tensor.output}
        behind: dict[int, set[int]] = {}  # of each tensor that a view makes: the tensors whose bytes it renames
        views = {v for v, operation in enumerate(operations) if operation.role == "view"}
        for v in self.graph.topological_order() if views else ():
            if v in views:
                origins = set[int]().union(*(behind.get(t, {t}) for t in self.inputs[v]))
                for t in self.outputs[v]:
                    behind[t] = origins
                    if t in outputs:
                        outputs |= origins
        for v in self.placed:
            for t in self.inputs[v] if operations[v].role == "compute" else ():
                for origin in behind.get(t, (t,)):
                    if not readers[origin] or readers[origin][-1] != v:  # it reads no storage twice
                        readers[origin].append(v)
        placed, self.storages, self.copies = set(self.placed), list[Storage](), list[tuple[int, tuple[int, ...]]]()
        for t, tensor in enumerate(tensors):
            read_by = tuple(readers[t])  # operations come in ascending order
            if tensor.producer in placed:
                resident = operations[tensor.producer].role == "constant"
                one = Storage(t, tensor.producer, tensor.bytes, read_by, t in outputs, resident)
                self.storages.append(one)
            elif operations[tensor.producer].role == "constant" and read_by:
                self.copies.append((tensor.bytes, read_by))

    @cached_property
    def places(self) -> dict[int, int]:
        """The position in ``storages`` of each tensor that is one."""
        return {one.tensor: k for k, one in enumerate(self.storages)}

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each device, in the system's order."""
        return {name: d for d, name in enumerate(self.devices)}

    @cached_property
    def arrays(self) -> StorageArrays:
        """Storages and copies of weights as arrays."""
        return StorageArrays.of(self.storages, self.copies)

    def numbered(self, devices: Iterable[str]) -> NDArray[np.int64]:
        """The number of each operation's device, -1 where it isn't placed [N]; ``devices``: those of ``placed``."""
        found = np.full(len(self.graph.operations), -1, dtype=np.int64)
        found[self.placed] = list(map(self.numbers.__getitem__, devices))
        return found

    def crossing(self, on: NDArray[np.int64]) -> NDArray[np.int64]:
        """storage · D + device, ascending, for each device ``on`` which a storage is read, but not made."""
        reads, home = self.arrays.reads, on[self.arrays.producer]
        there = on[reads.reader]
        away = there != home[reads.what]
        found: NDArray[np.int64] = np.unique(reads.what[away] * len(self.devices) + there[away])
        return found

    @cached_property
    def weighted(self) -> list[tuple[int, int]]:
        """Each placed operation with weights of its own, and their bytes."""
        operations = self.graph.operations
        return [(v, operations[v].weight_bytes) for v in self.placed if operations[v].weight_bytes]

    @cached_property
    def names(self) -> list[str]:
        """The operations' names."""
        return [operation.name for operation in self.graph.operations]

    @cached_property
    def allowed(self) -> dict[str, set[str]]:
        """The devices that each operation may run on."""
        return allowed_devices(self.instance)

    def time(self, v: int, device: str) -> int:
        """p(v, class of the device) in ns."""
        key = v, self.devices[device].kind
        known = self._times.get(key)
        if known is None:
            known = self._times[key] = self._time(v, device)
        return known

    def _time(self, v: int, device: str) -> int:
        operation, kind = self.graph.operations[v], self.classes[self.devices[device].kind]
        if operation.role == "constant":
            return 0
        measured = self.instance.time_ns.get(kind.name)
        if measured is not None and measured[v] is not None:
            return math.ceil(written(measured[v] or 0))
        size = operation.moved_bytes
        if size is None:
            size = operation.weight_bytes
            for t in {*self.inputs[v], *self.outputs[v]}:
                size += self.graph.tensors[t].bytes
        like = (kind.name, operation.kind, operation.flop, size)
        if like not in self._like:
            rate = written(kind.flop_per_ns) * written(kind.efficiency.get(operation.kind, 1.0))
            busy = max(operation.flop / rate, size / written(kind.memory_bytes_per_ns))
            self._like[like] = math.ceil(busy + written(kind.launch_ns))
        return self._like[like]

    def fetch(self, v: int) -> int:
        """Time of fetching the weights of operation v from the host in ns."""
        rate = self.instance.task.fetch_bytes_per_ns
        assert rate is not None
        return math.ceil(self.graph.operations[v].weight_bytes / written(rate))

    def send(self, storage: Storage, route: Route) -> int:
        """c of a storage over a route in ns."""
        measured = self.instance.transfer_ns[storage.tensor] if self.instance.transfer_ns else None
        if measured is not None:
            return math.ceil(written(measured))
        rate, like = route.bytes_per_ns, (storage.bytes, route.latency_ns, route.bytes_per_ns)
        if like not in self._like:
            moved = storage.bytes / written(rate) if rate is not None else Fraction(0)
            self._like[like] = math.ceil(written(route.latency_ns) + moved)
        return self._like[like]


def facts_of(instance: PlacementInstance) -> Facts:
    """The facts of ``instance`` (kept on it, as a search has many placements checked)."""
    return kept(instance, "_facts", Facts)


def looked_up(instance: PlacementInstance) -> Facts:
    """The facts with what the first check would look up, by a process that has nothing better to do meanwhile."""
    facts = facts_of(instance)
    kinds = {device.kind: name for name, device in facts.devices.items()}
    for v in facts.placed:
        for name in kinds.values():
            facts.time(v, name)
    for key in ("allowed", "places", "arrays", "weighted"):
        getattr(facts, key)
    assert instance.content_hash
    return facts
