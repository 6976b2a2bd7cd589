"""The arrays of a wafer instance, the exact sizing of a kernel, and the fast evaluation of a floorplan.

The formulas are those of ``docs/families/wafer.md``. The checker states them a second time, on its own. Times are in
quarters of a step (exact for strides 1 and 2, rounded up for others), wires in half tiles, the score in quarters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.instances.wafer.holes import Room, room
from chipmap.instances.wafer.instance import Kernel, Placement, WaferInstance, WaferSolution, wired
from chipmap.instances.wafer.wires import SIDES
from chipmap.kernels import njit
from chipmap.networks.graph import neighbours, topological
from chipmap.records import InputError, kept

#: Quarters of a step per unit of time, and ticks per unit of score.
TICKS = 4
IntArray = NDArray[np.int64]


class Convolution(NamedTuple):
    """Formal arguments of one convolution of a kernel (T is the stride); its time is ``num`` / ``den`` of the
    formula's."""

    H: int
    W: int
    R: int
    S: int
    C: int
    K: int
    T: int
    num: int = 1
    den: int = 1


def convolutions(kernel: Kernel) -> tuple[Convolution, ...]:
    """The convolutions that ``kernel`` runs one after the other (empty for inputs and outputs)."""
    share = Fraction(kernel.time_permille, 1000)
    return tuple(one._replace(num=share.numerator, den=share.denominator) for one in _unscaled(kernel))


