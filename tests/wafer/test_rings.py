"""Rings round a hub: sums by hand, the program's wires against those of its floorplans, two leaves at their best."""

from __future__ import annotations

from random import Random

import pytest

from chipmap.deadline import Deadline
from chipmap.heuristics.wafer.adapters import boxes_of
from chipmap.heuristics.wafer.slicing.guillotine import guillotine
from chipmap.heuristics.wafer.slicing.rings import RingProgram, hub_of, rings
from chipmap.heuristics.wafer.slicing.rings_kernel import along
from chipmap.heuristics.wafer.slicing.sizing import Sizing
from chipmap.instances.wafer import WaferSolution
from chipmap.instances.wafer.generators import explicit
from chipmap.instances.wafer.problem import WaferProblem, evaluate, wafer_problem
from chipmap.instances.wafer.shapes import shapes
from chipmap.methods.wafer.state import RINGS, WaferChainState
from chipmap.validation.wafer.checker import check
from tests.wafer.generated import generated


def star(seed: int, leaves: int, types: int = 3, width: int = 60, height: int = 50) -> WaferProblem:
    """A hub and its leaves, which are of a few random types, on a fabric with much room."""
    random = Random(seed)
    kinds = [
        {"H": random.randint(2, 6), "W": 3, "C": random.choice((4, 8)), "K": random.choice((4, 8))}
        for _ in range(types)
    ]
    kernels = {f"k{i}": random.choice(kinds) for i in range(leaves + 1)}
    edges = [("k0", f"k{i}") if i % 2 else (f"k{i}", "k0") for i in range(1, leaves + 1)]
    return wafer_problem(explicit(kernels=kernels, edges=edges, width=width, height=height, wire_weight=2))


def half_tiles(problem: WaferProblem, solution: WaferSolution) -> int:
    """Of all wires, from the floorplan."""
    return evaluate(problem, solution.placements).wire


@pytest.mark.parametrize("seed", range(30))
def test_lengths_along_a_strip_are_sums_of_boxes(seed: int) -> None:
    """The stack lies as near 0 as it can, and nothing nearer is shorter."""
    random = Random(seed)
    count, size = random.randint(1, 9), random.randint(1, 7)
    low = random.uniform(0, 40)
    high = random.uniform(max(0.0, count * size - low), count * size + 40)

    def by_hand(begin: float) -> float:
        return sum(abs(begin + (i + 0.5) * size) for i in range(count))

    found = along(float(count * size), count, low, high)
    steps = [-low + (high + low - count * size) * i / 500 for i in range(501)]
    assert found <= min(map(by_hand, steps)) + 1e-9
    assert any(abs(found - by_hand(at)) <= count * (high + low) / 500 for at in steps)


@pytest.mark.parametrize("seed", range(10))
def test_two_leaves_lie_at_the_long_sides_of_the_hub(seed: int) -> None:
    problem = star(seed, 2)
    time = 2 * Sizing(problem).area_time()
    solution = RingProgram(problem, 0).solution(time, 1e-6, Deadline())
    found = shapes(problem, time)
    thin = [min(boxes[:, :2].min(axis=1).tolist()) for boxes in found]
    least = sum(thin[t] for t in problem.types.tolist()) + thin[int(problem.types[0])]
    assert solution is not None
    # half a tile for each leaf where sides have different parity
    assert least <= half_tiles(problem, solution) <= least + 2


@pytest.mark.parametrize("seed", range(8))
def test_equal_leaves_have_the_wires_of_the_program(seed: int) -> None:
    """Where the boxes of a strip are equally long the program's sum is exact, but for corners in half tiles."""
    problem = star(seed, 12, types=1)
    program, time = RingProgram(problem, 0), int((1.5 + seed / 4) * Sizing(problem).area_time())
    for price in (1e-9, 0.5):
        solution = program.solution(time, price, Deadline())
        assert solution is not None and check(problem.instance, solution).feasible
        if price < 0.5:
            assert abs(2 * program.cost - half_tiles(problem, solution)) <= 2 * problem.n


@pytest.mark.parametrize("seed", [14, 39])
def test_floorplans_are_legal_slicing_and_ever_better(seed: int) -> None:
    instance, found, kept = generated(seed), list[WaferSolution](), list[WaferSolution]()
    problem = wafer_problem(instance)
    best = rings(problem, Deadline(), found.append, 1.0, kept.extend)
    assert best is not None and best is found[-1] and best in kept
    assert guillotine(boxes_of(best.placements)) is not None
    certificates = [check(instance, one) for one in found]
    assert all(one.feasible for one in certificates)
    objectives = [one.objective or 0 for one in certificates]
    assert objectives == sorted(objectives, reverse=True)
    assert all(check(instance, one).feasible for one in kept)
    assert rings(problem, Deadline(), seconds=1.0) == best


def test_the_hub_is_joined_to_most_kernels() -> None:
    assert hub_of(star(0, 9)) == 0
    one = {"H": 2, "W": 2, "C": 2, "K": 2}
    kernels = {f"k{i}": one for i in range(6)}
    chain = [(f"k{i}", f"k{i + 1}") for i in range(5)]
    assert hub_of(wafer_problem(explicit(kernels=kernels, edges=chain, width=40, height=40))) is None
    skips = [("k4", v) for v in ("k0", "k1", "k2", "k3", "k5")]
    assert hub_of(wafer_problem(explicit(kernels=kernels, edges=[*chain[:2], *skips], width=40, height=40))) == 4
    assert hub_of(wafer_problem(explicit(kernels={"a": one, "b": one}, edges=[("a", "b")], width=9, height=9))) is None


def test_without_time_room_or_wires_there_is_nothing() -> None:
    problem = star(0, 9)
    assert rings(problem, Deadline.after(0.0)) is None
    assert rings(problem, Deadline(), seconds=0.0) is None
    assert rings(star(1, 9, width=3, height=2), Deadline()) is None
    one = {"H": 2, "W": 2, "C": 2, "K": 2}
    edges = [("a", "b"), ("a", "c")]
    free = explicit(kernels={"a": one, "b": one, "c": one}, edges=edges, width=20, height=20, wire_weight=0)
    assert rings(wafer_problem(free), Deadline()) is None


def test_the_search_starts_from_them_also_where_adapters_cost() -> None:
    problem = wafer_problem(generated(39))
    found: list[WaferSolution] = []
    rings(problem, Deadline(), found.append, 0.5)
    state = WaferChainState(problem, 0)
    assert problem.instance.weights.adapter and found
    state.rows = {RINGS: found[-1]}
    assert state.start() == found[-1]
