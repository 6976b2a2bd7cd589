"""The benchmark of measured costs: simulated hardware, the optimum that knows it, and how calls are counted."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import chipmap
from benchmarks import ring_blackbox
from benchmarks.blackbox_simulator import Simulator, optimum, simulator
from chipmap.heuristics.ring.measured.fit import Fit
from chipmap.heuristics.ring.measured.resolve import Resolver
from chipmap.instances.ring import RingInstance
from chipmap.instances.ring.contraction import computing_only, contract
from chipmap.instances.ring.problem import ring_problem
from chipmap.kernels import plainly
from chipmap.validation.brute_force import candidates
from chipmap.validation.ring.checker import check

TINY = ("ring/tiny-chain", "ring/tiny-diamond", "ring/tiny-memory")


@pytest.fixture(autouse=True)
def plain() -> Iterator[None]:
    """Tiny instances: nothing is worth compiling."""
    with plainly(True, True):
        yield


def tiny(name: str) -> tuple[RingInstance, ring_blackbox.SimulatedCase]:
    """A shipped tiny instance under C1 to C3, as a case of the benchmark."""
    instance = chipmap.read(name).replace(constraints=("C1", "C2", "C3"))
    assert isinstance(instance, RingInstance)
    problem = computing_only(ring_problem(contract(instance).instance))
    kinds, resolver = ["a", "b", "a", "b", "c"][: problem.n], Resolver(problem, 1000)
    start = resolver(Fit(problem, kinds).speeds())
    assert start is not None
    return instance, ring_blackbox.SimulatedCase(problem, kinds, resolver, start, simulator(problem, kinds, start, 3))


def test_each_effect_of_the_simulator_by_hand() -> None:
    """Two chips: work with the true times, transfers at both ends, and weights beyond the cache."""
    _, case = tiny("ring/tiny-chain")
    ticks = np.array([1000.0, 2000.0, 3000.0, 4000.0, 5000.0])
    package = Simulator(case.problem, ticks, contention=0.5, cache_bytes=0.0, memory_bytes_per_ns=10.0)
    crossing = next(storage.ticks for storage in case.problem.storages if storage.producer == 1)
    weights = case.problem.weight_bytes
    found = package.times(np.array([0, 0, 1, 1, 1]))
    assert found[0] == pytest.approx((3000 + 0.5 * crossing) / 100 + weights[:2].sum() / 10.0)
    assert found[1] == pytest.approx((12000 + 0.5 * crossing) / 100 + weights[2:].sum() / 10.0)


@pytest.mark.parametrize("name", TINY)
def test_the_program_that_knows_the_simulator_is_brute_force(name: str) -> None:
    """Over the mappings in which no flow skips a chip."""
    instance, case = tiny(name)
    value, chips = optimum(case.simulator, 1000)
    valid = [np.array(one.chips) for one in candidates(instance) if check(instance, one).feasible]
    near = [one for one in valid if all(one[v] - one[u] <= 1 for u, v in case.problem.flows.tolist())]
    assert value == pytest.approx(min(case.simulator(one) for one in near))
    assert value == pytest.approx(case.simulator(chips))


@pytest.mark.parametrize("method", ring_blackbox.METHODS)
def test_no_method_calls_more_often_than_it_may(method: str) -> None:
    instance, case = tiny("ring/tiny-diamond")
    costs = list(ring_blackbox.costs(case, method, seed=1, calls=4))
    valid = {case.simulator(np.array(one.chips)) for one in candidates(instance) if check(instance, one).feasible}
    assert 1 <= len(costs) <= 4 and valid.issuperset(costs)
    assert costs == list(ring_blackbox.costs(case, method, seed=1, calls=4))
    if method in (*ring_blackbox.MODELS, "local moves"):
        assert costs[0] == case.simulator(case.start), "they begin with the analytic optimum"


def test_a_run_that_never_comes_near_is_censored() -> None:
    def row(method: str, seed: int, hit: str) -> dict[str, str]:
        values = ("resnet18 × 12", method, str(seed), "107.0", "100.0", "100", hit, "101.0")
        return dict(zip(ring_blackbox.COLUMNS, values, strict=True))

    rows = [row("alternating", 0, "9"), row("alternating", 1, "50"), row("alternating", 2, ""), row("random", 0, "")]
    lines = ring_blackbox.tables(rows, 100)
    assert "| 7.0% |" in lines[2] and lines[2].endswith("| 50 (2 of 3) |") and "> 100 (0 of 1)" in lines[2]
    assert lines[3].startswith("| median at most 50 calls | 1 of 1 by 5% or more | 0 of 1 |")
    assert lines[3].endswith("| 1 of 1 |")
