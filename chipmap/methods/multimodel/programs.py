"""Links of the chain that prove: columns over windows (:mod:`chipmap.heuristics.multimodel.columns.column_generation`).

Tables of coarse cells come first, finer ones where time allows. For each, lines rate · T1 + T2 >= value are sought
where they matter. For EDP that is the corner in which the product is smallest, for energy within a limit on latency
that limit; other objectives have one weight.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, prod

from chipmap.deadline import Stop, Unready
from chipmap.heuristics.multimodel.columns.column_generation import WindowColumns
from chipmap.heuristics.multimodel.columns.pricing import Pricing
from chipmap.heuristics.multimodel.tables.counts import Counts, module_counts
from chipmap.heuristics.multimodel.tables.paths import Paths, module_paths
from chipmap.heuristics.multimodel.windows.boundaries import improve
from chipmap.heuristics.multimodel.windows.counted import over
from chipmap.instances.multimodel.instance import MultiSolution
from chipmap.instances.multimodel.problem import MultiProblem, placed, schedule
from chipmap.methods.chain import Turn
from chipmap.methods.multimodel.column_bound import ColumnBound
from chipmap.methods.multimodel.whole_windows import sequences

#: Widths of the bottlenecks' cells as shares of the windows' time, round by round.
RATIOS = (0.05, 0.02, 0.01, 0.005)
#: Signatures above which numbers of chiplets come first, if they are so many times fewer.
MANY, FEWER = 100, 2
#: Share of the time that their second tables may take; the tables of paths lead to schedules, too.
SECOND = 0.4
#: Tables of paths take at least so many times as long for a signature as tables of numbers for a node (0.52 and 0.79 on
#: two random instances). The coarse ones are to take at most this share of the time that is left.
TABLES, PATHS = 0.5, 0.5
#: Sums above which boundaries don't move by numbers of chiplets: about a second for each model's turn.
MOST_SUMS = 5e8
#: Most entries of all tables.
MOST_ENTRIES = 25_000_000
#: Seconds of the search over boundaries after each tables, as a share of what these took; its descents where it isn't
#: limited by time.
AFTER, DESCENTS = 0.5, 40


def column_bounds(problem: MultiProblem, turn: Turn) -> None:
    """The bounds of :func:`columns` alone."""
    columns(problem, turn, search=False)


def columns(problem: MultiProblem, turn: Turn, search: bool = True) -> None:
    """Bounds by column generation over windows, from coarse tables to fine ones; ``search``: and better schedules."""
    task, run = problem.instance.task, turn.run
    if task.objective == "energy" and task.latency_limit_ns is None:
        if not problem.power:
            return
        # with static energy, T1 counts beside the other energies: a sum without watts of its own
        task = task.replace(objective="weighted", watts=0.0)
        problem = replace(problem, instance=problem.instance.replace(task=task))
    paths = module_paths(problem) or module_counts(problem)
    if paths is None:
        run.note("search", "columns over windows: not for times of 2^53 ns")
        return
    bound, proved, begin = ColumnBound(problem, turn, paths), inf, 0
    if (nodes := _first_counts(problem, paths)) is not None:
        bound.paths, most = nodes, SECOND * turn.deadline.seconds
        program, coarse = _round(bound, 0, inf, search), bound.spent[0]
        begin = 1
        if not run.options.deterministic and _fits(bound, 1, most):
            program, begin = _round(bound, 1, inf, search), 2
        likely = TABLES * coarse * paths.signatures / nodes.signatures  # seconds of the coarse tables of paths
        if run.options.deterministic or likely <= PATHS * turn.deadline.seconds:
            bound.paths, bound.entries, proved, begin = paths, 0, RATIOS[begin - 1], 0
    for k in range(begin, len(RATIOS)):
        if not _fits(bound, k, turn.deadline.seconds):
            break
        program = _round(bound, k, proved, search)
    if search:
        boundaries(problem, turn, bound.paths, program.pricing, turn.deadline.seconds, last=True)


def _round(bound: ColumnBound, k: int, proved: float, search: bool) -> WindowColumns:
    """The tables of round k, schedules from them, and what they prove unless cells of width ``proved`` have."""
    problem, turn, ratio = bound.problem, bound.turn, RATIOS[k]
    program = bound.stage(ratio)
    if k == 0 and search:  # schedules first, so that the proofs may leave more out
        boundaries(problem, turn, bound.paths, program.pricing, AFTER * bound.spent[0])
    if ratio < proved:
        bound.prove(program)
    if k > 0 and ratio < proved:
        sequences(bound, program, search)
    if k > 0 and search:
        boundaries(problem, turn, bound.paths, program.pricing, AFTER * sum(bound.spent))
    return program


def _fits(bound: ColumnBound, k: int, seconds: float) -> bool:
    """Whether round k's tables are likely to fit the memory, and ``seconds`` with the columns over them, or with as
    many seconds for columns: if these are cut short, they still prove something."""
    more = RATIOS[k - 1] / RATIOS[k] if k else 1.0
    if k == 0 or bound.entries * more > MOST_ENTRIES:
        return k == 0
    tables, columns_then = bound.spent[0] * more, bound.spent[1]
    return k < 2 if bound.run.options.deterministic else tables + min(tables, columns_then) <= seconds


def _first_counts(problem: MultiProblem, paths: Paths | Counts) -> Counts | None:
    """Numbers of chiplets, whose tables come before those of ``paths`` where they are much smaller; else None."""
    nodes = module_counts(problem) if isinstance(paths, Paths) and paths.signatures > MANY else None
    return nodes if nodes is not None and FEWER * nodes.signatures < paths.signatures else None


def _sums(problem: MultiProblem, counts: Counts, pricing: Pricing) -> float:
    """Sums of two numbers when each model in turn finds its nodes beside the others, side by side by numbers."""
    merged = problem.windows * len(problem.models) * max(0, len(problem.models) - 2)
    return merged * pricing.cells * prod((len(group) + 1) * (len(group) + 2) / 2 for group in counts.groups)


def boundaries(
    problem: MultiProblem, turn: Turn, paths: Paths | Counts, pricing: Pricing, seconds: float, last: bool = False
) -> None:
    """Better schedules from the tables: boundaries of windows move. For so many seconds where there is a time limit;
    else numbers of chiplets lead to schedules in the ``last`` search alone."""
    task, run, best = problem.instance.task, turn.run, turn.run.best
    limits = (task.latency_limit_ns, task.energy_limit_pj, *(model.deadline_ns for model in problem.instance.models))
    if best is None or problem.windows == 1 or task.objective == "energy":
        return
    if any(limit is not None for limit in limits):
        return
    if isinstance(paths, Counts) and (not (run.clocked or last) or _sums(problem, paths, pricing) > MOST_SUMS):
        return
    assert isinstance(best.solution, MultiSolution)
    deadline = turn.deadline.within(seconds) if run.clocked else turn.deadline
    program = over(problem, paths, pricing, deadline)
    windows, most = placed(problem, best.solution), None if run.clocked else DESCENTS
    try:
        for found in improve(program, windows, run.options.seed, most):
            turn.solution(schedule(problem, found), "boundaries of windows")
    except Stop:
        turn.deadline.check()
    except Unready as missing:  # the proofs go on; the next tables' search may find it compiled
        if missing.awaited is None:
            raise
        if "boundaries" not in run.delayed:
            run.delayed.append("boundaries")
