"""Annealing of slicing trees with one box for each kernel: legal, against the optimum, and trees that stay trees."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pytest

from chipmap.deadline import Deadline
from chipmap.family import get_family, resolve
from chipmap.heuristics.wafer.exhaustive import solve
from chipmap.heuristics.wafer.slicing import fixed_kernel as kernel
from chipmap.heuristics.wafer.slicing.counted import counted_cuts
from chipmap.heuristics.wafer.slicing.exchange import graph_of
from chipmap.heuristics.wafer.slicing.fixed import Fixed, fixed_boxes
from chipmap.heuristics.wafer.slicing.moves_kernel import LEFT, PARENT, RIGHT, ROOT
from chipmap.heuristics.wafer.slicing.program import slicing_layout
from chipmap.inputs.reading import read
from chipmap.instances.wafer import Placement, WaferInstance, WaferSolution
from chipmap.instances.wafer.generators import explicit
from chipmap.instances.wafer.problem import TICKS, IntArray, evaluate, in_order, wafer_problem
from chipmap.kernels.annealing import seeded
from chipmap.run import Run, SolveOptions
from chipmap.validation.wafer.checker import check
from tests.wafer.generated import generated


def tiny(seed: int, adapter: int = 0) -> WaferInstance:
    """Three kernels of one or two types."""
    random, n = Random(seed), 3
    kinds = [{"H": 2, "W": 2, "C": 1, "K": random.randint(1, 2)} for _ in range(2)]
    kernels = {f"k{i}": kinds[random.randrange(2)] for i in range(n)}
    edges = [(f"k{random.randrange(i)}", f"k{i}") for i in range(1, n)]
    sides = {"width": 6, "height": 5}
    return explicit(kernels=kernels, edges=edges, **sides, wire_weight=1, adapter_weight=adapter)


@pytest.mark.parametrize("adapter", [0, 3])
def test_no_better_than_the_optimum_and_as_good_at_its_time(adapter: int) -> None:
    met = 0
    for seed in range(4):
        problem = wafer_problem(tiny(seed, adapter))
        optimum, _ = solve(problem, None, Deadline())
        start = slicing_layout(problem)
        if optimum is None or start is None:
            continue
        best = fixed_boxes(problem, [start], seed, Deadline(), rounds=1) or start
        found = evaluate(problem, in_order(problem, best))
        assert found.score >= optimum
        met += found.score == optimum
    assert met >= 2


@pytest.mark.parametrize("seed", [8, 32])
def test_legal_floorplans_with_shorter_wires_than_the_starts(seed: int) -> None:
    instance = generated(seed)
    problem, starts, scores = wafer_problem(instance), list[WaferSolution](), list[int]()
    counted_cuts(problem, 0, Deadline(), seconds=1.0, every=starts.extend)
    del starts[3:]
    parts = [evaluate(problem, in_order(problem, one)) for one in starts]

    def improved(solution: WaferSolution) -> None:
        certificate = check(instance, solution)
        assert certificate.feasible and not certificate.violations
        scores.append(evaluate(problem, in_order(problem, solution)).score)
        assert certificate.objective == scores[-1]

    best = fixed_boxes(problem, starts, 1, Deadline(), improved, rounds=1)
    assert best is not None and scores[-1] == evaluate(problem, in_order(problem, best)).score
    assert all(b < a for a, b in pairwise([min(one.score for one in parts), *scores]))
    assert evaluate(problem, in_order(problem, best)).time <= max(one.time for one in parts)
    assert scores[-1] < 0.97 * min(one.score for one in parts)
    assert fixed_boxes(problem, starts, 1, Deadline(), rounds=1) == best


def begun(seed: int) -> Fixed:
    problem = wafer_problem(tiny(seed, 2))
    start = slicing_layout(problem)
    assert start is not None
    made = Fixed.of(problem, start)
    assert made is not None
    return made


def whole(tree: IntArray) -> list[int]:
    """The nodes of a tree from its root down; every child names its parent."""
    found = [int(tree[ROOT, -1])]
    assert tree[PARENT, found[0]] < 0
    for node in found:
        if tree[LEFT, node] >= 0:
            found += [int(tree[LEFT, node]), int(tree[RIGHT, node])]
            assert {int(tree[PARENT, child]) for child in found[-2:]} == {node}
    return found


def boxes(made: Fixed, tree: IntArray) -> list[list[int]]:
    work = np.zeros((5, tree.shape[1]), np.int64)
    kernel.lay_out(tree, work, made.boxes.shapes, made.boxes.sides)
    return work[1:, : made.problem.n].tolist()  # type: ignore[no-any-return]


def test_after_any_moves_a_tree_is_a_tree_and_regrouping_moves_no_box() -> None:
    regrouped = 0
    for seed in range(6):
        made = begun(seed)
        tree, graph, random = made.tree.copy(), graph_of(made.problem), seeded(seed)
        n, stack = made.problem.n, np.zeros(made.tree.shape[1], np.int64)
        for _ in range(150):
            with np.errstate(over="ignore"):
                kernel._propose(tree, stack, graph, made.boxes.first, random)
            assert sorted(whole(tree)) == list(range(2 * n - 1))
            assert tree[: LEFT + 2, :n].max() < 0  # kernels have no parts
            types = np.searchsorted(made.boxes.first, tree[kernel.SHAPE, :n], side="right") - 1
            assert types.tolist() == made.problem.types.tolist()
            tree[kernel.ALIGN, :-1] = 0  # a rectangle that isn't the whole may be moved within its room otherwise
            before = boxes(made, tree)
            for node in range(n, 2 * n - 1):
                if kernel._regroup(tree, node):
                    regrouped += 1
                    assert boxes(made, tree) == before
    assert regrouped > 50


def test_the_cost_is_that_of_the_evaluation() -> None:
    for seed in range(4):
        made = begun(seed)
        made.run(2000, seed, Deadline())
        work = np.zeros((5, made.tree.shape[1]), np.int64)
        assert kernel.lay_out(made.tree, work, made.boxes.shapes, made.boxes.sides)
        ticks = graph_of(made.problem).ticks
        cost = kernel.cost(made.tree, work, made.boxes.shapes, made.boxes.edges, ticks)
        parts = evaluate(made.problem, in_order(made.problem, made._floorplan()))
        assert cost == 2 * parts.wire + TICKS * 2 * parts.adapters


def test_what_is_compiled_beforehand_includes_fixed_boxes(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = list[int]()
    monkeypatch.setattr(kernel, "anneal", lambda *_: calls.append(1))
    instance, method = next(one for one in get_family("wafer").warm if one[1].endswith(":by_fixed_boxes"))
    given = read(instance)
    assert isinstance(given, WaferInstance)
    resolve(method)(given, Run(given, SolveOptions(), check))
    assert calls


def test_what_is_not_slicing_or_costs_nothing_gives_nothing() -> None:
    one = {"H": 1, "W": 1, "C": 1, "K": 1}
    names = ["a", "b", "c", "d", "e"]
    edges = list(pairwise(names))
    instance = explicit(kernels=dict.fromkeys(names, one), edges=edges, width=20, height=20, wire_weight=1)
    problem = wafer_problem(instance)
    # a pinwheel of boxes of 6 x 2 and 2 x 6 round a fifth
    corners = {"a": (0, 0, 0, 2), "b": (6, 0, 1, 2), "c": (2, 6, 0, 2), "d": (0, 2, 1, 2), "e": (2, 3, 0, 1)}
    placements = tuple(
        Placement(kernel=v, h=1, w=1, c=(1,), k=(k,), x=x, y=y, rotated=bool(turned))
        for v, (x, y, turned, k) in corners.items()
    )
    pinwheel = WaferSolution(instance=instance.name, placements=placements)
    assert check(instance, pinwheel).feasible
    assert Fixed.of(problem, pinwheel) is None
    assert fixed_boxes(problem, [pinwheel], 0, Deadline()) is None
    free = wafer_problem(explicit(kernels={"a": one, "b": one}, edges=[("a", "b")], width=9, height=9, wire_weight=0))
    start = slicing_layout(free)
    assert start is not None and fixed_boxes(free, [start], 0, Deadline()) is None
    assert fixed_boxes(problem, [], 0, Deadline()) is None
