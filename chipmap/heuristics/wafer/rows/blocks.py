"""The row program for chains of residual blocks of single convolutions, exact over the useful arguments.

Between two *joints* (kernels that no wire passes over) lie inner kernels in parallel, each joined to both joints, and
perhaps a wire past them: the graph has treewidth 2, and a program along the joints with the inner kernels eliminated
solves the row with all adapters and parities.

*Useful* values of h are those at which some kernel's ⌈H/h⌉ falls, and likewise for w and c. To lower a value that
joined kernels share to the next useful one keeps all times and their equality, so no other value is needed unless
memory binds (fewer tiles hold the same words) or a parity must change.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from chipmap.heuristics.wafer.rows import blocks_kernel as compiled
from chipmap.heuristics.wafer.rows.blocks_kernel import PARITY, Inner, Scratch
from chipmap.heuristics.wafer.rows.chain import Chain, Row, StripChoice
from chipmap.heuristics.wafer.rows.kernel import INF, Wire, columns
from chipmap.instances.wafer.problem import IntArray, WaferProblem


class Useful(NamedTuple):
    """Entries (h, w, c) of useful values with h · w · (c + 1) within the fabric: values and positions of each.

    ``values`` [entries, 3] holds h, w, c; ``columns`` [entries, 5] positions of h, w, c, of (h, w), and of the entry.
    """

    values: IntArray
    columns: IntArray
    space: Scratch


class UsefulSizes(NamedTuple):
    """The useful entries and each kernel type's least k [entries] at a target time (0 where none)."""

    useful: Useful
    ks: tuple[IntArray, ...]


