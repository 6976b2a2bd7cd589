"""Products that one kernel adds up, whose sums over chips are made together.

The rules are those of ``docs/families/dataflow-exchanges.md``, "Sums that are shared".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.instances.dataflow.instance import DataflowInstance
from chipmap.instances.dataflow.workload import Scheme

IntArray = NDArray[np.int64]
#: Schemes that leave sums over chips to be made.
SUMMED: tuple[Scheme, ...] = ("K", "K_RS", "K_N")


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


def added_up(instance: DataflowInstance) -> frozenset[str]:
    """The kernels whose sums over chips are made with those of others (mode ``physical``)."""
    if instance.mode == "dfmodel":
        return frozenset()
    return frozenset(name for kernel in instance.workload.kernels if len(kernel.adds) > 1 for name in kernel.adds)


def sum_numbers(schemes: Sequence[Scheme]) -> IntArray:
    """For each scheme its number in :data:`SUMMED`, or -1."""
    return np.array([SUMMED.index(one) if one in SUMMED else -1 for one in schemes], dtype=np.int64)
