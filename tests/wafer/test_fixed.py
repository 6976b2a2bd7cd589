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
from chipmap.heuristics.wafer.slicing.fixed import MOVES, Fixed, fixed_boxes
from chipmap.heuristics.wafer.slicing.moves_kernel import CUT, LEFT, PARENT, RIGHT, ROOT
from chipmap.heuristics.wafer.slicing.program import slicing_layout
from chipmap.inputs.reading import read
from chipmap.instances.wafer import Placement, WaferInstance, WaferSolution
from chipmap.instances.wafer.generators import explicit
from chipmap.instances.wafer.problem import TICKS, IntArray, evaluate, in_order, wafer_problem
from chipmap.kernels.annealing import seeded
from chipmap.run import Run, SolveOptions
from chipmap.validation.wafer.checker import check
from tests.wafer.generated import generated


def tiny(seed: int, adapter: int = 0, n: int = 3) -> WaferInstance:
    """Kernels of one or two types."""
    random = Random(seed)
    kinds = [{"H": 2, "W": 2, "C": 1, "K": random.randint(1, 2)} for _ in range(2)]
    kernels = {f"k{i}": kinds[random.randrange(2)] for i in range(n)}
    edges = [(f"k{random.randrange(i)}", f"k{i}") for i in range(1, n)]
    sides = {"width": 2 * n, "height": 2 * n - 1}
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
        best = fixed_boxes(problem, [start], seed, Deadline(), work=100_000) or start
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

    best = fixed_boxes(problem, starts, 1, Deadline(), improved, work=4e7)
    assert best is not None and scores[-1] == evaluate(problem, in_order(problem, best)).score
    assert all(b < a for a, b in pairwise([min(one.score for one in parts), *scores]))
    assert evaluate(problem, in_order(problem, best)).time <= max(one.time for one in parts)
    assert scores[-1] < 0.97 * min(one.score for one in parts)
    assert fixed_boxes(problem, starts, 1, Deadline(), work=4e7) == best


def begun(seed: int, n: int = 3) -> Fixed:
    problem = wafer_problem(tiny(seed, 2, n))
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


def room(tree: IntArray) -> IntArray:
    """The kernel's room to work in."""
    return np.zeros((kernel.ROWS, 2 * tree.shape[1]), np.int64)


def boxes(made: Fixed, tree: IntArray) -> list[list[int]]:
    work = room(tree)
    kernel.lay_out(tree, work, made.boxes.shapes, made.boxes.sides)
    return work[kernel.W : kernel.NEXT, : made.problem.n].tolist()  # type: ignore[no-any-return]


def sizes(made: Fixed, tree: IntArray) -> dict[int, tuple[int, int]]:
    """Width and height of each node of a tree, from its kernels up."""
    found = dict[int, tuple[int, int]]()
    for node in reversed(whole(tree)):
        if tree[LEFT, node] < 0:
            width, height = made.boxes.shapes[tree[kernel.SHAPE, node], :2].tolist()
        else:
            (a, b), (c, d) = found[int(tree[LEFT, node])], found[int(tree[RIGHT, node])]
            width, height = (max(a, c), b + d) if tree[CUT, node] else (a + c, max(b, d))
        found[node] = width, height
    return found


