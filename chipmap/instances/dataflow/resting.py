"""Where parameters rest, where backward kernels use them and where their gradients are made, and what lies between.

The formulas are those of ``docs/families/dataflow-exchanges.md``, "Weights that rest".
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from typing import Literal, NamedTuple

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from chipmap.instances.dataflow.batch import layers_per_stage, parameter_bytes, recomputed
from chipmap.instances.dataflow.instance import DataflowInstance, Degrees
from chipmap.instances.dataflow.joint import joint_ns, joint_swap_ns, tensor_dimensions
from chipmap.instances.dataflow.options import ticks_of
from chipmap.instances.dataflow.parts import has, padded, parts
from chipmap.instances.dataflow.plans import shared_by_plans
from chipmap.instances.dataflow.replicas import scattered_ns, shared
from chipmap.instances.dataflow.routed import routed
from chipmap.instances.dataflow.sharding import collective_ns
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
IntArray = NDArray[np.int64]
#: A kernel with its scheme.
End = tuple[Kernel, Scheme]


class Part(NamedTuple):
    """The rows, columns or experts of parameters that a chip has, and which share of all they are."""

    side: Side
    share: Fraction

    def covers(self, other: Part, chips: int) -> bool:
        """Whether a chip with this part has the ``other``."""
        same = self.side == other.side and has(self.share, other.share, chips)
        return self.side == "whole" or self.share == 1 or same


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
    """Bytes of a layer's parameters in a chip's DRAM while a backward kernel runs, beside those at rest (C6)."""
    at_rest, used = rest(instance, degrees, owner), use(instance, degrees, user)
    return Fraction(0) if at_rest.covers(used, degrees.tensor) else weight_bytes(owner[0], instance) * used.share


def handed_ns(instance: DataflowInstance, degrees: Degrees, owner: End, update: End) -> Fraction:
    """Nanoseconds per batch from the part of a gradient that an update makes to the part at rest, for all layers (T6);
    of one stage of a pipeline on unequal chips each time that the update runs, for a layer (T3).

    Nothing where the made part covers the part at rest. An all-gather of L · W bytes where all rests. Else a swap of
    the larger part, of a D-th of it where D replicas share out the optimiser's state but not the weights.
    """
    at_rest, new = rest(instance, degrees, owner), made(instance, degrees, update)
    if new.covers(at_rest, degrees.tensor):
        return Fraction(0)
    layers = 1 if instance.task.in_flight else layers_per_stage(instance, degrees)
    size = weight_bytes(owner[0], instance) * layers
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
    links = tensor_dimensions(instance, degrees)
    if needed.side == "whole":
        return total + joint_ns("all_gather", size * padded(held.share), links, 1)
    return total + joint_swap_ns(size * max(held.share, needed.share), links)


class Use(NamedTuple):
    """Kernel ``user`` uses the parameters of forward kernel ``owner``, or makes their gradient.

    For each of the owner's and the user's options [owner's, user's]: ``network`` picoseconds each time that the user
    runs (T3), ``after`` picoseconds per batch (T6), ``held`` bytes of DRAM beside those at rest while the user's
    partition runs (C6; 0 without a capacity).
    """

    owner: int
    user: int
    network: IntArray
    after: IntArray
    held: IntArray

    @property
    def matters(self) -> bool:
        """Whether it ever takes anything."""
        return bool(self.network.any() or self.after.any() or self.held.any())


def parameter_uses(
    instance: DataflowInstance, degrees: Degrees, schemes: Sequence[Sequence[Scheme]]
) -> tuple[Use, ...]:
    """Those of an instance whose kernels' options have these ``schemes`` that ever take anything."""
    if instance.mode == "dfmodel":
        return ()
    kernels = instance.workload.kernels
    index = {kernel.name: v for v, kernel in enumerate(kernels)}
    known = shared_by_plans(instance).setdefault("uses", {})
    found = []
    for v, kernel in enumerate(kernels):
        if kernel.parameters_of:
            u = index[kernel.parameters_of]
            found.append(Use(u, v, *_use_ticks(instance, degrees, (u, v), (schemes[u], schemes[v]), known)))
    return tuple(one for one in found if one.matters)


def _use_ticks(
    instance: DataflowInstance,
    degrees: Degrees,
    pair: tuple[int, int],
    schemes: tuple[Sequence[Scheme], Sequence[Scheme]],
    known: dict[object, tuple[int, int, int]],
) -> tuple[IntArray, IntArray, IntArray]:
    """The columns of a :class:`Use` for the schemes of its owner and its user. ``known`` keeps what was found."""
    kernels = (instance.workload.kernels[v] for v in pair)
    again = instance.workload.kernels[pair[0]].name in recomputed(instance)
    owner, user = (structs.replace(one, name="", adds=(), operand="", parameters_of="") for one in kernels)
    limited = instance.system.memory.capacity_bytes is not None
    found = np.zeros((3, len(schemes[0]), len(schemes[1])), dtype=np.int64)
    for i, s in enumerate(schemes[0]):
        for j, t in enumerate(schemes[1]):
            key = (
                owner,
                s,
                user,
                t,
                degrees,
                shared(instance, degrees),
                instance.task.samples,
                instance.task.stage_layers,
                again,
            )
            if key not in known:
                known[key] = _taken(instance, degrees, (owner, s), (user, t), limited, again)
            found[:, i, j] = known[key]
    return found[0], found[1], found[2]


def _taken(
    instance: DataflowInstance, degrees: Degrees, owner: End, user: End, limited: bool, again: bool
) -> tuple[int, int, int]:
    """Entries of a :class:`Use`; ``again``: the owner is recomputed, and gathers its parameters for both."""
    if user[0].update:
        handed = ticks_of(handed_ns(instance, degrees, owner, user))
        return (handed, 0, 0) if instance.task.in_flight else (0, handed, 0)
    gathered = 0 if again else ticks_of(gathered_ns(instance, degrees, owner))
    network = gathered + ticks_of(use_ns(instance, degrees, owner, user))
    return network, 0, ceil(uncovered_bytes(instance, degrees, owner, user)) if limited else 0
