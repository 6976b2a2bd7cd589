"""Wires of a kernel to many neighbours: never less than the bound, and near it where boxes are as compact as can be."""

from __future__ import annotations

from collections import Counter
from functools import partial
from random import Random

import numpy as np
import pytest

from chipmap.heuristics.wafer.bounds import elimination
from chipmap.heuristics.wafer.bounds.stars import Star, StarCosts, _Space, star_costs, stars
from chipmap.heuristics.wafer.bounds.states import States
from tests.lanes import of_all
from tests.wafer.test_bounds import bound, make, optimum
from tests.wafer.test_bounds_links import cut, slack, wired


def one(width: int, height: int) -> States:
    """The states of a kernel with one box."""
    return States(np.array([width]), np.array([height]), np.zeros(1, np.int64))


def around(hub: tuple[int, int], boxes: list[tuple[int, int]], width: int, height: int) -> float | None:
    """Distances of boxes, one after the other as near as the boxes before leave room; None where one has none."""
    taken = np.zeros((height, width), bool)
    x, y = (width - hub[0]) // 2, (height - hub[1]) // 2
    taken[y : y + hub[1], x : x + hub[0]] = True
    centre, total = (x + hub[0] / 2, y + hub[1] / 2), 0.0
    for a, b in boxes:
        if a > width or b > height:
            return None
        sums = np.pad(taken, ((1, 0), (1, 0))).astype(int).cumsum(0).cumsum(1)
        free = np.argwhere(sums[b:, a:] - sums[:-b, a:] - sums[b:, :-a] + sums[:-b, :-a] == 0)
        if not len(free):
            return None
        far = np.abs(free + np.array([b / 2, a / 2]) - centre[::-1]).sum(axis=1)
        total += float(far.min())
        v, u = free[far.argmin()]
        taken[v : v + b, u : u + a] = True
    return total


@pytest.mark.parametrize("seed", range(of_all(300, few=12)))
def test_boxes_round_a_hub_are_no_nearer(seed: int) -> None:
    """Boxes of up to four shapes, thin ones among them, on fabrics that are wide or narrow; any radii, any price."""
    random = Random(seed)
    some = [(random.randint(1, 9), random.randint(1, 9)), (random.randint(20, 50), random.randint(1, 2)), (1, 8)]
    shapes = [random.choice(some) for _ in range(random.randint(1, 4))]
    width, height = random.choice(((120, 120), (200, 12), (60, 60), (300, 25)))
    hub = (random.randint(1, 12), random.randint(1, 12))
    types = [random.randrange(len(shapes)) for _ in range(random.randint(1, 60))]
    total = around(hub, sorted((shapes[t] for t in types), key=lambda box: box[0] * box[1]), width, height)
    if total is None:
        return
    states, count = [*(one(*shape) for shape in shapes), one(*hub)], Counter(types)
    space = _Space(count, states, states[-1], width, height)
    for scale, line, price in ((0.3, 0.0, 0.1), (1.0, 0.6, 0.0), (1.0, 2.0, 0.25), (1.7, 0.2, 1.0)):
        assert space.costs(scale, line, price).least(count) <= 2 * total + 1e-6
    star = Star(len(types), tuple(range(len(types))), ())
    best = star_costs(star, [*types, len(shapes)], states, width, height)
    assert max(0.0, best.least(count)) <= 2 * total + 1e-6


def test_squares_round_a_square() -> None:
    """60 squares in a diamond: 4·k of them at distance k <= 5, which the bound nearly tells; they could touch at 60."""
    costs: StarCosts = star_costs(Star(60, tuple(range(60)), ()), [0] * 61, [one(1, 1)], 40, 40)
    diamond = sum(4 * k * k for k in range(1, 6))
    assert around((1, 1), [(1, 1)] * 60, 41, 41) == diamond
    assert 0.88 * diamond <= costs.least(Counter({0: 60})) / 2 <= diamond


@pytest.mark.parametrize("seed", range(of_all(60, few=4)))
def test_shares_of_stars_in_the_elimination(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any share, any discounts: boxes cut from a fabric have no less wire than the elimination says."""
    monkeypatch.setattr(elimination, "stars", partial(stars, least=2))
    random = Random(seed)
    n, (width, height) = random.randint(4, 12), (random.randint(8, 24), random.randint(6, 24))
    edges = [(0, i) for i in range(1, n - 2)] + [(random.randrange(i), i) for i in range(n - 2, n)]
    program = elimination.Elimination(wired(random, n, edges, (width, height)), False)
    assert program.stars
    pieces = np.array(cut(random, (0, 0, width, height), width * height // n))
    if len(pieces) >= n:
        assert slack(program, pieces[random.sample(range(len(pieces)), n)], True) >= -1e-6


@pytest.mark.parametrize("seed", range(of_all(40, few=3)))
def test_never_above_the_optimum_of_tiny_stars(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elimination, "stars", partial(stars, least=2))
    random = Random(700 + seed)
    problem = make(random, 4, [(0, 1), (0, 2), (0, 3)], (random.randint(5, 6), random.randint(4, 5)), blocks=False)
    best = optimum(problem)
    assert best is None or bound(problem, best) <= best