def test_after_any_moves_a_tree_is_a_tree_whose_sizes_are_known_and_a_move_can_be_undone() -> None:
    kinds, undone = set[int](), 0
    for seed in range(6):
        made = begun(seed, 3 + 4 * (seed % 2))
        tree, graph, random, move = made.tree.copy(), graph_of(made.problem), seeded(seed), np.zeros(5, np.int64)
        n, work = made.problem.n, room(tree)
        kernel.lay_out(tree, work, made.boxes.shapes, made.boxes.sides)
        for step in range(150):
            before = tree.copy()
            with np.errstate(over="ignore"):
                kernel.propose(tree, move, graph, made.boxes.first, random)
            assert (tree == before).all()
            if move[0] == kernel.NOTHING:
                continue
            kinds.add(int(move[0]))
            for _ in range(1 + step % 2):
                kernel.change(tree, move, work[kernel.STACK])
                kernel.resize(tree, work, made.boxes.shapes, move)
                assert sorted(whole(tree)) == list(range(2 * n - 1))
                assert tree[: LEFT + 2, :n].max() < 0  # kernels have no parts
                types = np.searchsorted(made.boxes.first, tree[kernel.SHAPE, :n], side="right") - 1
                assert types.tolist() == made.problem.types.tolist()
                known = work[[kernel.W, kernel.H], : 2 * n - 1].T.tolist()
                assert sizes(made, tree) == {node: tuple(size) for node, size in enumerate(known)}
            if step % 2:
                assert (tree == before).all()
                undone += 1
    assert kinds == set(range(kernel.EQUAL, kernel.ELSEWHERE + 1)) and undone > 100


def test_regrouping_moves_no_box() -> None:
    regrouped = 0
    for seed in range(6):
        made = begun(seed, 3 + 4 * (seed % 2))
        tree, graph, random, move = made.tree.copy(), graph_of(made.problem), seeded(seed), np.zeros(5, np.int64)
        n, stack = made.problem.n, room(tree)[kernel.STACK]
        for _ in range(150):
            with np.errstate(over="ignore"):
                kernel.propose(tree, move, graph, made.boxes.first, random)
            kernel.change(tree, move, stack)
            tree[kernel.ALIGN, :-1] = 0  # a rectangle that isn't the whole may be moved within its room otherwise
            before = boxes(made, tree)
            for node in range(n, 2 * n - 1):
                above = tree[PARENT, node]
                if above >= 0 and tree[CUT, above] == tree[CUT, node]:
                    kernel.change(tree, np.array([kernel.REGROUP, node, 0, 0, 0]), stack)
                    regrouped += 1
                    assert boxes(made, tree) == before
    assert regrouped > 50


def test_the_cost_is_that_of_the_evaluation() -> None:
    for seed in range(4):
        made = begun(seed)
        before = made.tree
        made.run(2000, seed, Deadline())
        work, graph = room(made.tree), graph_of(made.problem)
        assert kernel.lay_out(made.tree, work, made.boxes.shapes, made.boxes.sides)
        corners = made.boxes.shapes, made.boxes.edges, graph.ticks
        found = kernel.cost(made.tree, work, kernel.X, *corners, kernel.UNLIMITED)
        parts = evaluate(made.problem, in_order(made.problem, made._floorplan()))
        assert found == 2 * parts.wire + TICKS * 2 * parts.adapters
        # what the moves add up to is the same as the cost of the tree that they end with
        state = kernel.FixedState(
            tree=before.copy(),
            best=before.copy(),
            work=room(before),
            move=np.zeros(5, np.int64),
            score=np.array([0, 1 << 60]),
            random=seeded(seed),
        )
        kernel.anneal(graph, made.boxes, state, 500, 300.0, 5.0)
        for tree, score in zip((state.tree, state.best), state.score.tolist(), strict=True):
            assert kernel.lay_out(tree, work, made.boxes.shapes, made.boxes.sides)
            assert kernel.cost(tree, work, kernel.X, *corners, kernel.UNLIMITED) == score


def test_a_round_without_a_gain_ends_it_and_work_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, calls = wafer_problem(tiny(0, 2)), list[int]()
    start = slicing_layout(problem)
    assert start is not None

    def run(made: Fixed, moves: int, seed: int, deadline: Deadline) -> bool:
        calls.append(moves * made.problem.n)
        return True

    monkeypatch.setattr(Fixed, "run", run)
    score = evaluate(problem, in_order(problem, start)).score
    fixed_boxes(problem, [start] * 3, 0, Deadline(), known=score)
    assert calls == [MOVES * problem.n**2] * 3
    for work in (5_000, 100_000, 2_000_000):
        calls.clear()
        fixed_boxes(problem, [start] * 3, 0, Deadline(), work=work, known=score + 1)
        assert len(calls) > 3 and work / 2 < sum(calls) <= work


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
