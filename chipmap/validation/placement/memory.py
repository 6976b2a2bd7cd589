"""Memory over time (C6): what each device holds, and when. Plain loops over the records, apart from any simulator."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

from chipmap.instances.placement.instance import PlacementInstance, PlacementSolution
from chipmap.validation.placement.facts import Facts, Storage, facts_of

#: So many of the largest storages are named.
NAMED = 3


class Move(NamedTuple):
    """A transfer: ``storage`` goes from device ``source`` to ``target``, from ``start`` to ``end`` (None: no route)."""

    storage: Storage
    source: str
    target: str
    start: int
    end: int | None


class Held(NamedTuple):
    """Bytes on a device from ``start`` up to ``end`` (None: for the whole step): ``what`` of operation ``whose``."""

    what: str
    whose: str
    bytes: int
    start: int | None
    end: int | None

    @property
    def name(self) -> str:
        """What it is in words: ``output of 'conv1'``."""
        return self.what.format(repr(self.whose))


class Peak(NamedTuple):
    """The most ``bytes`` that a device holds at a time, first from ``at`` ns on; the largest storages then."""

    bytes: int
    at: int
    largest: tuple[Held, ...]

    @property
    def text(self) -> str:
        """The largest storages in words: ``output of 'conv1' (1024), ...``."""
        return ", ".join(f"{one.name} ({one.bytes})" for one in self.largest)


class Placed:
    """A placement on its instance: the device of each operation and, for step time, when all of it happens."""

    def __init__(self, facts: Facts, solution: PlacementSolution) -> None:
        self.facts, names = facts, facts.names
        self.device = {v: solution.devices[names[v]] for v in facts.placed}
        self.fetched = {v for v in facts.placed if names[v] in set(solution.fetched)}
        self.busy = {v: facts.time(v, self.device[v]) for v in facts.placed}
        for v in self.fetched:
            self.busy[v] += facts.fetch(v)
        self.start = {v: solution.start[names[v]] for v in facts.placed if names[v] in solution.start}
        self.end = {v: start + self.busy[v] for v, start in self.start.items()}
        storages, self.moves = {one.tensor: one for one in facts.storages}, list[Move]()
        for one in solution.transfers:
            storage = storages[one.tensor]
            source = self.device[storage.producer]
            route = facts.routes.get((source, one.to))
            end = None if route is None else one.start + facts.send(storage, route)
            self.moves.append(Move(storage, source, one.to, one.start, end))

    def targets(self, storage: Storage) -> list[str]:
        """The other devices that read a storage, in the system's order."""
        return self._away.get(storage.tensor, [])

    @cached_property
    def _away(self) -> dict[int, list[str]]:
        """The other devices that read a storage, by tensor, where there are any."""
        found, device = dict[int, list[str]](), self.device
        for one in self.facts.storages:
            there, home = {device[v] for v in one.readers}, device[one.producer]
            if there and there != {home}:
                found[one.tensor] = [name for name in self.facts.devices if name in there and name != home]
        return found

    @cached_property
    def peaks(self) -> dict[str, Peak]:
        """The peak of each device."""
        return peaks(self)


def peaks(placed: Placed) -> dict[str, Peak]:
    """The peak of each device."""
    found, there = {}, held(placed)
    for name in placed.facts.devices:
        most, at = 0, 0
        for time, now in curve(there[name]):
            if now > most:
                most, at = now, time
        then = (one for one in there[name] if one.start is None or one.start <= at < (one.end or 0))
        largest = sorted(then, key=lambda one: (-one.bytes, one.name))[:NAMED]
        found[name] = Peak(most, at, tuple(largest))
    return found


def curve(there: Iterable[Held]) -> list[tuple[int, int]]:
    """(time, bytes held from then on), from time 0 on; at one time, what is freed comes first."""
    now, events = 0, dict[int, int]()
    for one in there:
        if one.start is None:
            now += one.bytes
        elif one.end is not None and one.start < one.end:
            events[one.start] = events.get(one.start, 0) + one.bytes
            events[one.end] = events.get(one.end, 0) - one.bytes
    found = [(0, now)]
    for time in sorted(events):
        now += events[time]
        found.append((time, now))
    return found


