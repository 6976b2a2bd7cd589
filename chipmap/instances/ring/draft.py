"""An instance's graph in the making: what explicit changes (clone, relay, split) share."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

from chipmap.instances.ring.instance import RingInstance
from chipmap.instances.ring.problem import ring_problem
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.records import InputError


@dataclass(frozen=True)
class Transformed:
    """The new ``instance``; ``origin[v]`` is the original position of its operation v (None: it is new).

    ``report`` counts what was added: operations of each kind, their FLOP, bytes of weights, bytes that they move, and
    work in ticks.
    """

    instance: RingInstance
    origin: tuple[int | None, ...]
    report: dict[str, int]


@dataclass
class Loose:
    """A tensor in the making, by positions in the draft."""

    producer: int
    readers: list[int]
    bytes: int
    output: bool


class Draft:
    """An instance's graph in the making: new operations come last, and :meth:`finish` sorts them in by ``keys``."""

    def __init__(self, instance: RingInstance) -> None:
        graph, count = instance.graph, len(instance.graph.operations)
        self.instance, self.operations = instance, list(graph.operations)
        self.origin: list[int | None] = list(range(count))
        self.keys = [(v, 0) for v in range(count)]
        self.times = list(instance.time_ns or [None] * count)
        self.taken = {operation.name for operation in graph.operations}
        self.tensors = [Loose(t.producer, list(t.readers), t.bytes, t.output) for t in graph.tensors]

    def through_views(self, v: int) -> dict[int, set[int]]:
        """Whoever reads v's tensors, through views or not -> the views by way of which (and v itself)."""
        after: dict[int, set[int]] = {}
        for tensor in self.tensors:
            after.setdefault(tensor.producer, set()).update(tensor.readers)
        behind: dict[int, set[int]] = {}
        waiting = [(r, {v}) for r in after.get(v, ())]
        while waiting:
            reader, by_way_of = waiting.pop()
            known = behind.setdefault(reader, set())
            if by_way_of <= known:
                continue
            known |= by_way_of
            if self.operations[reader].role == "view":
                waiting += [(r, known | {reader}) for r in after.get(reader, ())]
        return behind

    def copy_for(self, reader: int, copied: Sequence[int]) -> None:
        """Copies of operations for one reader alone; it reads them instead of the originals."""
        twin: dict[int, int] = {}
        for v in reversed(copied):  # what comes later may feed what came before
            name = self.fresh(f"{self.operations[v].name}@{self.operations[reader].name}")
            copy = self.operations[v].replace(name=name)
            twin[v] = self.insert(copy, self.origin[v], self.keys[reader], self.times[v])
        for tensor in list(self.tensors):
            inner = [twin[w] for w in tensor.readers if w in twin]
            if tensor.producer not in twin:
                tensor.readers += inner
                continue
            own = [reader] if reader in tensor.readers else []
            tensor.readers[:] = [w for w in tensor.readers if w != reader]
            self.tensors.append(Loose(twin[tensor.producer], inner + own, tensor.bytes, False))

    def insert(self, operation: Operation, origin: int | None, before: tuple[int, int], time: float | None) -> int:
        """A new operation, placed just before the one with key ``before``."""
        # what comes later may feed what came before
        return self.add(operation, origin, (before[0], -len(self.operations) - 1), time)

    def add(self, operation: Operation, origin: int | None, key: tuple[int, int], time: float | None) -> int:
        """A new operation with its ``key``; its position in the draft."""
        self.operations.append(operation)
        self.origin.append(origin)
        self.keys.append(key)
        self.times.append(time)
        self.taken.add(operation.name)
        return len(self.operations) - 1

    def fresh(self, name: str) -> str:
        """``name``, with strokes if an operation is called that already."""
        return fresh(name, self.taken)

    def finish(self, what: str, report: dict[str, int], **changes: Any) -> Transformed:
        """The instance, its operations in order and other fields with their ``changes``, checked."""
        place = sorted(range(len(self.operations)), key=self.keys.__getitem__)
        new = {v: i for i, v in enumerate(place)}
        old = self.instance
        graph = OperationGraph(
            name=old.graph.name,
            operations=tuple(self.operations[v] for v in place),
            tensors=tuple(
                Tensor(
                    producer=new[t.producer], readers=tuple(new[r] for r in t.readers), bytes=t.bytes, output=t.output
                )
                for t in self.tensors
            ),
            source=old.graph.source,
        )
        notes = f"{old.notes}; {what}" if old.notes else what
        times = tuple(self.times[v] for v in place) if old.time_ns is not None else None
        origins = [self.origin[v] for v in place] if old.scopes else []
        changes |= {"scopes": tuple("" if v is None else old.scopes[v] for v in origins), "states": self._states(place)}
        instance = old.replace(name=f"{old.name} ({what})", graph=graph, time_ns=times, notes=notes, **changes)
        instance.check()
        added = ring_problem(instance).total_ticks - ring_problem(old).total_ticks
        report = {"operations": len(place) - len(old.graph.operations), **report, "ticks of work": added}
        return Transformed(instance, tuple(self.origin[v] for v in place), report)

    def _states(self, place: list[int]) -> dict[str, str]:
        """The operations of parameters, as they are called now: the first of those that one has become."""
        old, now = self.instance, dict[str, str]()
        for v in place:
            if (origin := self.origin[v]) is not None:
                now.setdefault(old.graph.operations[origin].name, self.operations[v].name)
        return {state: now.get(name, "") for state, name in old.states.items()}


def fresh(name: str, taken: Container[str]) -> str:
    """``name``, with strokes if it is ``taken``."""
    while name in taken:
        name += "'"
    return name


def positions(instance: RingInstance, names: Sequence[str]) -> list[int]:
    """The positions of computing operations; :class:`InputError` for other names."""
    index = {operation.name: v for v, operation in enumerate(instance.graph.operations)}
    for name in names:
        if name not in index:
            raise InputError(f"no operation is called {name!r}", "names", "Use a name from graph.operations.")
        role = instance.graph.operations[index[name]].role
        if role != "compute":
            raise InputError(f"{name!r} has role {role!r}", "names", "Name operations with role compute.")
    return [index[name] for name in dict.fromkeys(names)]


def bound_names(instance: RingInstance) -> set[str]:
    """The operations that pins, keep-together groups and forbidden chips name."""
    bound = {pin.operation for pin in instance.pins} | {item.operation for item in instance.forbidden}
    return bound | {name for group in (*instance.together, *instance.apart) for name in group}
