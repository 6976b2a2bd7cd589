"""Blocks of units one after the other, cut at equal times: C7 by construction, by plain Python.

Units are groups (C1) with what lies between their members, in a topological order of the operations that C7 speaks of;
each device takes units up to a limit on its time and to its memory, then the next one goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from chipmap.heuristics.placement.shared import common_devices
from chipmap.heuristics.placement.starts.filling import ENDLESS
from chipmap.instances.placement.problem import IntArray, PlacementProblem
from chipmap.instances.units import units_in_order

#: Halvings of the limit on a device's time, and on graphs of more than :data:`LARGE` operations.
HALVINGS, FEWER, LARGE = 10, 4, 2_500


def blocks(problem: PlacementProblem) -> Iterator[IntArray]:
    """Devices [N] of blocks whose longest time is about as short as can be, for a few orders of the devices."""
    cutter = _Cutter(problem)
    for devices in cutter.orders():
        high = sum(max(cutter.time[u]) for u in range(len(cutter.units)))
        best, low = cutter.cut(devices, high), sum(min(time) for time in cutter.time) // problem.devices
        halvings = HALVINGS if problem.operations <= LARGE else FEWER
        for _ in range(halvings if best is not None else 0):
            middle = (low + high) // 2
            found = cutter.cut(devices, middle)
            low, high, best = (middle + 1, high, best) if found is None else (low, middle, found)
            if low >= high:
                break
        if best is not None:
            yield best


class _Cutter:
    """The units of a problem in their order, with times by device; those of backward operations alone are ``free``."""

    def __init__(self, problem: PlacementProblem) -> None:
        self.problem = problem
        storages, backward = problem.storages, problem.backward
        pairs = zip(storages.sources.tolist(), storages.readers.tolist(), strict=True)
        flows = [(a, b) for a, b in pairs if a not in backward and b not in backward]
        order = units_in_order(problem.operations, flows, [group for group in problem.groups if len(group) > 1])
        self.units = [unit for unit in order if not backward.issuperset(unit)]
        self.free = [unit for unit in order if backward.issuperset(unit)]
        self.time: list[list[int]] = [problem.time[unit].sum(axis=0).tolist() for unit in self.units]
        rows: list[list[bool]] = common_devices(problem).tolist()
        self.allowed = [[all(some) for some in zip(*(rows[v] for v in unit), strict=True)] for unit in self.units]
        self.free_allowed = [[all(some) for some in zip(*(rows[v] for v in unit), strict=True)] for unit in self.free]
        limited = problem.instance.task.memory != "none"
        self.room = [m if m >= 0 and limited else ENDLESS for m in problem.memory.tolist()]
        self.bytes, self.producer = storages.bytes.tolist(), storages.producer.tolist()
        # what waits for a backward operation is held for each micro-batch under way, but for constants
        later = np.array([v in backward for v in range(problem.operations)], dtype=bool)
        self.waits = np.zeros(len(storages), dtype=bool)
        np.logical_or.at(self.waits, storages.read, later[storages.readers])
        self.waits &= ~later[storages.producer] & ~storages.resident
        self.under_way = [1] * problem.devices
        self.weights, self.made, self.reads = problem.weights.tolist(), problem.made, problem.producers
        self.constants: list[list[int]] = [[] for _ in range(problem.operations)]
        for number, (_, readers) in enumerate(problem.copies):
            for v in readers:
                self.constants[v].append(number)

    def orders(self) -> Iterator[Sequence[int]]:
        """The devices as they are listed; by where along the units what they alone may run lies; the fastest first."""
        count = self.problem.devices
        tied: list[list[int]] = [[] for _ in range(count)]
        for at, row in enumerate(self.allowed):
            if sum(row) < count:
                for d in np.flatnonzero(row).tolist():
                    tied[d].append(at)
        middle = [sum(some) / len(some) if some else len(self.units) for some in tied]
        total: list[int] = np.array(self.time, dtype=np.int64).reshape(-1, count).sum(axis=0).tolist()
        ways = (range(count), range(count - 1, -1, -1), sorted(range(count), key=lambda d: middle[d]))
        yield from dict.fromkeys(map(tuple, (*ways, sorted(range(count), key=lambda d: total[d]))))

    def cut(self, devices: Sequence[int], limit: int) -> IntArray | None:
        """The devices [N] where each takes units up to ``limit`` ns; None where some are left."""
        device, held, sent = [-1] * self.problem.operations, [0] * len(self.room), set[tuple[int, int]]()
        at, busy, most = 0, 0, self.problem.instance.task.micro_batches
        for place, d in enumerate(devices):  # as if all devices were used: never too few
            self.under_way[d] = min(most, len(devices) - place)
        for unit, time, allowed in zip(self.units, self.time, self.allowed, strict=True):
            while True:
                d = devices[at]
                need = self._needs(unit, d, device, sent)
                if allowed[d] and busy + time[d] <= limit and held[d] + need <= self.room[d]:
                    break
                at, busy = at + 1, 0
                if at == len(devices):
                    return None
            busy += time[d]
            held[d] += need
            self._put(unit, d, device, sent)
        for unit, allowed in zip(self.free, self.free_allowed, strict=True):
            some = [(self._needs(unit, d, device, sent), d) for d in devices if allowed[d]]
            fitting = [(need, d) for need, d in some if held[d] + need <= self.room[d]]
            if not fitting:
                return None
            need, d = min(fitting)
            held[d] += need
            self._put(unit, d, device, sent)
        return np.array(device, dtype=np.int64)

    def _needs(self, unit: Sequence[int], d: int, device: Sequence[int], sent: set[tuple[int, int]]) -> int:
        """Bytes that a unit adds on ``d``: weights, outputs, copies of what it reads and of constants."""
        inside, total, fresh = set(unit), 0, set[tuple[int, int]]()
        for v in unit:
            total += self.weights[v] + sum(self._size(s, d) for s in self.made[v])
            for s in self.reads[v]:
                if device[self.producer[s]] != d and self.producer[s] not in inside and (s, d) not in sent:
                    total += 0 if (s, d) in fresh else self._size(s, d)
                    fresh.add((s, d))
            for number in self.constants[v]:
                key = -1 - number, d
                total += 0 if key in sent or key in fresh else self.problem.copies[number][0]
                fresh.add(key)
        return total

    def _size(self, s: int, d: int) -> int:
        """The bytes of a storage on device ``d``."""
        return self.bytes[s] * self.under_way[d] if self.waits[s] else self.bytes[s]

    def _put(self, unit: Sequence[int], d: int, device: list[int], sent: set[tuple[int, int]]) -> None:
        for v in unit:
            device[v] = d
        for v in unit:
            sent.update((s, d) for s in self.reads[v] if device[self.producer[s]] != d)
            sent.update((-1 - number, d) for number in self.constants[v])
