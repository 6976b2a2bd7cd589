"""The bound from eigenvalues: never above the optimum, its quadratic form never above what a chip pays, tight on an
example.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from msgspec import structs

from chipmap.deadline import Deadline
from chipmap.heuristics.ring.bounds.spectral import MOST_OPERATIONS, paid, spectral_bound, value
from chipmap.inputs.reading import generate
from chipmap.instances.ring import RingInstance
from chipmap.instances.ring.contraction import contract
from chipmap.instances.ring.problem import RingProblem, ring_problem
from tests.ring.random_instances import random_instance
from tests.ring.test_cut_bounds import linked, optimum


@pytest.mark.parametrize("seed", range(20))
def test_no_bound_above_the_optimum(seed: int) -> None:
    instance = linked(seed, mode="sum")
    best = optimum(instance)
    assert best is not None
    assert 0 < spectral_bound(ring_problem(instance)) <= best


@pytest.mark.parametrize("seed", range(150))
def test_no_bound_above_the_optimum_of_instances_with_everything(seed: int) -> None:
    """Views, constants, pins, memory in both grades, any of C1 to C4, operations that take no time."""
    instance = random_instance(Random(seed), operations=5)
    best = optimum(instance)
    if best is not None:
        assert spectral_bound(ring_problem(contract(instance).instance)) <= best


def pays(problem: RingProblem, chip: set[int]) -> int:
    """Work of some operations and the ticks of the storages that have ends among them and elsewhere."""
    split = [s.ticks for s in problem.storages if chip & (ends := {s.producer, *s.readers}) and not ends <= chip]
    return int(problem.ticks[list(chip)].sum()) + sum(split)


@pytest.mark.parametrize("seed", range(6))
def test_the_quadratic_form_is_at_most_what_a_chip_pays(seed: int) -> None:
    """For every subset of seven operations, and equal for some of them."""
    problem = ring_problem(linked(seed, operations=7, mode="sum"))
    matrix, equal = paid(problem, np.arange(7)), 0
    for mask in range(1, 1 << 7):
        x = np.array([mask >> v & 1 for v in range(7)], dtype=float)
        exact, found = pays(problem, set(np.flatnonzero(x).tolist())), float(x @ matrix @ x)
        assert found <= exact + 1e-6
        equal += abs(found - exact) <= 1e-6
    assert equal > 10


@pytest.mark.parametrize("seed", range(6))
def test_the_gradient_is_that_of_the_value(seed: int) -> None:
    matrix = paid(ring_problem(linked(seed, operations=7, mode="sum")), np.arange(7)) / 1000.0
    logs, way = np.random.default_rng(seed).normal(size=(2, 7))
    _, gradient = value(matrix, logs, 3)
    ends = [np.log(value(matrix, logs + step * way, 3)[0]) for step in (-1e-5, 1e-5)]
    assert (ends[1] - ends[0]) / 2e-5 == pytest.approx(float(gradient @ way), rel=1e-4, abs=1e-7)


def pairs(links: int, **setting: object) -> RingInstance:
    """Three pairs of operations of 1 us; what the first of a pair makes for the second takes ``links`` us on a link."""
    instance = generate(
        "explicit",
        flop=dict.fromkeys("abcdef", 4_000_000),
        edges=[list(pair) for pair in ("ab", "cd", "ef")],
        tensor_bytes=links * 32_000,
        sram_bytes_per_ns=1e6,
        **{"chips": 4, "cost_mode": "sum", "constraints": ["C2"], **setting},
    )
    assert isinstance(instance, RingInstance)
    return instance


def test_it_is_tight_where_no_cut_pays() -> None:
    """On four chips the mean is 1.5 us, and a pair takes 2 us on one chip; a cut between the two costs each chip 9 us.

    The eigenvalues are 1 for each pair and 19 for each cut, with d = time: 6 us / (3 + 1/19) = 1.97 us.
    """
    problem = ring_problem(pairs(9))
    assert problem.least_ticks == 150_000
    assert 196_000 <= spectral_bound(problem) <= 200_000 == optimum(pairs(9))
    assert spectral_bound(ring_problem(pairs(0))) == 150_000


def test_it_says_nothing_where_chips_do_not_pay_or_matrices_are_large() -> None:
    for mode in ("period", "sum_forward"):  # without C1 what goes back is free in these
        assert spectral_bound(ring_problem(pairs(9, cost_mode=mode))) == 0
    large = generate("layered", operations=MOST_OPERATIONS + 1, width=4, cost_mode="sum")
    assert isinstance(large, RingInstance)
    assert spectral_bound(ring_problem(large)) == 0


def test_operations_that_take_no_time() -> None:
    idle = structs.replace(linked(0, mode="sum"), time_ns=(0.0,) * 5)
    assert spectral_bound(ring_problem(idle)) == 0


def test_without_time_nothing_is_said_and_nothing_fails() -> None:
    assert spectral_bound(ring_problem(pairs(9)), Deadline.after(0.0)) == 0
