"""Wired cuts: the program against the slicing program and sums by hand, its wires against those of its floorplans."""

from __future__ import annotations

from random import Random

import pytest

from chipmap.deadline import Deadline
from chipmap.heuristics.wafer.adapters import boxes_of
from chipmap.heuristics.wafer.slicing import wired
from chipmap.heuristics.wafer.slicing.guillotine import guillotine
from chipmap.heuristics.wafer.slicing.program import OrderProgram
from chipmap.heuristics.wafer.slicing.sizing import Sizing
from chipmap.heuristics.wafer.slicing.wired import WiredCuts, wired_cuts
from chipmap.instances.wafer import WaferSolution
from chipmap.instances.wafer.generators import explicit
from chipmap.instances.wafer.problem import WaferProblem, depth_first_order, evaluate, wafer_problem
from chipmap.methods.wafer.state import COUNTED, WIRED, WaferChainState
from chipmap.validation.wafer.checker import check
from tests.wafer.generated import generated


def chain(seed: int, n: int, adapter_weight: int = 0) -> WaferProblem:
    """``n`` random kernels in a row, on a fabric with room for all of them."""
    random = Random(seed)
    kernels = {
        f"k{i}": {"H": random.randint(2, 6), "W": 3, "C": random.choice((4, 8)), "K": random.choice((4, 8))}
        for i in range(n)
    }
    edges = [(f"k{i}", f"k{i + 1}") for i in range(n - 1)]
    weights = {"wire_weight": 2, "adapter_weight": adapter_weight}
    return wafer_problem(explicit(kernels=kernels, edges=edges, width=60, height=40, **weights))


def program(problem: WaferProblem) -> tuple[WiredCuts, int]:
    """The program along the chain, and a time at which much fits."""
    sizing = Sizing(problem)
    return WiredCuts(sizing, depth_first_order(problem)), 2 * sizing.area_time()


@pytest.mark.parametrize("seed", range(6))
def test_where_tiles_are_dear_widths_are_those_of_the_slicing_program(seed: int) -> None:
    problem = chain(seed, 2 + seed)
    cuts, time = program(problem)
    fits = cuts.fits(time, 1e6, Deadline())
    least = OrderProgram(cuts.sizing, cuts.order).width(time)
    assert cuts.width == least and fits == (least <= problem.width)


@pytest.mark.parametrize("seed", range(12))
def test_two_kernels_are_as_on_the_page(seed: int) -> None:
    """The cheapest of each slot: side by side, stacked in a rectangle as wide as some slot, or of the slot below."""
    problem, price = chain(seed, 2), (0.02, 0.2, 2.0)[seed % 3]
    cuts, time = program(problem)
    a, b = cuts.sizing.curves(time)[problem.types].astype(int).tolist()
    best: tuple[int, int] | None = None
    for h in range(1, problem.height + 1):
        ways = [(a[h] + b[h], a[h] + b[h])] if a[h] + b[h] < len(a) else []
        ways += [(g, h) for g in range(1, len(a)) if a[g] + b[g] == h]
        ways += [best] if best else []
        best = min(ways, key=lambda way: price * way[0] * h + way[1], default=None)
    assert best is not None
    cuts.fits(time, price, Deadline())
    cheapest = price * best[0] * problem.height + best[1]
    assert price * cuts.width * problem.height + cuts.wire == pytest.approx(cheapest, rel=1e-6)


@pytest.mark.parametrize("adapter_weight", [0, 3])
@pytest.mark.parametrize("seed", range(6))
def test_its_wires_are_those_of_the_floorplan(seed: int, adapter_weight: int) -> None:
    """But for boxes that lie half a tile beside the middle of their room."""
    problem = chain(seed, 12, adapter_weight)
    cuts, time = program(problem)
    for price in (0.05, 0.5, 5.0):
        if cuts.fits(time, price, Deadline()):
            placed = cuts.solution()
            parts, half = evaluate(problem, placed.placements), 2 * problem.instance.weights.wire
            assert check(problem.instance, placed).feasible and parts.time <= time
            told = (parts.score - problem.instance.weights.time * parts.time) / half
            assert abs(cuts.wire - told) <= 2 * problem.n < told


@pytest.mark.parametrize("seed", [30, 22])
def test_floorplans_are_legal_slicing_and_ever_better(seed: int) -> None:
    instance, found = generated(seed), list[WaferSolution]()
    problem = wafer_problem(instance)
    best = wired_cuts(problem, 0, Deadline(), found.append, 3.0)
    assert best is found[-1] and guillotine(boxes_of(best.placements)) is not None
    certificates = [check(instance, one) for one in found]
    assert all(one.feasible for one in certificates)
    objectives = [one.objective or 0 for one in certificates]
    assert objectives == sorted(objectives, reverse=True)
    assert wired_cuts(problem, 0, Deadline(), seconds=3.0) == best


def test_wide_slots_give_legal_floorplans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wired, "ENTRIES", 1000)
    problem = chain(3, 12)
    cuts, time = program(problem)
    assert cuts.step > 1 and cuts.fits(2 * time, 1.0, Deadline())
    assert check(problem.instance, cuts.solution()).feasible


def test_without_time_room_or_wires_there_is_nothing() -> None:
    problem = chain(0, 5)
    assert wired_cuts(problem, 0, Deadline.after(0.0)) is None
    assert wired_cuts(problem, 0, Deadline(), seconds=0.0) is None
    two = {"a": {"H": 2, "W": 2, "C": 2, "K": 2}, "b": {"H": 2, "W": 2, "C": 2, "K": 2}}
    assert wired_cuts(wafer_problem(explicit(kernels=two, width=3, height=2)), 0, Deadline()) is None
    star = explicit(kernels={**two, "c": two["a"], "d": two["a"]}, edges=[("a", v) for v in "bcd"], width=40, height=40)
    assert wired_cuts(wafer_problem(star), 0, Deadline()) is None
    free = explicit(kernels=two, edges=[("a", "b")], width=40, height=40, wire_weight=0)
    assert wired_cuts(wafer_problem(free), 0, Deadline()) is None


def test_the_search_starts_from_them_also_where_adapters_cost() -> None:
    problem, found = chain(1, 6, 2), list[WaferSolution]()
    wired_cuts(problem, 0, Deadline(), found.append)
    state = WaferChainState(problem, 0)
    state.rows = {WIRED: found[-1], "row program": found[0]}
    assert len(found) > 1 and state.start() is found[-1]
    state.rows = {WIRED: found[0], COUNTED: found[-1]}
    assert state.start() is found[-1]


def test_edges_between_others_than_neighbours_count_from_middle_to_middle() -> None:
    """Three equal boxes in a row, each joined to both others: the long wire is two of half the widths."""
    kernels = {f"k{i}": {"H": 4, "W": 4, "C": 8, "K": 8} for i in range(3)}
    edges = [("k0", "k1"), ("k1", "k2"), ("k0", "k2")]
    problem = wafer_problem(explicit(kernels=kernels, edges=edges, width=60, height=40, wire_weight=2))
    cuts, time = program(problem)
    assert cuts.fits(time, 1e-6, Deadline())
    least = int(cuts.sizing.curves(time)[0].min())
    # two wires between neighbours, and one from the middle of a pair to the middle of the third
    assert cuts.wire == 2 * least + 2 * least + 3 * least
