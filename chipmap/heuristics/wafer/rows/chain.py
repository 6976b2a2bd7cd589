"""The row program at a target time: the cheapest strips for kernels side by side in a given order.

Kernels of a row stand on one centre line in the order given, without gaps. A wire then costs half the width of each of
its two kernels and the whole width of every kernel between them, so that wires are Σ λ_i · width_i (λ_i = half the
wires that end at i plus the wires that pass over i) plus half a tile for every wire between an odd and an even extent.
Hence for a fixed order the cost is a sum over kernels (λ_i · width_i) and over wires (parity, adapters): a program
along the chain over (parity, h, w, c) solves it exactly where every wire joins neighbours of the order. Other wires
count in λ only; their adapters and parities are left out, and the value is a lower bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np

from chipmap.heuristics.wafer.rows import kernel as compiled
from chipmap.heuristics.wafer.rows.kernel import INF, Grid, Strip, Wire, columns
from chipmap.instances.wafer.instance import Placement
from chipmap.instances.wafer.problem import TICKS, IntArray, WaferProblem


class StripChoice(NamedTuple):
    """Execution arguments of a kernel in its strip; ``along`` and ``up`` are its extents in tiles."""

    h: int
    w: int
    c: tuple[int, ...]
    k: tuple[int, ...]
    rotated: bool
    along: int
    up: int

    def place(self, name: str, x: int, y: int) -> Placement:
        """The placement of kernel ``name`` with its lower left corner at (x, y), the row lying along x."""
        return Placement(kernel=name, h=self.h, w=self.w, c=self.c, k=self.k, x=x, y=y, rotated=self.rotated)


class Sizes(NamedTuple):
    """A problem's sizing tables at a target time: ``ks`` holds one table of :func:`columns` per kernel type."""

    grid: Grid
    ks: tuple[IntArray, ...]


_grid = cache(compiled.grid)


def sizes(problem: WaferProblem, tau: int) -> Sizes:
    """The sizing tables of every kernel type at ``tau`` quarters."""
    g = _grid(max(problem.width, problem.height))
    return Sizes(g, tuple(columns(convs, g.h, g.w, g.c, tau, problem.memory) for convs in problem.type_arrays))


@dataclass(frozen=True)
class Row:
    """Kernels side by side: their order and what their extents and wires cost, by position in the order.

    A kernel's tile along the row costs ``prices`` [n] ticks; ``strips`` [n] are the most tiles (across, along) of each;
    ``wires`` gives for positions i < j that are joined what differing arguments and parities cost, and ``fixed`` what
    the layout costs besides, in ticks.
    """

    order: tuple[int, ...]
    prices: tuple[int, ...]
    strips: tuple[tuple[int, int], ...]
    wires: dict[tuple[int, int], Wire]
    fixed: int = 0

    def wire(self, i: int, j: int) -> Wire:
        """The wire between two positions, one that costs nothing where there is none."""
        return self.wires.get((min(i, j), max(i, j)), Wire(0, 0))

    def dearer(self, more: int) -> Row:
        """The same row with every tile along it ``more`` ticks dearer."""
        return replace(self, prices=tuple(price + more for price in self.prices))


def row(problem: WaferProblem, order: Sequence[int]) -> Row:
    """The single row of all kernels in ``order``, across the whole fabric."""
    weights = problem.instance.weights
    half, adapter = 2 * weights.wire, TICKS * weights.adapter
    joints = Counter((a, b) for a, b in joined(problem, order).tolist())
    wires = {joint: Wire(count * adapter, count * half) for joint, count in joints.items()}
    prices = tuple((half * pulls(problem, order)[0]).tolist())
    return Row(tuple(order), prices, ((problem.height, problem.width),) * len(order), wires)


def joined(problem: WaferProblem, order: Sequence[int] | IntArray) -> IntArray:
    """[m, 2] the two positions of the order, ascending, that each wire joins."""
    ends: IntArray = np.sort(np.argsort(order)[problem.edges], axis=1)
    return ends


def pulls(problem: WaferProblem, order: Sequence[int] | IntArray) -> tuple[IntArray, IntArray]:
    """(weights [n], cuts [n + 1]): half tiles of wire per tile of width in one row, and wires across every gap."""
    weights, cuts = np.zeros(problem.n, np.int64), np.zeros(problem.n + 1, np.int64)
    for first, last in joined(problem, order).tolist():
        weights[[first, last]] += 1
        weights[first + 1 : last] += 2
        cuts[first + 1 : last + 1] += 1
    return weights, cuts


class Chain(NamedTuple):
    """Value of a chain program in ticks (wires and adapters, as far as it sees them) and the choices in its order."""

    value: int
    choices: tuple[StripChoice, ...]

    @property
    def along(self) -> int:
        """Tiles along the row."""
        return sum(choice.along for choice in self.choices)


