"""The row program at a target time: the cheapest strips for kernels side by side in a given order.

Kernels of a row stand on one centre line in the order given, without gaps. A wire then costs half the width of each of
its two kernels and the whole width of every kernel between them, so that wires are Σ λ_i · width_i (λ_i = half the
wires that end at i plus the wires that pass over i) plus half a tile for every wire between an odd and an even extent.
Hence for a fixed order the cost is a sum over kernels (λ_i · width_i) and over wires (parity, adapters): a program
along the chain over (parity, h, w, c) solves it exactly where every wire joins neighbours of the order. Other wires
count in λ only; their adapters and parities are left out, and the value is a lower bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from chipmap.heuristics.wafer.rows_kernel import (
    INF,
    Grid,
    Strip,
    columns,
    edge_step,
    grid,
    node_step,
    trace_edge,
    trace_node,
)
from chipmap.instances.wafer.costs import TICKS, IntArray, WaferProblem
from chipmap.instances.wafer.instance import Placement


class Choice(NamedTuple):
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
    """A problem's sizing tables at ``tau`` quarters: ``ks`` holds one table of :func:`columns` per kernel type."""

    tau: int
    grid: Grid
    ks: tuple[IntArray, ...]


_GRIDS: dict[int, Grid] = {}


def sizes(problem: WaferProblem, tau: int) -> Sizes:
    """The sizing tables of every kernel type at ``tau`` quarters."""
    limit = max(problem.width, problem.height)
    g = _GRIDS[limit] if limit in _GRIDS else _GRIDS.setdefault(limit, grid(limit))
    return Sizes(tau, g, tuple(columns(convs, g, tau, problem.memory) for convs in problem.type_arrays))


@dataclass(frozen=True)
class Row:
    """Kernels side by side: their order, ``lambdas`` [n] in half wires, wires to the next kernel ``joined`` [n - 1].

    ``strips`` (height, width) bounds each kernel's extents across and along the row.
    """

    order: tuple[int, ...]
    lambdas: tuple[int, ...]
    joined: tuple[int, ...]
    strips: tuple[tuple[int, int], ...]


def row(problem: WaferProblem, order: Sequence[int]) -> Row:
    """The single row of all kernels in ``order``, across the whole fabric."""
    place = {kernel: i for i, kernel in enumerate(order)}
    lambdas, joined = [0] * len(order), [0] * (len(order) - 1)
    for u, v in problem.edges.tolist():
        a, b = sorted((place[u], place[v]))
        lambdas[a] += 1
        lambdas[b] += 1
        for i in range(a + 1, b):
            lambdas[i] += 2
        if b == a + 1:
            joined[a] += 1
    strips = ((problem.height, problem.width),) * len(order)
    return Row(tuple(order), tuple(lambdas), tuple(joined), strips)


class Chain(NamedTuple):
    """Value of a chain program in ticks (wires and adapters, as far as it sees them) and the choices in its order."""

    value: int
    choices: tuple[Choice, ...]


def solve_chain(problem: WaferProblem, row: Row, sizes: Sizes, multiplier: int = 0) -> Chain | None:
    """The cheapest choices for ``row``, each tile along it costing ``multiplier`` more; None where a kernel has none.

    Exact over execution arguments (c of a block's first and last convolution may differ), rotation and parity.
    """
    weights = problem.instance.weights
    half, adapter = 2 * weights.wire, TICKS * weights.adapter
    strips = []
    for i, (height, width) in enumerate(row.strips):
        wires = row.joined[i] if i < len(row.joined) else 0
        slack = wires * (3 * adapter + half)
        strips.append(Strip(height, width, half * row.lambdas[i] + multiplier, slack))
    arrived: list[IntArray] = []
    left: list[IntArray] = []
    message = np.zeros((2, len(sizes.grid.h)), np.int64)
    for i, kernel in enumerate(row.order):
        if i:
            message = edge_step(left[-1], sizes.grid, row.joined[i - 1] * adapter, row.joined[i - 1] * half)
        arrived.append(message)
        left.append(node_step(message, sizes.ks[int(problem.types[kernel])], sizes.grid, strips[i]))
        if left[-1].min() >= INF:
            return None
    return Chain(int(left[-1].min()), _trace(problem, row, sizes, strips, arrived, left))


