"""Changed ring instances: what ``explain`` tries. Each function returns a new instance and leaves the old one alone."""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from chipmap.instances.graph import Tensor
from chipmap.instances.ring.instance import Forbidden, Label, Pin, RingInstance
from chipmap.instances.ring.transforms import fresh


def changed(instance: RingInstance, **changes: object) -> RingInstance:
    """``instance`` with these fields (records as they are), checked."""
    made = msgspec.structs.replace(instance, **changes)
    made.check()
    return made


def without(instance: RingInstance, *labels: Label) -> RingInstance:
    """The instance with constraints ``labels`` not in force."""
    return changed(instance, constraints=tuple(c for c in instance.constraints if c not in labels))


def packaged(instance: RingInstance, **changes: object) -> RingInstance:
    """The instance on a changed package. Raises :class:`InputError` where a pin names a chip that is no more."""
    return changed(instance, package=msgspec.structs.replace(instance.package, **changes))


def without_entry(instance: RingInstance, field: Literal["pins", "together", "forbidden"], i: int) -> RingInstance:
    """The instance without entry number ``i`` of its pins, keep-together groups or forbidden chips."""
    entries = getattr(instance, field)
    return changed(instance, **{field: entries[:i] + entries[i + 1 :]})


def split(instance: RingInstance, operation: str, parts: int) -> RingInstance:
    """Operation ``operation`` cut evenly into ``parts``: each reads all inputs and makes a part of every output.

    FLOP, weights, output bytes and a measured time are divided and rounded up; readers read all the parts. Constants
    that it reads stay whole: each part reads all of them. Pins, forbidden chips and groups hold for every part. Whether
    the operation can be cut evenly (a matrix product by output columns, a convolution by output channels) is not
    checked.
    """
    graph = instance.graph
    u = [op.name for op in graph.operations].index(operation)
    whole = graph.operations[u]
    names = [fresh(f"{operation} (part {i})", graph.operations) for i in range(1, parts + 1)]
    fields = {"flop": -(-whole.flop // parts), "weight_bytes": -(-whole.weight_bytes // parts)}
    first, *others = (msgspec.structs.replace(whole, name=name, **fields) for name in names)
    operations = (*graph.operations[:u], first, *graph.operations[u + 1 :], *others)
    added = range(len(graph.operations), len(operations))
    tensors: list[Tensor] = []
    for tensor in graph.tensors:
        if u in tensor.readers:
            tensor = msgspec.structs.replace(tensor, readers=(*tensor.readers, *added))
        if tensor.producer == u:
            size = -(-tensor.bytes // parts)
            tensors += (msgspec.structs.replace(tensor, producer=p, bytes=size) for p in (u, *added))
        else:
            tensors.append(tensor)
    times = instance.time_ns
    if times is not None:
        measured = times[u]
        part = None if measured is None else math.nextafter(measured / parts, math.inf)
        times = (*times[:u], part, *times[u + 1 :], *[part] * len(added))

    def named(name: str) -> list[str]:
        return names if name == operation else [name]

    return changed(
        instance,
        graph=msgspec.structs.replace(graph, operations=operations, tensors=tuple(tensors)),
        time_ns=times,
        pins=tuple(Pin(operation=name, chip=pin.chip) for pin in instance.pins for name in named(pin.operation)),
        forbidden=tuple(
            Forbidden(operation=name, chips=entry.chips)
            for entry in instance.forbidden
            for name in named(entry.operation)
        ),
        together=tuple(tuple(new for name in group for new in named(name)) for group in instance.together),
    )
