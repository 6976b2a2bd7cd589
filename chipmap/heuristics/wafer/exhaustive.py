"""Branch and bound over every placement of every kernel: the optimum of a tiny instance, with its proof.

All execution arguments whose box lies within the fabric and whose words fit are tried, in both orientations, at every
place, kernel by kernel. A branch ends where the terms of the kernels placed so far, with the least times of the
others, reach the incumbent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from math import prod

import numpy as np

from chipmap.deadline import Deadline, Stop
from chipmap.instances.wafer.instance import Placement
from chipmap.instances.wafer.problem import TICKS, IntArray, WaferProblem, conv_time, memory_k, size

#: More placements than this of one kernel, or combinations of all but the last, are refused.
PLACEMENTS, COMBINATIONS = 20_000, 5_000_000


class TooLargeError(Exception):
    """There are too many placements to try them all."""


class Options:
    """The placements of one kernel as arrays: ``time``, corners ``low`` and ``high`` [m, 2], ``h``, ``w``, c's ends."""

    def __init__(self, problem: WaferProblem, i: int, deadline: Deadline) -> None:
        self.placements = sorted(_placements(problem, i, deadline), key=lambda entry: entry[0])
        rows = np.array([_row(problem, time, p) for time, p in self.placements], dtype=np.int64).reshape(-1, 9)
        self.time, self.low, self.high = rows[:, 0], rows[:, 1:3], rows[:, 3:5]
        self.h, self.w, self.made, self.read = rows[:, 5], rows[:, 6], rows[:, 7], rows[:, 8]


def _row(problem: WaferProblem, time: int, p: Placement) -> tuple[int, ...]:
    width, height = size(p)
    made = p.c[-1] if problem.instance.protocol == "c_n" else min(p.c[-1], p.k[-1])
    return time, p.x, p.y, p.x + width, p.y + height, p.h, p.w, made, p.c[0]


def _placements(problem: WaferProblem, i: int, deadline: Deadline) -> list[tuple[int, Placement]]:
    """(time, placement) of every execution and place of kernel ``i``."""
    convs = problem.type_arrays[int(problem.types[i])]
    side = max(problem.width, problem.height)
    found: list[tuple[int, Placement]] = []
    for h, w in product(range(1, side // 2 + 1), repeat=2):
        deadline.check()
        if 2 * h * w > side:
            continue
        for cs, ks in sorted(_Executions(problem, convs, (h, w), PLACEMENTS - len(found), deadline).all()):
            time = max(int(conv_time(conv, h, w, c, k)) for conv, c, k in zip(convs, cs, ks, strict=True))
            p = Placement(kernel=problem.names[i], h=h, w=w, c=cs, k=ks, x=0, y=0)
            if len(found) + _room(problem, p) > PLACEMENTS:
                raise TooLargeError(f"kernel {p.kernel!r} has more than {PLACEMENTS} placements")
            for turned in (p, p.replace(rotated=True)):
                across, up = size(turned)
                corners = product(range(problem.width - across + 1), range(problem.height - up + 1))
                found += [(time, turned.replace(x=x, y=y)) for x, y in corners]
    return found


#: c and k of each convolution of a kernel.
Execution = tuple[tuple[int, ...], tuple[int, ...]]


class _Executions:
    """The executions of a kernel with one h and w whose box lies within the fabric and whose words fit.

    Convolutions get their c and k in turn. A choice is left where those that follow, each at its least k, make the box
    too wide for its height. Raises :class:`TooLargeError` beyond ``most`` of them: each has a place at least.
    """

    def __init__(
        self, problem: WaferProblem, convs: IntArray, tile: tuple[int, int], most: int, deadline: Deadline
    ) -> None:
        self.problem, self.tile, self.most, self.deadline, self.count = problem, tile, most, deadline, 0
        cs = range(1, max(problem.width, problem.height) // (tile[0] * tile[1]))
        self.least = [{c: int(memory_k(conv, *tile, c, problem.memory)) for c in cs} for conv in convs]
        own = [min(of.values(), default=0) for of in self.least]
        #: The least k of the convolutions behind each one, in sum.
        self.behind = [sum(own[j + 1 :]) for j in range(len(own))]

    def all(self) -> Iterator[Execution]:
        """Every execution once."""
        return self._longer((), ())

    def _longer(self, cs: tuple[int, ...], ks: tuple[int, ...]) -> Iterator[Execution]:
        self.deadline.check()
        j = len(cs)
        if j == len(self.least):
            self.count += 1
            if self.count > self.most:
                raise TooLargeError(f"a kernel has more than {PLACEMENTS} placements")
            yield cs, ks
            return
        for c, least in self.least[j].items():
            room = self._widest(max((*cs, c))) // 3 - sum(ks) - self.behind[j]
            for k in range(least, room + 1):
                yield from self._longer((*cs, c), (*ks, k))

    def _widest(self, c: int) -> int:
        """The tiles that the fabric leaves a box beside its height with this greatest c, rotated or not."""
        height, across, up = self.tile[0] * self.tile[1] * (c + 1), self.problem.width, self.problem.height
        return max(across if height <= up else 0, up if height <= across else 0)


def _room(problem: WaferProblem, p: Placement) -> int:
    """In how many places a kernel's box can lie, both orientations together."""
    return sum(max(0, problem.width - a + 1) * max(0, problem.height - b + 1) for a, b in (size(p), size(p)[::-1]))


def solve(
    problem: WaferProblem,
    upper: int | None,
    deadline: Deadline = Deadline(),
    found: Callable[[list[Placement]], object] = lambda placements: None,
) -> tuple[int | None, list[Placement] | None]:
    """(score, floorplan) of the best floorplan below ``upper`` ticks; (None, None) where there is none.

    Raises :class:`TooLargeError` where there are too many placements, :class:`Stop` at the deadline; ``found`` gets the
    best floorplan until then.
    """
    options = [Options(problem, i, deadline) for i in range(problem.n)]
    order = sorted(range(problem.n), key=lambda i: len(options[i].time))
    tried = prod(len(options[i].time) for i in order[:-1])
    if tried > COMBINATIONS:
        raise TooLargeError(f"{tried} combinations of placements")
    search = Search(problem, options, order, upper, deadline)
    try:
        if all(len(one.time) for one in options):
            search.branch([], 0, 0)
    except Stop:
        if search.chosen is not None:
            found(search.floorplan(search.chosen))
        raise
    if search.chosen is None:
        return None, None
    return search.upper, search.floorplan(search.chosen)


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

    def floorplan(self, chosen: list[int]) -> list[Placement]:
        """The placements of all kernels by the options ``chosen`` in the search's order."""
        picked = dict(zip(self.order, chosen, strict=True))
        return [self.options[i].placements[picked[i]][1] for i in range(self.problem.n)]

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
