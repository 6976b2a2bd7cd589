"""C5 of family ``wafer``: keep-out areas and defective tiles."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from chipmap import read, solve
from chipmap.deadline import Deadline
from chipmap.heuristics.wafer.board import Board
from chipmap.heuristics.wafer.obstructed import longest
from chipmap.instances.wafer import Fabric, Pin, Rectangle, WaferInstance, WaferSolution
from chipmap.instances.wafer.describe import describe
from chipmap.instances.wafer.holes import obstacles, room
from chipmap.instances.wafer.kgraph import write_kgraph
from chipmap.instances.wafer.problem import wafer_problem
from chipmap.kernels import uncompiled
from chipmap.methods.wafer.around import shorter
from chipmap.methods.wafer.first import first
from chipmap.records import InputError
from chipmap.run import Run, SolveOptions
from chipmap.validation.wafer.checker import check
from tests.lanes import of_all
from tests.wafer.agreement import all_prove
from tests.wafer.page_fabric import holed_instance, optimum
from tests.wafer.page_pins import tiles
from tests.wafer.test_pins import two

EACH = of_all(10, few=6)


@pytest.mark.parametrize("seed", range(of_all(20, few=2)))
def test_brute_force_from_the_page_the_models_and_auto_agree(seed: int) -> None:
    random = Random(500 + seed)
    for number in range(EACH):
        instance = holed_instance(random)
        all_prove(instance, optimum(instance), number, (seed, number))


def random_fabric(random: Random) -> Fabric:
    """Sides of up to 12 tiles, a few areas, which may overlap or stick out, and a few defects."""
    width, height = random.randint(1, 12), random.randint(1, 12)
    areas = tuple(
        Rectangle(
            x=random.randint(-2, width),
            y=random.randint(-2, height),
            width=random.randint(1, 4),
            height=random.randint(1, 4),
        )
        for _ in range(random.randint(0, 3))
    )
    defects = tuple((random.randrange(width), random.randrange(height)) for _ in range(random.randint(0, 5)))
    return Fabric(width=width, height=height, keep_out=areas, defects=defects)


@pytest.mark.parametrize("seed", range(of_all(200, few=40)))
def test_obstacles_and_free_rectangles_tile_by_tile(seed: int) -> None:
    """Obstacles cover each taken tile once; the tallest free rectangle of each width is free, and none is taller."""
    fabric = random_fabric(Random(seed))
    taken = np.zeros((fabric.width, fabric.height), dtype=int)
    for r in fabric.keep_out:
        taken[max(0, r.x) : max(0, r.x + r.width), max(0, r.y) : max(0, r.y + r.height)] = 1
    for x, y in fabric.defects:
        taken[x, y] = 1
    covered = np.zeros_like(taken)
    for x, y, width, height in obstacles(fabric):
        covered[x : x + width, y : y + height] += 1
    assert (covered == taken).all()
    made = room(fabric)
    assert made.tiles == (taken == 0).sum()
    for width in range(1, fabric.width + 1):
        free = [
            height
            for height in range(1, fabric.height + 1)
            for x in range(fabric.width - width + 1)
            for y in range(fabric.height - height + 1)
            if not taken[x : x + width, y : y + height].any()
        ]
        assert made.tallest[width] == max(free, default=0)
        if free:
            x, y = made.corner[width].tolist()
            assert not taken[x : x + width, y : y + max(free)].any()


def holed(**fields: Any) -> WaferInstance:
    """Two small kernels on 12 x 8 tiles."""
    plain = two()
    return plain.replace(fabric=plain.fabric.replace(**fields))


def test_bad_input_is_named() -> None:
    for fields, where in (
        ({"defects": ((0, 0), (12, 0))}, r"fabric\.defects\[1\]"),
        ({"keep_out": (Rectangle(x=0, y=0, width=0, height=2),)}, r"fabric\.keep_out\[0\]"),
    ):
        with pytest.raises(InputError, match=where):
            holed(**fields).check()


def test_hashes_hold_and_a_kgraph_refuses_holes() -> None:
    plain, made = two(), holed(defects=((3, 3),))
    assert made.replace(fabric=made.fabric.replace(defects=())).content_hash == plain.content_hash != made.content_hash
    with pytest.raises(InputError, match="defects"):
        write_kgraph(made)
    assert describe(made)["fabric"]["defects"] == 1


def test_the_checker_counts_the_tiles_that_a_kernel_covers() -> None:
    instance = holed(defects=((0, 0), (1, 1), (11, 7)), keep_out=(Rectangle(x=2, y=-3, width=2, height=4),))
    found = solve(two(pins=(Pin(kernel="k1", x=0, y=0, width=6, height=4),)), method="wafer/cpsat")
    assert found.solution is not None
    certificate = check(instance, WaferSolution.make(**found.solution))
    (broken,) = [one for one in certificate.violations if one.label == "C5"]
    assert "2 tiles of keep-out areas and 2 defective tiles" in broken.message


def with_defects(name: str, share: float) -> WaferInstance:
    """An instance of the contest with that share of its tiles defective, spread at random."""
    instance, random = read(name), Random(0)
    assert isinstance(instance, WaferInstance)
    count = int(share * instance.fabric.width * instance.fabric.height)
    defects = {(random.randrange(633), random.randrange(633)) for _ in range(count)}
    return instance.replace(fabric=instance.fabric.replace(defects=tuple(sorted(defects))))


def test_one_tile_in_a_hundred_defective_leaves_a_floorplan_at_once() -> None:
    """27 kernels between 4000 scattered defects, without compiled code."""
    instance = with_defects("wafer/ispd2020-K", 0.01)
    run = Run(instance, SolveOptions(), check)
    with uncompiled():
        first(instance, run)
    assert run.best is not None and run.best.source == "one by one"


def test_a_kernel_larger_than_any_free_rectangle_is_a_reason() -> None:
    """Each box of the kernel has a defect: no floorplan, whatever the other kernels do."""
    defects = tuple((x, y) for x in range(0, 12, 2) for y in range(8))
    result = solve(holed(defects=defects), method="wafer/auto")
    assert result.status == "infeasible"
    assert "C5" in result.infeasibility[0].labels and "'k1'" in result.infeasibility[0].message


def test_a_large_fabric_in_two_parts_gets_a_floorplan() -> None:
    """A wall of tiles splits the fabric."""
    plain = read("wafer/ispd2020-K")
    assert isinstance(plain, WaferInstance)
    wall = (Rectangle(x=400, y=0, width=20, height=633),)
    instance = plain.replace(fabric=plain.fabric.replace(keep_out=wall))
    result = solve(instance, method="wafer/greedy")
    assert result.solution is not None and result.bounds
    assert check(instance, WaferSolution.make(**result.solution)).feasible


def clusters(side: int, count: int) -> WaferInstance:
    """Two kernels on 60 x 60 tiles with squares of defects in a pattern."""
    squares = tuple(
        Rectangle(x=11 * (i % 5) + 2 * (i // 5), y=6 * (i // 5), width=side, height=side) for i in range(count)
    )
    plain = two()
    return plain.replace(fabric=plain.fabric.replace(width=60, height=60, keep_out=squares))


def test_sequences_around_obstacles_get_shorter_times() -> None:
    problem = wafer_problem(clusters(2, 45))
    (start, *_) = longest(problem)
    times = [max(problem.time_of(v, p) for v, p in enumerate(start))]
    for placements in shorter(problem, start, 0, Deadline()):
        assert check(problem.instance, WaferSolution(placements=tuple(placements))).feasible
        times.append(max(problem.time_of(v, p) for v, p in enumerate(placements)))
    assert times == sorted(set(times), reverse=True) and len(times) > 2


def test_corners_lie_beside_a_hundred_obstacles() -> None:
    """Seen: from 41 obstacles on corners lay on a lattice, and reinsertion was nine times as slow."""
    board = Board(wafer_problem(clusters(2, 45)))
    assert len(obstacles(board.instance.fabric)) > 40
    found = board.corners(0, (7, 5), board.areas(0), ())
    assert 0 < len(found.x) < 54 or 0 < len(found.y) < 56
    taken = set().union(*(tiles((r.x, r.y, r.width, r.height)) for r in board.instance.fabric.keep_out))
    for i, j in zip(*found.allowed.nonzero(), strict=True):
        assert not taken & tiles((int(found.x[i]), int(found.y[j]), 7, 5))
