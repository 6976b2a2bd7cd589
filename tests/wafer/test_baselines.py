"""Twin binary sequences, the annealing on them, and the divide-and-conquer placer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from chipmap.heuristics.wafer.published.divide import Divider, divide, halves
from chipmap.heuristics.wafer.published.twin_binary import Annealer, twin_binary
from chipmap.heuristics.wafer.published.twin_binary_kernel import intervals, turn
from chipmap.heuristics.wafer.slicing.sizing import Sizing
from chipmap.instances.wafer import WaferSolution
from chipmap.instances.wafer.problem import IntArray, wafer_problem
from chipmap.validation.wafer.checker import check
from tests.wafer.random_instances import free
from tests.wafer.shipped import shipped

Bits = Sequence[int]


def tree(alpha: Bits, beta: Bits) -> IntArray | None:
    """Parent, left and right child [3, n + 1] of nodes 1..n for bits alpha [n - 1] and beta [n]; None if they fit no
    tree. The root's bit must be 0."""
    n = len(beta)
    made = np.zeros((3, n + 1), dtype=np.int64)
    stack: list[tuple[int, int]] = [(0, 0)]
    for i in range(1, n + 1):
        stack += [(-i, beta[i - 1]), (0, alpha[i - 1] if i < n else 1)]
        while len(stack) >= 3 and stack[-1][1] == 1 and stack[-2][0] < 0 and stack[-3] == (max(0, stack[-3][0]), 0):
            (right, _), (node, side), (left, _) = stack.pop(), stack.pop(), stack.pop()
            made[1, -node], made[2, -node] = left, right
            made[0, [left, right]] = -node
            made[0, 0] = 0
            stack.append((-node, side))
    return made if len(stack) == 1 and stack[0][1] == 0 and n else None


def twins(alpha: Bits, beta: Bits, beta2: Bits) -> IntArray | None:
    """Both trees [2, 3, n + 1]; None if the sequences are no twins."""
    first, second = tree(alpha, beta), tree([1 - bit for bit in alpha], beta2)
    return None if first is None or second is None else np.stack([first, second])


def sequences(trees: IntArray) -> tuple[list[int], list[int], list[int]]:
    """(alpha, beta, beta2) of two twin trees: the inverse of :func:`twins`."""
    n = trees.shape[2] - 1
    beta, beta2 = ([int(t[0, i] > 0 and t[2, t[0, i]] == i) for i in range(1, n + 1)] for t in (trees[0], trees[1]))
    alpha = [int(trees[0, 2, v] == 0) for v in range(1, n)]
    return alpha, beta, beta2


def rooms(trees: IntArray) -> list[tuple[int, int, int, int]]:
    """The floorplan on the grid of its lines: (left, low, right, high) of each room, in order along the diagonal."""
    n = trees.shape[2] - 1
    span = np.zeros((2, 2, n + 1), dtype=np.int64)
    for which in range(2):
        intervals(trees[which], n, span[which], np.zeros(n + 1, dtype=np.int64))
    return [
        (int(span[1, 0, i]), int(n - span[1, 1, i]), int(span[0, 1, i]), int(n - span[0, 0, i]))
        for i in range(1, n + 1)
    ]


def all_twins(n: int) -> dict[tuple[tuple[int, int, int, int], ...], np.ndarray]:
    """Floorplan -> twin trees, over all bit sequences of n rooms."""
    found = {}
    for bits in product((0, 1), repeat=3 * n - 1):
        alpha, beta, beta2 = bits[: n - 1], bits[n - 1 : 2 * n - 1], bits[2 * n - 1 :]
        trees = twins(alpha, beta, beta2)
        if trees is not None:
            assert sequences(trees) == (list(alpha), list(beta), list(beta2))
            plan = tuple(rooms(trees))
            assert plan not in found
            found[plan] = trees
    return found


@pytest.mark.parametrize(("n", "count"), [(1, 1), (2, 2), (3, 6), (4, 22), (5, 92)])
def test_sequences_are_the_mosaic_floorplans(n: int, count: int) -> None:
    """Each sequence is another floorplan without empty rooms, and there are Baxter's number of them."""
    plans = all_twins(n)
    assert len(plans) == count
    for plan in plans:
        covered = sorted((x, y) for x1, y1, x2, y2 in plan for x in range(x1, x2) for y in range(y1, y2))
        assert covered == list(product(range(n), repeat=2))


def test_it_begins_with_the_kernels_side_by_side() -> None:
    annealer = Annealer(wafer_problem(shipped("ispd2020-K")), 1, 1)
    n = annealer.problem.n
    trees = twins([1] * (n - 1), [0] * n, [0, *[1] * (n - 1)])
    assert trees is not None and (annealer.layouts.now.tree == trees).all()
    assert rooms(trees) == [(i, 0, i + 1, n) for i in range(n)]


@pytest.mark.parametrize("n", [2, 3, 4])
def test_rotations_reach_every_floorplan(n: int) -> None:
    """From any pair of twins, rotations lead to twins only, and to all of them."""
    plans = all_twins(n)
    reached = {next(iter(plans))}
    waiting = list(reached)
    while waiting:
        trees = plans[waiting.pop()]
        for which, x, side in product((0, 1), range(1, n + 1), (1, 2)):
            moved = trees.copy()
            if turn(moved, which, x, side):
                plan = tuple(rooms(moved))
                assert plan in plans
                if plan not in reached:
                    reached.add(plan)
                    waiting.append(plan)
    assert reached == set(plans)


@pytest.mark.parametrize("name", list(free()))
def test_floorplans_are_legal(name: str) -> None:
    """Whatever the two placers report, the checker accepts, at the score that is claimed."""
    instance = free()[name]
    problem = wafer_problem(instance)
    for found in (twin_binary(problem, moves=50), divide(problem)):
        if found is not None:
            certificate = check(instance, WaferSolution(placements=tuple(found.placements)))
            assert certificate.feasible, certificate.violations
            assert certificate.objective == found.parts.score


def test_annealing_is_deterministic_and_packs_case_k() -> None:
    """Same seed, same floorplan; the checker accepts it."""
    instance = shipped("ispd2020-K")
    problem = wafer_problem(instance)
    least = Sizing(problem).area_time()
    assert least > 0
    plans = [Annealer(problem, 1, 100).at(4 * least) for _ in range(2)]
    assert plans[0] is not None and plans[0] == plans[1]
    assert check(instance, WaferSolution(placements=tuple(plans[0]))).feasible


def test_parts_are_balanced_and_complete() -> None:
    """Each kernel is in one leaf of the slicing tree, and both halves of the root weigh alike."""
    problem = wafer_problem(shipped("ispd2020-A"))
    least = Sizing(problem).area_time()
    assert least > 0
    divider = Divider(problem, least)
    assert sorted(part.kernels[0] for part in divider.nodes if not part.parts) == list(range(problem.n))
    area = np.arange(1, problem.n + 1)
    left, right = halves(problem, list(range(problem.n)), area)
    assert sorted(left + right) == list(range(problem.n))
    assert min(area[left].sum(), area[right].sum()) >= 0.4 * area.sum()
