"""Methods near the start: the best mapping that their windows hold, never worse than the start, and no bound."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

from chipmap.instances.ring import RingInstance, RingSolution, generators
from chipmap.instances.ring.contraction import contract
from chipmap.instances.ring.problem import ring_problem
from chipmap.methods.ring import around_start, neighbourhoods
from chipmap.methods.ring.chain import auto
from chipmap.methods.ring.state import RingChainState
from chipmap.result import Termination
from chipmap.run import Run, SolveOptions
from chipmap.validation.ring.candidates import candidates
from chipmap.validation.ring.checker import check
from tests.ring.random_instances import random_instance

Method = Callable[[RingInstance, Run], Termination]
METHODS: list[tuple[Method, Any]] = [
    (around_start.fix, around_start.inner_stay),
    (around_start.proximity, around_start.within_reach),
]


def started(instance: RingInstance, start: RingSolution) -> Run:
    """A run of one thread that begins with ``start``."""
    run = Run(instance, SolveOptions(time_limit=60.0, threads=1), check)
    run.solution(start, "start")
    return run


@pytest.mark.parametrize(("method", "windows"), METHODS, ids=["fix", "proximity"])
def test_the_best_mapping_within_the_windows(method: Method, windows: Any) -> None:
    """Against all candidates of tiny instances, from random valid starts; no bound, whatever was left out."""
    gained = 0
    for seed in range(30):
        instance = contract(random_instance(Random(seed), operations=5, chips=4)).instance
        every = [(one.objective, s) for s in candidates(instance) if (one := check(instance, s)).objective is not None]
        valid = [(value, s) for value, s in every if value is not None and check(instance, s).feasible]
        if not valid:
            continue
        value, start = Random(seed).choice(valid)
        allowed = windows(ring_problem(instance), np.array(start.chips))
        near = [v for v, s in valid if all(lo <= s.chips[i] <= hi for i, (lo, hi) in allowed.items())]
        run = started(instance, start)
        method(instance, run)
        assert run.upper == min(near), seed
        assert not run.bounds and not run.proved_infeasible
        gained += min(near) < value
    assert gained >= 3


def test_what_is_left_out_may_hold_the_optimum() -> None:
    """From everything on one chip: ``fix`` can move nothing, ``proximity`` can share with one chip more."""
    instance = generators.chain(operations=8, chips=4)
    start = RingSolution(chips=(0,) * len(instance.graph.operations))
    alone = started(instance, start)
    around_start.fix(instance, alone)
    near = started(instance, start)
    termination = around_start.proximity(instance, near)
    best = Run(instance, SolveOptions(time_limit=60.0, threads=1), check)
    auto(instance, best)
    assert alone.best is not None and near.best is not None and best.upper is not None
    assert alone.upper == alone.best.objective and near.upper is not None and best.upper < near.upper < alone.upper
    assert (
        isinstance(near.best.solution, RingSolution)
        and set(near.best.solution.chips) == {0, 1}
        and termination.reason == "feasible"
    )


@pytest.mark.parametrize("method", [one for one, _ in METHODS], ids=["fix", "proximity"])
def test_without_a_start_greedy_begins(method: Method) -> None:
    instance = generators.chain(operations=6, chips=3)
    run = Run(instance, SolveOptions(time_limit=60.0, threads=1), check)
    method(instance, run)
    assert run.best is not None and not run.bounds


def test_a_proposal_says_which_neighbourhood_is_next() -> None:
    """First the chips that the proposal would change most, though others are slower; never one without hope."""
    instance = generators.chain(operations=24, chips=8)
    state = RingChainState(instance, Run(instance, SolveOptions(time_limit=60.0), check))
    n, chips = state.problem.n, state.problem.chips
    uneven = np.minimum(np.arange(n) * chips // n, chips - 1)
    uneven[uneven == 1] = 0
    state.run.solution(
        state.contraction.lift(RingSolution(chips=tuple(np.unique(uneven, return_inverse=True)[1].tolist()))), "x"
    )
    plain = neighbourhoods._Search(state)
    proposal = plain.chips.copy()
    proposal[plain.chips == 5] = 6
    guided = neighbourhoods._Search(state, proposal)
    first, other = plain.pick(), guided.pick()
    assert first is not None and other is not None
    assert first.first <= 0 and other.first <= 5 <= other.last
    assert guided._hopeful(other)
