"""Search by samples: values are the checker's, policies are the paper's, curves count right."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings

from benchmarks.ring_curves import (
    best_so_far,
    geomean,
    improvement,
    samples_to,
    sparse,
    threshold_table,
)
from chipmap.heuristics.ring.sampling.evaluate import INVALID, Evaluator
from chipmap.heuristics.ring.sampling.sample_fix import Sampler
from chipmap.heuristics.ring.sampling.search import Annealing, Proposal, Uniform, search
from chipmap.instances.ring import RingSolution
from chipmap.instances.ring.contraction import contract
from chipmap.instances.ring.problem import IntArray, ring_problem
from chipmap.records import InputError
from chipmap.run import SolveOptions
from chipmap.solve import solve
from chipmap.validation.ring.checker import check
from tests.lanes import of_all
from tests.ring.random_instances import random_instance, seeds
from tests.ring.shipped import shipped


@settings(max_examples=of_all(200, few=80), derandomize=True, deadline=None)
@given(seeds)
def test_values_are_the_checkers(seed: int) -> None:
    random = Random(seed)
    grade = random.choice(("boundary", "full"))
    instance = random_instance(random, operations=9, chips=4, constraints=("C1", "C4"), memory_grade=grade)
    sram = random.choice((1000, 2000, 10**6))
    contraction = contract(instance.replace(package=instance.package.replace(sram_bytes=sram)))
    problem = ring_problem(contraction.instance)
    chips = np.array([sorted(random.choices(range(problem.chips), k=problem.n)) for _ in range(4)], dtype=np.int64)
    for row, value in zip(chips.tolist(), Evaluator(problem)(chips).tolist(), strict=True):
        certificate = check(contraction.instance, RingSolution(chips=tuple(row)))
        if any(violation.label == "C1" for violation in certificate.violations):
            continue
        broken = any(violation.label == "C4" for violation in certificate.violations)
        assert value == (INVALID if broken else certificate.objective)


@pytest.mark.parametrize("method", ["ring/random", "ring/annealing"])
def test_methods_find_the_optimum_of_what_is_tiny_and_repeat(method: str) -> None:
    for name in ("tiny-chain", "tiny-skip", "tiny-memory", "tiny-pinned"):
        best = solve(shipped(name), "ring/auto", SolveOptions(time_limit=30.0)).objective
        options = SolveOptions(warm_start="none", deterministic=True, seed=2, native={"samples": 500})
        one, other = solve(shipped(name), method, options), solve(shipped(name), method, options)
        assert one.objective == best and one.solution == other.solution
        assert {bound.source for bound in one.bounds} <= {"average", "largest operation"}, "told of every method"


def test_number_of_samples_is_checked() -> None:
    with pytest.raises(InputError, match="samples"):
        solve(shipped("tiny-chain"), "ring/random", SolveOptions(native={"samples": 0}))


def test_annealing_starts_uniform_and_keeps_what_is_better() -> None:
    policy = Annealing(6, 3, seed=1, iterations=10, hot=1e-9, cold=1e-9)
    first = policy.propose().probabilities
    assert first is not None and np.allclose(first, 1 / 3)
    policy.observe(np.zeros(6, dtype=np.int64), 100)
    second = policy.propose().probabilities
    assert second is not None and not np.allclose(second, first) and np.allclose(second.sum(axis=1), 1)
    policy.observe(np.zeros(6, dtype=np.int64), 90)
    third = policy.propose().probabilities
    assert third is not None and (third != second).any(axis=1).sum() < 6  # most rows of what was better stay
    policy.observe(np.zeros(6, dtype=np.int64), 95)
    policy.observe(None, INVALID)
    fourth = policy.propose().probabilities
    assert fourth is not None and (fourth != second).any(axis=1).sum() < 6


def test_a_policy_of_ones_own_joins_in_fix_mode() -> None:
    """What a learned policy does: it proposes candidates, FIX makes mappings of them, it hears their values."""

    class Last:
        def __init__(self) -> None:
            self.heard: list[float] = []

        def propose(self) -> Proposal:
            return Proposal(mode="fix", candidate=np.array([0, 0, 1, 1, 2]))

        def observe(self, chips: IntArray | None, value: float) -> None:
            self.heard.append(value)

    problem = ring_problem(contract(shipped("tiny-chain")).instance)
    policy = Last()
    found = list(search(Sampler(problem), policy, 1, 3))
    assert [chips.tolist() for chips, _ in found if chips is not None] == [[0, 0, 1, 1, 2]] * 3
    assert policy.heard == [value for _, value in found] and len(set(policy.heard)) == 1


def test_random_search_is_the_batch() -> None:
    problem = ring_problem(contract(shipped("random-12")).instance)
    sampler = Sampler(problem)
    one_by_one = [chips.tolist() for chips, _ in search(sampler, Uniform(), 4, 10) if chips is not None]
    assert one_by_one == sampler.sample(10, 4).chips.tolist()


def test_curves() -> None:
    curve = improvement([INVALID, 400, 500, 200, 300], 400)
    assert curve.tolist() == [0.0, 1.0, 1.0, 2.0, 2.0]
    assert [samples_to(curve, level) for level in (1.0, 1.5, 2.5)] == [2, 4, None]
    assert geomean([np.array([1.0, 4.0]), np.array([4.0, 4.0])]).tolist() == pytest.approx([2.0, 4.0])
    table = threshold_table({"a": curve, "b": np.array([1.5] * 5)}, (1.5, 2.0), reference="a")
    assert table[1:] == [["a", "4 (1.00×)", "4 (1.00×)"], ["b", "1 (4.00×)", "n/a"]]
    values = [INVALID, 400, 500, 200, 300]
    assert sparse(values) == [(1, INVALID), (2, 400), (4, 200), (5, 200)]
    assert best_so_far(sparse(values), 5).tolist() == [INVALID, 400, 400, 200, 200]
    assert sparse([7]) == [(1, 7)]
