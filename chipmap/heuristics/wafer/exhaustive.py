"""Branch and bound over every placement of every kernel: the optimum of a tiny instance, with its proof.

All execution arguments whose box lies within the fabric and whose words fit are tried, in both orientations, at every
place, kernel by kernel. A branch ends where the terms of the kernels placed so far, with the least times of the
others, reach the incumbent.
"""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np

from chipmap.deadline import Deadline
from chipmap.instances.wafer.instance import Placement
from chipmap.instances.wafer.problem import TICKS, IntArray, WaferProblem, conv_time, memory_k, size

#: More placements than this of one kernel, or combinations of all but the last, are refused.
PLACEMENTS, COMBINATIONS = 20_000, 5_000_000


class TooLargeError(Exception):
    """There are too many placements to try them all."""


class Options:
    """The placements of one kernel as arrays: ``time``, corners ``low`` and ``high`` [m, 2], ``h``, ``w``, c's ends."""

    def __init__(self, problem: WaferProblem, i: int) -> None:
        self.placements = sorted(_placements(problem, i), key=lambda entry: entry[0])
        rows = np.array([_row(problem, time, p) for time, p in self.placements], dtype=np.int64).reshape(-1, 9)
        self.time, self.low, self.high = rows[:, 0], rows[:, 1:3], rows[:, 3:5]
        self.h, self.w, self.made, self.read = rows[:, 5], rows[:, 6], rows[:, 7], rows[:, 8]


def _row(problem: WaferProblem, time: int, p: Placement) -> tuple[int, ...]:
    width, height = size(p)
    made = p.c[-1] if problem.instance.protocol == "c_n" else min(p.c[-1], p.k[-1])
    return time, p.x, p.y, p.x + width, p.y + height, p.h, p.w, made, p.c[0]


def _placements(problem: WaferProblem, i: int) -> list[tuple[int, Placement]]:
    """(time, placement) of every execution and place of kernel ``i``."""
    convs = problem.type_arrays[int(problem.types[i])]
    side = max(problem.width, problem.height)
    found: list[tuple[int, Placement]] = []
    for h, w in product(range(1, side // 2 + 1), repeat=2):
        for cs in product(range(1, side // (h * w)), repeat=len(convs)):
            least = [int(memory_k(conv, h, w, c, problem.memory)) for conv, c in zip(convs, cs, strict=True)]
            spare = side // 3 - sum(least)
            for ks in product(*(range(k, k + spare + 1) for k in least)):
                time = max(int(conv_time(conv, h, w, c, k)) for conv, c, k in zip(convs, cs, ks, strict=True))
                p = Placement(kernel=problem.names[i], h=h, w=w, c=cs, k=ks, x=0, y=0)
                if len(found) + _room(problem, p) > PLACEMENTS:
                    raise TooLargeError(f"kernel {p.kernel!r} has more than {PLACEMENTS} placements")
                for turned in (p, p.replace(rotated=True)):
                    across, up = size(turned)
                    corners = product(range(problem.width - across + 1), range(problem.height - up + 1))
                    found += [(time, turned.replace(x=x, y=y)) for x, y in corners]
    return found


def _room(problem: WaferProblem, p: Placement) -> int:
    """In how many places a kernel's box can lie, both orientations together."""
    return sum(max(0, problem.width - a + 1) * max(0, problem.height - b + 1) for a, b in (size(p), size(p)[::-1]))


def solve(
    problem: WaferProblem, upper: int | None, deadline: Deadline = Deadline()
) -> tuple[int | None, list[Placement] | None]:
    """(score, floorplan) of the best floorplan below ``upper`` ticks; (None, None) where there is none.

    Raises :class:`TooLargeError` where there are too many placements.
    """
    options = [Options(problem, i) for i in range(problem.n)]
    order = sorted(range(problem.n), key=lambda i: len(options[i].time))
    tried = prod(len(options[i].time) for i in order[:-1])
    if tried > COMBINATIONS:
        raise TooLargeError(f"{tried} combinations of placements")
    search = Search(problem, options, order, upper, deadline)
    if all(len(one.time) for one in options):
        search.branch([], 0, 0)
    if search.chosen is None:
        return None, None
    picked = dict(zip(order, search.chosen, strict=True))
    return search.upper, [options[i].placements[picked[i]][1] for i in range(problem.n)]


class Search:
    """The state of the branch and bound: ``upper`` is the best score (exclusive), ``chosen`` its options in order."""

    def __init__(
        self, problem: WaferProblem, options: list[Options], order: list[int], upper: int | None, deadline: Deadline
    ) -> None:
        self.problem, self.options, self.order, self.upper, self.deadline = problem, options, order, upper, deadline
        self.chosen: list[int] | None = None
        rank = {i: position for position, i in enumerate(order)}
        self.edges: list[list[tuple[int, bool]]] = [[] for _ in order]
        for u, v in problem.edges.tolist():
            self.edges[max(rank[u], rank[v])].append((min(rank[u], rank[v]), rank[u] > rank[v]))
        least = [int(options[i].time.min()) if len(options[i].time) else 0 for i in order]
        self.rest = [max(least[position + 1 :], default=0) for position in range(len(order))]

    def branch(self, chosen: list[int], time: int, wired: int) -> None:
        """Try every option of the next kernel; ``wired`` are the ticks of wires and adapters so far."""
        self.deadline.check()
        position, options = len(chosen), self.options[self.order[len(chosen)]]
        free = np.ones(len(options.time), dtype=bool)
        extra = np.zeros(len(options.time), dtype=np.int64)
        for earlier, index in enumerate(chosen):
            other = self.options[self.order[earlier]]
            free &= ((options.low >= other.high[index]) | (options.high <= other.low[index])).any(axis=1)
        for earlier, makes in self.edges[position]:
            extra += self._edge(options, self.options[self.order[earlier]], chosen[earlier], makes)
        slowest = np.maximum(options.time, max(time, self.rest[position]))
        scores = self.problem.instance.weights.time * slowest + wired + extra
        allowed = np.flatnonzero(free & (scores < (np.iinfo(np.int64).max if self.upper is None else self.upper)))
        allowed = allowed[np.argsort(scores[allowed], kind="stable")]
        for index in allowed.tolist():
            if self.upper is not None and scores[index] >= self.upper:
                return
            if position + 1 == len(self.order):
                self.upper, self.chosen = int(scores[index]), [*chosen, index]
                return
            self.branch([*chosen, index], max(time, int(options.time[index])), wired + int(extra[index]))

    def _edge(self, options: Options, other: Options, index: int, makes: bool) -> IntArray:
        """Ticks of an edge between every option and a chosen one; ``makes`` says that the options' kernel produces."""
        centres = options.low + options.high
        wire = np.abs(centres - (other.low[index] + other.high[index])).sum(axis=1)
        ends = options.made != other.read[index] if makes else options.read != other.made[index]
        count = (options.h != other.h[index]).astype(np.int64) + (options.w != other.w[index]) + ends
        weights = self.problem.instance.weights
        ticks: IntArray = TICKS // 2 * weights.wire * wire + TICKS * weights.adapter * count
        return ticks