def _trace(
    problem: WaferProblem,
    row: Row,
    sizes: Sizes,
    strips: Sequence[Strip],
    arrived: Sequence[IntArray],
    left: Sequence[IntArray],
) -> tuple[Choice, ...]:
    weights, g = problem.instance.weights, sizes.grid
    parity, j = (int(x) for x in np.unravel_index(int(left[-1].argmin()), left[-1].shape))
    choices: list[Choice] = []
    for i in range(len(row.order) - 1, -1, -1):
        ks = sizes.ks[int(problem.types[row.order[i]])]
        q = int(np.searchsorted(g.start, j, side="right")) - 1
        first, highest, rotated = trace_node(arrived[i], ks, g, strips[i], q, parity, j, int(left[i][parity, j]))
        assert highest > 0, "a message has no choice behind it"
        start = int(g.start[q])
        choices.append(_choice(ks, g, q, (first, highest, int(g.c[j])), bool(rotated), parity))
        if i:
            wires = row.joined[i - 1]
            value = int(arrived[i][parity, start + first - 1])
            adapter, half = TICKS * weights.adapter * wires, 2 * weights.wire * wires
            parity, j = trace_edge(left[i - 1], g, adapter, half, parity, start + first - 1, value)
            assert j >= 0, "a message has no entry behind it"
    return tuple(reversed(choices))


def _choice(ks: IntArray, g: Grid, q: int, cs: tuple[int, int, int], rotated: bool, parity: int) -> Choice:
    first, highest, last = cs
    count, start = len(ks), int(g.start[q])
    h, w = (int(x) for x in g.pairs[q])
    c = [highest] * count
    c[0], c[-1] = first, last
    k = [int(ks[i, start + c[i] - 1]) for i in range(count)]
    if rotated and sum(k) % 2 != parity:
        k[0] += 1
    across, along = h * w * (highest + 1), 3 * sum(k)
    if rotated:
        across, along = along, across
    return Choice(h, w, tuple(c), tuple(k), rotated, along, across)


def fit(problem: WaferProblem, row: Row, sizes: Sizes, rounds: int = 16) -> tuple[int, Chain | None]:
    """The row program with all kernels within the fabric's width: (lower bound in ticks, best chain found).

    Where the cheapest choices are too wide, a multiplier on the width is searched by bisection: the bound is the
    Lagrangian's, and the chain the cheapest that fits. (INF, None) where no choice fits.
    """
    chain = solve_chain(problem, row, sizes)
    if chain is None:
        return INF, None
    if _width(chain) <= problem.width:
        return chain.value, chain
    bound, best = chain.value, None
    low, high = 0, 0
    multiplier = max(1, 2 * problem.instance.weights.wire // 4)
    while rounds > 0 and (high == 0 or high - low > 1):
        rounds -= 1
        chain = solve_chain(problem, row, sizes, multiplier)
        assert chain is not None
        bound = max(bound, chain.value - multiplier * problem.width)
        width = _width(chain)
        if width <= problem.width:
            value = chain.value - multiplier * width
            if best is None or value < best.value:
                best = chain._replace(value=value)
            high = multiplier
        else:
            low = multiplier
            if multiplier > 1 << 30:
                return INF, None
        multiplier = (low + high) // 2 if high else 8 * multiplier
    return bound, best


def _width(chain: Chain) -> int:
    return sum(choice.along for choice in chain.choices)


def lay(problem: WaferProblem, row: Row, choices: Sequence[Choice]) -> tuple[Placement, ...]:
    """The single row as placements in the order of the problem, centred across the fabric."""
    placed: dict[int, Placement] = {}
    x = (problem.width - sum(choice.along for choice in choices)) // 2
    for kernel, choice in zip(row.order, choices, strict=True):
        placed[kernel] = choice.place(problem.names[kernel], x, (problem.height - choice.up) // 2)
        x += choice.along
    return tuple(placed[i] for i in range(problem.n))
