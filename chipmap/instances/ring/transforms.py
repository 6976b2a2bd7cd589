"""Explicit changes of an instance that loosen C3: cloning a cheap producer, relaying a tensor. Never done unasked.

A tensor that many layers read (an attention mask, a position bias) ties them all to its producer: under C3 no
operation may sit on a third chip between the ends of a flow. Both change the problem, and so its name and hash; their
``report`` says what they add. Mappings of the changed instance are no mappings of the original.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from chipmap.instances.graph import Operation, OperationGraph, Tensor
from chipmap.instances.ring.instance import RingInstance
from chipmap.records import InputError


@dataclass(frozen=True)
class Transformed:
    """The new ``instance``; ``origin[v]`` is the original position of its operation v (None: an identity).

    ``report`` counts what was added: operations, FLOP and bytes of weights of copies, bytes that identities move.
    """

    instance: RingInstance
    origin: tuple[int | None, ...]
    report: dict[str, int]


def clone(instance: RingInstance, names: Sequence[str]) -> Transformed:
    """Each reader of a named operation gets its own copy of it, which reads what the operation reads.

    Worth it for producers that are cheap and read little: work and weights are multiplied, transfers fall away. The
    copies are called ``name@reader``, the first keeps the name; what the network returns stays with the first. Raises
    :class:`InputError` for unknown names, for inputs and constants (which never tie their readers), and for operations
    that pins, groups or forbidden chips name.
    """
    draft = _Draft(instance)
    positions = _positions(instance, names, ("compute", "view"))
    _refuse_named(instance, names)
    order = {v: i for i, v in enumerate(instance.graph.topological_order())}
    for v in sorted(positions, key=order.__getitem__, reverse=True):
        made = [t for t in draft.tensors if t.producer == v]
        readers = sorted({r for t in made for r in t.readers}, key=lambda r: draft.keys[r])
        for reader in readers[1:]:
            copy = draft.add(v, f"{draft.operations[v].name}@{draft.operations[reader].name}", draft.keys[reader])
            for tensor in draft.tensors:
                if v in tensor.readers:
                    tensor.readers.append(copy)
            for tensor in made:
                if reader in tensor.readers:
                    tensor.readers[:] = [r for r in tensor.readers if r != reader]
                    draft.tensors.append(_Loose(copy, [reader], tensor.bytes, False))
    added = range(len(instance.graph.operations), len(draft.operations))
    report = {
        "copies": len(added),
        "flop of copies": sum(draft.operations[v].flop for v in added),
        "weight bytes of copies": sum(draft.operations[v].weight_bytes for v in added),
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
    for v in _positions(instance, names, ("compute",)):
        number = 0
        for tensor in [t for t in draft.tensors if t.producer == v]:
            readers = sorted(set(tensor.readers), key=order.__getitem__)
            count = min(len(readers), stages or instance.package.chips)
            source = tensor
            tensor.readers.clear()
            for stage in range(count):
                part = readers[stage * len(readers) // count : (stage + 1) * len(readers) // count]
                number += 1
                identity = Operation(name=f"{draft.operations[v].name}/relay{number}", kind="identity")
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


@dataclass
class _Draft:
    """An instance's graph in the making: new operations come last, and :meth:`finish` sorts them in by ``keys``."""

    instance: RingInstance
    operations: list[Operation] = field(init=False)
    origin: list[int | None] = field(init=False)
    keys: list[tuple[int, int]] = field(init=False)
    times: list[float | None] = field(init=False)
    tensors: list[_Loose] = field(init=False)

    def __post_init__(self) -> None:
        graph = self.instance.graph
        count = len(graph.operations)
        self.operations, self.origin = list(graph.operations), list(range(count))
        self.keys = [(v, 0) for v in range(count)]
        self.times = list(self.instance.time_ns or [None] * count)
        self.tensors = [_Loose(t.producer, list(t.readers), t.bytes, t.output) for t in graph.tensors]

    def add(self, v: int, name: str, before: tuple[int, int]) -> int:
        """A copy of operation v, placed before its reader."""
        return self.insert(self.operations[v].replace(name=name), self.origin[v], before, self.times[v])

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
        return Transformed(instance, tuple(self.origin[v] for v in place), report)


def _positions(instance: RingInstance, names: Sequence[str], roles: tuple[str, ...]) -> list[int]:
    index = {operation.name: v for v, operation in enumerate(instance.graph.operations)}
    for name in names:
        if name not in index:
            raise InputError(f"no operation is called {name!r}", "names", "Use a name from graph.operations.")
        role = instance.graph.operations[index[name]].role
        if role not in roles:
            raise InputError(f"{name!r} has role {role!r}", "names", f"Name operations with role {' or '.join(roles)}.")
    return [index[name] for name in dict.fromkeys(names)]


def _refuse_named(instance: RingInstance, names: Sequence[str]) -> None:
    bound = {pin.operation for pin in instance.pins} | {item.operation for item in instance.forbidden}
    bound |= {name for group in instance.together for name in group}
    for name in names:
        if name in bound:
            raise InputError(
                f"{name!r} is pinned, grouped or forbidden somewhere", "names", "Free it first: its copies part."
            )
