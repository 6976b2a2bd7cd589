"""C3, the chip triangle, with its redundant rows and its sufficient restriction."""

from __future__ import annotations

from itertools import combinations, permutations

import pyomo.environ as pyo

from chipmap.deadline import look
from chipmap.instances.ring.precedence import skips
from chipmap.instances.ring.problem import RingProblem


def c3_triangle_edge(block: pyo.Block, problem: RingProblem) -> None:
    """C3: ``edge[a, b]`` >= on[u, a] + on[v, b] - 1 for every flow (u, v) and chips a ≠ b (a < b with C1).

    The readers v of one producer u share ``reads[u, b]`` >= on[v, b]. Continuous; only the lower side is needed.
    """
    on = block.on
    pairs = _paths(problem, 2)
    edge = block.edge = pyo.Var(pairs, bounds=(0, 1))
    readers: dict[int, list[int]] = {}
    for u, v in problem.flows.tolist():
        readers.setdefault(u, []).append(v)
    several = [u for u, group in readers.items() if len(group) > 1]
    reads = block.reads = pyo.Var(several, range(problem.chips), bounds=(0, 1))
    links = block.c3_triangle_reads = pyo.Constraint(pyo.Any)
    for u in several:
        for v in readers[u]:
            look()
            for c in range(problem.chips):
                links[u, v, c] = reads[u, c] >= on[v, c]
    rows = block.c3_triangle_edge = pyo.Constraint(pyo.Any)
    for u, group in readers.items():
        one = len(group) == 1
        made = [on[u, c] for c in range(problem.chips)]
        read = [on[group[0], c] if one else reads[u, c] for c in range(problem.chips)]
        for a, b in pairs:
            look()
            if not (made[a].fixed or read[b].fixed):  # both can only be fixed to 0
                rows[u, a, b] = made[a] + read[b] - edge[a, b] <= 1


def c3_triangle_reach(block: pyo.Block, problem: RingProblem) -> None:
    """C3: ``reach`` contains the transitive closure of ``edge``: reach[a, b] >= reach[a, c] + edge[c, b] - 1."""
    edge = block.edge
    reach = block.reach = pyo.Var(_paths(problem, 2), bounds=(0, 1))
    rows = block.c3_triangle_reach = pyo.Constraint(pyo.Any)
    for a, b in _paths(problem, 2):
        look()
        rows[a, b] = reach[a, b] >= edge[a, b]
    for a, c, b in _paths(problem, 3):
        look()
        rows[a, c, b] = reach[a, b] >= reach[a, c] + edge[c, b] - 1


def c3_triangle(block: pyo.Block, problem: RingProblem) -> None:
    """C3: edge[a, b] + reach[a, c] + edge[c, b] <= 2 for distinct chips a, c, b (equation 4)."""
    edge, reach = block.edge, block.reach
    rows = block.c3_triangle = pyo.Constraint(pyo.Any)
    for a, c, b in _paths(problem, 3):
        look()
        rows[a, c, b] = edge[a, b] + reach[a, c] + edge[c, b] <= 2


def c3_triangle_path(block: pyo.Block, problem: RingProblem) -> None:
    """Sufficient for C3 with C1: f(v) <= f(u) + 1, that is step[v, c + 1] >= step[u, c], on every flow (u, v)."""
    step = block.step
    rows = block.c3_triangle_path = pyo.Constraint(pyo.Any)
    for u, v in problem.flows.tolist():
        for c in range(problem.chips - 1):
            look()
            rows[u, v, c] = step[v, c + 1] >= step[u, c]


def cut_n1(block: pyo.Block, problem: RingProblem) -> None:
    """Necessary for C1 with C3: w between the ends of a flow (u, v) sits with one of them.

    (step[u, c - 1] - step[w, c - 1]) + (step[w, c] - step[v, c]) <= 1: w is not both past u by c and short of v at c.
    Valid for every solution. Flows inside other flows are left out: their rows are dominated, since step[u] >= step[w]
    >= step[v] (:func:`chipmap.instances.ring.precedence.skips`).
    """
    step = block.step
    rows = block.cut_n1 = pyo.Constraint(pyo.Any)
    for u, w, v in skips(problem).tolist():
        for c in range(1, problem.chips - 1):
            look()
            rows[u, w, v, c] = step[u, c - 1] - step[w, c - 1] + step[w, c] - step[v, c] <= 1


def cut_average(block: pyo.Block, problem: RingProblem, scale: int) -> None:
    """T1 >= ⌈Σ time / C⌉ and T1 >= the longest operation: some chip has the average, and one has that operation."""
    block.slowest["T1"].setlb(problem.least_ticks / scale)


def _paths(problem: RingProblem, length: int) -> list[tuple[int, ...]]:
    """So many chips one after the other, through which data can flow."""
    return list((combinations if problem.has("C1") else permutations)(range(problem.chips), length))
