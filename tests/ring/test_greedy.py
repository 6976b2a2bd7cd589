"""The greedy baseline: its targets close in on the best one."""

from __future__ import annotations

import numpy as np
import pytest

from chipmap.heuristics.ring.greedy import PRECISION, greedy
from chipmap.inputs.reading import generate
from chipmap.instances.ring import RingInstance
from chipmap.instances.ring.loads import terms
from chipmap.instances.ring.problem import ring_problem


@pytest.mark.parametrize("seed", range(4))
def test_a_chain_is_filled_to_the_longest_operation(seed: int) -> None:
    """A filling for the target average + longest never fails on a chain, so that bisection ends near it."""
    instance = generate("chain", operations=900, chips=9, seed=seed)
    assert isinstance(instance, RingInstance)
    problem = ring_problem(instance)
    chips = greedy(problem)
    assert chips is not None
    most = problem.total_ticks / problem.chips + problem.ticks.max()
    assert max(terms(problem, np.array(chips))) <= (1 + PRECISION) * most
