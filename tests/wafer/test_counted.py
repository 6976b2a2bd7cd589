"""Counted cuts: the program against plain recursions over guillotine cuts, and legal floorplans of real size."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from random import Random

import numpy as np
import pytest

from chipmap.deadline import Deadline
from chipmap.heuristics.wafer.adapters import boxes_of
from chipmap.heuristics.wafer.slicing import counted
from chipmap.heuristics.wafer.slicing.counted import Box, CountedCuts, boxes_in, counted_cuts
from chipmap.heuristics.wafer.slicing.counted_kernel import Wanted
from chipmap.heuristics.wafer.slicing.guillotine import guillotine
from chipmap.heuristics.wafer.slicing.sizing import Sizing
from chipmap.inputs.reading import read
from chipmap.instances.wafer import WaferInstance, WaferSolution
from chipmap.instances.wafer.generators import explicit
from chipmap.instances.wafer.problem import IntArray, evaluate, in_order, wafer_problem
from chipmap.methods.wafer.chain import by_counts
from chipmap.methods.wafer.state import COUNTED, WaferChainState
from chipmap.run import Run, SolveOptions
from chipmap.validation.wafer.checker import check
from tests.wafer.generated import generated

#: Boxes of each type, prices, numbers of kernels, and a rectangle.
Case = tuple[list[IntArray], list[int], list[int], tuple[int, int]]


def case(seed: int) -> Case:
    random = Random(seed)
    types = random.randint(1, 3)
    boxes = [
        np.array([(random.randint(1, 4), random.randint(1, 4)) for _ in range(random.randint(1, 2))])
        for _ in range(types)
    ]
    prices = [random.randint(1, 9) for _ in range(types)]
    counts = [random.randint(1, 3) for _ in range(types)]
    return boxes, prices, counts, (random.randint(2, 7), random.randint(2, 7))


def unlimited(boxes: list[IntArray], prices: list[int], width: int, height: int) -> int:
    """The dearest collection by guillotine cuts where there is no end of kernels: all cuts, all sizes."""

    @cache
    def value(w: int, h: int) -> int:
        best = 0
        for some, price in zip(boxes, prices, strict=True):
            best = max([best, *(price for x, y in some.tolist() if x <= w and y <= h)])
        best = max([best, *(value(a, h) + value(w - a, h) for a in range(1, w))])
        return max([best, *(value(w, a) + value(w, h - a) for a in range(1, h))])

    return value(width, height)


def limited(boxes: list[IntArray], prices: list[int], counts: list[int], width: int, height: int) -> int:
    """The same with so many kernels: for every rectangle all collections that some cuts give."""
    types = len(boxes)

    @cache
    def all_of(w: int, h: int) -> frozenset[tuple[int, ...]]:
        found = {(0,) * types}
        for t, some in enumerate(boxes):
            if any(x <= w and y <= h for x, y in some.tolist()):
                found.add(tuple(int(i == t) for i in range(types)))
        pairs = [(all_of(a, h), all_of(w - a, h)) for a in range(1, w // 2 + 1)]
        pairs += [(all_of(w, a), all_of(w, h - a)) for a in range(1, h // 2 + 1)]
        for left, right in pairs:
            found |= {tuple(min(c, p + q) for c, p, q in zip(counts, u, v, strict=True)) for u in left for v in right}
        return frozenset(found)

    return max(sum(n * p for n, p in zip(one, prices, strict=True)) for one in all_of(width, height))


def program(counts: list[int]) -> CountedCuts:
    """The program of so many kernels of each type (what they are doesn't matter)."""
    names = [(t, i) for t, n in enumerate(counts) for i in range(n)]
    kernels = {f"k{t}-{i}": {"H": t + 1, "W": 1, "C": 1, "K": 1} for t, i in names}
    return CountedCuts(wafer_problem(explicit(kernels=kernels, width=60, height=60)))


def apart(boxes: list[Box], width: int, height: int) -> bool:
    """Whether boxes lie within the rectangle and don't overlap."""
    inside = all(b.x >= 0 and b.y >= 0 and b.x + b.width <= width and b.y + b.height <= height for b in boxes)
    return inside and all(
        p.x + p.width <= q.x or q.x + q.width <= p.x or p.y + p.height <= q.y or q.y + q.height <= p.y
        for p, q in combinations(boxes, 2)
    )


@pytest.mark.parametrize("first", range(0, 120, 30))
def test_the_program_is_exact_without_a_limit_on_the_counts(first: int) -> None:
    for seed in range(first, first + 30):
        boxes, prices, _, sides = case(seed)
        plenty = Wanted(np.array(prices, np.float64), np.full(len(boxes), 50))
        table = program([1] * len(boxes)).table(boxes, plenty, sides, Deadline())
        assert table is not None and table.value[sides] == unlimited(boxes, prices, *sides)


def test_what_rectangles_hold_is_there_and_mostly_the_most() -> None:
    exact = 0
    for seed in range(100):
        boxes, prices, counts, sides = case(seed)
        wanted = Wanted(np.array(prices, np.float64), np.array(counts))
        table = program(counts).table(boxes, wanted, sides, Deadline())
        assert table is not None
        placed, holds = list(boxes_in(table, sides, (0, 0))), table.holds[sides]
        assert apart(placed, *sides)
        assert all([box.width, box.height] in boxes[box.type].tolist() for box in placed)
        assert np.bincount([box.type for box in placed], minlength=len(boxes)).tolist() == holds.tolist()
        assert (holds <= counts).all() and table.value[sides] == holds @ np.array(prices)
        most = limited(boxes, prices, counts, *sides)
        assert table.value[sides] <= most
        exact += table.value[sides] == most
    assert exact >= 75  # 79: each rectangle keeps one collection only


@pytest.mark.parametrize("seed", [7, 26])
def test_floorplans_are_legal_slicing_and_of_the_least_time(seed: int) -> None:
    instance = generated(seed)
    problem, found = wafer_problem(instance), list[WaferSolution]()
    low = Sizing(problem).area_time()
    best = counted_cuts(problem, 0, Deadline.after(8.0), found.append, low)
    assert best is found[-1]
    scores = [check(instance, one) for one in found]
    assert all(one.feasible for one in scores)
    objectives = [one.objective or 0 for one in scores]
    assert objectives == sorted(objectives, reverse=True)
    assert guillotine(boxes_of(best.placements)) is not None
    # the areas alone ask for this time
    assert min(evaluate(problem, in_order(problem, one)).time for one in found) == low


def test_without_time_or_room_there_is_nothing() -> None:
    problem = wafer_problem(generated(26))
    assert counted_cuts(problem, 0, Deadline.after(0.0)) is None
    two = {"a": {"H": 2, "W": 2, "C": 2, "K": 2}, "b": {"H": 2, "W": 2, "C": 2, "K": 2}}
    assert counted_cuts(wafer_problem(explicit(kernels=two, width=3, height=2)), 0, Deadline()) is None


def test_without_time_for_four_tables_nothing_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = read("wafer/ispd2020-C")  # 24 types on 633 × 633 tiles: about 3 seconds a table
    assert isinstance(instance, WaferInstance)
    begun = list[int]()
    monkeypatch.setattr(CountedCuts, "packed", lambda self, time, deadline, tries: begun.append(time))
    problem = wafer_problem(instance)
    assert counted_cuts(problem, 0, Deadline.after(5.0)) is None and not begun
    assert counted_cuts(problem, 0, Deadline.after(3600.0)) is None and begun


@pytest.mark.parametrize("deterministic", [True, False])
def test_a_deterministic_run_begins_whatever_the_clock_has_left(
    monkeypatch: pytest.MonkeyPatch, deterministic: bool
) -> None:
    begun = list[int]()
    monkeypatch.setattr(CountedCuts, "packed", lambda self, time, deadline, tries: begun.append(time))
    instance = generated(26)
    problem = wafer_problem(instance)
    width, height = problem.width, problem.height
    sums = width * height * (width + height) // 4 * len(problem.type_arrays)
    monkeypatch.setattr(counted, "RATE", counted.TABLES * sums / 500)  # four tables take 500 seconds
    run = Run(instance, SolveOptions(deterministic=deterministic, time_limit=1000.0), check)
    run.started -= 800
    by_counts(instance, run)
    assert bool(begun) == deterministic


@pytest.mark.parametrize("adapter_weight", [0, 2])
def test_the_search_starts_from_the_better_floorplan(adapter_weight: int) -> None:
    kernels = {f"k{i}": {"H": 4, "W": 4, "C": 8, "K": 8} for i in range(6)}
    edges = [(f"k{i}", f"k{i + 1}") for i in range(5)]
    weights = {"wire_weight": 3, "adapter_weight": adapter_weight}
    problem = wafer_problem(explicit(kernels=kernels, edges=edges, width=40, height=30, **weights))
    found = list[WaferSolution]()
    counted_cuts(problem, 0, Deadline(), found.append)
    state = WaferChainState(problem, 0)
    assert state.start() is None and len(found) > 1
    poor, best = found[0], found[-1]
    state.rows = {COUNTED: best, "row program": poor}
    assert state.start() is best
    # a slicing tree keeps no execution arguments, so rows aren't a start where adapters cost
    state.rows = {COUNTED: poor, "row program": best}
    assert state.start() is (None if adapter_weight else best)
