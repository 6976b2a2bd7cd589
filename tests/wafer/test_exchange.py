"""Exchanges of equal kernels within the slicing program's floorplan."""

from __future__ import annotations

import numpy as np
import pytest

from chipmap.deadline import Deadline
from chipmap.heuristics.wafer.slicing import exchange_kernel as kernel
from chipmap.heuristics.wafer.slicing.exchange import Exchange, exchange, graph_of, parts_of
from chipmap.heuristics.wafer.slicing.program import slicing_layout
from chipmap.heuristics.wafer.slicing.trees import Tree
from chipmap.instances.wafer import WaferInstance, WaferSolution
from chipmap.instances.wafer.generators import bert, explicit
from chipmap.instances.wafer.problem import TICKS, evaluate, size, wafer_problem
from chipmap.validation.wafer.checker import check


def small(**weights: int) -> WaferInstance:
    return bert(layers=2, heads=4, hidden=64, sequence=64, split="heads", width=150, height=140, **weights)


@pytest.mark.parametrize("weights", [{}, {"wire_weight": 3, "adapter_weight": 50}])
def test_valid_and_shorter_wires_than_the_slicing_program(weights: dict[str, int]) -> None:
    instance = small(**weights)
    problem = wafer_problem(instance)
    scores: list[int] = []

    def improved(solution: WaferSolution) -> None:
        certificate = check(instance, solution)
        assert certificate.feasible and not certificate.violations
        assert certificate.objective == evaluate(problem, solution.placements).score
        scores.append(certificate.objective)

    best = exchange(problem, 1, Deadline(), improved, runs=3)
    start = slicing_layout(problem)
    assert best is not None and start is not None
    found, plain = evaluate(problem, best.placements), evaluate(problem, start.placements)
    assert found.time == plain.time and found.score < plain.score
    assert scores == sorted(scores, reverse=True) and scores[-1] == found.score
    assert exchange(problem, 1, Deadline(), runs=3) == best


def test_the_cost_is_that_of_the_evaluation() -> None:
    problem = wafer_problem(small(wire_weight=3, adapter_weight=50))
    work = Exchange(problem, 5)
    kept: list[WaferSolution] = []
    work.run(Deadline.after(0.0), kept.append)
    parts = evaluate(problem, kept[0].placements)
    rows = [(p.x, p.y, *size(p), p.h, p.w, p.c[0], p.c[-1]) for p in kept[0].placements]
    cost = kernel.total(graph_of(problem), np.array(rows))
    assert cost == 2 * 3 * parts.wire + TICKS * 50 * parts.adapters == parts.score - parts.time


def test_leaves_and_parts_of_a_tree() -> None:
    # (2 | (0 / 1))
    tree = Tree(np.array([-1, -1, -1, 2, 0]), np.array([-1, -1, -1, 4, 1]), np.zeros(5, np.int64), 3)
    leaves, parts = parts_of(tree)
    assert leaves.tolist() == [2, 0, 1]
    assert sorted(parts.tolist()) == [[0, 3], [1, 3]]


def test_without_room_or_without_a_second_kernel_there_is_nothing() -> None:
    one = {"a": {"H": 2, "W": 2, "C": 2, "K": 2}}
    assert exchange(wafer_problem(explicit(kernels=one, width=9, height=9)), 1, Deadline()) is None
    two = {**one, "b": one["a"]}
    assert exchange(wafer_problem(explicit(kernels=two, width=3, height=2)), 1, Deadline()) is None
