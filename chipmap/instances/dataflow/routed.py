"""Expert parallelism: what tokens take to reach the chips that have their experts, and to come back.

The formulas are those of ``docs/families/dataflow-parallelism.md``, "Experts".
"""

from __future__ import annotations

from fractions import Fraction

from chipmap.instances.dataflow.degrees import Degrees
from chipmap.instances.dataflow.instance import DataflowInstance
from chipmap.instances.dataflow.joint import joint_ns, joint_swap_ns, tensor_dimensions
from chipmap.instances.dataflow.parts import Routed, padded, parts
from chipmap.instances.dataflow.sharding import Collective, Layout, made_layout, swap_ns, taken_layout
from chipmap.instances.dataflow.sizes import output_bytes, statistics_bytes
from chipmap.instances.dataflow.workload import Kernel, Scheme
from chipmap.records.decimals import exact


def routed(instance: DataflowInstance, degrees: Degrees) -> Routed:
    """The replicas that share experts, the load of the fullest chip, the samples of a micro-batch, and the chips of the
    group's last dimension."""
    sizes = [one.size for one in tensor_dimensions(instance, degrees)] or [1]
    return Routed(degrees.expert, exact(instance.task.expert_load), instance.task.micro_batch or 1, sizes[-1])


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
    nothing; one that every chip needs whole is gathered: n · c bytes, unless the reader adds up copies of tokens, and
    their sums are fewer bytes.
    """
    if "E" not in (maker[1], reader[1]):
        return None
    size, mode, chips = output_bytes(maker[0], instance), instance.mode, degrees.tensor
    made, taken = made_layout(*maker, mode, chips), taken_layout(*reader, mode, maker[0])
    at = routed(instance, degrees)
    held = size * parts(*maker, mode, chips, at).output
    needed = size * parts(*reader, mode, chips, at).work
    if made == taken == "EE":
        if maker[0].experts == reader[0].experts:
            return Fraction(0)
        return _moved(instance, degrees, "RS", held, held) + _moved(instance, degrees, "RS", needed, needed)
    if taken == "EE":
        return _moved(instance, degrees, made, needed, held)
    among = _moved(instance, degrees, "RR", held, needed)
    if taken == "RR":
        inside = joint_ns("all_gather", held * chips, tensor_dimensions(instance, degrees), 1)
    else:
        inside = _moved(instance, degrees, taken, held, needed) - among
    added = _added_ns(instance, degrees, maker[0], reader, taken)
    return among + (inside if added is None else min(inside, added))


def _added_ns(
    instance: DataflowInstance, degrees: Degrees, maker: Kernel, reader: tuple[Kernel, Scheme], taken: Layout
) -> Fraction | None:
    """Nanoseconds of a combine within a group whose chips each add up what they have of a token's copies; None where
    the reader doesn't add these up.

    The sums over chips of the reader's output are exchanged: an all-reduce, or a reduce-scatter where it needs split
    tokens or rows. Where it makes ``statistics`` of each copy (a number that its expert's chip has alone), an
    all-gather of these.
    """
    kernel, scheme = reader
    if kernel.kind != "elementwise" or kernel.N * maker.active != maker.N:
        return None
    collective: Collective = "all_reduce" if taken == "RR" else "reduce_scatter"
    size = output_bytes(kernel, instance) * padded(
        parts(kernel, scheme, instance.mode, degrees.tensor, routed(instance, degrees)).output
    )
    if kernel.statistics:
        if taken != "RR":
            return None
        collective, size = "all_gather", statistics_bytes(kernel, instance)
    return joint_ns(collective, size, tensor_dimensions(instance, degrees), 2)


def _moved(instance: DataflowInstance, degrees: Degrees, other: Layout, own: Fraction, part: Fraction) -> Fraction:
    """Nanoseconds of the swaps between experts' layout, ``own`` bytes on the fullest chip, and the ``other`` one, of
    which a chip has ``part`` bytes."""
    between = degrees.carrying(instance.system, "expert")
    total = sum((swap_ns(own, one) for one in between), Fraction(0))
    if other == "RR":
        return total
    return total + joint_swap_ns(max(own, part), tensor_dimensions(instance, degrees))
