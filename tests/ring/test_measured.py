"""Family ``ring`` with a measured cost: the methods that take one, the fit, and the exact programs under it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import chipmap
from chipmap.deadline import Stop
from chipmap.heuristics.ring.measured.fit import THRESHOLDS, Fit, Speeds
from chipmap.heuristics.ring.measured.guided import Guided
from chipmap.heuristics.ring.measured.resolve import Resolver
from chipmap.instances.ring import RingInstance, RingSolution, generators
from chipmap.instances.ring.contraction import computing_only, contract
from chipmap.instances.ring.loads import terms
from chipmap.instances.ring.problem import RingProblem, Shared, ring_problem
from chipmap.kernels import plainly
from chipmap.records import InputError
from chipmap.run import SolveOptions
from chipmap.validation.brute_force import brute_force, candidates
from chipmap.validation.ring.checker import check


@pytest.fixture(autouse=True)
def plain() -> Iterator[None]:
    """Tiny instances: nothing is worth compiling."""
    with plainly(True, True):
        yield


METHODS = ("ring/guided", "ring/random", "ring/annealing")
TINY = ("ring/tiny-chain", "ring/tiny-diamond", "ring/tiny-skip", "ring/tiny-links", "ring/tiny-memory")
#: Samples are slow where nothing is compiled.
FEW = {"samples": 40}
#: How much slower than it should be each operation is.
SLOWER = (1.0, 1.1, 0.5, 3.0, 2.0)


def slow(instance: RingInstance, solution: RingSolution) -> float:
    """The busiest chip, with speeds that the analytic cost doesn't know, in some unit."""
    work = [0.0] * instance.package.chips
    for operation, chip, slower in zip(instance.graph.operations, solution.chips, SLOWER, strict=True):
        work[chip] += operation.flop * slower / 4e6
    return max(work)


def least(instance: RingInstance) -> float:
    """The least cost of all valid mappings."""
    return min(slow(instance, one) for one in candidates(instance) if check(instance, one).feasible)


def contracted(instance: RingInstance) -> RingProblem:
    """The problem that the methods work on."""
    return computing_only(ring_problem(contract(instance).instance))


@pytest.mark.parametrize("name", ["ring/tiny-chain", "ring/tiny-memory"])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_returns_the_best_that_it_measured(method: str, name: str) -> None:
    instance = chipmap.read(name)
    result = chipmap.solve(instance, method, evaluator=slow, evaluations=6, native=FEW)
    told = result.evaluation
    assert told is not None and told.calls == len(told.measurements) <= 6 and told.limit == 6
    assert told.cost == min(one.cost for one in told.measurements if one.cost is not None)
    assert result.solution is not None
    assert told.cost == slow(instance, RingSolution.make(**result.solution))  # type: ignore[arg-type]
    assert len({one.solution for one in told.measurements}) == told.calls, "no mapping is measured twice"
    assert (result.status, result.gap) == ("feasible", None), "the bound is of the analytic cost"
    assert result.bound is not None and result.objective is not None and result.bound <= result.objective
    assert result.certificate is not None and result.certificate.objective == result.objective
    assert any("the bound holds for the analytic cost alone" in note.text for note in result.notes)
    assert not chipmap.solve.__globals__["disagreements"](result, instance, result.certificate)


@pytest.mark.parametrize("name", ["ring/tiny-diamond", "ring/tiny-skip"])
def test_guided_finds_the_least_cost_of_all(name: str) -> None:
    """Five operations: within 20 calls the speeds that matter are known."""
    instance = chipmap.read(name)
    assert isinstance(instance, RingInstance)
    result = chipmap.solve(instance, evaluator=slow, evaluations=20)
    assert result.method == "ring/guided" and result.evaluation is not None
    assert result.evaluation.cost == least(instance)


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_measures_the_same(method: str) -> None:
    def run(seed: int) -> list[tuple[float | None, str]]:
        result = chipmap.solve(
            "ring/tiny-diamond",
            method,
            SolveOptions(evaluations=5, deterministic=True, seed=seed, warm_start="none", native=FEW),
            evaluator=slow,
        )
        assert result.evaluation is not None and result.provenance["reproducible"]
        return [(one.cost, one.solution) for one in result.evaluation.measurements]

    assert run(1) == run(1) and len(run(1)) > 1


