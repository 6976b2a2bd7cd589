"""Floorplans between obstacles and pins (C4 to C7), by numpy: kernels one by one.

A kernel takes the box of its Pareto front and the corner (:mod:`.board`) of least cost: the tiles that it takes and how
far up it reaches, or the wires to the kernels that stand. Nothing is proved, and a floorplan may be missed.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from math import isqrt

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.wafer.board import Board, Window
from chipmap.instances.wafer.instance import Placement
from chipmap.instances.wafer.pinned import Tiles, fastest_in, obeys, obeys_wires
from chipmap.instances.wafer.problem import IntArray, WaferProblem, depth_first_order, size, to_side
from chipmap.instances.wafer.shapes import Shape, front, place, tabled
from chipmap.instances.wafer.vectors import Arguments, arguments, least_widths

#: Target times between the least and the longest one, in equal ratios.
TARGETS = 25
#: Boxes of a kernel that are tried, and of one whose corner is pinned; convolutions times arguments up to which all
#: arguments are.
BOXES, PINNED, CELLS = 10, 100, 2_000_000
#: Corners of the lattice on which a floorplan is begun.
CORNERS = 40_000
#: How a kernel weighs how far up it reaches, against the tiles that it takes (None: wires decide).
LOWER: tuple[float | None, ...] = (None, 0.1, 0.5)

Made = tuple[Tiles, Placement]


class Fronts:
    """The boxes worth considering of each type of kernel at a time, kept for a few times."""

    def __init__(self, problem: WaferProblem) -> None:
        self.problem, self.limit = problem, max(problem.width, problem.height)
        every = arguments(self.limit)
        cells = sum(len(convs) for convs in problem.type_arrays) * len(every.h)
        self.arguments: Arguments = every if cells <= CELLS else every.thinned(1 + cells // CELLS)
        self.known: dict[tuple[int, int, int], list[Placement]] = {}
        self.fixed: dict[int, Placement | None] = {}

    def of(self, t: int, tau: int, most: int = BOXES) -> list[Placement]:
        """Some boxes of the Pareto front of type ``t``, those of the fewest tiles and others over its whole length.

        They are those of the type's first kernel, at (0, 0).
        """
        if (t, tau, most) not in self.known:
            convs, memory = self.problem.type_arrays[t], self.problem.memory
            if self.problem.tables[t] is None:
                boxes = front(self.problem, *least_widths(convs, tau, memory, self.limit, self.arguments))
            else:
                boxes = tabled(self.problem, t, tau)
            smallest = np.argsort(boxes[:, 0] * boxes[:, 1], kind="stable")[: most // 2]
            spread = np.linspace(0, len(boxes) - 1, min(most // 2, len(boxes))).astype(np.int64)
            chosen = np.unique(np.concatenate([smallest, spread]))
            first = int(np.flatnonzero(self.problem.types == t)[0])
            listed = (Shape(*row) for row in boxes[chosen].tolist())
            self.known[t, tau, most] = [place(self.problem, first, shape, tau, 0, 0) for shape in listed]
        return self.known[t, tau, most]

    def ways(self, board: Board, v: int, tau: int) -> Iterator[Placement]:
        """The boxes of kernel ``v`` within time ``tau``, at (0, 0); those that its pin allows."""
        pin, t = board.pins.get(v), int(self.problem.types[v])
        if pin is not None and pin.width is not None and pin.height is not None:
            if v not in self.fixed:
                self.fixed[v] = fastest_in(self.problem, v, pin.width, pin.height)
            made = self.fixed[v]
            yield from () if made is None else (made,)
            return
        for one in self.of(t, tau, BOXES if pin is None else PINNED):
            if pin is not None and (pin.width is not None or pin.height is not None):
                width, height = size(one)
                made = fastest_in(self.problem, v, pin.width or width, pin.height or height)
                yield from () if made is None else (made,)
            else:
                yield one


class Builder:
    """Puts kernels on a board."""

    def __init__(self, problem: WaferProblem, fronts: Fronts, step: int, deadline: Deadline) -> None:
        self.problem, self.fronts, self.deadline = problem, fronts, deadline
        self.board = Board(problem, step)
        self.placed: dict[int, Placement] = {}
        self.joined: list[list[int]] = [[] for _ in range(problem.n)]
        self.weights: list[list[int]] = [[] for _ in range(problem.n)]
        self.stubs: list[list[tuple[int, int]]] = [[] for _ in range(problem.n)]
        wire = 2 * problem.instance.weights.wire
        for (u, v), traffic in zip(problem.edges.tolist(), problem.traffic.tolist(), strict=True):
            for one, other in ((u, v), (v, u)):
                self.joined[one].append(other)
                self.weights[one].append(wire * traffic)
        for v, side, traffic in problem.stubs.tolist():
            self.stubs[v].append((side, wire * traffic))

    def put(self, v: int, tau: int, lower: float | None, window: Window | None = None) -> bool:
        """Give kernel ``v`` the place of least cost; False where there is none."""
        self.deadline.check()
        best: tuple[float, Placement, Tiles] | None = None
        made = [(size(one), one) for one in self.fronts.ways(self.board, v, tau)]
        least, areas = min((width * height for (width, height), _ in made), default=0), self.board.areas(v)
        beside = self.joined[v] if lower is None else ()
        for (width, height), one in made:
            corners = self.board.corners(v, (width, height), areas, beside, window)
            if not corners.allowed.any():
                continue
            across, up = self._costs(v, corners.x, corners.y, (width, height), lower)
            costs = np.where(corners.allowed, across[:, None] + up, np.inf)
            at = int(costs.argmin())
            i, j = divmod(at, costs.shape[1])
            value = float(costs[i, j]) + (0.01 if lower is None else 1.0) * (width * height - least)
            if best is None or value < best[0]:
                x, y = int(corners.x[i]), int(corners.y[j])
                best = value, one.replace(kernel=self.problem.names[v], x=x, y=y), (x, y, width, height)
        if best is None:
            return False
        _, self.placed[v], self.board.boxes[v] = best
        return True

    def _costs(
        self, v: int, x: IntArray, y: IntArray, sides: tuple[int, int], lower: float | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """What a box's column costs, and what its row costs."""
        width, height = sides
        if lower is not None:
            return 0.001 * x, lower * width * (y + height)
        across, up = 0.01 * x, 0.01 * y
        for u, wire in zip(self.joined[v], self.weights[v], strict=True):
            if u in self.board.boxes and u != v:
                left, low, wide, high = self.board.boxes[u]
                across = across + wire * np.abs(2 * x + width - 2 * left - wide)
                up = up + wire * np.abs(2 * y + height - 2 * low - high)
        for side, wire in self.stubs[v]:
            length = wire * to_side(self.problem, side, 2 * x + width, 2 * y + height)
            across, up = (across + length, up) if side < 2 else (across, up + length)
        return across, up

    def take(self, v: int) -> Made:
        """Take kernel ``v`` off the board."""
        return self.board.boxes.pop(v), self.placed.pop(v)

    def whole(self) -> list[Placement] | None:
        """The floorplan, if all kernels stand and it obeys C4, C6 and C7."""
        if len(self.placed) < self.problem.n:
            return None
        if not obeys_wires(self.problem, [self.board.boxes[v] for v in range(self.problem.n)]):
            return None
        boxes = {self.problem.names[v]: box for v, box in self.board.boxes.items()}
        return [self.placed[v] for v in range(self.problem.n)] if obeys(self.problem.instance, boxes) else None


