"""The propagator rule by rule: what is left after each step is a fixed point of every rule, stated here once more."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from random import Random

from hypothesis import given, settings

from chipmap.heuristics.ring.sampling.propagate import Propagator, propagator
from chipmap.heuristics.ring.sampling.propagate_kernel import place
from chipmap.heuristics.ring.sampling.propagate_state import PropagationState, undo
from chipmap.instances.ring import Package, RingInstance
from chipmap.instances.ring.contraction import contract
from chipmap.instances.ring.instance import Label
from chipmap.instances.ring.precedence import skips
from chipmap.instances.ring.problem import RingProblem, ring_problem
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from tests.lanes import of_all
from tests.ring.random_instances import random_instance, seeds

STATIC: tuple[Label, ...] = ("C1", "C2", "C3")


def problem_of(
    edges: Sequence[tuple[int, int]],
    chips: int,
    constraints: tuple[Label, ...] = STATIC,
    weights: Sequence[int] = (),
    size: int = 1,
    sram: int = 10**6,
) -> RingProblem:
    """Operations 0, 1, … with these flows, a tensor of ``size`` bytes each."""
    count = max(max(edge) for edge in edges) + 1
    weights = weights or (0,) * count
    graph = OperationGraph(
        name="net",
        operations=tuple(Operation(name=f"op{v}", kind="k", flop=1, weight_bytes=weights[v]) for v in range(count)),
        tensors=tuple(Tensor(producer=u, readers=(v,), bytes=size) for u, v in edges),
    )
    package = Package(chips=chips, sram_bytes=sram)
    return ring_problem(RingInstance(name="net", graph=graph, package=package, constraints=constraints))


def after(known: Propagator, *placed: tuple[int, int]) -> list[tuple[int, int]]:
    """The intervals once operations have been put on chips, one after the other."""
    state = known.state()
    for v, chip in placed:
        assert place(known.net, state, v, chip)
    return boxes(state)


def boxes(state: PropagationState) -> list[tuple[int, int]]:
    return [(int(lo), int(hi)) for lo, hi in state.box[:, :2]]


def test_flows_move_both_ends() -> None:
    chain = [(0, 1), (1, 2), (2, 3)]
    loose = propagator(problem_of(chain, 4, ("C1",)))
    assert after(loose, (1, 2)) == [(0, 2), (2, 2), (2, 3), (2, 3)]
    assert after(loose, (2, 1)) == [(0, 1), (0, 1), (1, 1), (1, 3)]
    path = propagator(problem_of(chain, 4, ("C1",)), "path")
    assert after(path, (1, 2)) == [(1, 2), (2, 2), (2, 3), (2, 3)]
    assert after(path, (3, 3), (1, 1)) == [(0, 1), (1, 1), (2, 2), (3, 3)]


def test_no_skipping_counts_operations() -> None:
    known = propagator(problem_of([(0, 1), (1, 2)], 5))
    assert boxes(known.state()) == [(0, 2)] * 3  # three operations use three chips at most
    assert after(known, (2, 2)) == [(0, 0), (1, 1), (2, 2)]
    assert after(propagator(problem_of([(0, 1), (1, 2)], 5, ("C1",))), (2, 2)) == [(0, 2), (0, 2), (2, 2)]
    path = propagator(problem_of([(0, 1)], 3), "path")
    assert not place(path.net, path.state(), 0, 1)  # nothing could be on chip 0


def test_between_the_ends_of_a_flow_there_is_no_third_chip() -> None:
    problem = problem_of([(0, 1), (1, 2), (0, 2)], 3, ("C1", "C3"))
    known = propagator(problem)
    assert after(known, (0, 0), (1, 1)) == [(0, 0), (1, 1), (1, 1)]
    assert after(known, (2, 2), (1, 1)) == [(1, 1), (1, 1), (2, 2)]
    assert after(propagator(problem_of([(0, 1), (1, 2), (0, 2)], 3, ("C1",))), (0, 0), (1, 1))[2] == (1, 2)


def test_a_triangle_of_chips_without_a_path_of_operations() -> None:
    """0 -> 1 and 2 -> 3, with 1 and 2 on one chip: 4 -> 3 may not go round them."""
    problem = problem_of([(0, 1), (2, 3), (4, 3)], 3, ("C1", "C3"))
    known = propagator(problem)
    assert after(known, (0, 0), (1, 1), (2, 1), (3, 2))[4] == (1, 2)
    state = known.state()
    assert all(place(known.net, state, v, chip) for v, chip in ((0, 0), (1, 1), (2, 1), (4, 0)))
    assert not place(known.net, state, 3, 2)


def test_memory_of_intervals_of_chips() -> None:
    chain = [(0, 1), (1, 2), (2, 3)]
    tight: tuple[Label, ...] = ("C1", "C4")
    known = propagator(problem_of(chain, 4, tight, weights=(6, 6, 6, 6), size=0, sram=10))
    assert boxes(known.state()) == [(0, 3)] * 4  # nothing is certain yet
    assert after(known, (1, 1)) == [(0, 0), (1, 1), (2, 3), (2, 3)]
    assert after(known, (1, 1), (2, 2)) == [(0, 0), (1, 1), (2, 2), (3, 3)]
    state = known.state()
    assert not place(known.net, state, 1, 0)  # 0 and 1 don't fit together
    wide = propagator(problem_of(chain, 4, tight, weights=(0, 0, 0, 0), size=4, sram=10))
    assert after(wide, (0, 0), (2, 1))[1] == (0, 1)  # 8 bytes leave chip 0, either way
    state = wide.state()
    assert place(wide.net, state, 0, 0) and place(wide.net, state, 2, 1)
    assert not place(wide.net, state, 3, 2)  # 8 bytes enter chip 1 and 8 leave it


def fixed_point(problem: RingProblem, known: Propagator, left: list[tuple[int, int]]) -> None:
    """Every rule of C1 to C3 has been used up."""
    for u, v in problem.flows.tolist():
        assert left[u][0] <= left[v][0] and left[u][1] <= left[v][1]
        if known.rule == "path":
            assert left[v][0] - left[u][0] <= 1 and left[v][1] - left[u][1] <= 1
    if known.rule == "path":
        return
    if problem.has("C3"):
        for u, w, v in skips(problem).tolist():
            if left[w][0] > left[u][1]:
                assert left[w][0] >= left[v][0] and left[v][1] <= left[w][1]
            if left[w][1] < left[v][0]:
                assert left[w][1] <= left[u][1] and left[u][0] >= left[w][0]
        no_triangle(problem, left)
    if problem.has("C2") and problem.n:
        top = max(lo for lo, _ in left)
        for b in range(top + 1):
            for a in range(b + 1):
                assert sum(lo <= b and hi >= a for lo, hi in left) >= b - a + 1
        assert max(hi for _, hi in left) < problem.n


def no_triangle(problem: RingProblem, left: list[tuple[int, int]]) -> None:
    """The placed operations break no C3, nor would a neighbour at either end of its interval."""
    flows = problem.flows.tolist()
    placed = {v: lo for v, (lo, hi) in enumerate(left) if lo == hi}
    edges = {(placed[u], placed[v]) for u, v in flows if u in placed and v in placed and placed[u] != placed[v]}
    assert holds(edges, problem.chips)
    for u, v in flows:
        if (u in placed) != (v in placed):
            for end in (0, 1):
                a, b = left[u][end if v in placed else 0], left[v][end if u in placed else 0]
                assert a == b or holds(edges | {(a, b)}, problem.chips), (u, v, a, b)


def holds(edges: set[tuple[int, int]], chips: int) -> bool:
    """C3 of a quotient graph whose edges lead forwards."""
    reach = set(edges)
    for c in range(chips):
        reach |= {(a, b) for a in range(c) for b in range(c + 1, chips) if (a, c) in reach and (c, b) in reach}
    return not any((a, c) in reach and (c, b) in edges and (a, b) in edges for a, c, b in combinations(range(chips), 3))


@settings(max_examples=of_all(150, few=60), derandomize=True, deadline=None)
@given(seeds)
def test_what_is_left_is_a_fixed_point_and_undoing_restores_it(seed: int) -> None:
    random = Random(seed)
    constraints = random.choice((("C1", "C2"), ("C1", "C3"), STATIC, STATIC, ("C1", "C2", "C3", "C4")))
    problem = ring_problem(contract(random_instance(random, operations=14, chips=5, constraints=constraints)).instance)
    for rule in ("path", "full"):
        known = propagator(problem, rule)  # type: ignore[arg-type]
        problem = known.problem
        if known.root is None:
            continue
        state = known.state()
        fixed_point(problem, known, boxes(state))
        for v in random.sample(range(problem.n), problem.n):
            lo, hi = boxes(state)[v]
            chips = [c for c in range(lo, hi + 1) if known.net.allowed[0, v, c] == c]
            chip, mark, before = random.choice(chips), int(state.trail[0, 0]), boxes(state)
            if place(known.net, state, v, chip):
                fixed_point(problem, known, boxes(state))
                if random.random() < 0.7:
                    continue
            undo(state, mark)
            assert boxes(state) == before and not state.box[:, 2].any() and state.queue[1] == 0
