"""More of a resource never ends worse: every mapping with less is a mapping with more, which costs no more.

A sample of the tiny instances. ``python -m benchmarks.more_resources --tiny`` asks all of them, and without ``--tiny``
instances of real size.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

import chipmap
from benchmarks.more_resources import PAIRS, Pair, both, tiny
from chipmap.run import SolveOptions
from chipmap.solve import solve

#: Pairs of each family.
SAMPLE = 5


def _sample() -> Iterator[tuple[str, Pair]]:
    for family in PAIRS:
        for pair in Random(family).sample(tiny(family), SAMPLE):
            yield family, pair


@pytest.mark.parametrize(("family", "pair"), _sample(), ids=lambda one: one if isinstance(one, str) else f"{one[:2]}")
def test_more_of_a_resource_never_ends_worse(family: str, pair: Pair) -> None:
    """The mapping with less is checked on the instance with more: what is asked there is at most its objective."""
    less, more = both(family, pair)
    few, many = (solve(one, options=SolveOptions(deterministic=True), isolate=False) for one in (less, more))
    if few.solution is None:
        assert few.status == "infeasible"
        return
    carried = chipmap.check(more, few.solution)
    assert carried.feasible and carried.objective is not None and few.objective is not None
    assert carried.objective <= few.objective
    assert many.objective is not None and many.objective <= carried.objective
    assert many.bound is not None and many.bound <= carried.objective