def memory(instance: PlacementInstance, solution: PlacementSolution) -> dict[str, list[Held]]:
    """What each device holds, and when, in a schedule of ``instance`` with all its starts."""
    return held(Placed(facts_of(instance), solution))


def held(placed: Placed) -> dict[str, list[Held]]:
    """What each device holds, and when, by the task's rule.

    Rule ``none`` is taken as ``live``, or as ``static`` where nothing has a start.
    """
    facts, found = placed.facts, {name: list[Held]() for name in placed.facts.devices}
    static = facts.instance.task.memory == "static" or facts.instance.task.objective == "throughput"
    for v in facts.placed:
        weights = facts.graph.operations[v].weight_bytes
        if weights and v not in placed.fetched:
            found[placed.device[v]].append(Held("weights of {}", facts.names[v], weights, None, None))
    for name, buffer in _fetched(placed, static).items():
        found[name] += buffer
    for size, readers in facts.copies:
        for name in {placed.device[v] for v in readers}:
            found[name].append(Held("weights that {} reads", facts.names[readers[0]], size, None, None))
    ends = {(move.storage.tensor, move.target): (move.start, move.end or move.start) for move in placed.moves}
    last_end = max(placed.end.values(), default=0)
    output, copy = "output of {}", "copy of output of {}"
    device, end, waiting = placed.device, placed.end, under_way(placed)
    for one in facts.storages:
        u, away = one.producer, placed.targets(one)
        home, whose, last = device[u], facts.names[u], 0
        for name in away:
            if static:
                found[name].append(Held(copy, whose, one.bytes * waiting.get((one.tensor, name), 1), None, None))
                continue
            start, arrived = ends[one.tensor, name]
            last = max(last, arrived)
            until = max(end[v] for v in one.readers if device[v] == name)
            found[name].append(Held(copy, whose, one.bytes, start, until))
        if static or one.resident:
            found[home].append(Held(output, whose, one.bytes * waiting.get((one.tensor, home), 1), None, None))
            continue
        here = one.readers if not away else [v for v in one.readers if device[v] == home]
        until = last_end if one.output else max(last, end[u], *[end[v] for v in here])
        found[home].append(Held(output, whose, one.bytes, placed.start[u], until))
    return found


def _fetched(placed: Placed, static: bool) -> dict[str, list[Held]]:
    """The weights that operations fetch to each device: while each runs, or the largest of them throughout."""
    facts, found = placed.facts, dict[str, list[Held]]()
    for v in sorted(placed.fetched):
        times = (None, None) if static else (placed.start[v], placed.end[v])
        size = facts.graph.operations[v].weight_bytes
        found.setdefault(placed.device[v], []).append(Held("fetched weights of {}", facts.names[v], size, *times))
    return {name: [max(some, key=lambda one: one.bytes)] if static else some for name, some in found.items()}


def under_way(placed: Placed) -> dict[tuple[int, str], int]:
    """(tensor, device) -> of how many micro-batches the device holds it, for what its backward operations read of
    forward ones; 1 for all else, as for weights and other constants: micro-batches share them.

    A device has as many micro-batches under way as devices stand on the longest way from it to the end, itself
    included, but no more than a step has. Where devices read from each other in a circle (C7), all have as many.
    """
    facts, most = placed.facts, placed.facts.instance.task.micro_batches
    if most == 1:
        return {}
    named = set(facts.instance.backward)
    backward = {v for v, name in enumerate(facts.names) if name in named}
    after: dict[str, set[str]] = {name: set() for name in facts.devices}
    for one in facts.storages:
        for v in one.readers:
            if placed.device[one.producer] != placed.device[v] and not {one.producer, v} & backward:
                after[placed.device[one.producer]].add(placed.device[v])
    behind = dict.fromkeys(facts.devices, 1)
    for _ in facts.devices:
        behind = {name: 1 + max((behind[other] for other in after[name]), default=0) for name in after}
    return {
        (one.tensor, placed.device[v]): min(most, behind[placed.device[v]])
        for one in facts.storages
        if one.producer not in backward and not one.resident
        for v in one.readers
        if v in backward
    }
