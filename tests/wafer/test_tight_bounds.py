"""Bounds of family wafer on tiny instances where they are the optimum: one quarter more would be wrong.

Elsewhere the tests say that no bound is above the optimum. Where all bounds are loose, one that is a little too high
would pass.
"""

from __future__ import annotations

from random import Random

import pytest

from chipmap.instances.wafer.problem import WaferProblem
from tests.wafer.test_bounds import GRAPHS, bound, make, optimum

#: What costs something -> number of kernels and seed of an instance on which the bound is the optimum.
TIGHT = {
    "time": (3, 105),
    "time of one": (1, 104),
    "wire": (3, 103),
    "time and wire": (2, 102),
    "time and wire of a triangle": (3, 106),
    "time and adapters": (3, 108),
    "time, wire and adapters": (3, 109),
    "all, heavy": (3, 110),
    "all, of two": (2, 101),
}


def tiny(n: int, seed: int) -> WaferProblem:
    """A random instance of ``n`` kernels on a fabric that brute force can fill."""
    random = Random(seed * 10 + n)
    side = (random.randint(4, 7), random.randint(4, 7)) if n < 3 else (6, 6)
    return make(random, n, random.choice(GRAPHS[n]), side, blocks=False)


@pytest.mark.parametrize("name", TIGHT)
def test_the_bound_is_the_optimum(name: str) -> None:
    problem = tiny(*TIGHT[name])
    best = optimum(problem)
    assert best is not None and bound(problem) == best > 0
