"""The row program for any graph of single convolutions: exact along a path, the other wires as in the last round.

The path is a topological order of the graph, whatever the order of the row. A heuristic: wires off the path see what
their other end chose one round before.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from chipmap.heuristics.wafer.rows.blocks import Node, UsefulSizes, choice_of, node_options
from chipmap.heuristics.wafer.rows.blocks_kernel import list_edge, penalty
from chipmap.heuristics.wafer.rows.chain import Chain, Row
from chipmap.instances.wafer.problem import WaferProblem


def solve_paths(
    problem: WaferProblem, row: Row, table: UsefulSizes, path: Sequence[int], rounds: int = 8
) -> Chain | None:
    """Cheap choices for ``row``; ``path`` lists its positions in the program's order. None where a kernel has none."""
    nodes = [node_options(problem, row, table, i) for i in range(len(row.order))]
    if any(len(node.cost) == 0 for node in nodes):
        return None
    best, value, chosen = None, 0, None
    for _ in range(rounds):
        chosen = _along(row, table, nodes, path, chosen)
        now = _value(row, nodes, chosen)
        if best is not None and now >= value:
            break
        best, value = chosen, now
    assert best is not None
    choices = tuple(choice_of(problem, row, table, i, nodes[i].options[at]) for i, at in enumerate(best))
    return Chain(value + row.fixed, choices)


def _value(row: Row, nodes: Sequence[Node], chosen: Sequence[int]) -> int:
    total = sum(int(node.cost[at]) for node, at in zip(nodes, chosen, strict=True))
    for (i, j), wire in row.wires.items():
        total += int(penalty(nodes[i].options[chosen[i]], nodes[j].options[chosen[j]], wire))
    return total


def _along(
    row: Row, table: UsefulSizes, nodes: Sequence[Node], path: Sequence[int], before: Sequence[int] | None
) -> list[int]:
    """The best option of each kernel by the wires along the path and those to the options ``before``."""
    on = {(min(i, j), max(i, j)) for i, j in pairwise(path)}
    costs = [node.cost.copy() for node in nodes]
    if before is not None:
        for (i, j), wire in row.wires.items():
            if (i, j) not in on:
                costs[i] += nodes[i].to(nodes[j].options[before[j]], wire)
                costs[j] += nodes[j].to(nodes[i].options[before[i]], wire)
    for i, j in pairwise(path):
        options = nodes[i].options
        costs[j] += list_edge(table.useful.space, options, costs[i], nodes[j].options, row.wire(i, j))
    chosen = [0] * len(nodes)
    for i, after in zip(reversed(path), [None, *reversed(path)], strict=False):
        cost = costs[i]
        if after is not None:
            cost = cost + nodes[i].to(nodes[after].options[chosen[after]], row.wire(i, after))
        chosen[i] = int(np.argmin(cost))
    return chosen
