"""Which tiny instances the models of family ``wafer`` are tested on, with their optima by enumeration."""

from __future__ import annotations

from functools import cache
from random import Random

from chipmap.instances.wafer import Fabric, Kernel, WaferInstance, WaferSolution, Weights
from tests.wafer import tiny

#: Instances of two kernels whose optimum needs labels (93; 60: min_c_k; 76: a block) or the other parity (156, 208).
WORSE = (60, 76, 93, 156, 208)
#: Random instances whose enumeration takes well under a second: one to three kernels, all protocols and weights.
SEEDS = (1, 2, 4, 5, 7, 8, 12, 16, 20, 22, 23, 25, 31, 36, 38, 39, *WORSE)
#: Some that have no floorplan.
IMPOSSIBLE = (3, 6, 9, 13, 34)


@cache
def instance(seed: int) -> WaferInstance:
    return tiny.instance(Random(seed))


@cache
def best(seed: int) -> tuple[int, WaferSolution]:
    found = tiny.optimum(instance(seed))
    assert found is not None
    return found


def line(weights: Weights, width: int) -> WaferInstance:
    arguments = {"H": 2, "W": 1, "C": 2, "K": 4, "R": 1, "S": 1, "T": 1, "U": 1}
    kernels = tuple(Kernel(name=name, kind="conv", arguments=arguments) for name in "ab")
    fabric = Fabric(width=width, height=5)
    return WaferInstance(name="line", kernels=kernels, edges=(("a", "b"),), fabric=fabric, weights=weights)
