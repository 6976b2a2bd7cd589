"""Devices filled within their memories, by plain Python: what stands where even shares of the work don't fit.

Operations are placed in a topological order, each where most of what it reads is, if it fits there. What rests on a
device for the whole step is counted at once with the first operation of a group (C1); what comes and goes (rule
``live``) as if operations ran one at a time, and each storage stayed until all its readers had run. Where some pairs of
devices have no route, devices that leave a neighbour none are struck off (arc consistency).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chipmap.heuristics.placement.shared import common_devices, part_bytes
from chipmap.instances.placement.problem import IntArray, PlacementProblem

#: Bytes of a device without a limit.
ENDLESS = 2**62


def filled(problem: PlacementProblem, order: Sequence[int], share: float) -> IntArray | None:
    """The device of each operation [N]; None where some operation fits nowhere any more.

    A device takes ``share`` times its even part of what rests before others do; infinite: all that fits.
    """
    filling = _Filling(problem, share)
    for v in order:
        if not filling.place(v):
            return None
    return np.array(filling.device, dtype=np.int64)


class _Filling:
    """Bytes on D devices while operations are placed one by one."""

    def __init__(self, problem: PlacementProblem, share: float) -> None:
        self.problem, self.static = problem, problem.instance.task.memory == "static"
        limited = problem.instance.task.memory != "none"
        self.room = [m if m >= 0 and limited else ENDLESS for m in problem.memory.tolist()]
        self.group, self.held = problem.group.tolist(), part_bytes(problem, problem.group).tolist()
        total, finite = sum(self.held), all(room < ENDLESS for room in self.room)
        whole = sum(self.room) if finite else len(self.room)
        self.even = [share * total * (room if finite else 1) / max(1, whole) for room in self.room]
        storages = problem.storages
        self.bytes, self.producer = storages.bytes.tolist(), storages.producer.tolist()
        self.resident, self.output = storages.resident.tolist(), storages.output.tolist()
        self.left = np.diff(storages.reader_at).tolist()
        self.made, self.reads = problem.made, problem.producers
        makes = np.zeros(problem.operations, dtype=np.int64)  # bytes of its outputs that come and go
        np.add.at(makes, storages.producer, np.where(storages.resident, 0, storages.bytes))
        self.makes = makes.tolist()
        self.rests, self.live = [0] * problem.devices, [0] * problem.devices
        self.peak, self.device = [0] * problem.devices, [-1] * problem.operations
        self.of_group: dict[int, int] = {}
        self.copies: list[set[int]] = [set() for _ in self.bytes]  # devices that a storage was sent to
        self.domains = _Domains(problem)
        self.current = 0

    def place(self, v: int) -> bool:
        """Place operation ``v``; whether it fits anywhere."""
        g, (there, total) = self.group[v], self._there(v)
        if g in self.of_group:
            d = self.of_group[g]
            if not self._fits(v, d, 0, total - there[d]):
                return False
            self._put(v, d, 0, total - there[d])
            return True
        held, count = self.held[g], len(self.room)
        # better: room in its even part, what is there, the next one in a circle
        ranks = [
            (self.rests[d] + held > self.even[d], -there[d], (d - self.current) % count, d) for d in self.domains.of(g)
        ]
        for *_, d in sorted(ranks):
            if self._fits(v, d, held, total - there[d]) and self.domains.settle(g, d):
                self.of_group[g] = self.current = d
                self._put(v, d, held, total - there[d])
                return True
        return False

    def _there(self, v: int) -> tuple[list[int], int]:
        """(bytes of what ``v`` reads that each device has [D], of all that it reads)."""
        found, total = [0] * len(self.room), 0
        for s in self.reads[v]:
            size = self.bytes[s]
            total += size
            found[self.device[self.producer[s]]] += size
            for d in self.copies[s]:
                found[d] += size
        return found, total

    def _fits(self, v: int, d: int, rest: int, comes: int) -> bool:
        """Whether ``v`` fits on ``d``, with ``rest`` bytes that rest there and ``comes`` bytes that are sent there."""
        if self.static:
            return self.rests[d] + rest + comes <= self.room[d]
        return self.rests[d] + rest + max(self.peak[d], self.live[d] + self.makes[v] + comes) <= self.room[d]

    def _put(self, v: int, d: int, rest: int, comes: int) -> None:
        self.rests[d] += rest + (comes if self.static else 0)
        self.live[d] += comes + self.makes[v]
        self.peak[d] = max(self.peak[d], self.live[d])
        self.device[v] = d
        for s in self.reads[v]:
            if self.device[self.producer[s]] != d:
                self.copies[s].add(d)
            self.left[s] -= 1
            if not self.left[s]:
                self._free(s)
        for s in self.made[v]:
            if not self.left[s]:
                self._free(s)

    def _free(self, s: int) -> None:
        """Free a storage that nobody reads any more."""
        for d in self.copies[s]:
            self.live[d] -= self.bytes[s]
        if not self.resident[s] and not self.output[s]:
            self.live[self.device[self.producer[s]]] -= self.bytes[s]


class _Domains:
    """The devices that each group may still have, as bits, so that every neighbour has one with a route."""

    def __init__(self, problem: PlacementProblem) -> None:
        allowed = common_devices(problem)
        self.group = problem.group.tolist()
        bits = (allowed.astype(object) * [1 << d for d in range(problem.devices)]).sum(axis=1)
        self.bits: dict[int, int] = dict(zip(self.group, bits.tolist(), strict=True))
        reach = (problem.network.kind >= 0) | np.eye(problem.devices, dtype=bool)
        self.complete = bool(reach.all()) or not problem.timed
        self.out = [sum(1 << d for d in np.flatnonzero(row).tolist()) for row in reach]
        self.into = [sum(1 << d for d in np.flatnonzero(row).tolist()) for row in reach.T]
        self.known: dict[tuple[bool, int], int] = {}
        self.listed: dict[int, list[int]] = {}
        self.near: dict[int, set[tuple[int, bool]]] = {g: set() for g in self.bits}
        if not self.complete:
            for s, u in enumerate(problem.storages.producer.tolist()):
                for w in problem.storages.read_by(s):
                    if self.group[u] != self.group[w]:
                        self.near[self.group[u]].add((self.group[w], True))
                        self.near[self.group[w]].add((self.group[u], False))
            self._narrow(list(self.bits), {})

    def of(self, g: int) -> list[int]:
        """The devices of a group."""
        bits = self.bits[g]
        if bits not in self.listed:
            self.listed[bits] = [d for d in range(len(self.out)) if bits >> d & 1]
        return self.listed[bits]

    def settle(self, g: int, d: int) -> bool:
        """Give the group this device; where that leaves another one none, nothing changes and it is False."""
        before = {g: self.bits[g]}
        self.bits[g] = 1 << d
        if self.complete or self._narrow([g], before):
            return True
        self.bits.update(before)
        return False

    def _narrow(self, changed: list[int], before: dict[int, int]) -> bool:
        """Strike off what the ``changed`` groups leave no route; ``before`` keeps what was struck. False where a group
        has no device left."""
        while changed:
            g = changed.pop()
            for other, forward in self.near[g]:
                kept = self.bits[other] & self._reached(forward, self.bits[g])
                if kept != self.bits[other]:
                    before.setdefault(other, self.bits[other])
                    self.bits[other] = kept
                    if not kept:
                        return False
                    changed.append(other)
        return True

    def _reached(self, forward: bool, bits: int) -> int:
        """The devices that a route leads to (``forward``) or comes from, from any of these."""
        if (forward, bits) not in self.known:
            ways, found = self.out if forward else self.into, 0
            for d, reached in enumerate(ways):
                found |= reached if bits >> d & 1 else 0
            self.known[forward, bits] = found
        return self.known[forward, bits]
