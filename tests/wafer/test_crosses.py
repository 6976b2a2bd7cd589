"""Crosses: no floorplan takes more of one than it has, and long boxes of both directions near each other do."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import numpy as np
import pytest

from chipmap.deadline import Deadline
from chipmap.heuristics.wafer.bounds import crosses
from chipmap.heuristics.wafer.bounds.crosses import Crosses
from chipmap.heuristics.wafer.bounds.elimination import PACKED, ROWS, SIZE, Elimination
from chipmap.heuristics.wafer.bounds.packing import Packing, Ranges, Strip
from chipmap.heuristics.wafer.bounds.score import NoFloorplanError
from chipmap.heuristics.wafer.bounds.states import States
from chipmap.instances.wafer.problem import IntArray
from tests.lanes import of_all
from tests.wafer.test_bounds import GRAPHS, bound, make, optimum
from tests.wafer.test_bounds_links import cut, wired

#: Caps that matter on fabrics of a few tiles.
COARSE = (0.1, 0.2, 0.35, 0.5, 0.8)


def in_cross(box: IntArray, window: tuple[float, float, float, float], s: float, r: float) -> float:
    """Tiles (also parts of them) of a box in the cross round a window (left, bottom, right, top), by counting quarters
    of tiles."""
    x, y, width, height = box.tolist()
    left, bottom, right, top = window
    columns = x + (np.arange(4 * width) + 0.5) / 4
    rows = y + (np.arange(4 * height) + 0.5) / 4
    upright = (columns > left - s / 2) & (columns < right + s / 2)
    beam = (rows > bottom - r / 2) & (rows < top + r / 2)
    return float((upright[:, None] | beam).sum()) / 16


@pytest.mark.parametrize("caps", [crosses.CAPS, COARSE])
def test_no_floorplan_takes_more_than_a_cross_has(caps: tuple[float, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Boxes cut from a fabric, some of them left out, in the window of their centres: loads are at most 1, and no box
    has fewer tiles in the cross than its load says (counted for caps in whole half tiles)."""
    monkeypatch.setattr(crosses, "CAPS", caps)
    close = 0
    for seed in range(of_all(400, few=160)):
        random = Random(seed)
        width, height = random.randint(3, 24), random.randint(3, 24)
        pieces = np.array(cut(random, (0, 0, width, height), random.randint(2, max(2, width * height // 2))))
        boxes = pieces[random.sample(range(len(pieces)), random.randint(1, len(pieces)))]
        centres = boxes[:, :2] + boxes[:, 2:] / 2
        p, q = np.ptp(centres, axis=0).tolist()
        ranges = Ranges(Strip(0, int(2 * p)), Strip(0, int(2 * q)))
        each = Crosses(width, height).loads(boxes[:, 2], boxes[:, 3], ranges)
        assert each.sum(axis=1).max() <= 1 + 1e-9
        close += each.sum(axis=1).max() > 0.9 and min(p / width, q / height) < 0.7
        (left, bottom), (right, top) = centres.min(axis=0).tolist(), centres.max(axis=0).tolist()
        for row, (i, j) in enumerate(crosses.PAIRS):
            s, r = caps[i] * width, caps[j] * height
            if (2 * s).is_integer() and (2 * r).is_integer():
                room = width * height - max(0, width - p - s) * max(0, height - q - r)
                for at, box in enumerate(boxes):
                    assert each[row, at] * room <= in_cross(box, (left, bottom, right, top), s, r) + 1e-9
    assert close >= 5


def states(boxes: list[tuple[int, int]]) -> States:
    x, y = np.array(boxes).T
    return States(np.ascontiguousarray(x), np.ascontiguousarray(y), np.zeros(len(boxes), np.int64))


def test_tall_and_wide_boxes_do_not_share_a_small_window() -> None:
    """Eight kernels of 2 × 20 or 20 × 2 on 20 × 20, all centres within 8 × 8 tiles: by hand, the cross for strips of
    2.4 tiles has 400 - 9.6 · 9.6 of the 320 tiles. Half of each obeys every other inequality."""
    program = Elimination(wired(Random(0), 8, [(i, i + 1) for i in range(7)], (20, 20)), False)
    ranges = Ranges(Strip(0, 16), Strip(0, 16))
    x, y = np.array([2, 20] * 4), np.array([20, 2] * 4)
    assert Packing(20, 20).loads(x, y, ranges).sum(axis=1).max() <= 1 + 1e-9
    loads = program.crosses.loads(x, y, ranges).sum(axis=1)
    at = int(loads.argmax())
    assert loads[at] == pytest.approx(320 / (400 - 9.6**2))
    multipliers = np.zeros(SIZE)
    values = []
    for multiplier in (0.0, 1e4):
        multipliers[PACKED + at] = multiplier
        both = [states([(2, 20), (20, 2)])] * 8
        values.append(program.evaluate(both, ranges, multipliers, Deadline()).value)
    assert values[1] - values[0] == pytest.approx(1e4 * (loads[at] - 1))


def test_crosses_count_the_core_alone() -> None:
    """A kernel outside the core may lie anywhere: its box has no part in a cross."""
    edges = [(i, (i + 1) % 8) for i in range(8)] + [(0, 8)]
    program = Elimination(wired(Random(0), 9, edges, (20, 20)), False)
    assert program.plan.outside.tolist() == [False] * 8 + [True]
    ranges, multipliers = Ranges(Strip(0, 24), Strip(0, 24)), np.zeros(SIZE)
    multipliers[PACKED:ROWS] = 7.0
    small, values = [states([(1, 1)])] * 8, []
    for last in ((1, 1), (2, 2)):
        plain = [
            program.evaluate([*small, states([last])], ranges, m, Deadline()).value
            for m in (multipliers, 0 * multipliers)
        ]
        values.append(plain[0] - plain[1])
    assert values[0] == pytest.approx(values[1])


@pytest.mark.parametrize("seed", range(of_all(300, few=10)))
def test_never_above_the_optimum_with_wide_caps(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Brute force on tiny fabrics, with caps of their size."""
    monkeypatch.setattr(crosses, "CAPS", COARSE)
    random = Random(4000 + seed)
    n = random.choice((2, 3, 3))
    side = random.randint(5, 7)
    problem = make(random, n, random.choice(GRAPHS[n]), (side, random.choice((side, 6))), blocks=False)
    best = optimum(problem)
    with suppress(NoFloorplanError):
        found = bound(problem)
        assert best is None or found <= best