def longest(problem: WaferProblem, deadline: Deadline = Deadline()) -> list[list[Placement]]:
    """Floorplans at the longest time."""
    return list(_Start(problem, deadline).at(max(problem.longest, 1)))


def floorplans(problem: WaferProblem, least: int, deadline: Deadline = Deadline()) -> Iterator[list[Placement]]:
    """Floorplans at the longest time, then at the shortest one down to ``least`` quarters at which they are found.

    Where defects are scattered, a lattice finds that time first; from there on every tile is looked at.
    """
    high, least = max(problem.longest, least, 1), max(1, least)
    ratio = high / least
    taus = sorted({round(least * ratio ** (step / (TARGETS - 1))) for step in range(TARGETS)})
    start = _Start(problem, deadline)
    found = yield from _told(start.at(taus[-1]))
    top = len(taus) - 1 if found else 0
    for step in sorted({start.step, 1}, reverse=True):
        start.step, low = step, 0
        while found and low < top:
            middle = (low + top) // 2
            shorter = yield from _told(start.at(taus[middle]))
            low, top = (low, middle) if shorter else (middle + 1, top)
    if not found:
        yield from start.at(taus[len(taus) // 2])


def _told(found: Iterator[list[Placement]]) -> Generator[list[Placement], None, bool]:
    """Each of ``found`` as soon as it is there; whether there was any."""
    some = False
    for one in found:
        some = True
        yield one
    return some


class _Start:
    """Floorplans from an empty board."""

    def __init__(self, problem: WaferProblem, deadline: Deadline) -> None:
        self.problem, self.deadline, self.fronts = problem, deadline, Fronts(problem)
        self.step = 1 + isqrt(problem.width * problem.height // CORNERS)
        self.order, self.any = depth_first_order(problem).tolist(), False

    def at(self, tau: int) -> Iterator[list[Placement]]:
        """The floorplans of each way to build one at time ``tau`` that ends with all kernels."""
        return (one for lower in LOWER if (one := self.build(tau, lower)) is not None)

    def build(self, tau: int, lower: float | None) -> list[Placement] | None:
        """All kernels, pins and groups first, then by wires or by size.

        Where the lattice fails and no floorplan is known yet, every tile is looked at.
        """
        if not all(self.fronts.of(t, tau) for t in range(len(self.problem.type_arrays))):
            return None
        for step in sorted({self.step, 1}, reverse=True)[: 1 if self.any else 2]:
            ahead: list[int] = []
            while True:
                made = self._begun(step, tau)
                rank = {v: self._rank(made.board, v, tau, lower) for v in self.order if v not in ahead}
                order = ahead[::-1] + sorted(rank, key=rank.__getitem__)
                missing = next((v for v in order if not made.put(v, tau, lower)), None)
                if missing is None:
                    self.any = True
                    return made.whole()
                if missing not in made.board.pins or missing in ahead:
                    break
                ahead.append(missing)  # a pinned kernel without a place has to choose before others
        return None

    def _begun(self, step: int, tau: int) -> Builder:
        """An empty board, on which pinned kernels have their least sides."""
        made = Builder(self.problem, self.fronts, step, self.deadline)
        for v in made.board.pins:
            sides = [size(one) for one in self.fronts.ways(made.board, v, tau)]
            made.board.least[v] = (min((w for w, _ in sides), default=1), min((h for _, h in sides), default=1))
        return made

    def _rank(self, board: Board, v: int, tau: int, lower: float | None) -> tuple[int, int, int, int]:
        sides = map(size, self.fronts.of(int(self.problem.types[v]), tau))
        area = min((width * height for width, height in sides), default=0)
        if v in board.pins or v in board.touching:
            return 0, v not in board.pins, 0, -area
        group = next((g for g, group in enumerate(board.together) if v in group), None)
        if group is not None:
            return 1, group, board.together[group].index(v), 0
        return 2, 0, 0, 0 if lower is None else -area
