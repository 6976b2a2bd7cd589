"""SAMPLE and FIX against brute force: every sample is valid, every valid mapping is reached, nothing valid is lost."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings

from benchmarks.ring_lifting import BatchLift
from chipmap.heuristics.ring.sampling.kernel import FELL_BACK
from chipmap.heuristics.ring.sampling.propagate import SampleRule, propagator
from chipmap.heuristics.ring.sampling.propagate_kernel import place
from chipmap.heuristics.ring.sampling.propagate_state import undo
from chipmap.heuristics.ring.sampling.sample_fix import Sampler
from chipmap.instances.ring import Forbidden, Package, RingInstance, RingSolution
from chipmap.instances.ring.contraction import Contraction, contract
from chipmap.instances.ring.problem import ring_problem
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.records import InputError
from chipmap.validation.ring.candidates import candidates
from chipmap.validation.ring.checker import check
from tests.lanes import of_all
from tests.ring.random_instances import random_graph, random_instance, seeds
from tests.ring.shipped import shipped

RULES: tuple[SampleRule, ...] = ("path", "full")
SUBSETS = (("C1",), ("C1", "C2"), ("C1", "C3"), ("C1", "C2", "C3"), ("C1", "C4"), ("C1", "C2", "C3", "C4"))
Mapping = tuple[int, ...]


def tiny(seed: int) -> Contraction:
    """The contraction of a random instance with a subset of C1 to C4 that has C1; C4 often binds."""
    random = Random(seed)
    instance = random_instance(random, operations=9, chips=4, constraints=random.choice(SUBSETS))
    return contract(instance.replace(package=instance.package.replace(sram_bytes=random.choice((700, 1500, 4000)))))


def valid(contraction: Contraction, rule: SampleRule) -> set[Mapping]:
    """All mappings of the contracted instance that the rule admits, by brute force: the chips of what computes."""
    instance = contraction.instance
    found = {solution.chips for solution in candidates(instance) if check(instance, solution).feasible}
    if rule == "path":
        flows = ring_problem(instance).flows.tolist()
        found = {chips for chips in found if all(chips[v] - chips[u] <= 1 for u, v in flows)}
    constants = len(contraction.members) - len(contraction.groups)
    return {chips[constants:] for chips in found}


def small_enough(contraction: Contraction) -> bool:
    """Whether brute force takes no time."""
    return int(contraction.original.package.chips ** len(contraction.groups)) <= 3000


@settings(max_examples=of_all(120, few=48), derandomize=True, deadline=None)
@given(seeds)
def test_every_sample_is_valid_also_for_the_original(seed: int) -> None:
    contraction = tiny(seed)
    if not small_enough(contraction):
        return
    lift = BatchLift(contraction)
    for rule in RULES:
        expected = valid(contraction, rule)
        sampler = Sampler(ring_problem(contraction.instance), rule)
        samples = sampler.sample(20, seed)
        candidate = np.array([Random(seed).randrange(-1, 5) for _ in range(sampler.problem.n)], dtype=np.int64)
        for found in (samples, sampler.fix(candidate, seed, count=5)):
            assert found.valid.all() == bool(expected) == found.valid.any()
            assert (found.status != FELL_BACK).all()
            assert {tuple(row) for row in found.chips[found.valid].tolist()} <= expected
        for row in lift(samples.chips[samples.valid]).tolist():
            solution = RingSolution(instance=contraction.original.name, chips=tuple(row))
            assert check(contraction.original, solution).feasible


@settings(max_examples=of_all(60, few=24), derandomize=True, deadline=None)
@given(seeds)
def test_every_valid_mapping_is_reached_and_fix_keeps_it(seed: int) -> None:
    """With all weight on a valid mapping, SAMPLE draws it in any order: the uniform distribution can, too."""
    contraction = tiny(seed)
    if not small_enough(contraction):
        return
    problem = ring_problem(contraction.instance)
    for rule in RULES:
        expected, sampler = sorted(valid(contraction, rule)), Sampler(problem, rule)
        for chips in Random(seed).sample(expected, min(40, len(expected))):
            weights = np.eye(problem.chips)[list(chips)]
            assert tuple(sampler.sample(1, seed, weights).chips[0].tolist()) == chips
            assert tuple(sampler.fix(chips, seed).chips[0].tolist()) == chips


@settings(max_examples=of_all(60, few=24), derandomize=True, deadline=None)
@given(seeds)
def test_propagation_loses_no_valid_value_and_path_keeps_no_other(seed: int) -> None:
    contraction = tiny(seed)
    if not small_enough(contraction):
        return
    problem = ring_problem(contraction.instance)
    random = Random(seed)
    for rule in RULES:
        left = sorted(valid(contraction, rule))
        known = propagator(problem, rule)
        problem = known.problem
        assert known.root is not None or not left
        if not left:
            continue
        state = known.state()
        target = random.choice(left)
        for v in random.sample(range(problem.n), problem.n):
            for w, (lo, hi) in enumerate(state.box[:, :2].tolist()):
                assert {chips[w] for chips in left} <= set(range(lo, hi + 1))
            for c in range(state.box[v, 0], state.box[v, 1] + 1):
                mark = state.trail[0, 0]
                if known.net.allowed[0, v, c] == c and known.complete:
                    assert place(known.net, state, v, c) == any(chips[v] == c for chips in left)
                    undo(state, mark)
            assert place(known.net, state, v, target[v])
            left = [chips for chips in left if chips[v] == target[v]]
        assert tuple(state.box[:, 0].tolist()) == target == left[0]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["tiny-chain", "tiny-diamond", "tiny-skip", "tiny-pinned"])
def test_uniform_samples_are_all_valid_mappings(name: str, rule: SampleRule) -> None:
    contraction = contract(shipped(name).replace(constraints=("C1", "C2", "C3")))
    samples = Sampler(ring_problem(contraction.instance), rule).sample(2000, 5)
    assert {tuple(row) for row in samples.chips.tolist()} == valid(contraction, rule)


@pytest.mark.parametrize("rule", RULES)
def test_parts_that_must_fill_each_others_gaps(rule: SampleRule) -> None:
    """Two chains whose forbidden chips leave gaps: C2 holds only if they fill them for each other."""
    graph = OperationGraph(
        name="two",
        operations=tuple(Operation(name=name, kind="k", flop=1) for name in "abcde"),
        tensors=(Tensor(producer=0, readers=(1,), bytes=1), Tensor(producer=2, readers=(3,), bytes=1)),
    )
    forbidden = (Forbidden(operation="a", chips=(0,)), Forbidden(operation="c", chips=(0, 1)))
    instance = RingInstance(
        name="two", graph=graph, package=Package(chips=4), forbidden=forbidden, constraints=("C1", "C2", "C3")
    )
    contraction = contract(instance)
    samples = Sampler(ring_problem(contraction.instance), rule).sample(3000, 1)
    assert samples.valid.all()
    assert {tuple(row) for row in samples.chips.tolist()} == valid(contraction, rule)


def test_no_mapping_is_said_so() -> None:
    instance = shipped("tiny-chain")
    names = [operation.name for operation in instance.graph.operations]
    forbidden = tuple(Forbidden(operation=name, chips=(0,)) for name in names)
    problem = ring_problem(contract(instance.replace(forbidden=forbidden)).instance)
    for rule in RULES:
        sampler = Sampler(problem, rule)
        assert not sampler.possible and not sampler.sample(3, 0).valid.any()
        assert not sampler.fix([0] * problem.n, 0).valid.any()


def test_distribution_is_followed_where_the_domain_allows() -> None:
    """A chain's first operation, drawn first, is on chip 1 three times as often as on chip 0."""
    graph = OperationGraph(
        name="pair",
        operations=tuple(Operation(name=name, kind="k", flop=1) for name in "ab"),
        tensors=(Tensor(producer=0, readers=(1,), bytes=1),),
    )
    problem = ring_problem(RingInstance(name="pair", graph=graph, package=Package(chips=3), constraints=("C1",)))
    weights = np.array([[1.0, 3.0, 0.0], [1.0, 1.0, 1.0]])
    chips = Sampler(problem).sample(4000, 9, weights, order=(0, 1)).chips
    assert np.bincount(chips[:, 0], minlength=3)[2] == 0
    assert 0.72 < float((chips[:, 0] == 1).mean()) < 0.78


