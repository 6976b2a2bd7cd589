"""Tiles of the fabric on which no kernel may lie (C5): as a grid, as rectangles, and the room that they leave."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.deadline import look
from chipmap.instances.wafer.fabric import Fabric

IntArray = NDArray[np.int64]
#: Cells of a grid up to which the room that it leaves is measured.
CELLS = 1_000_000


class Grid(NamedTuple):
    """Edges ``x`` [columns + 1] and ``y`` [rows + 1] in tiles; ``taken`` [columns, rows], where no kernel may lie.

    Columns and rows end where keep-out areas or defects do, so that a cell is taken as a whole or not at all.
    """

    x: IntArray
    y: IntArray
    taken: NDArray[np.bool_]

    @property
    def free_tiles(self) -> int:
        """Tiles that kernels may cover."""
        return int((np.diff(self.x)[:, None] * np.diff(self.y) * ~self.taken).sum())


def holes(fabric: Fabric) -> IntArray:
    """[m, 4] left, lower, right, upper edges within the fabric: keep-out areas, then defects. They may overlap."""
    areas = [(r.x, r.y, r.x + r.width, r.y + r.height) for r in fabric.keep_out]
    areas += [(x, y, x + 1, y + 1) for x, y in fabric.defects]
    found = np.array(areas, dtype=np.int64).reshape(-1, 4)
    found = found.clip(0, [fabric.width, fabric.height] * 2)
    return found[(found[:, 0] < found[:, 2]) & (found[:, 1] < found[:, 3])]


def grid(fabric: Fabric) -> Grid:
    """The coarsest grid on which every cell is taken or free."""
    areas = holes(fabric)
    x = np.unique(np.concatenate([areas[:, [0, 2]].ravel(), [0, fabric.width]]))
    y = np.unique(np.concatenate([areas[:, [1, 3]].ravel(), [0, fabric.height]]))
    taken = np.zeros((len(x) - 1, len(y) - 1), dtype=bool)
    ends = np.column_stack([np.searchsorted(edges, areas[:, i]) for i, edges in enumerate((x, y, x, y))])
    for left, low, right, top in ends.tolist():
        taken[left:right, low:top] = True
    return Grid(x, y, taken)


def obstacles(fabric: Fabric) -> list[tuple[int, int, int, int]]:
    """Disjoint rectangles (x, y, width, height) that cover just the tiles of C5: runs of columns, merged upwards."""
    x, y, taken = grid(fabric)
    found, growing = list[tuple[int, int, int, int]](), dict[tuple[int, int], int]()
    for row in range(len(y)):
        line = taken[:, row] if row < len(y) - 1 else np.zeros(len(x) - 1, dtype=bool)
        edges = np.flatnonzero(np.diff(np.concatenate([[0], line, [0]]).astype(np.int8)))
        runs = set(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))
        for left, right in sorted(growing.keys() - runs):
            low = growing.pop((left, right))
            found.append((int(x[left]), int(y[low]), int(x[right] - x[left]), int(y[row] - y[low])))
        for run in runs - growing.keys():
            growing[run] = row
    return found


class Room(NamedTuple):
    """``tallest[a]``: the height of the tallest free rectangle that is ``a`` tiles wide (0: none); ``corner[a]``: its
    lower left corner; ``tiles``: free tiles in all."""

    tallest: IntArray
    corner: IntArray
    tiles: int

    def fits(self, widths: IntArray, heights: IntArray) -> NDArray[np.bool_]:
        """Whether a free rectangle of these sides exists, for each pair."""
        last = len(self.tallest) - 1
        inside: NDArray[np.bool_] = (widths <= last) & (heights <= self.tallest[np.minimum(widths, last)])
        return inside


def room(fabric: Fabric) -> Room:
    """The free rectangles of the fabric. Of a grid of more than :data:`CELLS` cells no rectangle is ruled out.

    A rectangle that can't grow spans whole columns of the grid. For every number of neighbouring columns, the greatest
    height above each row is the least one of theirs.
    """
    made, wide, high = grid(fabric), fabric.width, fabric.height
    if made.taken.size > CELLS or not made.taken.any():
        whole = np.full(wide + 1, high, dtype=np.int64)
        return Room(whole, np.zeros((wide + 1, 2), dtype=np.int64), made.free_tiles)
    above = np.zeros(made.taken.shape, dtype=np.int32)
    step = np.diff(made.y)
    run = np.zeros(len(made.x) - 1, dtype=np.int32)
    for row in reversed(range(len(step))):
        run = np.where(made.taken[:, row], 0, run + step[row])
        above[:, row] = run
    tallest, corner = np.zeros(wide + 1, dtype=np.int64), np.zeros((wide + 1, 2), dtype=np.int64)
    least = above
    for count in range(1, len(above) + 1):
        look()
        least = np.minimum(least[: len(above) - count + 1], above[count - 1 :])
        best = least.max(axis=1)
        if not best.any():
            break
        widths = made.x[count:] - made.x[:-count]
        for left in np.flatnonzero(best > tallest[widths]).tolist():
            if best[left] > tallest[widths[left]]:
                tallest[widths[left]] = best[left]
                corner[widths[left]] = made.x[left], made.y[int(least[left].argmax())]
    for width in reversed(range(wide)):  # a wider rectangle holds a narrower one
        if tallest[width + 1] > tallest[width]:
            tallest[width], corner[width] = tallest[width + 1], corner[width + 1]
    return Room(tallest, corner, made.free_tiles)
