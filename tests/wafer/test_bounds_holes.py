"""Lower bounds that know keep-out areas and defects (C5)."""

from __future__ import annotations

from random import Random

import pytest

from chipmap.deadline import Deadline
from chipmap.heuristics.wafer.bounds.score import bounds
from chipmap.instances.wafer.problem import wafer_problem
from chipmap.instances.wafer.special import easier, without_holes
from tests.lanes import of_all
from tests.wafer.page_fabric import holed_instance, optimum


@pytest.mark.parametrize("seed", range(of_all(200, few=12)))
def test_bounds_that_know_holes_hold(seed: int) -> None:
    """Asked for more than the optimum, so that no cutoff hides a bound that is too high."""
    instance = holed_instance(Random(2000 + seed))
    least, plain = optimum(instance), easier(instance)
    if least is not None and plain is not None:
        assert bounds(wafer_problem(plain), least + 1000, Deadline(), lambda *_: None) <= least


@pytest.mark.parametrize(
    ("seed", "least", "without"), [(0, 72, 36), (12, 46, 43), (36, 18, 9), (54, 20, 12), (63, 72, 24)]
)
def test_bounds_that_know_holes_are_tight(seed: int, least: int, without: int) -> None:
    """The boxes that free rectangles leave, and the tiles that obstacles take, close the gap."""
    instance = holed_instance(Random(seed))
    plain = easier(instance)
    assert plain is not None and optimum(instance) == least
    found = [bounds(wafer_problem(one), least, Deadline(), lambda *_: None) for one in (without_holes(plain), plain)]
    assert found == [without, least]
