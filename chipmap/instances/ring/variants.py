"""Changed ring instances: what ``explain`` tries. Each function returns a new instance and leaves the old one alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from chipmap.instances.graph import Operation, OperationGraph, Tensor
from chipmap.instances.ring.costs import ring_problem
from chipmap.instances.ring.instance import Forbidden, Label, Pin, RingInstance


def _copy(instance: RingInstance, **changes: object) -> RingInstance:
    """``instance`` with these fields (records as they are), checked."""
    changed = msgspec.structs.replace(instance, **changes)
    changed.check()
    return changed


def without(instance: RingInstance, *labels: Label) -> RingInstance:
    """The instance with constraints ``labels`` not in force."""
    return _copy(instance, constraints=tuple(c for c in instance.constraints if c not in labels))


def packaged(instance: RingInstance, **changes: object) -> RingInstance:
    """The instance on a changed package. Raises :class:`InputError` where a pin names a chip that is no more."""
    return _copy(instance, package=msgspec.structs.replace(instance.package, **changes))


def without_pin(instance: RingInstance, i: int) -> RingInstance:
    """The instance without its pin number ``i``."""
    return _copy(instance, pins=_but(instance.pins, i))


def without_group(instance: RingInstance, i: int) -> RingInstance:
    """The instance without its keep-together group number ``i``."""
    return _copy(instance, together=_but(instance.together, i))


def without_forbidden(instance: RingInstance, i: int) -> RingInstance:
    """The instance without its entry number ``i`` of forbidden chips."""
    return _copy(instance, forbidden=_but(instance.forbidden, i))


def _but(things: tuple, i: int) -> tuple:  # type: ignore[type-arg]
    return things[:i] + things[i + 1 :]


def clone(instance: RingInstance, operation: str) -> RingInstance:
    """Operation ``operation`` computed once per reader: what reads its tensors (through views) gets a copy of its own.

    The first reader in topological order keeps the original. A copy has the same inputs, work and weights, and its
    views are copied with it; pins and groups stay with the original. All other operations keep their costs.
    """
    problem = ring_problem(instance)
    graph = instance.graph
    names = [op.name for op in graph.operations]
    u = names.index(operation)
    place = {v: i for i, v in enumerate(problem.order)}
    readers = sorted({v for s in problem.storages if s.producer == u for v in s.readers}, key=place.__getitem__)
    operations, times = list(graph.operations), list(instance.time_ns or ())
    tensors = list(graph.tensors)
    for number, v in enumerate(readers[1:], start=2):
        copied = _behind(graph, u, v)
        twin = {w: len(operations) + i for i, w in enumerate(copied)}
        for w in copied:
            name = _fresh(f"{names[w]} (copy {number})", operations)
            operations.append(msgspec.structs.replace(graph.operations[w], name=name))
            times += [times[w]] if times else []
        for t, tensor in enumerate(graph.tensors):
            inner = tuple(twin[w] for w in tensor.readers if w in twin)
            if tensor.producer not in twin:
                if inner:
                    tensors[t] = msgspec.structs.replace(tensors[t], readers=tensors[t].readers + inner)
                continue
            own = (v,) if v in tensor.readers else ()
            tensors.append(Tensor(producer=twin[tensor.producer], readers=inner + own, bytes=tensor.bytes))
            if own:
                left = tuple(w for w in tensors[t].readers if w != v)
                tensors[t] = msgspec.structs.replace(tensors[t], readers=left)
    return _with(instance, operations, tensors, times)


def _behind(graph: OperationGraph, u: int, v: int) -> list[int]:
    """u and the views by way of which v reads it, in no particular order."""
    after: dict[int, set[int]] = {}
    for tensor in graph.tensors:
        after.setdefault(tensor.producer, set()).update(tensor.readers)
    views = {w for w, op in enumerate(graph.operations) if op.role == "view"}
    ahead = _reach({u}, lambda w: after.get(w, set()) & views)
    before: dict[int, set[int]] = {}
    for w, targets in after.items():
        for x in targets:
            before.setdefault(x, set()).add(w)
    back = _reach({v}, lambda w: before.get(w, set()) & (views | {u}))
    return [u, *sorted((ahead & back) - {u, v})]


def _reach(start: set[int], onward) -> set[int]:  # type: ignore[no-untyped-def]
    seen, todo = set(start), list(start)
    while todo:
        fresh = onward(todo.pop()) - seen
        seen |= fresh
        todo += fresh
    return seen


def split(instance: RingInstance, operation: str, parts: int) -> RingInstance:
    """Operation ``operation`` cut evenly into ``parts``: each reads all inputs and makes a part of every output.

    FLOP, weights, output bytes and a measured time are divided and rounded up; readers read all the parts. Constants
    that it reads stay whole (each part holds a copy). Pins, forbidden chips and groups hold for every part. Whether the
    operation can be cut evenly (a matrix product by output columns, a convolution by output channels) is not checked.
    """
    graph = instance.graph
    u = [op.name for op in graph.operations].index(operation)
    operations, times = list(graph.operations), list(instance.time_ns or ())
    whole = graph.operations[u]
    fields = {"flop": -(-whole.flop // parts), "weight_bytes": -(-whole.weight_bytes // parts)}
    measured = times[u] if times else None
    part_time = None if measured is None else math.nextafter(measured / parts, math.inf)
    first = len(operations)
    new: list[str] = [_fresh(f"{operation} (part 1)", operations)]
    operations[u] = msgspec.structs.replace(whole, name=new[0], **fields)
    for i in range(2, parts + 1):
        new.append(_fresh(f"{operation} (part {i})", operations))
        operations.append(msgspec.structs.replace(whole, name=new[-1], **fields))
    if times:
        times[u] = part_time
        times += [part_time] * (parts - 1)
    tensors = []
    for tensor in graph.tensors:
        if u in tensor.readers:
            tensor = msgspec.structs.replace(tensor, readers=(*tensor.readers, *range(first, len(operations))))
        if tensor.producer != u:
            tensors.append(tensor)
            continue
        size = -(-tensor.bytes // parts)
        tensors += [
            msgspec.structs.replace(tensor, producer=p, bytes=size) for p in (u, *range(first, len(operations)))
        ]
    return _with(
        instance,
        operations,
        tensors,
        times,
        pins=tuple(Pin(operation=n, chip=p.chip) for p in instance.pins for n in _named(p.operation, operation, new)),
        forbidden=tuple(
            Forbidden(operation=n, chips=f.chips)
            for f in instance.forbidden
            for n in _named(f.operation, operation, new)
        ),
        together=tuple(tuple(n for name in g for n in _named(name, operation, new)) for g in instance.together),
    )


def _named(name: str, old: str, new: Sequence[str]) -> Sequence[str]:
    return new if name == old else (name,)


def _fresh(name: str, operations: Sequence[Operation]) -> str:
    """``name``, with strokes if an operation is called that already."""
    taken = {op.name for op in operations}
    while name in taken:
        name += "'"
    return name


def _with(
    instance: RingInstance,
    operations: list[Operation],
    tensors: list[Tensor],
    times: list[float | None],
    **fields: object,
) -> RingInstance:
    graph = msgspec.structs.replace(instance.graph, operations=tuple(operations), tensors=tuple(tensors))
    return _copy(instance, graph=graph, time_ns=tuple(times) if times else instance.time_ns, **fields)
