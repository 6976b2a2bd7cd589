"""CU.POKer: legal and deterministic layouts, prunings that lose nothing, figures of the published layouts."""

from __future__ import annotations

from random import Random

import pytest

from chipmap.deadline import Deadline
from chipmap.heuristics.wafer.published import cu_poker as poker
from chipmap.heuristics.wafer.published.cu_poker import Found, Placer, TimeSearch, least_time
from chipmap.heuristics.wafer.published.cu_poker_refine import refine
from chipmap.instances.wafer import WaferInstance, WaferSolution
from chipmap.instances.wafer.problem import evaluate, wafer_problem
from chipmap.validation.wafer.checker import check
from tests.wafer.random_instances import free, tiny_instance
from tests.wafer.shipped import shipped


def valid(instance: WaferInstance, placements: list) -> int:
    """The objective of a floorplan that the checker accepts."""
    certificate = check(instance, WaferSolution(placements=tuple(placements)))
    assert certificate.feasible, certificate.violations
    assert certificate.objective is not None
    return certificate.objective


@pytest.mark.parametrize(
    ("case", "slowest", "wire", "adapters"),
    [("E", 39312, 562, 11), ("O", 52136, 617.5, 13), ("N", 1482, 480.5, 10), ("T", 4102, 208.5, 4)],
)
def test_published_layouts_are_reproduced(case: str, slowest: int, wire: float, adapters: int) -> None:
    """At the published time the rows have the published wire and, before refinement, the published adapters."""
    problem = wafer_problem(shipped(f"ispd2020-{case}"))
    placer = Placer(problem)
    sized = placer.size(4 * slowest)
    assert sized is not None
    cost = placer.cost(sized)
    parts = evaluate(problem, placer.placements(sized))
    assert (parts.time / 4, parts.wire / 2, parts.adapters) == (slowest, wire, adapters)
    assert cost == problem.score(0, parts.wire, parts.adapters)


@pytest.mark.parametrize(
    ("case", "target", "before", "slowest", "wire", "adapters"),
    [("K", 441, 9, 432, 240, 3), ("L", 882, 140, 864, 279, 18), ("R", 8970.25, 68, 8064, 259, 20)],
)
def test_published_layouts_are_reproduced_after_refinement(
    case: str, target: float, before: int, slowest: int, wire: float, adapters: int
) -> None:
    """At one target time: the published adapters without the refinement, all published figures with it."""
    problem = wafer_problem(shipped(f"ispd2020-{case}"))
    placer = Placer(problem, within=True)
    sized = placer.size(int(4 * target))
    assert sized is not None and placer.cost(sized) is not None
    placements = placer.placements(sized)
    assert evaluate(problem, placements).adapters == before
    parts = evaluate(problem, refine(problem, placements, sized.tau, None, Deadline()))
    assert (parts.time / 4, parts.wire / 2, parts.adapters) == (slowest, wire, adapters)


def test_the_published_layout_of_q_is_reproduced_before_refinement() -> None:
    """Case Q: at target time 882 the placement has all published figures; c above a convolution's C changes them."""
    problem = wafer_problem(shipped("ispd2020-Q"))
    found = []
    for within in (True, False):
        placer = Placer(problem, within=within)
        sized = placer.size(4 * 882)
        assert sized is not None and placer.cost(sized) is not None
        parts = evaluate(problem, placer.placements(sized))
        found.append((parts.time / 4, parts.wire / 2, parts.adapters))
    assert found[0] == (882, 166, 6) != found[1]


@pytest.mark.parametrize(("case", "slowest"), [("A", 34496), ("B", 63504), ("M", 2211840)])
def test_the_published_time_is_the_least(case: str, slowest: int) -> None:
    """Where time dominates, the published time is the least at which the rows fit."""
    assert least_time(Placer(wafer_problem(shipped(f"ispd2020-{case}"))), Deadline()) == 4 * slowest


def test_refinement_finds_the_published_layout_of_l() -> None:
    """Case L: wire 279 with 18 adapters at most, in slots of the same rows."""
    instance = shipped("ispd2020-L")
    placer = Placer(wafer_problem(instance))
    sized = placer.size(4 * 864)
    assert sized is not None and placer.cost(sized) is not None
    before = placer.placements(sized)
    after = refine(placer.problem, before, sized.tau, 0, Deadline())
    assert valid(instance, after) <= 4 * 1980 < valid(instance, before)
    assert evaluate(placer.problem, after).adapters <= 18
    assert after == refine(placer.problem, before, sized.tau, 0, Deadline())


def by_hand(placer: Placer, tau: int) -> int | None:
    """The least cost over all rows, redundant heights included, by plain recursion without any bound."""
    sized = placer.size(tau, every=True)
    if sized is None:
        return None
    problem, rows, found = placer.problem, sized.rows, []

    def go(start: int, floor: int, chosen: list[int]) -> None:
        if start == problem.n:
            placer._search.best[: len(chosen) + 1] = [*chosen, -1]
            parts = evaluate(problem, placer.placements(sized))
            found.append(problem.score(0, parts.wire, parts.adapters))
            return
        for r in range(rows.first[start], rows.first[start + 1]):
            if floor + rows.top[r] <= problem.height:
                go(int(rows.end[r]), floor + int(rows.top[r]), [*chosen, r])

    go(0, 0, [])
    return min(found, default=None)


def test_prunings_lose_nothing() -> None:
    """Bounds, states seen and redundant heights don't change the least cost at any target time."""
    random, compared = Random(1), 0
    for _ in range(30):
        problem = wafer_problem(tiny_instance(random))
        placer = Placer(problem)
        least = least_time(placer, Deadline())
        for tau in () if least is None else (least - 1, least, 2 * least, 5 * least):
            sized = placer.size(tau)
            cost = None if sized is None else placer.cost(sized)
            assert cost == by_hand(placer, tau)
            compared += cost is not None
    assert compared > 20


@pytest.mark.parametrize("name", list(free()))
def test_layouts_are_legal(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the search reports, the checker accepts, at the score that is claimed."""
    monkeypatch.setattr(poker, "MOST_STEPS", 20)
    instance = free()[name]
    problem = wafer_problem(instance)
    reported: list[Found] = []
    found = TimeSearch(Placer(problem), report=reported.append, each=True).run()
    assert (found is None) == (not reported)
    for one in reported:
        assert valid(instance, one.placements) == one.parts.score
    assert [one.parts.score for one in reported] == sorted((one.parts.score for one in reported), reverse=True)


def test_the_search_is_deterministic() -> None:
    """Two runs on case K find the same."""
    problem = wafer_problem(shipped("ispd2020-K"))
    results = []
    for _ in range(2):
        search = TimeSearch(Placer(problem), seed=3, each=True)
        for tau in (1728, 2016):
            search.attempt(tau)
        assert search.best is not None
        results.append(search.best)
    assert results[0] == results[1]
