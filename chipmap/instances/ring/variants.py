"""Changed ring instances: what ``explain`` tries. Each function returns a new instance and leaves the old one alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from chipmap.instances.graph import Operation, Tensor
from chipmap.instances.ring.instance import Forbidden, Label, Pin, RingInstance
from chipmap.instances.ring.transforms import fresh


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
    new: list[str] = [fresh(f"{operation} (part 1)", operations)]
    operations[u] = msgspec.structs.replace(whole, name=new[0], **fields)
    for i in range(2, parts + 1):
        new.append(fresh(f"{operation} (part {i})", operations))
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


def _with(
    instance: RingInstance,
    operations: list[Operation],
    tensors: list[Tensor],
    times: list[float | None],
    **fields: object,
) -> RingInstance:
    graph = msgspec.structs.replace(instance.graph, operations=tuple(operations), tensors=tuple(tensors))
    return _copy(instance, graph=graph, time_ns=tuple(times) if times else instance.time_ns, **fields)
