"""Floorplans by numpy from sequences of kernels: each goes where it wastes least above those placed before.

What is placed is remembered as its skyline, the height used in each column. A kernel takes the box of its Pareto front
and the columns that waste fewest tiles: those below the box, and those that the box has beyond the kernel's smallest
one. A weight on the box's upper side (:data:`LOWER`) keeps the skyline low. Sequences are annealed: a sequence is
worth the tiles of the kernels that it leaves out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import exp
from random import Random
from typing import NamedTuple, Protocol

import numpy as np

from chipmap.deadline import Deadline
from chipmap.instances.wafer.instance import Placement
from chipmap.instances.wafer.problem import IntArray, WaferProblem, depth_first_order
from chipmap.instances.wafer.shapes import Shape, place

#: Weights of a box's upper side, in tiles of waste per tile of the box's width.
LOWER = (0.0, 0.1, 0.5, 2.0)
#: Boxes of a kernel that are tried: those of the fewest tiles, and some over the whole front.
SMALLEST, SPREAD = 16, 16
#: How often an annealing step takes another weight.
OTHER = 0.1


class Box(NamedTuple):
    """A box of a kernel's front: its number there, its sides, and its tiles beyond those of the smallest box."""

    number: int
    width: int
    height: int
    extra: int


class Packed(NamedTuple):
    """Corner and number of the box of each kernel; ``left`` are the tiles of the kernels left out."""

    corners: dict[int, tuple[int, int]]
    boxes: dict[int, int]
    left: int


class Sequences:
    """The packer of one problem at one time ``tau``; ``fronts`` are the Pareto-minimal boxes of its types, none empty
    (:func:`chipmap.instances.wafer.shapes.shapes`)."""

    def __init__(self, problem: WaferProblem, fronts: Sequence[IntArray], tau: int) -> None:
        self.problem, self.fronts, self.tau = problem, fronts, tau
        self.types = problem.types.tolist()
        areas = [front[:, 0] * front[:, 1] for front in fronts]
        self.least = [int(area.min()) for area in areas]
        self.tables = [_boxes(front, area) for front, area in zip(fronts, areas, strict=True)]

    def orders(self) -> Iterator[list[int]]:
        """The largest first; those of the longest shorter side first; depth first."""
        first = depth_first_order(self.problem).tolist()
        thin = [int(np.minimum(front[:, 0], front[:, 1]).min()) for front in self.fronts]
        yield sorted(first, key=lambda i: -self.least[self.types[i]])
        yield sorted(first, key=lambda i: (-thin[self.types[i]], self.types[i]))
        yield first

    def pack(self, order: Sequence[int], lower: float) -> Packed:
        """The kernels in ``order``, each where it wastes least; one that fits nowhere is left out."""
        packed = Packed({}, {}, 0)
        sky, left = np.zeros(self.problem.width, dtype=np.int64), 0
        for i in order:
            found = self._where(sky, self.tables[self.types[i]], lower)
            if found is None:
                left += self.least[self.types[i]]
                continue
            box, x, y = found
            packed.corners[i], packed.boxes[i] = (x, y), box.number
            sky[x : x + box.width] = y + box.height
        return packed._replace(left=left)

    def _where(self, sky: IntArray, boxes: Sequence[Box], lower: float) -> tuple[Box, int, int] | None:
        """The box, x and y of least waste; None where none fits."""
        levels, sums = [sky], np.concatenate([[0], np.cumsum(sky)])  # levels[j][x]: the highest of 2^j columns from x
        least, found = np.inf, None
        for box in boxes:
            step = box.width.bit_length() - 1
            while len(levels) <= step:
                half = 1 << (len(levels) - 1)
                levels.append(np.maximum(levels[-1][:-half], levels[-1][half:]))
            count = len(sky) - box.width + 1
            tops = np.maximum(levels[step][:count], levels[step][box.width - (1 << step) :][:count])
            waste = (1 + lower) * box.width * tops - (sums[box.width :] - sums[: -box.width])
            waste[tops + box.height > self.problem.height] = np.inf
            x = int(waste.argmin())
            value = float(waste[x]) + box.extra + lower * box.width * box.height
            if value < least:
                least, found = value, (box, x, int(tops[x]))
        return found

    def placements(self, packed: Packed) -> list[Placement]:
        """The floorplan of a packing that leaves nothing out."""
        made = []
        for i, t in enumerate(self.types):
            shape = Shape(*self.fronts[t][packed.boxes[i]].tolist())
            made.append(place(self.problem, i, shape, self.tau, *packed.corners[i]))
        return made


def _boxes(front: IntArray, area: IntArray) -> list[Box]:
    """The boxes of a front that are tried."""
    smallest = np.argsort(area, kind="stable")[:SMALLEST]
    spread = np.linspace(0, len(area) - 1, min(SPREAD, len(area))).astype(np.int64)
    numbers = np.unique(np.concatenate([smallest, spread]))
    found = []
    for j in numbers.tolist():
        width, height = front[j, :2].tolist()
        found.append(Box(j, width, height, int(area[j] - area.min())))
    return found


class Packer(Protocol):
    """What packs sequences: :class:`Sequences`, or around obstacles (:mod:`.around`)."""

    problem: WaferProblem
    least: list[int]

    def orders(self) -> Iterator[list[int]]:
        """The sequences that are tried first."""

    def pack(self, order: Sequence[int], lower: float) -> Packed:
        """The kernels in ``order``; one that fits nowhere is left out."""

    def placements(self, packed: Packed) -> list[Placement] | None:
        """The floorplan of a packing that leaves nothing out, if it is allowed."""


def anneal(packer: Packer, seed: int, steps: int, deadline: Deadline = Deadline()) -> list[Placement] | None:
    """A floorplan of all kernels: the orders first, then up to ``steps`` steps of annealing over sequences.

    None where none is found. Raises :class:`chipmap.deadline.Stop` at the deadline.
    """
    tried = list[tuple[int, list[int], float]]()
    for order in packer.orders():
        for lower in LOWER:
            deadline.check()
            packed = packer.pack(order, lower)
            if packed.left == 0:
                return packer.placements(packed)
            tried.append((packed.left, order, lower))
    random, hot = Random(seed), max(packer.least)
    value, order, lower = min(tried)
    for step in range(steps if packer.problem.n > 1 else 0):
        deadline.check()
        changed, weight = _neighbour(order, random), random.choice(LOWER) if random.random() < OTHER else lower
        packed = packer.pack(changed, weight)
        if packed.left == 0:
            return packer.placements(packed)
        warm = max(1.0, hot * (1 - step / steps))
        if packed.left <= value or random.random() < exp((value - packed.left) / warm):
            value, order, lower = packed.left, changed, weight
    return None


def _neighbour(order: Sequence[int], random: Random) -> list[int]:
    """The sequence with two kernels exchanged, or one moved."""
    changed, (a, b) = list(order), random.sample(range(len(order)), 2)
    if random.random() < 0.5:
        changed[a], changed[b] = changed[b], changed[a]
    else:
        changed.insert(b, changed.pop(a))
    return changed