def breakpoints(values: set[int], limit: int) -> list[int]:
    """All d <= limit at which ⌈v/d⌉ falls for some v."""
    found = {1}
    for v in values:
        found |= {-(-v // q) for q in range(1, v + 1) if -(-v // q) <= limit}
    return sorted(found)


def useful(problem: WaferProblem) -> Useful:
    """The useful entries of ``problem`` (one convolution per kernel); c + 1 comes with each c, for its parity."""
    limit = max(problem.width, problem.height)
    every = [conv for convs in problem.convs for conv in convs]
    hs = breakpoints({conv.H for conv in every}, limit // 2)
    ws = breakpoints({conv.W for conv in every}, limit // 2)
    cs = breakpoints({conv.C for conv in every}, limit - 1)
    cs = sorted({c for v in cs for c in (v, v + 1)})
    rows: list[tuple[int, int, int]] = []
    places: list[tuple[int, int, int, int, int]] = []
    pairs = 0
    for a, h in enumerate(hs):
        for b, w in enumerate(ws):
            fitting = [(i, c) for i, c in enumerate(cs) if h * w * (c + 1) <= limit]
            for i, c in fitting:
                rows.append((h, w, c))
                places.append((a, b, i, pairs, len(places)))
            pairs += bool(fitting)
    space = compiled.scratch(len(rows), pairs, len(hs), len(ws), len(cs))
    return Useful(np.array(rows, dtype=np.int64), np.array(places, dtype=np.int64), space)


def useful_sizes(problem: WaferProblem, entries: Useful, tau: int) -> UsefulSizes:
    """The sizing tables over the useful entries."""
    h, w, c = entries.values.T.copy()
    tables = (columns(convs, h, w, c, tau, problem.memory)[0] for convs in problem.type_arrays)
    return UsefulSizes(entries, tuple(tables))


class Segment(NamedTuple):
    """Two neighbouring joints of a row (positions) and the inner kernels between them."""

    first: int
    end: int
    inner: tuple[int, ...]


def segments(row: Row) -> tuple[Segment, ...] | None:
    """The row as segments; None where inner kernels are joined to one another (then the program doesn't apply)."""
    n = len(row.order)
    passed = {p for i, j in row.wires for p in range(i + 1, j)}
    joints = [p for p in range(n) if p not in passed]
    found = []
    for first, end in pairwise(joints):
        inner = tuple(range(first + 1, end))
        if any(i in inner and j in inner for i, j in row.wires):
            return None
        found.append(Segment(first, end, inner))
    return tuple(found)


class Node(NamedTuple):
    """A kernel's options (``rows_blocks_kernel``) and what each costs, in ticks."""

    options: IntArray
    cost: IntArray

    def only(self, keep: IntArray) -> Node:
        """Some of the options."""
        return Node(self.options[keep], self.cost[keep])

    def to(self, other: IntArray, wire: Wire) -> IntArray:
        """What a wire to a kernel with the option ``other`` costs with each of the options."""
        differ = (self.options[:, :3] != other[:3]).sum(axis=1)
        cost: IntArray = wire.adapter * differ + wire.half * (self.options[:, PARITY] != other[PARITY])
        return cost


def node_options(problem: WaferProblem, row: Row, table: UsefulSizes, position: int) -> Node:
    """The undominated options of the kernel at ``position`` of the row."""
    entries, ks = table.useful, table.ks[int(problem.types[row.order[position]])]
    height, width = row.strips[position]
    tiles, c = entries.values[:, 0] * entries.values[:, 1], entries.values[:, 2]
    cost, turned = compiled.strip_options(ks, tiles, c, height, width, row.prices[position])
    parity, entry = np.nonzero(cost < INF)
    options = np.column_stack([entries.columns[entry], parity, turned[parity, entry]])
    return _prune(row, table, position, Node(options, cost[parity, entry]), 0)


def _prune(row: Row, table: UsefulSizes, position: int, node: Node, since: int) -> Node:
    """Drops options that another can replace at no loss, over the wires to positions >= ``since``."""
    adapter = half = 0
    for (i, j), wire in row.wires.items():
        if position in (i, j) and i + j - position >= since:
            adapter, half = adapter + wire.adapter, half + wire.half
    return node.only(compiled.undominated(table.useful.space, node.options, node.cost, Wire(adapter, half)))


def solve_blocks(
    problem: WaferProblem, row: Row, table: UsefulSizes, parts: Sequence[Segment], most: int = 200
) -> Chain | None:
    """Cheap choices for a row of residual blocks; None where a kernel has none.

    Each kernel keeps the ``most`` options that are cheapest by the program without the wires past inner kernels; the
    program with all wires is exact over those. Then options that suit the neighbours found join, as long as that helps.
    """
    nodes = [node_options(problem, row, table, i) for i in range(len(row.order))]
    if any(len(node.cost) == 0 for node in nodes):
        return None
    ranks = marginals(row, table.useful.space, nodes, parts)
    value, best = _exact(
        row, table, [node.only(_first(rank, most)) for node, rank in zip(nodes, ranks, strict=True)], parts
    )
    while any(len(node.cost) > most for node in nodes):
        chosen = []
        for i, (node, rank) in enumerate(zip(nodes, ranks, strict=True)):
            suited = node.cost + wires_at(row, node, best, i)
            chosen.append(node.only(np.union1d(_first(rank, most // 2), _first(suited, most // 2))))
        better, options = _exact(row, table, chosen, parts)
        if better >= value:
            break
        value, best = better, options
    choices = tuple(choice_of(problem, row, table, i, option) for i, option in enumerate(best))
    return Chain(value + row.fixed, choices)


def _first(rank: IntArray, most: int) -> IntArray:
    return np.argsort(rank, kind="stable")[:most]


def wires_at(row: Row, node: Node, options: Sequence[IntArray], position: int) -> IntArray:
    """What the wires of the kernel at ``position`` cost with each of its options, the others as in ``options``."""
    total = np.zeros(len(node.cost), np.int64)
    for (i, j), wire in row.wires.items():
        if position in (i, j):
            total += node.to(options[i + j - position], wire)
    return total


def marginals(row: Row, space: Scratch, nodes: Sequence[Node], parts: Sequence[Segment]) -> list[IntArray]:
    """For each option of each kernel a lower bound on the row's cost with it: the program over a spanning tree.

    Of each block the tree has the way over the first inner kernel, and the other inner kernels at its first kernel.
    """
    ranks = [node.cost.copy() for node in nodes]

    def over(x: int, cost: IntArray, to: int) -> IntArray:
        return compiled.list_edge(space, nodes[x].options, cost, nodes[to].options, row.wire(x, to))

    for part in parts:
        for x in part.inner[1:]:
            ranks[part.first] = ranks[part.first] + over(x, nodes[x].cost, part.first)
    own, ways = [rank.copy() for rank in ranks], [(part.first, *part.inner[:1], part.end) for part in parts]
    backward = [np.zeros_like(rank) for rank in ranks]
    for way in reversed(ways):
        for x, y in zip(way[-2::-1], way[:0:-1], strict=True):
            backward[x] = over(y, own[y] + backward[y], x)
    forward = [np.zeros_like(rank) for rank in ranks]
    for part, way in zip(parts, ways, strict=True):
        for x, y in pairwise(way):
            forward[y] = over(x, own[x] + forward[x], y)
        for x in part.inner[1:]:
            forward[x] = over(part.first, own[part.first] + forward[part.first] + backward[part.first], x)
    return [a + b + c for a, b, c in zip(forward, own, backward, strict=True)]


def _exact(row: Row, table: UsefulSizes, nodes: Sequence[Node], parts: Sequence[Segment]) -> tuple[int, list[IntArray]]:
    """The program over all wires, exact over the options of ``nodes``: its value and the options chosen."""
    space = table.useful.space
    totals = {0: nodes[0]}
    for part in parts:
        first = totals[part.first] = _prune(row, table, part.first, totals[part.first], part.first + 1)
        end, direct = nodes[part.end], row.wire(part.first, part.end)
        if part.inner:
            message = compiled.block_step(
                space, first.options, first.cost, _inners(row, nodes, part), end.options, direct
            )
        else:
            message = compiled.list_edge(space, first.options, first.cost, end.options, direct)
        totals[part.end] = Node(end.options, end.cost + message)
    return int(totals[len(nodes) - 1].cost.min()), _trace(row, parts, nodes, totals)


def _inners(row: Row, nodes: Sequence[Node], part: Segment) -> tuple[Inner, ...]:
    return tuple(Inner(*nodes[x], row.wire(part.first, x), row.wire(x, part.end)) for x in part.inner)


def _trace(row: Row, parts: Sequence[Segment], nodes: Sequence[Node], totals: dict[int, Node]) -> list[IntArray]:
    end = len(nodes) - 1
    chosen = {end: totals[end].options[int(totals[end].cost.argmin())]}
    for part in reversed(parts):
        first, at = totals[part.first], chosen[part.end]
        direct = row.wire(part.first, part.end)
        if part.inner:
            _, f, xs = compiled.trace_block(first.options, first.cost, _inners(row, nodes, part), at, direct)
            for x, option in zip(part.inner, xs, strict=True):
                chosen[x] = nodes[x].options[option]
        else:
            f = int((first.cost + first.to(at, direct)).argmin())
        chosen[part.first] = first.options[f]
    return [chosen[i] for i in range(len(nodes))]


def choice_of(problem: WaferProblem, row: Row, table: UsefulSizes, position: int, option: IntArray) -> StripChoice:
    """An option of the kernel at ``position`` as execution arguments and extents."""
    entry, parity, rotated = int(option[4]), int(option[5]), bool(option[6])
    h, w, c = (int(x) for x in table.useful.values[entry])
    k = int(table.ks[int(problem.types[row.order[position]])][entry])
    if rotated:
        k += (k + parity) % 2
        return StripChoice(h, w, (c,), (k,), True, h * w * (c + 1), 3 * k)
    return StripChoice(h, w, (c,), (k,), False, 3 * k, h * w * (c + 1))
