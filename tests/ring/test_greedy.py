"""The greedy baseline: its targets close in on the best one."""

from __future__ import annotations

import time

import numpy as np
import pytest

from chipmap.deadline import Deadline
from chipmap.heuristics.ring.greedy import PRECISION, greedy
from chipmap.inputs.reading import generate
from chipmap.instances.ring import RingInstance
from chipmap.instances.ring.loads import terms
from chipmap.instances.ring.problem import ring_problem
from chipmap.methods.ring import first
from chipmap.run import Run, SolveOptions
from chipmap.validation.ring.checker import check


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


def test_a_limit_that_passed_long_ago_leaves_a_mapping() -> None:
    """On a busy machine a process may take longer to begin than it is given: there is a mapping all the same."""
    instance = generate("chain", operations=20, chips=4)
    assert isinstance(instance, RingInstance)
    assert greedy(ring_problem(instance), Deadline(until=time.monotonic() - 3600.0)) is not None


def test_the_search_behind_it_ends_when_it_is_asked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of mappings that are all refused no further one is judged once the run is interrupted."""
    instance = generate("chain", operations=20, chips=4)
    assert isinstance(instance, RingInstance)
    run, judged = Run(instance, SolveOptions(), check), list[int]()

    class Refused:
        feasible = False

    def solution(*_: object) -> Refused:
        judged.append(0)
        run.rejected.append("")  # type: ignore[arg-type]
        run.interrupted = len(judged) == 3
        return Refused()

    monkeypatch.setattr(run, "solution", solution)
    first.search(ring_problem(instance), run)
    assert len(judged) == 3 and not run.rejected