def test_same_seed_same_samples_however_batches_are_cut() -> None:
    problem = ring_problem(contract(shipped("random-12")).instance)
    for rule in RULES:
        sampler = Sampler(problem, rule)
        whole = sampler.sample(12, 7).chips
        again = np.concatenate([Sampler(problem, rule).sample(5, 7).chips, sampler.sample(7, 7, first=5).chips])
        assert np.array_equal(whole, again)
        assert not np.array_equal(whole, sampler.sample(12, 8).chips)
        wish = whole[0][::-1].copy()
        assert np.array_equal(sampler.fix(wish, 3, count=4).chips, sampler.fix(np.stack([wish] * 4), 3).chips)


def test_fix_in_a_given_order_keeps_what_comes_first() -> None:
    problem = ring_problem(contract(shipped("tiny-chain").replace(constraints=("C1", "C2", "C3"))).instance)
    n, sampler = problem.n, Sampler(problem)
    for chips in product(range(problem.chips), repeat=n):
        found = sampler.fix(chips, 1, order=tuple(range(n)))
        fixed = found.chips[0].tolist()
        assert found.valid.all() and fixed[0] == 0
        kept = next((v for v in range(n) if fixed[v] != chips[v]), n)
        assert kept >= 1 or chips[0] != 0


@settings(max_examples=of_all(100, few=40), derandomize=True, deadline=None)
@given(seeds)
def test_batch_lift_is_lift(seed: int) -> None:
    random = Random(seed)
    contraction = contract(random_instance(random, operations=12, chips=4))
    chips = contraction.original.package.chips
    batch = np.array([[random.randrange(chips) for _ in contraction.groups] for _ in range(3)]).reshape(3, -1)
    lifted = BatchLift(contraction)(batch.astype(np.int64)).tolist()
    wanted = [contraction.lift_computing(row).chips for row in batch.tolist()]
    assert [tuple(row) for row in lifted] == wanted


def test_what_is_refused() -> None:
    instance = shipped("tiny-chain")
    problem = ring_problem(contract(instance).instance)
    sampler = Sampler(problem)
    with pytest.raises(InputError, match="C1"):
        Sampler(ring_problem(contract(instance.replace(constraints=("C2",))).instance))
    with pytest.raises(InputError, match="no rule"):
        Sampler(problem, "loose")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="contracted"):
        Sampler(ring_problem(instance.replace(graph=random_graph(Random(3), 12))))
    with pytest.raises(InputError, match="chips"):
        wide = instance.replace(package=instance.package.replace(chips=65))
        Sampler(ring_problem(contract(wide).instance))
    with pytest.raises(InputError, match="order"):
        sampler.sample(1, 0, order=(0, 0, 1, 2, 3))
    with pytest.raises(InputError, match="probabilities"):
        sampler.sample(1, 0, -np.ones((problem.n, problem.chips)))
    with pytest.raises(InputError, match="candidates"):
        sampler.fix([0, 1], 0)
