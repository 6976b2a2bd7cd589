"""Explicit changes of an instance that loosen C3: cloning a cheap producer, relaying a tensor. Never done unasked.

A tensor that many layers read (an attention mask, a position bias) ties them all to its producer: under C3 no
operation may sit on a third chip between the ends of a flow. Both change the problem, and so its name and hash; their
``report`` says what they add. Mappings of the changed instance are no mappings of the original.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chipmap.instances.graph import Operation, OperationGraph, Tensor
from chipmap.instances.ring.instance import RingInstance
from chipmap.instances.ring.problem import ring_problem
from chipmap.records import InputError


@dataclass(frozen=True)
class Transformed:
    """The new ``instance``; ``origin[v]`` is the original position of its operation v (None: an identity).

    ``report`` counts what was added: operations, FLOP and bytes of weights of copies, bytes that identities move, work.
    """

    instance: RingInstance
    origin: tuple[int | None, ...]
    report: dict[str, int]


def clone(instance: RingInstance, names: Sequence[str]) -> Transformed:
    """Each computing reader of a named operation gets its own copy of it, which reads what the operation reads.

    Worth it for producers that are cheap and read little: work and weights are multiplied, transfers fall away. Views
    by way of which a reader reads are copied as well. The copies are called ``name@reader``; the first reader in
    topological order, dead operations and what the network returns stay with the original. Raises :class:`InputError`
    for unknown names, for operations that don't compute, and for those that pins, groups or forbidden chips name.
    """
    draft = _Draft(instance)
    positions = _positions(instance, names)
    refused = bound_names(instance)
    for name in names:
        if name in refused:
            what = f"{name!r} is pinned, grouped or forbidden somewhere"
            raise InputError(what, "names", "Free it first: its copies part.")
    live = ring_problem(instance).computing
    order = {v: i for i, v in enumerate(instance.graph.topological_order())}
    for v in sorted(positions, key=order.__getitem__, reverse=True):
        behind = draft.through_views(v)
        readers = {r for r in behind if draft.operations[r].role == "compute" and live[draft.origin[r] or 0]} - {v}
        for reader in sorted(readers, key=draft.keys.__getitem__)[1:]:
            draft.copy_for(reader, [v, *sorted(behind[reader] - {v}, key=draft.keys.__getitem__)])
    added = draft.operations[len(instance.graph.operations) :]
    copies = [operation for operation in added if operation.role == "compute"]
    report = {
        "copies": len(copies),
        "copies of views": len(added) - len(copies),
        "flop of copies": sum(operation.flop for operation in copies),
        "weight bytes of copies": sum(operation.weight_bytes for operation in copies),
    }
    return draft.finish(f"cloned: {', '.join(names)}", report)


def relay(instance: RingInstance, names: Sequence[str], stages: int | None = None) -> Transformed:
    """The tensors of the named operations travel along a chain of identity operations, from stage to stage.

    The readers of a tensor, in topological order, are dealt to ``stages`` identities (by default one per chip of the
    package, at most one per reader); each identity reads the one before and feeds its readers. An identity is a copy in
    SRAM: its time follows the roofline, its tensor takes memory and links. It is called ``name/relay1``, ….
    """
    if stages is not None and stages < 1:
        raise InputError(f"is {stages}", "stages", "Give 1 or more.")
    draft = _Draft(instance)
    order = {v: i for i, v in enumerate(instance.graph.topological_order())}
    moved = 0
    for v in _positions(instance, names):
        number = 0
        for tensor in [t for t in draft.tensors if t.producer == v]:
            readers = sorted(set(tensor.readers), key=order.__getitem__)
            count = min(len(readers), stages or instance.package.chips)
            source = tensor
            tensor.readers.clear()
            for stage in range(count):
                part = readers[stage * len(readers) // count : (stage + 1) * len(readers) // count]
                number += 1
                name = fresh(f"{draft.operations[v].name}/relay{number}", draft.operations)
                identity = Operation(name=name, kind="identity")
                here = draft.insert(identity, None, min(draft.keys[r] for r in part), None)
                source.readers.append(here)
                source = _Loose(here, list(part), tensor.bytes, False)
                draft.tensors.append(source)
                moved += tensor.bytes
    added = len(draft.operations) - len(instance.graph.operations)
    report = {"identities": added, "bytes that identities write": moved}
    return draft.finish(f"relayed: {', '.join(names)}", report)


@dataclass
class _Loose:
    """A tensor in the making, by positions in the draft."""

    producer: int
    readers: list[int]
    bytes: int
    output: bool


class _Draft:
    """An instance's graph in the making: new operations come last, and :meth:`finish` sorts them in by ``keys``."""

    def __init__(self, instance: RingInstance) -> None:
        graph, count = instance.graph, len(instance.graph.operations)
        self.instance, self.operations = instance, list(graph.operations)
        self.origin: list[int | None] = list(range(count))
        self.keys = [(v, 0) for v in range(count)]
        self.times = list(instance.time_ns or [None] * count)
        self.tensors = [_Loose(t.producer, list(t.readers), t.bytes, t.output) for t in graph.tensors]

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
            name = fresh(f"{self.operations[v].name}@{self.operations[reader].name}", self.operations)
            copy = self.operations[v].replace(name=name)
            twin[v] = self.insert(copy, self.origin[v], self.keys[reader], self.times[v])
        for tensor in list(self.tensors):
            inner = [twin[w] for w in tensor.readers if w in twin]
            if tensor.producer not in twin:
                tensor.readers += inner
                continue
            own = [reader] if reader in tensor.readers else []
            tensor.readers[:] = [w for w in tensor.readers if w != reader]
            self.tensors.append(_Loose(twin[tensor.producer], inner + own, tensor.bytes, False))

    def insert(self, operation: Operation, origin: int | None, before: tuple[int, int], time: float | None) -> int:
        """A new operation, placed just before the one with key ``before``."""
        self.operations.append(operation)
        self.origin.append(origin)
        self.keys.append((before[0], -len(self.operations)))  # what comes later may feed what came before
        self.times.append(time)
        return len(self.operations) - 1

    def finish(self, what: str, report: dict[str, int]) -> Transformed:
        """The instance, its operations in order, checked."""
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
        instance = old.replace(name=f"{old.name} ({what})", graph=graph, time_ns=times, notes=notes)
        instance.check()
        added = ring_problem(instance).total_ticks - ring_problem(old).total_ticks
        report = {"operations": len(place) - len(old.graph.operations), **report, "ticks of work": added}
        return Transformed(instance, tuple(self.origin[v] for v in place), report)


def _positions(instance: RingInstance, names: Sequence[str]) -> list[int]:
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
    return bound | {name for group in instance.together for name in group}


def fresh(name: str, operations: Sequence[Operation]) -> str:
    """``name``, with strokes if an operation is called that already."""
    taken = {operation.name for operation in operations}
    while name in taken:
        name += "'"
    return name
