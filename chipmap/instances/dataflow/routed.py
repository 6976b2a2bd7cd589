"""Expert parallelism: what tokens take to reach the chips that have their experts, and to come back.

The formulas are those of ``docs/families/dataflow-parallelism.md``, "Experts".
"""

from __future__ import annotations

from fractions import Fraction

from chipmap.instances.dataflow.degrees import Degrees
from chipmap.instances.dataflow.instance import DataflowInstance
from chipmap.instances.dataflow.parts import Routed, parts
from chipmap.instances.dataflow.sharding import Layout, collective_ns, made_layout, swap_ns, taken_layout
from chipmap.instances.dataflow.sizes import output_bytes
from chipmap.instances.dataflow.system import Dimension
from chipmap.instances.dataflow.workload import Kernel, Scheme
from chipmap.records.decimals import exact


def routed(instance: DataflowInstance, degrees: Degrees) -> Routed:
    """The replicas that share experts, and the load of the fullest chip."""
    return Routed(degrees.expert, exact(instance.task.expert_load))


def routing_ns(
    instance: DataflowInstance,
    degrees: Degrees,
    maker: tuple[Kernel, Scheme],
    reader: tuple[Kernel, Scheme],
) -> Fraction | None:
    """Nanoseconds of dispatch, of combine or of both for a tensor between kernels of which one has scheme E; None where
    neither has.

    The fullest chip has c bytes of the tensor in the divided kernel's layout. Replicas swap c along each dimension that
    shares experts. Within a group of n chips a split tensor is swapped as well; one that every chip has whole needs
    nothing; one that every chip needs whole is gathered: n · c bytes.
    """
    if "E" not in (maker[1], reader[1]):
        return None
    made, taken = made_layout(maker[1]), taken_layout(*reader, instance.mode, maker[0])
    size, mode, chips = output_bytes(maker[0], instance), instance.mode, degrees.tensor
    at = routed(instance, degrees)
    held = size * parts(*maker, mode, chips, at).output
    needed = size * parts(*reader, mode, chips, at).work
    if made == taken == "EE":
        if maker[0].experts == reader[0].experts:
            return Fraction(0)
        return _moved(instance, degrees, "RS", held, held) + _moved(instance, degrees, "RS", needed, needed)
    if taken == "EE":
        return _moved(instance, degrees, made, needed, held)
    whole = taken == "RR"
    gathered = sum((_gathered(held, one) for one in _tensor(instance, degrees)), Fraction(0)) if whole else Fraction(0)
    return _moved(instance, degrees, taken, held, needed) + gathered


def _moved(instance: DataflowInstance, degrees: Degrees, other: Layout, own: Fraction, part: Fraction) -> Fraction:
    """Nanoseconds of the swaps between experts' layout, ``own`` bytes on the fullest chip, and the ``other`` one, of
    which a chip has ``part`` bytes."""
    between = degrees.carrying(instance.system, "expert")
    total = sum((swap_ns(own, one) for one in between), Fraction(0))
    if other == "RR":
        return total
    return total + sum((swap_ns(max(own, part), one) for one in _tensor(instance, degrees)), Fraction(0))


def _gathered(chip_bytes: Fraction, dimension: Dimension) -> Fraction:
    return collective_ns("all_gather", chip_bytes * dimension.size, dimension, 1)


def _tensor(instance: DataflowInstance, degrees: Degrees) -> list[Dimension]:
    return degrees.carrying(instance.system, "tensor")
