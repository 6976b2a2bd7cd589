"""Station windows: they hold every solution up to their target, refute rightly, and are tight where that is known."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from benchmarks.ring_refute import refute
from chipmap.instances.ring import Package, RingInstance
from chipmap.instances.ring import station_windows as windows
from chipmap.instances.ring.precedence import flow_reachable, last_readers, reachable
from chipmap.instances.ring.problem import RingProblem, ring_problem
from chipmap.instances.ring.station_windows import least_target, station_windows
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.validation.brute_force import brute_force
from chipmap.validation.ring.candidates import candidates
from chipmap.validation.ring.checker import check
from tests.lanes import of_all
from tests.ring.random_instances import random_instance, seeds


def chain(times: tuple[int, ...], chips: int, skip: bool = False, **fields: Any) -> RingInstance:
    """Operations in a row with these times in ticks; with ``skip``, the last one reads the first as well."""
    last = len(times) - 1
    graph = OperationGraph(
        name="chain",
        operations=tuple(Operation(name=f"op{v}", kind="k") for v in range(last + 1)),
        tensors=tuple(
            Tensor(producer=v, readers=(v + 1, last) if skip and v == 0 else (v + 1,), bytes=1) for v in range(last)
        ),
    )
    package = Package(chips=chips, link_bytes_per_ns=None)
    made: dict[str, Any] = {"name": "chain", "graph": graph, "package": package}
    return RingInstance(**(made | {"time_ns": tuple(t / 100 for t in times)} | fields))


@settings(max_examples=of_all(80, few=32), deadline=None)
@given(seeds)
def test_windows_hold_every_solution_up_to_the_target(seed: int) -> None:
    random = Random(seed)
    instance = random_instance(random, operations=7, chips=random.choice((2, 3, 4)))
    problem = ring_problem(instance)
    if problem.computing.sum() > 7:
        return
    certificates = [(s, check(instance, s)) for s in candidates(instance)]
    feasible = [(s.chips, c.objective or 0) for s, c in certificates if c.feasible]
    costs = sorted({cost for _, cost in feasible})
    for target in {costs[0], costs[len(costs) // 2], costs[-1]} if costs else ():
        within = station_windows(problem, target)
        assert within is not None
        for chips, cost in feasible:
            if cost <= target:
                f = np.array(chips)
                held = (within.lo <= f) & (f <= within.hi)
                assert held[problem.computing].all(), (target, chips, within.lo, within.hi)
    least = least_target(problem, 0, costs[-1] if costs else 10**6)
    assert not costs or least <= costs[0]
    assert station_windows(problem, least - 1) is None or least == 0


def test_chain_windows_are_those_of_line_balancing() -> None:
    """By hand: 6 + 2 and 3 + 6 are more than 7, so 2 sits alone behind 6, and 3 before it; 4 + 3 + 3 need two chips."""
    within = station_windows(ring_problem(chain((4, 3, 3, 6, 2), chips=4)), 7)
    assert within is not None and within.target == 7
    assert within.pairs() == {0: (0, 0), 1: (0, 1), 2: (1, 1), 3: (2, 2), 4: (3, 3)}


def test_a_large_graph_leaves_all_chips_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Matrices of pairs aren't made then; the longest operation is still held against the target."""
    monkeypatch.setattr(windows, "MOST_OPERATIONS", 4)
    problem = ring_problem(chain((4, 3, 3, 6, 2), chips=4))
    within = station_windows(problem, 7)
    assert within is not None and set(within.pairs().values()) == {(0, 3)}
    assert station_windows(problem, 5) is None


def test_skips_bind_two_chips() -> None:
    """All of a chain under a skip sits on two chips: no T below half of its work, though there are four chips."""
    problem = ring_problem(chain((5, 5, 5, 5), chips=4, skip=True, constraints=("C1", "C2", "C3")))
    assert station_windows(problem, 9) is None
    assert station_windows(problem, 10) is not None
    without = ring_problem(chain((5, 5, 5, 5), chips=4, skip=True, constraints=("C1", "C2")))
    assert station_windows(without, 5) is not None


def test_slow_tensors_keep_their_ends_together() -> None:
    """A storage that takes longer than T on a link crosses none: both ends, and what lies between, share a chip."""
    package = Package(chips=3, link_bytes_per_ns=0.001)  # a byte takes 100,000 ticks
    problem = ring_problem(chain((5, 5, 5), chips=3, package=package))
    assert station_windows(problem, 14) is None
    within = station_windows(problem, 15)
    assert within is not None and within.lo.tolist() == [0, 0, 0]


@pytest.mark.parametrize("tighten", ["windows", "none"])
@pytest.mark.parametrize("seed", range(15))
def test_refute(seed: int, tighten: Any) -> None:
    instance = random_instance(Random(seed), operations=6)
    best, _ = brute_force(instance, check)
    problem = ring_problem(instance)
    if best is None:
        assert refute(problem, 10**9, time_limit=30.0, threads=1, tighten=tighten) == "infeasible"
        return
    found = refute(instance, best, time_limit=30.0, threads=1, tighten=tighten)
    assert not isinstance(found, str)
    assert check(instance, found).objective == best
    assert refute(problem, best - 1, time_limit=30.0, threads=1, tighten=tighten) == "infeasible"


@settings(max_examples=of_all(30, few=12), deadline=None)
@given(seeds)
def test_precedence_is_that_of_the_paths(seed: int) -> None:
    instance = random_instance(Random(seed), operations=9, constraints=("C1",))
    problem = ring_problem(instance)
    for matrix, pairs in ((reachable(problem), problem.edges), (flow_reachable(problem), problem.flows)):
        for u in range(problem.n):
            seen, todo = {u}, [u]
            while todo:
                here = todo.pop()
                fresh = {b for a, b in pairs.tolist() if a == here} - seen
                seen |= fresh
                todo += fresh
            assert set(np.flatnonzero(matrix[u]).tolist()) == seen
    for storage in problem.storages:
        _last(problem, storage.readers)


def _last(problem: RingProblem, readers: tuple[int, ...]) -> None:
    below = reachable(problem)
    last = last_readers(problem, readers)
    assert last and set(last) <= set(readers)
    assert all(any(below[v, w] for w in last) for v in readers)
    assert not any(below[v, w] for v in last for w in last if v != w)
