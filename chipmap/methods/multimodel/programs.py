"""Links of the chain that prove: columns over windows (:mod:`chipmap.heuristics.multimodel.columns.column_generation`).

Tables of coarse cells come first, finer ones where time allows. For each, lines rate · T1 + T2 >= value are sought
where they matter. For EDP that is the corner in which the product is smallest, for energy within a limit on latency
that limit; other objectives have one weight.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from chipmap.deadline import Stop
from chipmap.heuristics.multimodel.columns.pricing import Pricing
from chipmap.heuristics.multimodel.tables.counts import Counts, module_counts
from chipmap.heuristics.multimodel.tables.paths import Paths, module_paths
from chipmap.heuristics.multimodel.windows.boundaries import Boundaries, improve
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
    bound = ColumnBound(problem, turn, paths)
    proved = inf  # the width of cells that numbers of chiplets have gone through
    if (nodes := _first_counts(problem, paths)) is not None:
        bound.paths, most = nodes, SECOND * turn.deadline.seconds
        for k, ratio in enumerate(RATIOS[: 1 if run.options.deterministic else 2]):
            if k and bound.spent[0] * RATIOS[k - 1] / ratio + bound.spent[1] > most:
                break
            program = bound.stage(ratio)
            bound.prove(program)
            proved = ratio
            if k > 0:
                sequences(bound, program, search)
        bound.paths, bound.entries = paths, 0
    for k, ratio in enumerate(RATIOS):
        more = RATIOS[k - 1] / ratio if k else 1.0
        if bound.entries * more > MOST_ENTRIES:
            break
        if k and not run.options.deterministic and bound.spent[0] * more + bound.spent[1] > turn.deadline.seconds:
            break
        program = bound.stage(ratio)
        if k == 0 and search:  # schedules first, so that the proofs may leave more out
            boundaries(problem, turn, paths, program.pricing, AFTER * bound.spent[0])
        if ratio < proved:
            bound.prove(program)
        if k > 0 and ratio < proved:
            sequences(bound, program, search)
        if k > 0 and search:
            boundaries(problem, turn, paths, program.pricing, AFTER * sum(bound.spent))
        if run.options.deterministic and k == 1:
            break
    if search:
        boundaries(problem, turn, paths, program.pricing, turn.deadline.seconds)


def _first_counts(problem: MultiProblem, paths: Paths | Counts) -> Counts | None:
    """Numbers of chiplets, whose tables come before those of ``paths`` where they are much smaller; else None."""
    nodes = module_counts(problem) if isinstance(paths, Paths) and paths.signatures > MANY else None
    return nodes if nodes is not None and FEWER * nodes.signatures < paths.signatures else None


def boundaries(problem: MultiProblem, turn: Turn, paths: Paths | Counts, pricing: Pricing, seconds: float) -> None:
    """Better schedules from the tables: boundaries of windows move. For so many seconds where there is a time limit."""
    task, run, best = problem.instance.task, turn.run, turn.run.best
    limits = (task.latency_limit_ns, task.energy_limit_pj, *(model.deadline_ns for model in problem.instance.models))
    if best is None or problem.windows == 1 or task.objective == "energy" or not isinstance(paths, Paths):
        return
    if any(limit is not None for limit in limits):
        return
    assert isinstance(best.solution, MultiSolution)
    deadline = turn.deadline.within(seconds) if run.clocked else turn.deadline
    program = Boundaries(problem, paths, pricing, deadline)
    windows, most = placed(problem, best.solution), None if run.clocked else DESCENTS
    try:
        for found in improve(program, windows, run.options.seed, most):
            turn.solution(schedule(problem, found), "boundaries of windows")
    except Stop:
        turn.deadline.check()
