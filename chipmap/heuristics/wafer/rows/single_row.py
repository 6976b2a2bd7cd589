"""Rows of thin strips, single or folded: the floorplans that win where wires and adapters weigh much.

:func:`best_row` searches the target time (``rows_times``) over the row program (``rows_chain``, ``rows_blocks``). What
it proves for a graph that is a path, in the order of the path: no floorplan whose kernels stand side by side in that
order on one centre line is better than ``bound``, over all times, execution arguments, c of a block's ends, and
rotations. On a path other orders only add: every kernel that isn't an end has λ >= 1 in any order, ends have λ >= 1/2,
and a wire that passes over a kernel raises its λ. So the bound holds for all orders and vertical positions.
:func:`path_bound` holds for every floorplan of a path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.wafer.rows.blocks import Useful, segments, solve_blocks, useful, useful_sizes
from chipmap.heuristics.wafer.rows.chain import Chain, Row, Solver, fit, lay, row, sizes, solve_chain
from chipmap.heuristics.wafer.rows.folded import fit_runs, folded_row, foldings, lay_runs
from chipmap.heuristics.wafer.rows.kernel import INF
from chipmap.heuristics.wafer.rows.order_kernel import anneal_order
from chipmap.heuristics.wafer.rows.paths import solve_paths
from chipmap.heuristics.wafer.rows.times import Targets, TimeTrial, search_times
from chipmap.instances.wafer.instance import Placement, WaferSolution
from chipmap.instances.wafer.problem import Parts, WaferProblem, depth_first_order, evaluate
from chipmap.instances.wafer.shapes import shapes
from chipmap.kernels.annealing import seeded

Placements = tuple[Placement, ...]
Improved = Callable[[int, Placements], None]
#: The search for folded rows doesn't split intervals of target times shorter than this part of their end.
FOLDED_RESOLUTION = 300


class RowResult(NamedTuple):
    """The best floorplan of a family: its placements and parts (None where none was found).

    ``bound`` (ticks) is a lower bound on the family's scores where ``exact`` says so.
    """

    placements: Placements | None
    parts: Parts | None
    bound: int
    exact: bool


class RowProgram:
    """The row program of one order (default: depth-first).

    It is for chains of residual blocks of single convolutions, or along neighbours. ``exact`` says whether the program
    is exact for its row: every wire joins neighbours of the order.
    """

    def __init__(self, problem: WaferProblem, order: Sequence[int] | None = None) -> None:
        flow = depth_first_order(problem).tolist()
        order = flow if order is None else order
        self.problem = problem
        self.row = row(problem, order)
        self.exact = all(j == i + 1 for i, j in self.row.wires)
        single = all(len(convs) == 1 for convs in problem.convs)
        self.parts = segments(self.row) if single and not self.exact else None
        self.entries: Useful | None = useful(problem) if single and not self.exact else None
        place = {kernel: i for i, kernel in enumerate(order)}
        self.path = [place[kernel] for kernel in flow]

    def at(self, tau: int, deadline: Deadline = Deadline()) -> Solver:
        """The program at ``tau`` quarters as a function of the row; it asks ``deadline`` before it solves one."""
        problem = self.problem
        if self.entries is None:
            solve = partial(solve_chain, problem, sizes=sizes(problem, tau))
        elif self.parts is None:
            solve = partial(solve_paths, problem, table=useful_sizes(problem, self.entries, tau), path=self.path)
        else:
            solve = partial(solve_blocks, problem, table=useful_sizes(problem, self.entries, tau), parts=self.parts)

        def watched(line: Row) -> Chain | None:
            deadline.check()
            return solve(line)

        return watched


def best_row(program: RowProgram, deadline: Deadline, improved: Improved, cutoff: int | None = None) -> RowResult:
    """The best single row over all target times; scores from ``cutoff`` (ticks) on are of no interest."""
    problem = program.problem

    def attempt(tau: int) -> TimeTrial[Placements]:
        bound, chain = fit(program.row, program.at(tau, deadline), problem.width)
        if chain is None:
            return TimeTrial(bound, 0, tau, None)
        placements = lay(problem, program.row, chain.choices)
        parts = evaluate(problem, placements)
        return TimeTrial(bound, parts.score, parts.time, placements)

    return _search(problem, attempt, deadline, improved, cutoff, program.exact)


def path_bound(program: RowProgram, deadline: Deadline, least_time: int = 1) -> int:
    """A lower bound (ticks) on every floorplan of a path graph whose slowest kernel takes ``least_time`` or more.

    It is the least score of a row of any length. Proof: two kernels that a wire joins don't overlap, so they lie side
    by side along x or along y. Say along x, with extents a and a' along it and b and b' across: their centres are
    (a + a')/2 apart along x and, where b and b' differ in parity, at least half a tile along y. Let now a kernel pay,
    for each of its wires, its shorter side instead: where it had paid the longer one this saves half a tile or more,
    and the parity that the wire sees costs at most half a tile; if both kernels change, they save a tile. So the
    floorplan's wires are at least those of its kernels in one row, shorter sides along it, with the same adapters.
    Where that row fits the fabric it is optimal among all floorplans. Equal to 0 unless ``program.exact``.
    """
    problem = program.problem
    if not program.exact:
        return 0
    side = max(problem.width, problem.height)
    anywhere = replace(program.row, strips=((side, side),) * problem.n)

    def attempt(tau: int) -> TimeTrial[Placements]:
        chain = program.at(tau, deadline)(anywhere)
        if chain is None:
            return TimeTrial(INF, 0, tau, None)
        placements = lay(problem, program.row, chain.choices)
        time = max(least_time, evaluate(problem, placements).time)
        return TimeTrial(chain.value, problem.instance.weights.time * time + chain.value, time, placements)

    return _search(problem, attempt, deadline, lambda score, placements: None, None, True, low=least_time).bound


def best_folded(program: RowProgram, deadline: Deadline, improved: Improved, cutoff: int | None) -> RowResult:
    """The best folded row found over target times: snakes, and single rows with folded ends (a heuristic)."""
    problem = program.problem
    weights = problem.instance.weights
    best = INF if cutoff is None else cutoff

    def attempt(tau: int) -> TimeTrial[Placements]:
        """The best folded row at target time ``tau``, if it can beat those before it, and what is left."""
        nonlocal best
        found, rest = None, INF
        solve = None
        for folding in foldings(problem, program.row, tau):
            rest = min(rest, 2 * weights.wire * folding.wires)
            if len(folding.runs) == 1 or weights.time * tau + 2 * weights.wire * folding.wires >= best:
                continue
            solve = solve or program.at(tau, deadline)
            line = folded_row(problem, program.row, folding.runs)
            chain = fit_runs(problem, line, folding.runs, solve)
            if chain is None:
                continue
            placements = lay_runs(problem, line, folding.runs, chain.choices)
            parts = evaluate(problem, placements)
            if found is None or parts.score < found.score:
                found = TimeTrial(parts.score - weights.time * parts.time, parts.score, parts.time, placements)
        if found is None:
            return TimeTrial(rest, INF, tau, None)
        best = min(best, found.score)
        return found

    return _search(problem, attempt, deadline, improved, cutoff, False, FOLDED_RESOLUTION)


def _search(
    problem: WaferProblem,
    attempt: Callable[[int], TimeTrial[Placements]],
    deadline: Deadline,
    improved: Improved,
    cutoff: int | None,
    exact: bool,
    resolution: int | None = None,
    low: int = 1,
) -> RowResult:
    weight = problem.instance.weights.time
    high = problem.longest if cutoff is None else min(problem.longest, cutoff // max(weight, 1) + 1)
    times = search_times(attempt, Targets(low, high, weight, resolution), deadline, improved, cutoff)
    parts = None if times.found is None else evaluate(problem, times.found)
    return RowResult(times.found, parts, times.bound, exact)


def rows(problem: WaferProblem, deadline: Deadline, improved: Improved) -> WaferSolution | None:
    """The best row, single or folded, found until ``deadline``; calls ``improved`` each time."""
    program = RowProgram(problem)
    best = best_row(program, deadline, improved)
    while best.parts is not None and program.parts is None and not program.exact and deadline.keep_going():
        order = short_order(problem, program.row.order, best.parts.time)
        again = RowProgram(problem, order)
        better = best_row(again, deadline, improved, best.parts.score)
        if better.placements is None:
            break
        program, best = again, better
    if deadline.keep_going():
        folded = best_folded(program, deadline, improved, best.parts.score if best.parts else None)
        best = folded if folded.placements is not None else best
    if best.placements is None:
        return None
    return WaferSolution(instance=problem.instance.name, placements=best.placements)


def short_order(problem: WaferProblem, order: Sequence[int], tau: int, moves: int = 200_000) -> tuple[int, ...]:
    """An order of short wires, annealed from ``order`` with every kernel's narrowest width at ``tau`` quarters."""
    narrowest = [int(boxes[-1, 0]) for boxes in shapes(problem, tau)]
    widths = np.array([narrowest[int(t)] for t in problem.types], dtype=np.int64)
    found = anneal_order(np.array(order, dtype=np.int64), widths, problem.edges, moves, seeded(0))
    return tuple(int(kernel) for kernel in found)
