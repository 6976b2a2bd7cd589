"""Layers with experts of which each chip may have its own: the schemes that this takes."""

from __future__ import annotations

from collections.abc import Sequence

from chipmap.instances.dataflow.sharding import schemes
from chipmap.instances.dataflow.workload import Kernel

#: What the kernels between dispatch and combine are called, with those of their backward phase, and these two.
_ROUTED, _BORDERS = "Experts_", ("Dispatch", "Combine")


def divided(kernels: Sequence[Kernel], experts: int, active: int) -> tuple[Kernel, ...]:
    """The kernels of a layer (mode ``physical``) with scheme E for those that work on experts' columns, and N for those
    that hand out and add up columns of tokens, beside the schemes that they have."""
    found = []
    for kernel in kernels:
        own = schemes(kernel, "physical")
        if kernel.name.startswith(_ROUTED):
            kernel = kernel.replace(schemes=(*own, "E"), experts=experts, active=active)
        elif kernel.name.startswith(_BORDERS):
            kernel = kernel.replace(schemes=(*own, "N"))
        found.append(kernel)
    return tuple(found)
