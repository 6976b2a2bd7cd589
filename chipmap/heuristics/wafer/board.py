"""Where boxes may lie on a fabric with obstacles, pins, groups and sides (C1, C2, C4, C5, C6), by numpy.

For a kernel and a box, every crossing of some columns and rows is allowed as its corner or not. Boxes that stand,
obstacles and forbidden rectangles each rule out a rectangle of corners. Scattered defects are counted by sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.instances.wafer.fabric import Fabric
from chipmap.instances.wafer.holes import grid, obstacles
from chipmap.instances.wafer.pinned import Tiles
from chipmap.instances.wafer.problem import IntArray, WaferProblem
from chipmap.records import kept

#: Obstacles up to which each rules out its own rectangle of corners; up to which corners lie beside them.
FEW, BESIDE = 40, 150


class Window(NamedTuple):
    """Corners from (``left``, ``low``) to (``right``, ``top``), in tiles, these included."""

    left: int
    low: int
    right: int
    top: int


class Corners(NamedTuple):
    """Columns ``x``, rows ``y`` and which of their crossings are ``allowed`` [len(x), len(y)]."""

    x: IntArray
    y: IntArray
    allowed: NDArray[np.bool_]


class Board:
    """The boxes (x, y, width, height) that stand, by kernel.

    Up to :data:`BESIDE` obstacles, corners worth considering lie beside boxes and obstacles, at edges of the fabric, or
    where centres are in line. Else they lie on a lattice of every ``step``-th tile.
    """

    def __init__(self, problem: WaferProblem, step: int = 1) -> None:
        self.problem, self.instance, self.step = problem, problem.instance, step
        self.boxes: dict[int, Tiles] = {}
        number = {name: v for v, name in enumerate(problem.names)}
        #: The least width and the least height of pinned kernels.
        self.least: dict[int, tuple[int, int]] = {}
        self.pins = {number[pin.kernel]: pin for pin in self.instance.pins}
        self.together = [[number[name] for name in group] for group in self.instance.together]
        self.apart = [[number[name] for name in group] for group in self.instance.apart]
        self.touching: dict[int, list[int]] = {}
        for v, side in problem.touching:
            self.touching.setdefault(v, []).append(side)
        self.forbidden: dict[int, list[Tiles]] = {}
        for one in self.instance.forbidden:
            areas = self.forbidden.setdefault(number[one.kernel], [])
            areas += [(r.x, r.y, r.width, r.height) for r in one.rectangles]
        holes = kept(problem.instance.fabric, "_obstacles", obstacles)
        self.sums = kept(problem.instance.fabric, "_sums", _sums) if len(holes) > FEW else None
        self.lattice = len(holes) > BESIDE
        self.obstacles = [] if self.lattice else holes

    def areas(self, v: int) -> IntArray:
        """[m, 4] what kernel ``v`` may not cover: other boxes, the least of those that are pinned and don't stand yet,
        its forbidden rectangles, and not too many obstacles."""
        others = [box for u, box in self.boxes.items() if u != v]
        others += [
            (pin.x, pin.y, *self.least.get(u, (pin.width or 1, pin.height or 1)))
            for u, pin in self.pins.items()
            if u != v and u not in self.boxes
        ]
        return np.array([*others, *self.forbidden.get(v, ()), *self.obstacles], dtype=np.int64).reshape(-1, 4)

    def corners(
        self, v: int, sides: tuple[int, int], areas: IntArray, beside: Sequence[int], window: Window | None = None
    ) -> Corners:
        """Where a box of kernel ``v`` may stand among its :meth:`areas`; ``beside`` are kernels to be in line with."""
        ends = [0, 0, self.problem.width - sides[0], self.problem.height - sides[1]]
        if window is not None:
            least = [max(ends[0], window.left), max(ends[1], window.low)]
            ends = [*least, min(ends[2], window.right), min(ends[3], window.top)]
        if (pin := self.pins.get(v)) is not None:
            ends = [max(ends[0], pin.x), max(ends[1], pin.y), min(ends[2], pin.x), min(ends[3], pin.y)]
        for side in self.touching.get(v, ()):
            axis = side // 2
            if side % 2:
                ends[axis] = max(ends[axis], (self.problem.width, self.problem.height)[axis] - sides[axis])
            else:
                ends[2 + axis] = min(ends[2 + axis], 0)
        x, y = (self._lines(v, axis, sides[axis], areas, beside, (ends[axis], ends[2 + axis])) for axis in (0, 1))
        allowed = np.ones((len(x), len(y)), dtype=bool)
        if not allowed.size:
            return Corners(x, y, allowed)
        if self.sums is not None:
            right, top, sums = (x + sides[0])[:, None], y + sides[1], self.sums
            left, low = x[:, None], y
            allowed &= sums[right, top] - sums[left, top] - sums[right, low] + sums[left, low] == 0
            areas = areas[: len(areas) - len(self.obstacles)]
        across, up = _between(x, areas[:, 0], areas[:, 2], sides[0]), _between(y, areas[:, 1], areas[:, 3], sides[1])
        some = (across[0] < across[1]) & (up[0] < up[1])
        for a, b, c, d in np.column_stack([*across, *up])[some].tolist():
            allowed[a:b, c:d] = False
        return Corners(x, y, self._grouped(v, x, y, allowed, sides))

    def _lines(
        self, v: int, axis: int, side: int, areas: IntArray, beside: Sequence[int], ends: tuple[int, int]
    ) -> IntArray:
        """The columns (``axis`` 0) or rows (1) of corners that are looked at, from one of the ``ends`` to the other."""
        low, high = ends
        if high < low:
            return np.zeros(0, dtype=np.int64)
        if self.lattice:
            return np.arange(low, high + 1, self.step)
        before, behind = areas[:, axis] - side, areas[:, axis] + areas[:, 2 + axis]
        gap = [before - 1, behind + 1] if any(v in group for group in self.apart) else []
        centres = [2 * self.boxes[u][axis] + self.boxes[u][2 + axis] for u in beside if u in self.boxes]
        line = np.array([(centre - side + odd) // 2 for centre in centres for odd in (0, 1)], dtype=np.int64)
        every = np.concatenate([before, behind, *gap, line, [low, high]])
        return np.unique(every[(every >= low) & (every <= high)])

    def _grouped(
        self, v: int, x: IntArray, y: IntArray, allowed: NDArray[np.bool_], sides: tuple[int, int]
    ) -> NDArray[np.bool_]:
        """``allowed`` without the corners that groups of ``together`` and ``apart`` rule out."""
        for group in self.apart:
            for u in group if v in group else ():
                if u != v and u in self.boxes:
                    _touching(x, y, self.boxes[u], sides, allowed, False)
        for group in self.together:
            if v in group:
                earlier = [self.boxes[u] for u in group[: group.index(v)] if u in self.boxes]
                if earlier:
                    beside = np.zeros_like(allowed)
                    for box in earlier:
                        _touching(x, y, box, sides, beside, True)
                    allowed &= beside
        return allowed


def _sums(fabric: Fabric) -> NDArray[np.int32]:
    """[width + 1, height + 1] the tiles of C5 left of and below each corner."""
    made = grid(fabric)
    tiles = np.repeat(np.repeat(made.taken, np.diff(made.x), axis=0), np.diff(made.y), axis=1)
    sums = np.zeros((fabric.width + 1, fabric.height + 1), dtype=np.int32)
    sums[1:, 1:] = tiles.cumsum(axis=0, dtype=np.int32).cumsum(axis=1, dtype=np.int32)
    return sums


def _between(lines: IntArray, start: IntArray, extent: IntArray, side: int) -> tuple[IntArray, IntArray]:
    """For each area the first and last number of the lines at which a box of that side overlaps it."""
    return np.searchsorted(lines, start - side + 1), np.searchsorted(lines, start + extent)


def _touching(
    x: IntArray, y: IntArray, box: Tiles, sides: tuple[int, int], marks: NDArray[np.bool_], value: bool
) -> None:
    """Mark the corners at which a box shares a piece of border with another."""
    (left, low, wide, high), (width, height) = box, sides
    across = slice(*np.searchsorted(x, [left - width + 1, left + wide]).tolist())
    up = slice(*np.searchsorted(y, [low - height + 1, low + high]).tolist())
    for column in (left - width, left + wide):
        marks[np.flatnonzero(x == column), up] = value
    for row in (low - height, low + high):
        marks[across, np.flatnonzero(y == row)] = value
