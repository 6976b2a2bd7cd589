"""Bounds of triangles with links: never more than the wire of a floorplan, and more than without links."""

from __future__ import annotations

import dataclasses
from itertools import product
from random import Random

import numpy as np
from msgspec.structs import replace

from chipmap.deadline import Deadline
from chipmap.heuristics.wafer.bounds.clusters import SHAPES, Cluster, Plan
from chipmap.heuristics.wafer.bounds.elimination import ROWS, SIZE, Elimination
from chipmap.heuristics.wafer.bounds.packing import Packing, Ranges, Strip
from chipmap.heuristics.wafer.bounds.states import States
from chipmap.instances.wafer import Weights
from chipmap.instances.wafer.problem import WaferProblem, wafer_problem
from tests.wafer.test_bounds import make


def cut(random: Random, box: tuple[int, int, int, int], largest: int) -> list[tuple[int, int, int, int]]:
    """A box (x, y, width, height) cut at random until most pieces have at most ``largest`` tiles."""
    x, y, w, h = box
    if w * h == 1 or (w * h <= largest and random.random() < 0.7):
        return [box]
    if w > 1 and (h == 1 or random.random() < w / (w + h)):
        k = random.randint(1, w - 1)
        return cut(random, (x, y, k, h), largest) + cut(random, (x + k, y, w - k, h), largest)
    k = random.randint(1, h - 1)
    return cut(random, (x, y, w, k), largest) + cut(random, (x, y + k, w, h - k), largest)


def wired(random: Random, n: int, edges: list[tuple[int, int]], side: tuple[int, int]) -> WaferProblem:
    """A problem in which only wire counts, each kernel of its own type."""
    instance = make(random, n, edges, side, blocks=False).instance
    problem = wafer_problem(replace(instance, weights=Weights(time=0, wire=1, adapter=0)))
    return dataclasses.replace(problem, types=np.arange(n))


#: Triangles joined by edges, at one member or at several.
LINKED_GRAPHS: list[list[tuple[int, int]]] = [
    [(0, 1), (1, 2), (0, 2), (2, 3)],
    [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (4, 5), (3, 5)],
    [(0, 1), (1, 2), (0, 2), (0, 3), (1, 4), (2, 5)],
    [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (4, 5), (3, 5), (4, 6), (6, 7), (7, 8), (6, 8)],
]