def solve_chain(problem: WaferProblem, row: Row, sizes: Sizes) -> Chain | None:
    """The cheapest choices for ``row``; None where a kernel has none.

    Exact over execution arguments (c of a block's first and last convolution may differ), rotation and parity.
    """
    strips = []
    for i, (height, width) in enumerate(row.strips):
        wire = row.wire(i, i + 1)
        strips.append(Strip(height, width, row.prices[i], 3 * wire.adapter + wire.half))
    arrived: list[IntArray] = []
    left: list[IntArray] = []
    message = np.zeros((2, len(sizes.grid.h)), np.int64)
    for i, kernel in enumerate(row.order):
        if i:
            message = compiled.edge_step(left[-1], sizes.grid, row.wire(i - 1, i))
        arrived.append(message)
        left.append(compiled.node_step(message, sizes.ks[int(problem.types[kernel])], sizes.grid, strips[i]))
        if left[-1].min() >= INF:
            return None
    return Chain(int(left[-1].min()) + row.fixed, _trace(problem, row, sizes, strips, arrived, left))


def _trace(
    problem: WaferProblem,
    row: Row,
    sizes: Sizes,
    strips: Sequence[Strip],
    arrived: Sequence[IntArray],
    left: Sequence[IntArray],
) -> tuple[StripChoice, ...]:
    g = sizes.grid
    parity, j = (int(x) for x in np.unravel_index(int(left[-1].argmin()), left[-1].shape))
    choices: list[StripChoice] = []
    for i in range(len(row.order) - 1, -1, -1):
        ks = sizes.ks[int(problem.types[row.order[i]])]
        q = int(np.searchsorted(g.start, j, side="right")) - 1
        first, highest, rotated = compiled.trace_node(
            arrived[i], ks, g, strips[i], q, parity, j, int(left[i][parity, j])
        )
        assert highest > 0, "a message has no choice behind it"
        cs = (first, highest, int(g.c[j]))
        choices.append(_choice(ks, g, q, cs, bool(rotated), parity))
        if i:
            j = int(g.start[q]) + first - 1
            value = int(arrived[i][parity, j])
            parity, j = compiled.trace_edge(left[i - 1], g, row.wire(i - 1, i), parity, j, value)
            assert j >= 0, "a message has no entry behind it"
    return tuple(reversed(choices))


def _choice(ks: IntArray, g: Grid, q: int, cs: tuple[int, int, int], rotated: bool, parity: int) -> StripChoice:
    first, highest, last = cs
    h, w = (int(x) for x in g.pairs[q])
    c = [highest] * len(ks)
    c[0], c[-1] = first, last
    k = [int(row[g.start[q] + one - 1]) for row, one in zip(ks, c, strict=True)]
    if rotated and sum(k) % 2 != parity:
        k[0] += 1
    across, along = h * w * (highest + 1), 3 * sum(k)
    if rotated:
        across, along = along, across
    return StripChoice(h, w, tuple(c), tuple(k), rotated, along, across)


Solver = Callable[[Row], Chain | None]


def fit(row: Row, solve: Solver, width: int, rounds: int = 16) -> tuple[int, Chain | None]:
    """The row program with all kernels within ``width`` tiles: (lower bound in ticks, best chain found).

    Where the cheapest choices are too wide, a multiplier on the width is searched by bisection: the bound is the
    Lagrangian's, and the chain the cheapest that fits. (INF, None) where no choice fits.
    """
    chain = solve(row)
    if chain is None:
        return INF, None
    if chain.along <= width:
        return chain.value, chain
    bound, best, low, high = chain.value, None, 0, 0
    multiplier = max(1, min(row.prices))
    while rounds > 0 and (high == 0 or high - low > 1):
        rounds -= 1
        chain = solve(row.dearer(multiplier))
        assert chain is not None
        bound = max(bound, chain.value - multiplier * width)
        if chain.along <= width:
            chain = chain._replace(value=chain.value - multiplier * chain.along)
            if best is None or chain.value < best.value:
                best = chain
            high = multiplier
        else:
            low = multiplier
            if multiplier > 1 << 30:
                return INF, None
        multiplier = (low + high) // 2 if high else 8 * multiplier
    return bound, best


def lay(problem: WaferProblem, row: Row, choices: Sequence[StripChoice]) -> tuple[Placement, ...]:
    """The single row as placements in the order of the problem, centred across the fabric."""
    placed: dict[int, Placement] = {}
    x = (problem.width - sum(choice.along for choice in choices)) // 2
    for kernel, choice in zip(row.order, choices, strict=True):
        placed[kernel] = choice.place(problem.names[kernel], x, (problem.height - choice.up) // 2)
        x += choice.along
    return tuple(placed[i] for i in range(problem.n))
