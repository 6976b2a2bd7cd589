"""Memory over time (C6): what each device holds, and when, apart from any simulator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.instances.placement.instance import PlacementInstance, PlacementSolution
from chipmap.validation.placement.arrays import Whole, alike, exact, levels
from chipmap.validation.placement.facts import Facts, Storage, facts_of

#: What an entry is, of the operation that it names.
WORDS = (
    *("weights of {}", "fetched weights of {}", "weights that {} reads"),
    *("copy of output of {}", "output of {}"),
)
WEIGHTS, FETCHED, READ, COPY, OUTPUT = range(len(WORDS))
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


class Spans(NamedTuple):
    """Entry k: operation ``whose[k]``'s bytes (``what``: a position in :data:`WORDS`) on device ``device[k]``.

    ``bytes[k]`` are held from ``start[k]`` up to ``end[k]`` ns, or throughout where ``throughout[k]``.
    """

    device: NDArray[np.int64]
    what: NDArray[np.int64]
    whose: NDArray[np.int64]
    bytes: Whole
    throughout: NDArray[np.bool_]
    start: Whole
    end: Whole


class Placed:
    """A placement on its instance: the device of each operation and, for step time, when all of it happens."""

    def __init__(self, facts: Facts, solution: PlacementSolution) -> None:
        self.facts, names = facts, facts.names
        self.device = {v: solution.devices[names[v]] for v in facts.placed}
        fetched, start = set(solution.fetched), solution.start
        self.fetched = {v for v in facts.placed if names[v] in fetched} if fetched else set[int]()
        self.busy = {v: facts.time(v, device) for v, device in self.device.items()}
        for v in self.fetched:
            self.busy[v] += facts.fetch(v)
        self.start = {v: start[names[v]] for v in facts.placed if names[v] in start}
        self.end = {v: start + self.busy[v] for v, start in self.start.items()}
        self.moves = list[Move]()
        for one in solution.transfers:
            storage = facts.storages[facts.places[one.tensor]]
            source = self.device[storage.producer]
            route = facts.routes.get((source, one.to))
            end = None if route is None else one.start + facts.send(storage, route)
            self.moves.append(Move(storage, source, one.to, one.start, end))

    def targets(self, storage: Storage) -> list[str]:
        """The other devices that read a storage, in the system's order."""
        return self._away.get(storage.tensor, [])

    @cached_property
    def on(self) -> NDArray[np.int64]:
        """The number of each operation's device, -1 where it isn't placed [N]."""
        return self.facts.numbered(self.device.values())

    @cached_property
    def crossing(self) -> NDArray[np.int64]:
        """storage · D + device, ascending, for each device on which a storage is read, but not made."""
        return self.facts.crossing(self.on)

    @cached_property
    def sent_bytes(self) -> int:
        """The bytes of all transfers."""
        return sum(self.facts.arrays.bytes[self.crossing // len(self.facts.devices)].tolist())

    @cached_property
    def _away(self) -> dict[int, list[str]]:
        """The other devices that read a storage, by tensor, where there are any."""
        found, names, storages = dict[int, list[str]](), list(self.facts.devices), self.facts.storages
        for pair in self.crossing.tolist():
            which, device = divmod(pair, len(names))
            found.setdefault(storages[which].tensor, []).append(names[device])
        return found

    @cached_property
    def peaks(self) -> dict[str, Peak]:
        """The peak of each device."""
        return peaks(self)


def peaks(placed: Placed) -> dict[str, Peak]:
    """The peak of each device."""
    found, entries = {}, spans(placed)
    for name, mine in zip(placed.facts.devices, by_device(entries, len(placed.facts.devices)), strict=True):
        most, at = throughout(entries, mine), 0
        passing = mine[~entries.throughout[mine]]
        times, now = levels(most, entries.start[passing], entries.end[passing], entries.bytes[passing])
        if len(now) and now.max() > most:
            most, at = int(now.max()), int(times[now.argmax()])
        then = mine[entries.throughout[mine] | ((entries.start[mine] <= at) & (at < entries.end[mine]))]
        found[name] = Peak(most, at, _largest(placed.facts, entries, then))
    return found


def _largest(facts: Facts, entries: Spans, then: NDArray[np.int64]) -> tuple[Held, ...]:
    """The largest of these entries, by name where they are equally large."""
    least = sorted(entries.bytes[then].tolist())[-NAMED:][:1]
    listed = _held(facts, entries, [k for k in then.tolist() if entries.bytes[k] >= least[0]])
    return tuple(sorted(listed, key=lambda one: (-one.bytes, one.name))[:NAMED])


def curve(there: Iterable[Held]) -> list[tuple[int, int]]:
    """(time, bytes held from then on), from time 0 on; at one time, what is freed comes first."""
    base, passing = 0, list[tuple[int, int, int]]()
    for one in there:
        if one.start is None or one.end is None:
            base += one.bytes
        else:
            passing.append((one.start, one.end, one.bytes))
    times, now = levels(base, *(exact(column) for column in list(zip(*passing, strict=True)) or ((), (), ())))
    return [(0, base), *zip(times.tolist(), now.tolist(), strict=True)]


def memory(instance: PlacementInstance, solution: PlacementSolution) -> dict[str, list[Held]]:
    """What each device holds, and when, in a schedule of ``instance`` with all its starts."""
    return held(Placed(facts_of(instance), solution))


def held(placed: Placed) -> dict[str, list[Held]]:
    """What each device holds, and when, by the task's rule.

    Rule ``none`` is taken as ``live``, or as ``static`` where nothing has a start.
    """
    entries, names = spans(placed), placed.facts.devices
    lists = (_held(placed.facts, entries, mine.tolist()) for mine in by_device(entries, len(names)))
    return dict(zip(names, lists, strict=True))


def _held(facts: Facts, entries: Spans, listed: Iterable[int]) -> list[Held]:
    """Entries as records."""
    found = list[Held]()
    for k in listed:
        times = (None, None) if entries.throughout[k] else (int(entries.start[k]), int(entries.end[k]))
        what, whose = WORDS[entries.what[k]], facts.names[entries.whose[k]]
        found.append(Held(what, whose, int(entries.bytes[k]), *times))
    return found


def spans(placed: Placed) -> Spans:
    """All entries by the task's rule; with ``static`` storages count as often as :func:`under_way` says."""
    task = placed.facts.instance.task
    static = task.memory == "static" or task.objective == "throughput"
    parts = [_weights(placed), _fetched(placed, static), _read_weights(placed)]
    parts += _static(placed, under_way(placed)) if static else _live(placed)
    return Spans(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _entries(
    what: int, device: NDArray[np.int64], whose: NDArray[np.int64], size: Whole, times: tuple[Whole, Whole] | None
) -> Spans:
    """Entries of one kind, throughout without ``times``."""
    count, (start, end) = len(device), times or (np.zeros(len(device), np.int64),) * 2
    return Spans(device, np.full(count, what), whose, size, np.full(count, times is None), start, end)


def _weights(placed: Placed) -> Spans:
    listed = [(v, size) for v, size in placed.facts.weighted if v not in placed.fetched]
    whose = np.array([v for v, _ in listed], dtype=np.int64)
    return _entries(WEIGHTS, placed.on[whose], whose, exact(size for _, size in listed), None)


def _fetched(placed: Placed, static: bool) -> Spans:
    """The weights that operations fetch: while each runs, or the largest of a device throughout."""
    size, listed = dict(placed.facts.weighted), sorted(placed.fetched)
    if static:
        largest: dict[str, int] = {}
        for v in listed:
            other = largest.setdefault(placed.device[v], v)
            largest[placed.device[v]] = max(other, v, key=lambda u: (size[u], u == other))
        listed = sorted(largest.values())
    whose = np.array(listed, dtype=np.int64)
    times = None if static else (exact(placed.start[v] for v in listed), exact(placed.end[v] for v in listed))
    return _entries(FETCHED, placed.on[whose], whose, exact(size[v] for v in listed), times)


def _read_weights(placed: Placed) -> Spans:
    """Weights that several operations read: a copy on each device of these."""
    copies, reads, devices = placed.facts.copies, placed.facts.arrays.weight_reads, len(placed.facts.devices)
    which, device = np.divmod(np.unique(reads.what * devices + placed.on[reads.reader]), devices)
    first = np.array([readers[0] for _, readers in copies], dtype=np.int64)
    return _entries(READ, device, first[which], exact(size for size, _ in copies)[which], None)


def _static(placed: Placed, waiting: Mapping[tuple[int, str], int]) -> list[Spans]:
    """Storages at home and where they are sent, throughout."""
    facts = placed.facts
    which, device = np.divmod(placed.crossing, len(facts.devices))
    found, all_of = list[Spans](), np.arange(len(facts.storages))
    for what, storage, there in ((COPY, which, device), (OUTPUT, all_of, placed.on[facts.arrays.producer])):
        size = facts.arrays.bytes[storage]
        if waiting:
            names = list(facts.devices)
            tensors = (facts.storages[s].tensor for s in storage.tolist())
            times = (waiting.get((t, names[d]), 1) for t, d in zip(tensors, there.tolist(), strict=True))
            size = exact(one * count for one, count in zip(size.tolist(), times, strict=True))
        found.append(_entries(what, there, facts.arrays.producer[storage], size, None))
    return found


def _live(placed: Placed) -> list[Spans]:
    """Copies from the start of their transfer to the last end of a reader there. At home from the start of the producer
    to the last end of a reader there and of a transfer, to the last end of all if it is an output; constants rest."""
    facts, reads, devices = placed.facts, placed.facts.arrays.reads, len(placed.facts.devices)
    producer, pairs = facts.arrays.producer, placed.crossing
    which, device = np.divmod(pairs, devices)
    start, end, begins, arrives = alike(*_times(placed), *_sent(placed, pairs))
    there, home = placed.on[reads.reader], placed.on[producer]
    away, last = there != home[reads.what], end[reads.reader]
    until = np.zeros(len(pairs), dtype=end.dtype) + (end.min() if len(end) else 0)
    np.maximum.at(until, np.searchsorted(pairs, reads.what[away] * devices + there[away]), last[away])
    held = np.maximum(end[producer], 0)
    np.maximum.at(held, reads.what[~away], last[~away])
    np.maximum.at(held, which, arrives)
    held[facts.arrays.output] = max(placed.end.values(), default=0)
    outputs = _entries(OUTPUT, home, producer, facts.arrays.bytes, (start[producer], held))
    copies = _entries(COPY, device, producer[which], facts.arrays.bytes[which], (begins, until))
    return [copies, outputs._replace(throughout=facts.arrays.resident)]


def _times(placed: Placed) -> tuple[Whole, Whole]:
    """The start and end of each operation, 0 where it isn't placed [N]."""
    found = list[Whole]()
    for times in (placed.start, placed.end):
        listed = exact(times.values())
        whole = np.zeros(len(placed.on), dtype=listed.dtype)
        whole[np.fromiter(times, np.int64, len(times))] = listed
        found.append(whole)
    return found[0], found[1]


def _sent(placed: Placed, pairs: NDArray[np.int64]) -> tuple[Whole, Whole]:
    """When the transfer of each pair (storage · D + device) starts and ends."""
    facts, moves = placed.facts, placed.moves
    number = facts.places
    keys = [number[move.storage.tensor] * len(facts.devices) + facts.numbers[move.target] for move in moves]
    made = np.array(keys, dtype=np.int64)
    if not np.isin(pairs, made).all():
        raise KeyError("a tensor is read on a device to which it isn't sent")
    order = np.argsort(made, kind="stable")
    found = order[np.searchsorted(made[order], pairs, side="right") - 1]
    ends = exact(move.start if move.end is None else move.end for move in moves)
    return exact(move.start for move in moves)[found], ends[found]


def by_device(entries: Spans, devices: int) -> list[NDArray[np.int64]]:
    """The positions of each device's entries."""
    order = np.argsort(entries.device, kind="stable")
    return np.split(order, np.searchsorted(entries.device[order], np.arange(1, devices)))


def throughout(entries: Spans, mine: NDArray[np.int64]) -> int:
    """The bytes of these entries that are held throughout."""
    return int(entries.bytes[mine[entries.throughout[mine]]].sum())


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