def test_links_of_triangles_do_not_cost_more_than_the_wire() -> None:
    """Boxes cut from a fabric, handed out so that the wire exceeds the least cases by little: never by less than 0."""
    more = 0
    for seed in range(80):
        random = Random(seed)
        edges = LINKED_GRAPHS[seed % 4]
        n = 1 + max(max(edge) for edge in edges)
        width = random.randint(6, 18)
        height = width if seed % 3 else random.randint(4, 18)
        problem = wired(random, n, edges, (width, height))
        pieces = np.array(cut(random, (0, 0, width, height), random.choice((4, 12, width * height // n))))
        if len(pieces) < n:
            continue
        program, plain = Elimination(problem, False), Elimination(problem, False)
        plain.plan = without_links(plain.plan)
        chosen = random.sample(range(len(pieces)), n)
        ranges = seed % 2 == 0
        least = slack(program, pieces[chosen], ranges)
        for _ in range(25):
            at, other = random.randrange(n), random.randrange(len(pieces))
            tried = [chosen[at] if p == other else other if i == at else p for i, p in enumerate(chosen)]
            if (new := slack(program, pieces[tried], ranges)) <= least:
                chosen, least = tried, new
        assert least >= -1e-6
        more += slack(plain, pieces[chosen], ranges) > least
    assert more >= 5


def without_links(made: Plan) -> Plan:
    clusters = [Cluster(c.members, SHAPES[len(c.members)], (-1,) * len(c.members), c.looped) for c in made.clusters]
    return Plan(tuple(clusters), made.roots, made.loose, made.outside)


def slack(program: Elimination, boxes: np.ndarray, ranges: bool) -> float:
    """Half tiles of wire beyond the bound for boxes (x, y, width, height); with ``ranges`` that of ranges too."""
    problem = program.problem
    centres = 2 * boxes[:, :2] + boxes[:, 2:]
    wire = int(np.abs(np.diff(centres[problem.edges], axis=1)).sum())
    states = [States(np.array([w]), np.array([h]), np.zeros(1, np.int64)) for w, h in boxes[:, 2:]]
    across, up = np.ptp(centres[~program.plan.outside] if program.plan.core else centres, axis=0).tolist()
    exact = Ranges(Strip(across, across), Strip(up, up))
    most = [program.evaluate(states, program.packing.whole, np.zeros(SIZE), Deadline()).value]
    discounts = ((0.0, 0.0), (0.0, 0.5), (0.7, 0.2), (1.0, 1.0)) if ranges else ()
    for shares in product(discounts, (0.0, 0.6, 1.0) if program.stars else (0.0,)):
        multipliers = np.append(np.zeros(ROWS), np.array([*shares[0], shares[1]]) * program.discount)
        most.append(program.evaluate(states, exact, multipliers, Deadline()).value)
    return wire - max(most) / program.wire


def test_three_triangles_in_a_row_by_hand() -> None:
    """Strips of widths 2, 4, 2: two links of 4 half tiles; triangles of 16 half tiles and, for the middle one, 4 more.

    The triangle that has links at both thin strips pays 8: for the wide strip in the middle, or for a link that passes
    a thin one.
    """
    edges = [(3 * t + i, 3 * t + j) for t in range(3) for i, j in ((0, 1), (1, 2), (0, 2))] + [(2, 3), (5, 6)]
    program = Elimination(wired(Random(0), 9, edges, (24, 20)), False)
    states = [States(np.array([w]), np.array([20]), np.zeros(1, np.int64)) for w in (2, 4, 2) * 3]
    values = []
    for made in (program.plan, without_links(program.plan)):
        program.plan = made
        values.append(program.evaluate(states, program.packing.whole, np.zeros(SIZE), Deadline()).value / program.wire)
    assert values == [2 * 4 + 3 * 16 + 4 + 8 + 4, 2 * 4 + 3 * 16 + 4 + 4 + 4]


def corner(random: Random) -> np.ndarray:
    """Three tall boxes side by side (0 to 2), and three wide ones (3 to 5) above box 1 in any order."""
    height = random.randint(6, 14)
    tall = [(random.randint(*some), height) for some in ((3, 6), (1, 3), (3, 6))]
    wide = [(random.randint(6, 14), random.randint(*some)) for some in ((1, 3), (3, 6), (3, 6))]
    made, x, y = np.zeros((6, 4), np.int64), 0, height
    for i in range(3):
        made[i], x = (x, 0, *tall[i]), x + tall[i][0]
    for i in random.choice(((0, 1, 2), (1, 0, 2), (2, 0, 1))):
        left = made[1, 0] + (made[1, 2] - wide[i][0]) // 2 + random.randint(0, 1)
        made[3 + i], y = (left, y, *wide[i]), y + wide[i][1]
    return made


def test_a_link_from_a_tall_box_to_a_wide_one_costs_a_side_less_what_the_triangles_claim() -> None:
    """Boxes of 8 × 20, 3 × 20, 8 × 20, and 20 × 2 on the middle one: a wire of 22 half tiles; the triangle claims 8.

    At random corners where one box more, or a second triangle, is wired: never more than the wire has.
    """
    triangle = [(0, 1), (1, 2), (0, 2), (1, 3)]
    program = Elimination(wired(Random(0), 4, triangle, (30, 30)), False)
    by_hand = np.array([(1, 0, 8, 20), (9, 0, 3, 20), (12, 0, 8, 20), (1, 20, 20, 2)])
    assert slack(program, by_hand, False) == 1  # the centres of 3 and 20 columns are half a tile apart
    tight = 0
    for graph in (triangle, [*triangle, (3, 4), (4, 5), (3, 5)]):
        program = Elimination(wired(Random(0), 4 if graph is triangle else 6, graph, (60, 60)), False)
        for seed in range(150):
            boxes = corner(Random(seed))[: program.problem.n]
            least = slack(program, boxes, seed % 2 == 0)
            assert least >= -1e-6
            tight += least <= 1
    assert tight >= 5


def test_packing_inequalities_hold_within_the_ranges_of_the_centres() -> None:
    """Boxes cut from a fabric, some of them left out: no load exceeds 1 for the ranges that their centres have."""
    close = 0
    for seed in range(200):
        random = Random(seed)
        width, height = random.randint(3, 24), random.randint(3, 24)
        pieces = np.array(cut(random, (0, 0, width, height), random.randint(2, max(2, width * height // 2))))
        chosen = np.array(random.sample(range(len(pieces)), random.randint(1, len(pieces))))
        boxes = pieces[chosen]
        across, up = np.ptp(2 * boxes[:, :2] + boxes[:, 2:], axis=0).tolist()
        ranges = Ranges(Strip(0, across), Strip(0, up))
        loads = Packing(width, height).loads(boxes[:, 2], boxes[:, 3], ranges).sum(axis=1)
        assert loads.max() <= 1 + 1e-9
        close += loads[0] > 0.95 and min(across / width, up / height) < 1
    assert close >= 10
