"""Bounds from cuts of prefixes: never above brute force's optimum, exact in what they search, tight on an example."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from chipmap.deadline import Deadline
from chipmap.heuristics.ring.bounds.cuts import link_bound
from chipmap.heuristics.ring.bounds.prefix_cuts import PrefixCuts, prefix_bound
from chipmap.heuristics.ring.programs.ideals import FlowGraph, all_ideals, bits, flow_graph
from chipmap.inputs.reading import generate
from chipmap.instances.ring import RingInstance
from chipmap.instances.ring.contraction import contract
from chipmap.instances.ring.loads import terms
from chipmap.instances.ring.problem import RingProblem, ring_problem
from tests.ring.random_instances import random_instance
from tests.ring.test_cut_bounds import linked, optimum

PAYING = ("period", "sum_forward")
MANY = 10_000


def bound(problem: RingProblem, nodes: int) -> int:
    """The bound of an instance of which nothing is known."""
    cuts = PrefixCuts(problem, flow_graph(problem))
    return prefix_bound(cuts, 0, problem.most_ticks, nodes)


def chain(links: int, **setting: object) -> RingInstance:
    """Eight operations of 1 us in a row, on four chips unless ``setting`` says more; a tensor takes ``links`` us."""
    instance = generate(
        "explicit",
        flop=dict.fromkeys("abcdefgh", 4_000_000),
        edges=[list(pair) for pair in ("ab", "bc", "cd", "de", "ef", "fg", "gh")],
        tensor_bytes=links * 32_000,
        sram_bytes_per_ns=1e6,
        **{"chips": 4, **setting},
    )
    assert isinstance(instance, RingInstance)
    return instance


@pytest.mark.parametrize("mode", PAYING)
@pytest.mark.parametrize("seed", range(20))
def test_no_bound_above_the_optimum(seed: int, mode: str) -> None:
    instance = linked(seed, mode=mode)
    best = optimum(instance)
    assert best is not None
    problem = ring_problem(instance)
    for nodes in (1, 3, MANY):
        assert bound(problem, nodes) <= best


@pytest.mark.parametrize("seed", range(15))
def test_no_bound_above_the_optimum_of_instances_with_everything(seed: int) -> None:
    """Views, constants, pins, memory, any of C1 to C4."""
    instance = random_instance(Random(seed), operations=5)
    best = optimum(instance)
    problem = ring_problem(contract(instance).instance)
    if best is None or not problem.computing.any() or not problem.has("C1") or problem.cost_mode == "sum":
        return
    if any(storage.ticks for storage in problem.storages):
        assert bound(problem, MANY) <= best


def demanded(problem: RingProblem, graph: FlowGraph, x: int, target: int) -> bool:
    """Whether some ideal has more work than x, no more than x + target, and a cut within the target."""
    place = {v: i for i, v in enumerate(graph.operation)}
    for mask in all_ideals(graph).masks:
        inside = set(bits(mask))
        work = sum(int(problem.ticks[graph.operation[i]]) for i in inside)
        cut = sum(
            s.ticks for s in problem.storages if place[s.producer] in inside and {place[v] for v in s.readers} - inside
        )
        paid = cut if problem.cost_mode == "sum_forward" else 0
        if x < work <= x + target - paid and cut <= target:
            return True
    return False


@pytest.mark.parametrize("mode", PAYING)
@pytest.mark.parametrize("seed", range(8))
def test_the_search_finds_an_ideal_exactly_if_there_is_one(seed: int, mode: str) -> None:
    problem = ring_problem(linked(seed, operations=8, mode=mode))
    graph = flow_graph(problem)
    total, found = problem.total_ticks, set()
    for target in range(total // 8, total, max(1, total // 9)):
        for x in range(0, total - target, max(1, total // 7)):
            refuted = PrefixCuts(problem, graph).search(x, target, MANY)
            assert refuted != demanded(problem, graph, x, target)
            found.add(refuted)
    assert found == {True, False}


def test_it_is_tight_where_every_cut_is_dear() -> None:
    """Four of the eight operations on each of two chips: 5 us on the link; less would put all on one chip, 8 us.

    The links' cuts within the station windows don't see it: at any chip all or nothing may have been done.
    """
    problem = ring_problem(chain(5))
    assert bound(problem, 1) == 500_000
    assert link_bound(problem, 0, problem.most_ticks) < 500_000
    assert bound(ring_problem(chain(9)), 1) == 800_000, "no link is worth it"


def test_what_two_chips_pay_for_a_link_counts() -> None:
    """Mode ``sum_forward``, two chips, 1 us on the link: both pay 4 us of work and the link, which is optimal."""
    problem = ring_problem(chain(1, chips=2, cost_mode="sum_forward"))
    assert max(terms(problem, np.repeat([0, 1], 4))) == 500_000
    cuts = PrefixCuts(problem, flow_graph(problem))
    assert cuts.overdrawn(499_999, Deadline())
    assert not cuts.overdrawn(500_000, Deadline())
    assert bound(problem, 1) == 500_000


def test_an_incumbent_leaves_less_to_try() -> None:
    """A target that the incumbent meets has no gap between its cheap prefixes: no flow is computed."""
    problem = ring_problem(chain(5))
    cuts = PrefixCuts(problem, flow_graph(problem))
    cuts.know(np.repeat([0, 1], 4))
    cuts.network = None  # type: ignore[assignment]
    assert not cuts.refutes(500_000)