def _unscaled(kernel: Kernel) -> tuple[Convolution, ...]:
    a = kernel.arguments
    if kernel.kind == "conv":
        return (Convolution(a["H"], a["W"], a["R"], a["S"], a["C"], a["K"], a["T"]),)
    if kernel.kind not in ("dblock", "cblock"):
        return ()
    h, w, f = a["H"], a["W"], a["F"]
    if kernel.kind == "dblock":
        return (
            Convolution(h, w, 1, 1, f, f // 4, 1),
            Convolution(h, w, 3, 3, f // 4, f // 4, 1),
            Convolution(h, w, 1, 1, f // 4, f, 1),
        )
    return (
        Convolution(h, w, 1, 1, f // 2, f // 4, 1),
        Convolution(h, w, 3, 3, f // 4, f // 4, 2),
        Convolution(h // 2, w // 2, 1, 1, f // 4, f, 1),
        Convolution(h, w, 1, 1, f // 2, f, 2),
    )


@dataclass(frozen=True, eq=False)
class WaferProblem:
    """A wafer instance as arrays over its n placed kernels, in the order of the instance.

    ``convs`` [n] holds each kernel's convolutions; ``types`` [n] numbers kernels with equal convolutions alike, so that
    sizing is done once per type; ``edges`` [m, 2] are the edges between placed kernels (with repetitions). A kernel
    with a table has no convolutions; ``tables`` by type: its boxes [count, 4], None for other kernels. ``traffic`` [m]
    weights the edges' wires (1 each by default). ``stubs`` [q, 3] are wires to sides of the fabric: kernel, number of
    the side (:data:`chipmap.instances.wafer.wires.SIDES`), traffic.
    """

    instance: WaferInstance
    names: tuple[str, ...]
    convs: tuple[tuple[Convolution, ...], ...]
    types: IntArray
    edges: IntArray
    tables: tuple[IntArray | None, ...]
    traffic: IntArray
    stubs: IntArray

    @property
    def n(self) -> int:
        """Number of placed kernels."""
        return len(self.names)

    @property
    def width(self) -> int:
        """Tiles of the fabric from left to right."""
        return self.instance.fabric.width

    @property
    def height(self) -> int:
        """Tiles of the fabric from bottom to top."""
        return self.instance.fabric.height

    @property
    def memory(self) -> int:
        """Words of memory per tile."""
        return self.instance.fabric.memory_words

    @cached_property
    def type_arrays(self) -> tuple[IntArray, ...]:
        """For each type its convolutions [count, 9] in the order of :class:`Convolution`."""
        first = [int(np.flatnonzero(self.types == t)[0]) for t in range(int(self.types.max()) + 1)]
        return tuple(np.array(self.convs[i], dtype=np.int64).reshape(-1, 9) for i in first)

    @cached_property
    def room(self) -> Room | None:
        """The free rectangles of the fabric; None where all of its tiles are free (C5)."""
        fabric = self.instance.fabric
        return room(fabric) if fabric.has_holes else None

    @cached_property
    def touching(self) -> tuple[tuple[int, int], ...]:
        """(kernel, number of a side) for each side that a kernel has to border on (C6)."""
        of = {one.kernel: SIDES.index(one.side) for one in self.instance.sides if one.touch}
        number = {name: v for v, name in enumerate(self.names)}
        ends = [(u, v) for edge in self.instance.edges for u, v in (edge, edge[::-1]) if u in of and v in number]
        return tuple(sorted({(number[v], of[u]) for u, v in ends}))

    def fits(self, widths: IntArray, heights: IntArray) -> NDArray[np.bool_]:
        """Whether boxes of these sides have a place on the fabric, each alone."""
        inside: NDArray[np.bool_] = (widths <= self.width) & (heights <= self.height)
        return inside if self.room is None else inside & self.room.fits(widths, heights)

    @property
    def free_tiles(self) -> int:
        """Tiles that kernels may cover."""
        return self.width * self.height if self.room is None else self.room.tiles

    @cached_property
    def longest(self) -> int:
        """Quarters of the slowest kernel with all its execution arguments 1: no execution of any kernel is slower."""
        tabled = [int(table[:, 2].max()) for table in self.tables if table is not None]
        formulas = (int(conv_time(conv, 1, 1, 1, 1)) for convs in self.type_arrays for conv in convs)
        return max((*formulas, *tabled))

    def time_of(self, v: int, p: Placement) -> int:
        """The quarters that kernel ``v`` takes so run; of a table, those of its fastest choice of that box."""
        t = int(self.types[v])
        if (table := self.tables[t]) is not None:
            rows = table[(table[:, 0] == p.w) & (table[:, 1] == p.h)]
            fits = rows[rows[:, 3] <= self.memory]
            return int((fits if len(fits) else rows)[:, 2].min(initial=self.longest))
        convs = zip(self.type_arrays[t], p.c, p.k, strict=True)
        return max(int(conv_time(conv, p.h, p.w, c, k)) for conv, c, k in convs)

    def score(self, time: int, wire: int, adapters: int) -> int:
        """The objective in ticks: w_t · max time + w_l · wire + w_a · adapters (quarters, half tiles, a count)."""
        weights = self.instance.weights
        return weights.time * time + 2 * weights.wire * wire + TICKS * weights.adapter * adapters


def wafer_problem(instance: WaferInstance) -> WaferProblem:
    """The arrays of ``instance`` (kept with it, as instances never change)."""
    return kept(instance, "_problem", _build)


def formulas_only(instance: WaferInstance) -> WaferProblem:
    """:func:`wafer_problem` for methods that know the contest's problem alone: :class:`InputError` where a kernel has a
    table, and for sides, traffic and limits on lines."""
    problem = wafer_problem(instance)
    remedy = "Methods that know them: wafer/auto, wafer/greedy, wafer/cpsat, wafer/mip."
    if any(table is not None for table in problem.tables):
        raise InputError("has kernels with tables of choices, which this method doesn't know", instance.name, remedy)
    if wired(instance):
        what = "has sides, traffic or limits on lines, which this method doesn't know"
        raise InputError(what, instance.name, remedy)
    return problem


def _build(instance: WaferInstance) -> WaferProblem:
    placed = [kernel for kernel in instance.kernels if kernel.placed]
    convs = tuple(convolutions(kernel) for kernel in placed)
    index = {kernel.name: i for i, kernel in enumerate(placed)}
    kinds = list(zip(convs, (_table(kernel) for kernel in placed), strict=True))
    numbers = {kind: t for t, kind in enumerate(dict.fromkeys(kinds))}
    weighted = list(zip(instance.edges, instance.traffic or (1,) * len(instance.edges), strict=True))
    edges = [(index[u], index[v]) for u, v in instance.edges if u in index and v in index]
    sides = {one.kernel: SIDES.index(one.side) for one in instance.sides}
    stubs = [
        (index[v], sides[u], traffic)
        for edge, traffic in weighted
        for u, v in (edge, edge[::-1])
        if u in sides and v in index
    ]
    return WaferProblem(
        instance=instance,
        names=tuple(kernel.name for kernel in placed),
        convs=convs,
        types=np.array([numbers[kind] for kind in kinds], dtype=np.int64),
        edges=np.array(edges, dtype=np.int64).reshape(-1, 2),
        tables=tuple(np.array(rows, dtype=np.int64) if rows else None for _, rows in numbers),
        traffic=np.array([t for (u, v), t in weighted if u in index and v in index], dtype=np.int64),
        stubs=np.array(stubs, dtype=np.int64).reshape(-1, 3),
    )


def _table(kernel: Kernel) -> tuple[tuple[int, int, int, int], ...]:
    """Width and height in tiles, quarters and words of each choice."""
    return tuple(
        (one.width, one.height, -(-TICKS * one.time * kernel.time_permille // 1000), one.memory_words)
        for one in kernel.choices
    )


def depth_first_order(problem: WaferProblem) -> IntArray:
    """[n] the kernels in depth-first topological order: each follows the last of its producers at once.

    Kernels on a cycle have no place in such an order. They come last, in the order of the instance.
    """
    came = count()
    order = topological(neighbours(problem.n, problem.edges.tolist()), lambda _: -next(came))
    return np.array(order + sorted(set(range(problem.n)) - set(order)), dtype=np.int64)


@njit(part=True)
def ceil_div(a: int, b: int) -> int:
    """⌈a / b⌉ for b > 0."""
    return -(-a // b)


@njit(cache=True, nogil=True)
def conv_time(conv: IntArray, h: int, w: int, c: int, k: int) -> int:
    """Quarters of a step: ⌈4 · ⌈H/h⌉⌈W/w⌉⌈C/c⌉⌈K/k⌉ · RS/T² · num/den⌉."""
    steps = ceil_div(conv[0], h) * ceil_div(conv[1], w) * ceil_div(conv[4], c) * ceil_div(conv[5], k)
    return ceil_div(4 * steps * conv[2] * conv[3] * conv[7], conv[6] * conv[6] * conv[8])


@njit(cache=True, nogil=True)
def longest(conv: IntArray) -> int:
    """Quarters within which one tile of a convolution runs all of it; no longer time need be told apart, and products
    of this one stay within 64 bits."""
    return ceil_div(
        4 * conv[0] * conv[1] * conv[2] * conv[3] * conv[4] * conv[5] * conv[7], conv[6] * conv[6] * conv[8]
    )


@njit(cache=True, nogil=True)
def memory_k(conv: IntArray, h: int, w: int, c: int, memory: int) -> int:
    """The smallest k whose words fit: ⌈(C/c · RS + (W+S-1)/w · (H+R-1)/h) · K / memory⌉, exactly."""
    weights = conv[4] * conv[2] * conv[3] * w * h
    halo = (conv[1] + conv[3] - 1) * (conv[0] + conv[2] - 1) * c
    return max(1, ceil_div((weights + halo) * conv[5], c * w * h * memory))


@njit(cache=True, nogil=True)
def least_k(conv: IntArray, h: int, w: int, c: int, tau: int, memory: int) -> int:
    """The smallest k of a convolution with h, w, c that runs within ``tau`` quarters and fits; 0 where none does.

    k = max(⌈K / ⌊τ/A⌋⌉, memory) with A = ⌈H/h⌉⌈W/w⌉⌈C/c⌉RS/T² · num/den: exact, unlike the slides' rounded quotient.
    """
    steps = 4 * ceil_div(conv[0], h) * ceil_div(conv[1], w) * ceil_div(conv[4], c) * conv[2] * conv[3] * conv[7]
    rounds = (min(tau, longest(conv)) * conv[6] * conv[6] * conv[8]) // steps
    if rounds == 0:
        return 0
    return max(ceil_div(conv[5], min(rounds, conv[5])), memory_k(conv, h, w, c, memory))


@njit(cache=True, nogil=True)
def least_widths(convs: IntArray, tau: int, memory: int, limit: int, most_c: int) -> tuple[IntArray, IntArray]:
    """For each height the least width of a kernel (unrotated) that runs within ``tau`` quarters, and how.

    ``convs`` [count, 9]. Returns widths [limit + 1] (0 where no h·w·(c+1) equals that height, or the time can't be
    met) and the arguments [limit + 1, 3] h, w, c of a kernel of that width. Equal c for all convolutions loses no
    shape (paper, "A Simplification"). h, w and c may exceed H, W and C: that costs tiles and saves memory only.
    ``most_c`` > 0 limits c.
    """
    widths = np.zeros(limit + 1, np.int64)
    how = np.zeros((limit + 1, 3), np.int64)
    for h in range(1, limit // 2 + 1):
        for w in range(1, limit // (2 * h) + 1):
            end = limit // (h * w)
            if most_c > 0:
                end = min(end, most_c + 1)
            for c in range(1, end):
                width = 0
                for i in range(len(convs)):
                    k = least_k(convs[i], h, w, c, tau, memory)
                    if k == 0:
                        width = 0
                        break
                    width += 3 * k
                height = h * w * (c + 1)
                if width > 0 and (widths[height] == 0 or width < widths[height]):
                    widths[height] = width
                    how[height, 0], how[height, 1], how[height, 2] = h, w, c
    return widths, how


def least_ks(convs: IntArray, h: int, w: int, cs: Sequence[int], tau: int, memory: int) -> tuple[int, ...] | None:
    """The smallest k of every convolution with h, w and its own c within ``tau`` quarters; None where one has none."""
    ks = tuple(int(least_k(conv, h, w, c, tau, memory)) for conv, c in zip(convs, cs, strict=True))
    return None if 0 in ks else ks


class Parts(NamedTuple):
    """A floorplan's score (ticks) and its parts: quarters of a step, half tiles, a count."""

    score: int
    time: int
    wire: int
    adapters: int


def evaluate(problem: WaferProblem, placements: Sequence[Placement]) -> Parts:
    """The score of ``placements``, one per placed kernel in the order of the problem. Checks nothing."""
    centres, time = [], 0
    for v, p in enumerate(placements):
        time = max(time, problem.time_of(v, p))
        width, height = size(p)
        centres.append((2 * p.x + width, 2 * p.y + height))
    wire = adapters = 0
    for v, side, traffic in problem.stubs.tolist():
        wire += traffic * to_side(problem, side, *centres[v])
    for (u, v), traffic in zip(problem.edges.tolist(), problem.traffic.tolist(), strict=True):
        wire += traffic * (abs(centres[u][0] - centres[v][0]) + abs(centres[u][1] - centres[v][1]))
        a, b = placements[u], placements[v]
        if not (a.k and b.k):
            continue
        out = a.c[-1] if problem.instance.protocol == "c_n" else min(a.c[-1], a.k[-1])
        adapters += (a.h != b.h) + (a.w != b.w) + (out != b.c[0])
    return Parts(problem.score(time, wire, adapters), time, wire, adapters)


def to_side(problem: WaferProblem, side: int, across: Any, up: Any) -> Any:
    """The half tiles from a centre, given in half tiles (numbers or a model's expressions), to a side."""
    return (across, 2 * problem.width - across, up, 2 * problem.height - up)[side]


def in_order(problem: WaferProblem, solution: WaferSolution) -> list[Placement]:
    """The placements of ``solution`` in the order of the problem's kernels."""
    by_name = {placement.kernel: placement for placement in solution.placements}
    return [by_name[name] for name in problem.names]


def size(placement: Placement) -> tuple[int, int]:
    """(width, height) of a placed kernel in tiles: 3 Σ k and h · w · (max c + 1), swapped where rotated.

    Of a kernel with a table: w and h.
    """
    width, height = placement.w, placement.h
    if placement.k:
        width, height = 3 * sum(placement.k), placement.h * placement.w * (max(placement.c) + 1)
    return (height, width) if placement.rotated else (width, height)
