"""Bounds from cuts of prefixes: never above brute force's optimum, exact in what they search, tight on an example."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pytest

from chipmap.deadline import Deadline
from chipmap.heuristics.engines.ideals import all_ideals, bits
from chipmap.heuristics.ring.bounds.cut_profile import NO_CUT, CutProfile
from chipmap.heuristics.ring.programs.flow_graph import flow_graph
from chipmap.inputs.reading import generate
from chipmap.instances.ring import RingInstance
from chipmap.instances.ring.contraction import contract
from chipmap.instances.ring.loads import terms
from chipmap.instances.ring.problem import RingProblem, ring_problem
from tests.ring.random_instances import random_instance
from tests.ring.test_cut_bounds import linked, optimum

PAYING = ("period", "sum_forward")
MANY = 10_000


def bound(problem: RingProblem, nodes: int = MANY) -> int:
    """The bound of an instance of which nothing is known."""
    return CutProfile(problem, flow_graph(problem)).bound(0, problem.most_ticks, nodes)


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
        assert bound(problem) <= best


def prefixes(problem: RingProblem) -> list[tuple[int, int]]:
    """Work and cut of every ideal that is neither nothing nor everything."""
    graph = flow_graph(problem)
    found = []
    for mask in all_ideals(graph.producers).masks:
        inside = {graph.operation[i] for i in bits(mask)}
        cut = sum(s.ticks for s in problem.storages if s.producer in inside and set(s.readers) - inside)
        found.append((int(problem.ticks[list(inside)].sum()), cut))
    return [one for one in found if 0 < one[0] < problem.total_ticks]


@pytest.mark.parametrize("mode", PAYING)
@pytest.mark.parametrize("seed", range(12))
def test_least_cuts_are_those_of_all_ideals(seed: int, mode: str) -> None:
    """Never above them, and equal where the search has come to its end; divided windows keep what is known."""
    problem = ring_problem(linked(seed, operations=8, mode=mode))
    every, profile = prefixes(problem), CutProfile(problem, flow_graph(problem))
    for nodes in (0, 1, 2, MANY):
        for window in list(profile.windows):
            profile._branch(window, problem.most_ticks, nodes, Deadline())
            least = min((cut for work, cut in every if window.first <= work <= window.last), default=NO_CUT)
            assert window.least <= least
            assert not window.exact or window.least == least
            assert nodes < MANY or window.exact
            if window.first < window.last and nodes < MANY:
                profile._divide(window)
    assert profile.windows[0].first == 1 and profile.windows[-1].last == problem.total_ticks - 1
    assert all(a.last + 1 == b.first for a, b in pairwise(profile.windows))


def test_prices_bound_more_than_the_least_cut_of_a_node() -> None:
    """At the first node of a window, and never above the least cut of the window."""
    instance = linked(3, operations=12)
    problem = ring_problem(instance)
    profile, total = CutProfile(problem, flow_graph(problem)), problem.total_ticks
    n = len(profile.ticks)
    nothing = np.zeros(n, dtype=bool)
    plain, priced = [], []
    for first in range(1, total, total // 9):
        window = type(profile.windows[0])(first, min(total - 1, first + total // 20), NO_CUT)
        least = min((cut for work, cut in prefixes(problem) if first <= work <= window.last), default=NO_CUT)
        inside, outside = nothing.copy(), nothing.copy()
        if profile._tighten(inside, outside, window):
            plain.append(profile.cuts.least(inside, outside)[0])
            priced.append(profile._least(inside, outside, window, 0.0)[0])
            assert plain[-1] <= priced[-1] <= least
    assert sum(priced) > sum(plain)


def test_it_is_tight_where_every_cut_is_dear() -> None:
    """Four of the eight operations on each of two chips: 5 us on the link; less would put all on one chip, 8 us."""
    problem = ring_problem(chain(5))
    assert bound(problem) == 500_000
    assert bound(ring_problem(chain(9))) == 800_000, "no link is worth it"


def test_what_each_chip_pays_for_its_links_counts() -> None:
    """Mode ``sum_forward``, three chips, 1 us on a link: the outer chips take three operations and one link, the inner
    one two operations and two links, 4 us each, which is optimal. All work and two links twice are 12 = 3 · 4 us.
    """
    problem = ring_problem(chain(1, chips=3, cost_mode="sum_forward"))
    assert max(terms(problem, np.repeat([0, 1, 2], (3, 2, 3)))) == 400_000
    assert bound(problem) == 400_000
    profile = CutProfile(problem, flow_graph(problem))
    profile.bound(0, problem.most_ticks, MANY)
    assert profile.steps(399_999) is None
    assert profile.steps(400_000) is not None


def test_chips_count_where_cheap_cuts_are_far_apart() -> None:
    """Six operations of 1 us; a cut of at most 3 us is had after two and four of them only. Two chips can't take less
    than 4 us, though every piece between cheap cuts has 2 us of work.
    """
    instance = generate(
        "explicit",
        flop=dict.fromkeys("abcdef", 4_000_000),
        edges=[list(pair) for pair in ("ab", "bc", "cd", "de", "ef")],
        sizes={"a": 320_000, "b": 32_000, "c": 320_000, "d": 32_000, "e": 320_000},
        sram_bytes_per_ns=1e6,
        chips=2,
    )
    problem = ring_problem(instance)  # type: ignore[arg-type]
    assert bound(problem) == 400_000 == max(terms(problem, [0, 0, 0, 0, 1, 1]))
