"""A floorplan made without sides and limits on lines, turned so that it suits them: mirror images, and kernels pushed.

Mirror images cost the same without sides (T2) and lines (C7). With them one may be allowed, or cheaper than others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from chipmap.instances.wafer.instance import Placement
from chipmap.instances.wafer.pinned import Tiles, obeys_wires
from chipmap.instances.wafer.problem import WaferProblem, evaluate, size


def best_image(
    problem: WaferProblem, placements: Sequence[Placement], part: tuple[int, int, int, int]
) -> list[Placement] | None:
    """The image of least score that obeys C6 and C7; None where none does.

    ``placements`` lie on a fabric of their own, which is the free ``part`` (x, y, width, height) of the problem's.
    """
    x, y, *sides = part
    best: tuple[int, list[Placement]] | None = None
    for image in images(placements, (sides[0], sides[1])):
        moved = pushed(problem, [p.replace(x=p.x + x, y=p.y + y) for p in image])
        if obeys_wires(problem, [_tiles(p) for p in moved]):
            score = evaluate(problem, moved).score
            if best is None or score < best[0]:
                best = score, moved
    return None if best is None else best[1]


def images(placements: Sequence[Placement], sides: tuple[int, int]) -> Iterator[list[Placement]]:
    """The mirror images on a fabric with these sides; of a square also those with x and y exchanged."""
    wide, high = sides
    for flip_x, flip_y, turn in product((False, True), (False, True), (False, True)[: 1 + (wide == high)]):
        image = []
        for p in placements:
            width, height = size(p)
            x, y = wide - p.x - width if flip_x else p.x, high - p.y - height if flip_y else p.y
            image.append(p.replace(x=y, y=x, rotated=not p.rotated) if turn else p.replace(x=x, y=y))
        yield image


def pushed(problem: WaferProblem, placements: Sequence[Placement]) -> list[Placement]:
    """Kernels that have to border on sides (C6), moved straight to them where all tiles are free and no kernel lies."""
    made = list(placements)
    for v, side in problem.touching if problem.room is None else ():
        width, height = size(made[v])
        to = (0, problem.width - width, 0, problem.height - height)[side]
        moved = made[v].replace(x=to) if side < 2 else made[v].replace(y=to)
        if not any(_overlap(_tiles(moved), _tiles(p)) for u, p in enumerate(made) if u != v):
            made[v] = moved
    return made


def _tiles(p: Placement) -> Tiles:
    return (p.x, p.y, *size(p))


def _overlap(a: Tiles, b: Tiles) -> bool:
    return a[0] < b[0] + b[2] and b[0] < a[0] + a[2] and a[1] < b[1] + b[3] and b[1] < a[1] + a[3]