def test_without_an_evaluator_guided_is_the_analytic_optimum() -> None:
    for name in TINY:
        instance = chipmap.read(name)
        result = chipmap.solve(instance, "ring/guided", warm_start="none")
        assert result.objective == brute_force(instance, check)[0] and result.evaluation is None


def test_what_the_programs_cannot_solve_is_said() -> None:
    instance = chipmap.read("ring/tiny-chain").replace(constraints=("C2",))
    with pytest.raises(InputError, match="ring/guided solves by programs over ideals"):
        chipmap.solve(instance, evaluator=slow)


@pytest.mark.parametrize("mode", ["period", "sum", "sum_forward"])
def test_resolving_gives_the_optimum_under_other_speeds(mode: str) -> None:
    random = np.random.default_rng(3)
    for name in TINY:
        instance = chipmap.read(name).replace(cost_mode=mode)
        assert isinstance(instance, RingInstance)
        problem = contracted(instance)
        resolver = Resolver(problem, 1000)
        known = None
        for _ in range(3):
            ticks = np.ceil(problem.ticks * random.uniform(0.5, 2.0, problem.n))
            charged = 0.0 if mode == "period" else 1.0
            chips = resolver(Speeds(ticks, charged, 1.0), known)
            changed = instance.replace(time_ns=tuple(float(t) / 100 for t in ticks))
            assert chips is not None
            assert max(terms(contracted(changed), chips)) == brute_force(changed, check)[0]
            known = chips


def test_the_fit_learns_the_speeds_of_kinds() -> None:
    """One kind is twice as slow: single operations on the slowest chip tell so."""
    problem = contracted(chipmap.read("ring/tiny-chain"))  # type: ignore[arg-type]
    fit = Fit(problem, ["a", "b", "a", "b", "a"])
    slower = np.array([1.0, 2.0, 1.0, 2.0, 1.0]) * problem.ticks
    for cut in ((0, 0, 0, 1, 2), (0, 1, 1, 1, 2), (0, 0, 1, 1, 1), (0, 1, 2, 2, 2), (0, 0, 1, 2, 2)):
        chips = np.array(cut)
        fit.observe(chips, 7.0 * np.bincount(chips, slower, 3).max())
    found = fit.estimate().ticks / problem.ticks
    assert found[[1, 3]].mean() / found[[0, 2, 4]].mean() > 1.5
    before = Fit(problem, ["a"] * 5).speeds()
    assert before.ticks.tolist() == problem.ticks.tolist() and (before.transfer, before.link) == (0.0, 1.0)


def test_draws_agree_with_what_was_measured() -> None:
    """A mapping whose slowest chip is known keeps its cost under every draw, up to the noise."""
    problem = contracted(chipmap.read("ring/tiny-chain"))  # type: ignore[arg-type]
    fit, everything = Fit(problem, ["step"] * 5), np.zeros(5, dtype=np.int64)
    before = [fit.draw().ticks.sum() for _ in range(20)]
    fit.observe(everything, 3.0)
    costs = [fit.cost(fit.draw(), everything) for _ in range(20)]
    assert np.std(costs) / 3.0 < 0.05 < np.std(before) / np.mean(before)
    assert fit.cost(fit.estimate(), everything) == pytest.approx(3.0, rel=0.01)


def test_no_chip_is_fitted_to_be_slower_than_the_measured_cost() -> None:
    """A cost is an upper limit on every chip's time, whichever of them was the slowest."""
    problem = contracted(chipmap.read("ring/tiny-diamond"))  # type: ignore[arg-type]
    fit, slower = Fit(problem, list("abcde")), np.array(SLOWER) * problem.ticks
    cuts = [np.array(cut) for cut in ((0, 0, 1, 1, 2), (0, 1, 1, 2, 2), (0, 1, 1, 1, 1), (0, 0, 0, 0, 1))]
    for cut in cuts:
        fit.observe(cut, float(np.bincount(cut, slower, 3).max()))
    for cut in cuts:
        cost = float(np.bincount(cut, slower, 3).max())
        assert fit.cost(fit.estimate(), cut) == pytest.approx(cost, rel=0.03)


