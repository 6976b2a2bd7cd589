"""Products that one kernel adds up, whose sums over chips are made together.

The rules are those of ``docs/families/dataflow-exchanges.md``, "Sums that are shared".
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.instances.dataflow.instance import DataflowInstance, Degrees
from chipmap.instances.dataflow.options import ticks_of
from chipmap.instances.dataflow.parts import head_groups, parts
from chipmap.instances.dataflow.routed import routed
from chipmap.instances.dataflow.sharding import SUMMED, Layout, made_layout
from chipmap.instances.dataflow.summed import sums_ns
from chipmap.instances.dataflow.workload import Kernel, Scheme

IntArray = NDArray[np.int64]


class Added(NamedTuple):
    """Kernels whose products ``adder`` adds up: ``members``, as it lists them.

    ``sums[k][o]`` is the number of the collective that member k's option o asks for (in :data:`SUMMED`; -1: none), of
    which each that occurs takes ``ticks[number]`` picoseconds once, at the last member that runs. ``layouts[k][o]``
    numbers what the member leaves: of members with equal ones the first pays for the adder's change.
    """

    adder: int
    members: tuple[int, ...]
    sums: tuple[IntArray, ...]
    layouts: tuple[IntArray, ...]
    ticks: tuple[int, ...]


def added_products(
    instance: DataflowInstance, degrees: Degrees, schemes: Sequence[Sequence[Scheme]]
) -> tuple[Added, ...]:
    """Those of an instance whose kernels' options have these ``schemes``; none where chips share neither layers nor
    experts."""
    if instance.mode == "dfmodel" or degrees.tensor == degrees.expert == 1:
        return ()
    kernels = instance.workload.kernels
    index = {kernel.name: v for v, kernel in enumerate(kernels)}
    found = []
    for v, kernel in enumerate(kernels):
        members = tuple(index[name] for name in kernel.adds)
        if len(members) < 2:
            continue
        numbers: dict[object, int] = {}
        layouts = [
            [numbers.setdefault(_layout(instance, degrees, kernels[u], s), len(numbers)) for s in schemes[u]]
            for u in members
        ]
        found.append(
            Added(
                adder=v,
                members=members,
                sums=tuple(_sum_numbers(schemes[u]) for u in members),
                layouts=tuple(np.array(own, dtype=np.int64) for own in layouts),
                ticks=tuple(ticks_of(sums_ns(instance, degrees, kernels[members[-1]], s)) for s in SUMMED),
            )
        )
    return tuple(found)


def _layout(
    instance: DataflowInstance, degrees: Degrees, kernel: Kernel, scheme: Scheme
) -> tuple[Layout, Fraction, int]:
    """How a product lies after its sum over chips, with the groups of chips that have other heads (0: none)."""
    here = parts(kernel, scheme, "physical", degrees.tensor, routed(instance, degrees))
    groups = head_groups(kernel, degrees.tensor) if scheme == "OUTER_M" else 0
    return made_layout(kernel, scheme, "physical", degrees.tensor), here.output, groups


def _sum_numbers(schemes: Sequence[Scheme]) -> IntArray:
    """For each scheme its number in :data:`SUMMED`, or -1."""
    return np.array([SUMMED.index(one) if one in SUMMED else -1 for one in schemes], dtype=np.int64)
