"""What a tensor takes from the layout in which it is made to that in which a kernel reads it.

The formulas are those of ``docs/families/dataflow.md``, "Sharding" and "Parts", and
``docs/families/dataflow-parallelism.md``.
"""

from __future__ import annotations

from fractions import Fraction

from chipmap.instances.dataflow.instance import DataflowInstance, Degrees
from chipmap.instances.dataflow.parts import padded, parts
from chipmap.instances.dataflow.routed import routing_ns
from chipmap.instances.dataflow.sharding import collective_ns, conversions, swap_ns
from chipmap.instances.dataflow.sizes import output_bytes
from chipmap.instances.dataflow.workload import Kernel, Scheme

#: A kernel with its scheme.
End = tuple[Kernel, Scheme]


def change_ns(instance: DataflowInstance, degrees: Degrees, maker: End, reader: End) -> Fraction:
    """Nanoseconds that a reader pays in T3 for its input: dispatch, combine, an all-gather or an all-to-all.

    An all-to-all is a swap of what a chip has before or needs afterwards, whichever is more; in mode ``dfmodel`` it is
    the published one, of the whole tensor. Where not every part is 1/n it takes no less than an all-gather.
    """
    exchanged = routing_ns(instance, degrees, maker, reader)
    if exchanged is not None:
        return exchanged
    link = next((one for one in degrees.carrying(instance.system, "tensor") if one.size > 1), None)
    changes = conversions(*maker, *reader, instance.mode, link.size) if link is not None else ()
    if link is None or not changes:
        return Fraction(0)
    size = output_bytes(maker[0], instance)
    whole = size * padded(parts(*maker, instance.mode, link.size).output)
    if instance.mode == "dfmodel" or "all_to_all" not in changes:
        return max(collective_ns(one, whole, link, 1) for one in changes)
    swapped = swap_ns(size * _swapped(maker, reader, link.size), link)
    return max([swapped, *(collective_ns(one, whole, link, 1) for one in changes if one != "all_to_all")])


def _swapped(maker: End, reader: End, chips: int) -> Fraction:
    """The share of a tensor that a chip has before an all-to-all or needs after it, whichever is more. Heads of keys
    that several query heads read are no fewer than there are."""
    held, needed = parts(*maker, "physical", chips).output, parts(*reader, "physical", chips).work
    if reader[1] == "OUTER" and maker[0].outer < reader[0].outer:
        needed = max(needed, Fraction(-(-maker[0].outer // chips), maker[0].outer))
    return max(held, needed)