def test_the_threshold_is_the_likeliest_one() -> None:
    """One-chip costs of an instance with a cache: linear in the weights beyond it."""
    instance = generators.chain(operations=12, chips=6)
    problem = contracted(instance)
    weights = np.array([300, 10, 700, 10, 500, 20, 900, 10, 400, 30, 600, 10], dtype=np.int64) * 1000
    problem = replace(problem, weight_bytes=weights)
    true, rate = float(weights.sum()) / 6 * THRESHOLDS[0] * 3.0, 4.0 * 100 / problem.instance.package.sram_bytes_per_ns
    fit, random = Fit(problem, ["step"] * 12), np.random.default_rng(1)
    for _ in range(25):
        cut = np.sort(random.integers(0, 3, 12))
        cut = np.searchsorted(np.unique(cut), cut)
        held = np.bincount(cut, weights, 6)
        fit.observe(cut, float((np.bincount(cut, problem.ticks, 6) + rate * np.maximum(0, held - true)).max()))
    found = fit.estimate()
    assert found.spill > 0.0 and 0.5 * true < found.threshold < 1.6 * true


def test_resolving_charges_weights_beyond_the_threshold() -> None:
    """Against all mappings: constants that several operations read count once per chip."""
    for name in TINY:
        instance = chipmap.read(name)
        assert isinstance(instance, RingInstance)
        problem = contracted(instance)
        weights = np.array([5, 900, 40, 700, 300])[: problem.n] * 1000
        shared = (Shared((0, problem.n - 1), 400_000),)
        problem = replace(problem, weight_bytes=weights, shared=shared)
        speeds = Speeds(problem.ticks.astype(np.float64), 0.0, 1.0, spill=0.5, threshold=700_000.0)
        fit = Fit(problem, ["step"] * problem.n)
        fit._scale = 1.0  # costs in ticks
        for constraints in (("C1", "C2"), ("C1", "C2", "C3")):
            loose = replace(problem, instance=problem.instance.replace(constraints=constraints))
            chips = Resolver(loose, 1000)(speeds)
            valid = (
                one for one in candidates(instance) if check(instance.replace(constraints=constraints), one).feasible
            )
            least = min(fit.cost(speeds, np.array(one.chips)) for one in valid)
            assert chips is not None and fit.cost(speeds, chips) == pytest.approx(least, abs=1.0)


def test_guided_ends_when_nothing_is_left_to_measure() -> None:
    instance = chipmap.read("ring/tiny-chain")
    assert isinstance(instance, RingInstance)
    problem = contracted(instance.replace(package=instance.package.replace(chips=1)))
    search = Guided(Fit(problem, ["step"] * 5), Resolver(problem, 100))
    chips = search.propose()
    assert chips is not None and chips.tolist() == [0] * 5
    search.observe(chips, 1.0)
    assert search.propose() is None


def test_a_mapping_that_does_not_run_is_not_proposed_again() -> None:
    problem = contracted(chipmap.read("ring/tiny-chain"))  # type: ignore[arg-type]
    search = Guided(Fit(problem, ["step"] * 5), Resolver(problem, 100))
    seen = set[Any]()
    for _ in range(6):
        chips = search.propose()
        assert chips is not None and chips.tobytes() not in seen
        seen.add(chips.tobytes())
        search.observe(chips, None)


def test_every_program_looks_at_the_clock() -> None:
    from chipmap.deadline import Deadline

    problem = contracted(chipmap.read("ring/tiny-chain"))  # type: ignore[arg-type]
    resolver = Resolver(problem, 100, Deadline(0.0))
    with pytest.raises(Stop):
        resolver(Fit(problem, ["step"] * 5).speeds())
