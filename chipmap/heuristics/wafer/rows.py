"""One row of thin strips: the floorplans that win where wires and adapters weigh much.

:func:`best_row` searches the target time (``rows_times``) over the row program (``rows_chain``). What it proves for a
graph that is a path and a row in the order of the path: no floorplan whose kernels stand side by side in that order on
one centre line is better than ``bound``, over all times, execution arguments, c of a block's ends, and rotations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from chipmap.heuristics.wafer.rows_chain import Row, fit, lay, row, sizes
from chipmap.heuristics.wafer.rows_kernel import INF
from chipmap.heuristics.wafer.rows_times import Trial, search_times
from chipmap.instances.wafer.costs import Parts, WaferProblem, evaluate
from chipmap.instances.wafer.instance import Placement, WaferSolution

KeepGoing = Callable[[], bool]
Improved = Callable[[int, tuple[Placement, ...]], None]


class RowResult(NamedTuple):
    """The best row: its placements and parts (None where none fits), and ``bound`` <= every such row's score, ticks."""

    placements: tuple[Placement, ...] | None
    parts: Parts | None
    bound: int
    tried: int


def flow_order(problem: WaferProblem) -> tuple[int, ...]:
    """A topological order in which a kernel follows its latest ready producer (graphs with cycles: as numbered).

    A chain of residual blocks comes block by block, and each block's inner kernels between its ends.
    """
    missing, after = [0] * problem.n, [[] for _ in range(problem.n)]  # type: tuple[list[int], list[list[int]]]
    for u, v in problem.edges.tolist():
        missing[v] += 1
        after[u].append(v)
    ready = [v for v in range(problem.n - 1, -1, -1) if missing[v] == 0]
    order: list[int] = []
    while ready:
        order.append(u := ready.pop())
        for v in reversed(after[u]):
            missing[v] -= 1
            if missing[v] == 0:
                ready.append(v)
    return tuple(order) if len(order) == problem.n else tuple(range(problem.n))


def slowest(problem: WaferProblem) -> int:
    """A target time (quarters) that every kernel meets with all execution arguments 1, were it not for memory."""
    times = [4 * c.H * c.W * c.C * c.K * c.R * c.S for convs in problem.convs for c in convs]
    return max(times)


def best_row(
    problem: WaferProblem,
    order: Sequence[int],
    keep_going: KeepGoing,
    improved: Improved,
    cutoff: int | None = None,
) -> RowResult:
    """The best single row in ``order`` over all target times; scores from ``cutoff`` (ticks) on are of no interest."""
    line = row(problem, order)
    weight = problem.instance.weights.time

    def attempt(tau: int) -> Trial[tuple[Placement, ...]]:
        return try_row(problem, line, tau)

    times = search_times(attempt, 1, slowest(problem), weight, INF, keep_going, improved, cutoff)
    parts = evaluate(problem, times.found) if times.found is not None else None
    return RowResult(times.found, parts, times.bound, times.tried)


def try_row(problem: WaferProblem, line: Row, tau: int) -> Trial[tuple[Placement, ...]]:
    """The row program at ``tau`` quarters as a trial of the time search."""
    bound, chain = fit(problem, line, sizes(problem, tau))
    if chain is None:
        return Trial(bound, 0, tau, None)
    placements = lay(problem, line, chain.choices)
    parts = evaluate(problem, placements)
    return Trial(bound, parts.score, parts.time, placements)


def rows(problem: WaferProblem, keep_going: KeepGoing, improved: Improved) -> WaferSolution | None:
    """The best single row that is found before ``keep_going`` says no; ``improved(score, placements)`` at each step."""
    result = best_row(problem, flow_order(problem), keep_going, improved)
    if result.placements is None:
        return None
    return WaferSolution(instance=problem.instance.name, placements=result.placements)
