"""The slicing tree of a floorplan given as boxes, where there is one: guillotine cuts, again and again.

A set of disjoint boxes is cut at every vertical line that crosses none of them (or every horizontal one, where that
gives more parts), then each part alone. Row layouts are of this kind; a pinwheel of boxes is not.
"""

from __future__ import annotations

import numpy as np

from chipmap.heuristics.wafer.slicing.trees import Tree
from chipmap.instances.wafer.problem import IntArray


class Cutter:
    """Builds the tree over ``boxes`` [n, 4] (left, bottom, right, top)."""

    def __init__(self, boxes: IntArray) -> None:
        n = len(boxes)
        self.boxes = boxes
        self.tree = Tree.empty(n)
        self.align = np.ones(2 * n - 1, np.int64)
        self._fresh = iter(range(n, 2 * n - 1))

    def cut(self, members: IntArray) -> int:
        """The node of these boxes, -1 where no line cuts them."""
        if len(members) == 1:
            return int(members[0])
        across, upward = self._slabs(members, 0), self._slabs(members, 1)
        axis = 0 if len(across) >= len(upward) else 1
        slabs = (across, upward)[axis]
        return self._join(slabs, axis) if len(slabs) > 1 else -1

    def _slabs(self, members: IntArray, axis: int) -> list[IntArray]:
        """The boxes between one line that crosses none of them and the next."""
        members = members[np.argsort(self.boxes[members, axis], kind="stable")]
        reached = np.maximum.accumulate(self.boxes[members, axis + 2])
        ends = np.flatnonzero(self.boxes[members[1:], axis] >= reached[:-1]) + 1
        return np.split(members, ends)

    def _join(self, slabs: list[IntArray], axis: int) -> int:
        """The node of neighbouring slabs: halved by number, so that the tree stays low."""
        if len(slabs) == 1:
            return self.cut(slabs[0])
        node, half = next(self._fresh), len(slabs) // 2
        self.tree.cut[node] = axis
        room = self._span(np.concatenate(slabs), 1 - axis)
        for side, part in ((self.tree.left, slabs[:half]), (self.tree.right, slabs[half:])):
            child = self._join(part, axis)
            if child < 0:
                return -1
            side[node] = child
            self.align[child] = nearest(room, self._span(np.concatenate(part), 1 - axis))
        return node

    def _span(self, members: IntArray, axis: int) -> tuple[int, int]:
        return int(self.boxes[members, axis].min()), int(self.boxes[members, axis + 2].max())


def nearest(room: tuple[int, int], part: tuple[int, int]) -> int:
    """0, 1 or 2: whether ``part`` lies nearest the low end, the middle or the high end of ``room`` (middle if full)."""
    below, above = part[0] - room[0], room[1] - part[1]
    if 3 * below < above:
        return 0
    return 2 if 3 * above < below else 1


def guillotine(boxes: IntArray) -> tuple[Tree, IntArray] | None:
    """The slicing tree of disjoint ``boxes`` [n, 4] (left, bottom, right, top), with alignments [2n - 1] (0 low, 1
    middle, 2 high) of the parts in the room that their cut leaves them. None where the boxes are not slicing.
    """
    cutter = Cutter(boxes)
    return (cutter.tree, cutter.align) if cutter.cut(np.arange(len(boxes))) >= 0 else None
