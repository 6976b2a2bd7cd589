"""The slicing program against all slicing floorplans of an order, and the box curves against the exact shapes."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest

from chipmap.deadline import Deadline, Stop
from chipmap.heuristics.wafer.slicing.kernel import NONE
from chipmap.heuristics.wafer.slicing.program import OrderProgram, slicing_layout
from chipmap.heuristics.wafer.slicing.sizing import Sizing
from chipmap.instances.wafer.problem import WaferProblem, depth_first_order, evaluate, wafer_problem
from chipmap.instances.wafer.shapes import shapes
from chipmap.validation.wafer.checker import check
from tests.wafer.random_instances import STRIDED, THREE_BY_THREE, A, B, made, tiny_instance

Boxes = frozenset[tuple[int, int]]


def slicing_boxes(kernels: list[Boxes], width: int, height: int) -> Boxes:
    """(width, height) of every slicing floorplan of that order of kernels, by enumeration."""
    if len(kernels) == 1:
        return kernels[0]
    found = set()
    for m in range(1, len(kernels)):
        first = slicing_boxes(kernels[:m], width, height)
        for (a, b), (c, d) in product(first, slicing_boxes(kernels[m:], width, height)):
            found |= {(a + c, max(b, d)), (max(a, c), b + d)}
    return frozenset((w, h) for w, h in found if w <= width and h <= height)


def least_time(problem: WaferProblem, order: list[int], highest: int) -> int:
    """The least time up to ``highest`` at which a slicing floorplan of the order exists, 0 for none: one by one."""
    for tau in range(1, highest + 1):
        boxes = [frozenset((int(s[0]), int(s[1])) for s in front) for front in shapes(problem, tau)]
        if slicing_boxes([boxes[problem.types[i]] for i in order], problem.width, problem.height):
            return tau
    return 0


def problems() -> list[WaferProblem]:
    four = {"a": A, "b": B, "c": {"H": 2, "W": 3, "C": 2, "K": 4}, "d": {"H": 2, "W": 2, "C": 2, "K": 2}}
    large = [made(9, 5, "ab bc cd", four), made(8, 7, "ab ac bd", four), made(12, 4, "ab", {"a": A, "b": STRIDED})]
    return [wafer_problem(instance) for instance in [*large, *(tiny_instance(Random(seed)) for seed in range(12))]]


@pytest.mark.parametrize("problem", problems())
def test_the_program_equals_enumeration(problem: WaferProblem) -> None:
    sizing = Sizing(problem)
    longest = min(sizing.problem.longest, 1200)
    for order in (list(range(problem.n)), list(range(problem.n))[::-1], [0, *range(problem.n - 1, 0, -1)]):
        program = OrderProgram(sizing, order)
        assert program.least(1, longest) == least_time(problem, order, longest)


@pytest.mark.parametrize("tau", [60, 200, 999])
def test_curves_are_the_exact_shapes(tau: int) -> None:
    kernels: dict[str, dict[str, Any]] = {
        "a": A,
        "b": STRIDED,
        "c": THREE_BY_THREE,
        "d": {"kind": "cblock", "H": 4, "W": 4, "F": 8},
    }
    problem = wafer_problem(made(60, 60, "ab", kernels, memory_words=300))
    curves = Sizing(problem).curves(tau)
    for front, curve in zip(shapes(problem, tau), curves, strict=True):
        expected = np.full(61, NONE)
        for width, height in front[:, :2]:
            expected[height:] = np.minimum(expected[height:], width)
        np.testing.assert_array_equal(curve, expected)


@pytest.mark.parametrize("problem", problems())
def test_layouts_are_valid_and_meet_the_time(problem: WaferProblem) -> None:
    solution = slicing_layout(problem)
    sizing = Sizing(problem)
    if solution is None:
        order = depth_first_order(problem).tolist()
        assert least_time(problem, order, min(sizing.problem.longest, 300)) == 0
        return
    certificate = check(problem.instance, solution)
    assert not certificate.violations
    best = OrderProgram(sizing, depth_first_order(problem)).least()
    assert evaluate(problem, solution.placements).time <= best
    assert sizing.area_time() <= best


def test_beyond_the_exact_length_runs_get_a_rectangle_each(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = {f"k{i}": {"H": 2 + i % 3, "W": 2, "C": 3, "K": 4} for i in range(9)}
    problem = wafer_problem(made(20, 20, "", kernels))
    sizing = Sizing(problem)
    exact = OrderProgram(sizing, range(9)).least()
    monkeypatch.setattr(OrderProgram, "EXACT", 4)
    program = OrderProgram(sizing, range(9))
    windowed = program.least()
    assert exact <= windowed
    tree = program.tree()
    cuts = np.flatnonzero(tree.left >= 0)
    assert cuts.tolist() == list(range(9, 17))
    assert sorted([*tree.left[cuts], *tree.right[cuts], tree.root]) == list(range(17))
    solution = slicing_layout(problem)
    assert solution is not None
    assert not check(problem.instance, solution).violations
    assert evaluate(problem, solution.placements).time <= windowed


def test_the_order_is_topological_and_depth_first() -> None:
    problem = wafer_problem(made(30, 30, "ab ac bd ce de", dict.fromkeys("abcde", A)))
    assert depth_first_order(problem).tolist() == [0, 1, 3, 2, 4]


def test_the_box_curves_of_large_fabrics_look_at_the_clock() -> None:
    """They end with the work around them, and are those of one piece, however often they look."""
    random = Random(3)
    problem = wafer_problem(tiny_instance(random))
    with Deadline.after(0.0).heeded(), pytest.raises(Stop):
        Sizing(problem)
    instance = problem.instance
    large = instance.replace(fabric=instance.fabric.replace(width=700, height=20))
    pieces = Sizing(wafer_problem(large)).options
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("chipmap.heuristics.wafer.slicing.sizing.HEIGHTS", 10**6)
        whole = Sizing(wafer_problem(large)).options
    assert all(np.array_equal(one, other) for one, other in zip(pieces, whole, strict=True))
