"""Counted cuts: floorplans by guillotine cuts of the fabric, for kernels of few types.

Kernels of one type are alike, so a rectangle is described by how many of each type it holds. Let every type have a
price. With v(w, h) the price of the dearest collection found for a rectangle of w × h tiles,

    v(w, h) = max( price of a type with a box of w × h,  v(w - 1, h),  v(w, h - 1),
                   v(a, h) + v(w - a, h),  v(w, b) + v(w, h - b) ),

where kernels that aren't wanted any more have no price in a sum. Where v of the fabric is the price of all kernels, its
cuts are a floorplan. Else the strip with the dearest tiles is cut off for good, and the rest of the fabric is tried
with the rest of the kernels. Prices are least areas at first; a type of which kernels are missing gets dearer. Each
rectangle keeps one collection, so this is a heuristic; without a limit on the counts it would be the exact program of
guillotine cutting (Gilmore and Gomory, "Multistage cutting stock problems of two and more dimensions", 1965).

The shortest time is looked for first. Then kernels of a type are exchanged, and parts mirrored, so that wires get short
(:mod:`chipmap.heuristics.wafer.slicing.exchange`), at this time and at later ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.deadline import Deadline
from chipmap.heuristics.wafer.slicing.counted_kernel import LOWER, NARROWER, UP, Rectangles, Wanted, fill
from chipmap.heuristics.wafer.slicing.exchange import POLL, graph_of, rearrange
from chipmap.heuristics.wafer.slicing.guillotine import guillotine
from chipmap.instances.wafer.instance import Placement, WaferSolution
from chipmap.instances.wafer.problem import IntArray, WaferProblem, evaluate
from chipmap.instances.wafer.shapes import Shape, shapes

#: Prices tried at a time; by how much a type of which all kernels are missing gets dearer, and how much prices vary.
TRIES, DEARER, NOISE = 4, 0.2, 0.03
#: Of two strips whose tiles' prices differ by less than this factor either may be taken.
EQUAL = 0.997
#: The search for the shortest time ends where it is known to this part.
CLOSE = 0.002
#: Times from the shortest one on at which wires are shortened, as parts of it, and moves per kernel for it: where only
#: the time is looked for, and then.
LATER = (0.0, 0.005, 0.01, 0.02, 0.03, 0.045, 0.06, 0.08, 0.11, 0.15, 0.2, 0.26, 0.33, 0.42, 0.55, 0.75, 1.0)
FEW, MANY = 2_000, 20_000
FloatArray = NDArray[np.float64]
#: Without time for so many tables nothing is begun; sums times types in a second.
TABLES, RATE = 4, 1_000_000_000
#: Sums between two questions whether there is time left.
WORK = 20_000_000


@dataclass(frozen=True, eq=False)
class Packed:
    """Boxes without overlap for all kernels at a target time (quarters): shapes [n], lower left corners [n, 2]."""

    time: int
    shapes: Sequence[Shape]
    corners: IntArray


class Box(NamedTuple):
    """A box of a type at some place."""

    type: int
    width: int
    height: int
    x: int
    y: int


class CountedCuts:
    """The program of this module for one problem, at any time and with any prices.

    ``sums`` times types: how much work it may do; beyond that, it is as if the time were up.
    """

    def __init__(self, problem: WaferProblem, seed: int = 0, sums: float = inf) -> None:
        self.problem, self.sums = problem, sums
        self.count = np.bincount(problem.types)
        self.random = np.random.default_rng(seed)

    def packed(self, time: int, deadline: Deadline, tries: int) -> Packed | None:
        """All kernels at ``time`` quarters; None where none of so many prices gives a floorplan, or time is up."""
        found = shapes(self.problem, time)
        if not all(map(len, found)):
            return None
        prices = np.array([(boxes[:, 0] * boxes[:, 1]).min() for boxes in found], dtype=np.float64)
        if prices @ self.count > self.problem.width * self.problem.height:
            return None
        for _ in range(tries):
            placed, missing = self._placed(found, prices, deadline)
            if not missing.any():
                return self._kernels(placed, found, time)
            noise = self.random.uniform(1 - NOISE, 1 + NOISE, len(prices))
            prices = prices * (1 + DEARER * missing / self.count) * noise
        return None

    def _placed(self, found: Sequence[IntArray], prices: FloatArray, deadline: Deadline) -> tuple[list[Box], IntArray]:
        """Boxes on the fabric, and how many of each type are missing: strips until all of the rest fits at once."""
        wanted, (w, h), (x, y) = self.count, (self.problem.width, self.problem.height), (0, 0)
        placed = list[Box]()
        while min(w, h) > 0 and deadline.keep_going():
            table = self.table(found, Wanted(prices, wanted), (w, h), deadline)
            if table is None:
                break
            if (table.holds[w, h] == wanted).all():
                return placed + list(boxes_in(table, (w, h), (x, y))), np.zeros_like(wanted)
            wide, high = self._strip(table, w, h)
            if table.value[wide, high] == 0:
                break
            placed += boxes_in(table, (wide, high), (x, y))
            wanted = wanted - table.holds[wide, high]
            w, h, x, y = (w, h - high, x, y + high) if wide == w else (w - wide, h, x + wide, y)
        return placed, wanted

    def _strip(self, table: Rectangles, w: int, h: int) -> tuple[int, int]:
        """Width and height of the strip of dearest tiles, up to half of the rectangle; nearly equal ones take turns."""
        across, up = np.arange(1, w // 2 + 1), np.arange(1, h // 2 + 1)
        sides = np.concatenate([across, up])
        tiles = np.concatenate([table.value[across, h] / (across * h), table.value[w, up] / (up * w)])
        if not len(tiles):
            return w, h
        at = int(np.argmax(tiles * self.random.uniform(EQUAL, 1, len(tiles))))
        return (int(sides[at]), h) if at < len(across) else (w, int(sides[at]))

    def table(
        self, found: Sequence[IntArray], wanted: Wanted, sides: tuple[int, int], deadline: Deadline
    ) -> Rectangles | None:
        """The dearest collections of all rectangles up to ``sides``, with boxes ``found`` by type; None where the time
        is up."""
        width, height = sides
        self.sums -= work(width, height, len(found))
        if self.sums < 0:
            return None
        table = Rectangles(
            np.zeros((width + 1, height + 1)),
            np.zeros((width + 1, height + 1), np.int32),
            np.zeros((width + 1, height + 1, len(found)), np.int16),
        )
        for t in np.flatnonzero(wanted.left).tolist():
            x, y = found[t][:, 0], found[t][:, 1]
            fits = (x <= width) & (y <= height)
            x, y = x[fits], y[fits]
            better = wanted.price[t] > table.value[x, y]
            x, y = x[better], y[better]
            table.value[x, y], table.cut[x, y] = wanted.price[t], t + 1
            table.holds[x, y] = np.arange(len(found)) == t
        step = max(1, WORK // (height * (width + height)))
        for begin in range(1, width + 1, step):
            if not deadline.keep_going():
                return None
            fill(table, wanted, begin, min(begin + step, width + 1))
        return table

    def _kernels(self, placed: Sequence[Box], found: Sequence[IntArray], time: int) -> Packed:
        """The boxes as the kernels', those of a type in their order."""
        free = [np.flatnonzero(self.problem.types == t).tolist() for t in range(len(found))]
        chosen, corners = dict[int, Shape](), np.zeros((self.problem.n, 2), np.int64)
        for box in placed:
            boxes, kernel = found[box.type], free[box.type].pop()
            at = int(np.flatnonzero((boxes[:, 0] == box.width) & (boxes[:, 1] == box.height))[0])
            chosen[kernel], corners[kernel] = Shape(*boxes[at].tolist()), (box.x, box.y)
        return Packed(time, [chosen[i] for i in range(self.problem.n)], corners)


