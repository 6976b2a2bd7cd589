"""Where parameters rest, where backward kernels use them and where their gradients are made, and what lies between.

The formulas are those of ``docs/families/dataflow-exchanges.md``, "Weights that rest".
"""

from __future__ import annotations

from fractions import Fraction
from typing import Literal, NamedTuple

from chipmap.instances.dataflow.batch import layers_per_stage, parameter_bytes
from chipmap.instances.dataflow.instance import DataflowInstance, Degrees
from chipmap.instances.dataflow.parts import has, padded, parts
from chipmap.instances.dataflow.replicas import scattered_ns, shared
from chipmap.instances.dataflow.routed import routed
from chipmap.instances.dataflow.sharding import collective_ns, swap_ns
from chipmap.instances.dataflow.sizes import chip_weights, weight_bytes
from chipmap.instances.dataflow.workload import Kernel, Scheme

Side = Literal["rows", "columns", "whole", "experts"]
#: Of the (outer · M) × K parameters of a forward kernel; a backward kernel multiplies by them transposed.
_REST: dict[Scheme, Side] = {
    **{"OUTER": "rows", "M": "rows", "K": "columns", "K_RS": "columns", "K_N": "columns"},
    **{"N": "whole", "NONE": "whole", "E": "experts"},
}
_USE: dict[Scheme, Side] = {
    **{"OUTER": "columns", "M": "columns", "K": "rows", "K_RS": "rows", "K_N": "rows"},
    **{"N": "whole", "NONE": "whole", "E": "experts"},
}
_MADE: dict[Scheme, Side] = {
    **{"OUTER": "rows", "M": "rows", "K_RS": "rows", "N": "columns", "K_N": "columns"},
    **{"K": "whole", "NONE": "whole", "E": "experts"},
}
#: A kernel with its scheme.
End = tuple[Kernel, Scheme]


class Part(NamedTuple):
    """The rows, columns or experts of parameters that a chip has, and which share of all they are."""

    side: Side
    share: Fraction

    def covers(self, other: Part, chips: int) -> bool:
        """Whether a chip with this part has the ``other``."""
        return self.side == "whole" or (self.side == other.side and has(self.share, other.share, chips))


def rest(instance: DataflowInstance, degrees: Degrees, owner: End) -> Part:
    """The part of its parameters that a forward kernel's scheme leaves on a chip."""
    return Part(_REST[owner[1]], parts(*owner, instance.mode, degrees.tensor, routed(instance, degrees)).weights)


def use(instance: DataflowInstance, degrees: Degrees, user: End) -> Part:
    """The part of a forward kernel's parameters with which a backward kernel computes."""
    return Part(_USE[user[1]], parts(*user, instance.mode, degrees.tensor, routed(instance, degrees)).weights)


def made(instance: DataflowInstance, degrees: Degrees, update: End) -> Part:
    """The part of a gradient of parameters that a weight update makes on a chip."""
    return Part(_MADE[update[1]], parts(*update, instance.mode, degrees.tensor, routed(instance, degrees)).output)


def use_ns(instance: DataflowInstance, degrees: Degrees, owner: End, user: End) -> Fraction:
    """Nanoseconds until a chip has the part that a backward kernel uses, each time that it runs (T3).

    Nothing where the part at rest covers it; an all-gather of all W bytes where it uses all; else a swap of the larger
    part.
    """
    at_rest, used = rest(instance, degrees, owner), use(instance, degrees, user)
    if at_rest.covers(used, degrees.tensor):
        return Fraction(0)
    return _moved_ns(instance, degrees, weight_bytes(owner[0], instance), at_rest, used)


def uncovered_bytes(instance: DataflowInstance, degrees: Degrees, owner: End, user: End) -> Fraction:
    """Bytes of a layer's parameters that a chip holds in DRAM while a backward kernel runs, beside those at rest (C6)."""
    at_rest, used = rest(instance, degrees, owner), use(instance, degrees, user)
    return Fraction(0) if at_rest.covers(used, degrees.tensor) else weight_bytes(owner[0], instance) * used.share


def handed_ns(instance: DataflowInstance, degrees: Degrees, owner: End, update: End) -> Fraction:
    """Nanoseconds per batch from the part of a gradient that an update makes to the part at rest, for all layers (T6).

    Nothing where the made part covers the part at rest. An all-gather of L · W bytes where all rests. Else a swap of the
    larger part, of a D-th of it where D replicas share out the optimiser's state but not the weights.
    """
    at_rest, new = rest(instance, degrees, owner), made(instance, degrees, update)
    if new.covers(at_rest, degrees.tensor):
        return Fraction(0)
    size = weight_bytes(owner[0], instance) * layers_per_stage(instance, degrees)
    if at_rest.side != "whole" and shared(instance, degrees) in ("optimizer", "gradients"):
        size /= degrees.data
    return _moved_ns(instance, degrees, size, new, at_rest)


def gathered_ns(instance: DataflowInstance, degrees: Degrees, owner: End) -> Fraction:
    """Nanoseconds until a chip has its own part of a forward kernel's parameters, where replicas share out weights."""
    share = rest(instance, degrees, owner).share
    here = parts(*owner, instance.mode, degrees.tensor, routed(instance, degrees))
    size = parameter_bytes(owner[0], instance, chip_weights(owner[0], instance, share), here)
    return scattered_ns(instance, degrees.alike(owner[1]), owner[0], size, Fraction(0))


def _moved_ns(instance: DataflowInstance, degrees: Degrees, size: Fraction, held: Part, needed: Part) -> Fraction:
    """Nanoseconds from the ``held`` to the ``needed`` part of ``size`` bytes: an all-gather of all of it, padded, or a
    swap of the larger part. Experts that other replicas hold are gathered from these first."""
    total = Fraction(0)
    if "experts" in (held.side, needed.side):
        for one in degrees.carrying(instance.system, "expert"):
            total += collective_ns("all_gather", size / degrees.tensor, one, 1)
    for one in degrees.carrying(instance.system, "tensor"):
        if needed.side == "whole":
            total += collective_ns("all_gather", size * padded(held.share), one, 1)
        else:
            total += swap_ns(size * max(held.share, needed.share), one)
    return total