def boxes_in(table: Rectangles, sides: tuple[int, int], corner: tuple[int, int]) -> Iterator[Box]:
    """What a rectangle holds, as its cuts place it from its lower left corner on."""
    left = table.holds[sides].copy()
    waiting = [(*sides, *corner)]
    while waiting:
        w, h, x, y = waiting.pop()
        how = int(table.cut[w, h])
        if how == NARROWER:
            waiting.append((w - 1, h, x, y))
        elif how == LOWER:
            waiting.append((w, h - 1, x, y))
        elif how <= -UP:
            waiting += [(w, h + how + UP, x, y - how - UP), (w, -how - UP, x, y)]
        elif how < 0:
            waiting += [(w + how, h, x - how, y), (-how, h, x, y)]
        elif how > 0 and left[how - 1]:
            left[how - 1] -= 1
            yield Box(how - 1, w, h, x, y)


class _Times:
    """The search over target times; ``improved`` hears of every better floorplan."""

    def __init__(self, cuts: CountedCuts, deadline: Deadline, improved: Callable[[WaferSolution], None]) -> None:
        self.problem, self.deadline, self.improved = cuts.problem, deadline, improved
        self.cuts, self.graph = cuts, graph_of(cuts.problem)
        self.best: WaferSolution | None = None
        self.score = 0
        #: Floorplans whose wires got many moves, at all times, better than those before or not.
        self.kept: list[WaferSolution] = []

    def shortest(self, low: int, high: int, tries: int) -> int:
        """The shortest time found above ``low`` and below ``high`` quarters, else ``high``."""
        step = max(1, low // 200)
        while low + step < high and self.deadline.keep_going():
            if at := self._hand_over(low + step, tries, FEW):
                high = at
            else:
                low, step = low + step, 2 * step
        while high - low > max(1, int(CLOSE * low)) and self.deadline.keep_going():
            if at := self._hand_over((low + high) // 2, tries, FEW):
                high = at
            else:
                low = (low + high) // 2
        return high

    def later(self, least: int, shares: Sequence[float] = LATER) -> None:
        """Times from the shortest one on, as long as time alone doesn't cost more than the best floorplan."""
        weight = self.problem.instance.weights.time
        for share in shares if self.best is not None and self.graph.ticks.any() else ():
            time = int(least * (1 + share))
            if time > self.problem.longest or weight * time >= self.score or not self.deadline.keep_going():
                return
            self._hand_over(time, TRIES, MANY)

    def _hand_over(self, time: int, tries: int, moves: int) -> int:
        """Look for a floorplan at ``time`` and shorten its wires, with so many moves per kernel.

        Its own time, 0 where there is none.
        """
        packed = self.cuts.packed(time, self.deadline, tries)
        if packed is None:
            return 0
        placements = self._arranged(packed, moves)
        parts = evaluate(self.problem, placements)
        solution = WaferSolution(instance=self.problem.instance.name, placements=tuple(placements))
        if moves == MANY:
            self.kept.append(solution)
        if self.best is None or parts.score < self.score:
            self.best, self.score = solution, parts.score
            self.improved(solution)
        return parts.time

    def _arranged(self, packed: Packed, moves: int) -> Sequence[Placement]:
        sides = np.array([(shape.width, shape.height) for shape in packed.shapes])
        slicing = guillotine(np.column_stack([packed.corners, packed.corners + sides]))
        assert slicing is not None
        chunks = max(1, moves * self.problem.n // POLL) if self.graph.ticks.any() else 0
        tree, seed = slicing[0], int(self.cuts.random.integers(2**62))
        return rearrange(
            self.problem, self.graph, packed.time, (packed.shapes, packed.corners), tree, chunks, seed, self.deadline
        )


def counted_cuts(
    problem: WaferProblem,
    seed: int,
    deadline: Deadline,
    improved: Callable[[WaferSolution], None] = lambda solution: None,
    low: int = 1,
    seconds: float | None = None,
    every: Callable[[list[WaferSolution]], None] = lambda solutions: None,
) -> WaferSolution | None:
    """The best floorplan of counted cuts found until ``deadline``; ``improved`` hears of better ones.

    No floorplan takes less than ``low`` quarters. None where no time gives a floorplan, or where there is hardly time
    for one. ``seconds``: the work of so many counts, and not what the deadline has left. ``every`` gets the floorplans
    at all times from the shortest one on.
    """
    least_work = TABLES * work(problem.width, problem.height, len(problem.type_arrays))
    if (deadline.seconds if seconds is None else seconds) * RATE < least_work:
        return None
    cuts = CountedCuts(problem, seed, inf if seconds is None else seconds * RATE)
    times = _Times(cuts, deadline, improved)
    never = problem.longest + 1
    least = times.shortest(low - 1, never, 1)
    times.later(least, LATER[:1])
    if least > low:
        least = times.shortest(low - 1, least, TRIES)
    times.later(least)
    every(times.kept)
    return times.best


def work(width: int, height: int, types: int) -> int:
    """Sums times types of a table of all rectangles up to these sides."""
    return width * height * (width + height) // 4 * types
