"""Links of the chain that prove: columns over windows (:mod:`chipmap.heuristics.multimodel.columns.column_generation`).

Tables of few signatures and wide cells come first, which take little time. How long they take says which finer ones fit
the time that is left. For each, lines rate · T1 + T2 >= value are sought where they matter. For EDP that is the corner
in which the product is smallest, for energy within a limit on latency that limit; other objectives have one weight.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import NamedTuple

from chipmap.heuristics.multimodel.columns.column_generation import WindowColumns
from chipmap.heuristics.multimodel.tables.counts import Counts, all_counts
from chipmap.heuristics.multimodel.tables.paths import Paths, module_paths
from chipmap.instances.multimodel.problem import MultiProblem
from chipmap.methods.chain import Turn
from chipmap.methods.multimodel.column_bound import NEAR_LAST, ColumnBound
from chipmap.methods.multimodel.latest import Latest, Made
from chipmap.methods.multimodel.whole_windows import sequences

#: Widths of the bottlenecks' cells as shares of the windows' time, round by round, and widths between them.
RATIOS = (0.2, 0.05, 0.02, 0.01, 0.005)
WIDTHS = (0.2, 0.16, 0.126, 0.1, 0.08, 0.063, 0.05, 0.04, 0.032, 0.025, 0.02, 0.016, 0.0126, 0.01, 0.008, 0.0063, 0.005)
#: The width that deterministic runs begin with. Wider cells lead to no whole sequences of windows.
COARSE = 0.05
#: Tables of more signatures or nodes come after smaller ones, which have at least so many times fewer.
MANY, FEWER = 100, 2
#: Nodes whose tables take as long as what tables take beside their nodes.
BESIDE = 20
#: What a bound loses by cells, as a share of their width; by each kind of table that would be finer; by each class in a
#: group with others. The next step is one of least loss, and loses at most so much of what the last one does.
CELLS, KIND, JOINED, LESS = 0.33, 0.025, 0.1, 0.95
#: It takes at most this share of the time that is left, or if none is so short, all of it. Columns begin with the
#: prices of the last step, and are expected to take this share of its seconds.
MOST_TIME, AGAIN = 0.75, 0.5
#: Columns over tables that finer kinds follow take at most this share of the time that is left.
EARLY = 0.15
#: Share of the time left in which the last columns come nearer to their program, where boundaries are still to move.
LAST = 0.5
#: Tables are to take at most so many times as long as the last ones, or as this share of the time that is left: of many
#: nodes they may take twice as long as expected.
GROWTH, SURE = 4.5, 0.05
#: Most entries of all tables.
MOST_ENTRIES = 25_000_000
#: Seconds of the search over boundaries after each tables, as a share of what these took, and of what is left at most.
AFTER = 0.5


def column_bounds(problem: MultiProblem, turn: Turn) -> None:
    """The bounds of :func:`columns` alone."""
    columns(problem, turn, search=False)


def columns(problem: MultiProblem, turn: Turn, search: bool = True, tables: Latest | None = None) -> None:
    """Bounds by column generation over windows, from coarse tables to fine ones; ``search``: and better schedules, by
    this link or by the one beside it that looks at ``tables``."""
    task, run = problem.instance.task, turn.run
    if task.objective == "energy" and task.latency_limit_ns is None:
        if not problem.power:
            return
        # with static energy, T1 counts beside the other energies: a sum without watts of its own
        task = task.replace(objective="weighted", watts=0.0)
        problem = replace(problem, instance=problem.instance.replace(task=task))
    kinds = kinds_of_tables(problem)
    if not kinds:
        run.note("search", "columns over windows: not for times of 2^53 ns")
        return
    bound, at = ColumnBound(problem, turn, kinds[0]), None
    tables = tables or Latest(beside=False)
    step: Step | None = Step(0, COARSE if run.options.deterministic else RATIOS[0])
    while step is not None:
        bound.paths = kinds[step.kind]
        share, known = EARLY if run.clocked and step.kind < len(kinds) - 1 else 1.0, bound.told
        program, whole = _round(bound, step.ratio, at is None or at.kind < step.kind, search, share, tables)
        at, step = step, _next(bound, kinds, step, vain=bound.told == known)
        if step is None and not whole:
            bound.prove(program)
    if run.clocked:  # what is left brings bound and program nearer
        bound.near = NEAR_LAST
        bound.prove(program, LAST if search and not tables.beside else 1.0)
    if search and not tables.beside:
        tables.boundaries(problem, turn, turn.deadline.seconds, last=True)


def numbers_alone(problem: MultiProblem, turn: Turn) -> None:
    """The bounds by numbers of chiplets of each class, which large modules begin with."""
    for counts in all_counts(problem):
        bound = ColumnBound(problem, turn, counts)
        bound.prove(bound.stage(COARSE))


class Step(NamedTuple):
    """Tables of this kind, with cells of this width."""

    kind: int
    ratio: float


def kinds_of_tables(problem: MultiProblem) -> list[Paths | Counts]:
    """Numbers of chiplets and paths, from few signatures to many: small ones come before those of MANY."""
    paths, found = module_paths(problem), list[Paths | Counts]()
    tables: list[Paths | Counts] = [*([] if paths is None else [paths]), *all_counts(problem)]
    for one in tables:
        if not found or (found[0].signatures > MANY and FEWER * one.signatures < found[0].signatures):
            found.insert(0, one)
    return found


def _round(
    bound: ColumnBound, ratio: float, first: bool, search: bool, share: float, tables: Latest
) -> tuple[WindowColumns, bool]:
    """Tables of this width, schedules from them, and what they prove within this share of the time; whether no more
    can be proved. ``first`` of their kind?"""
    problem, turn = bound.problem, bound.turn
    program = bound.stage(ratio)
    tables.made = Made(bound.paths, program.pricing.again(), bound.cells, bound.spent[0])
    if first and search and not tables.beside:  # schedules first, so that the proofs may leave more out
        tables.boundaries(problem, turn, AFTER * bound.spent[0])
    whole = bound.prove(program, share)
    if ratio < COARSE:
        sequences(bound, program, search)
    if not first and search and not tables.beside:
        seconds = AFTER * min(sum(bound.spent), turn.deadline.seconds)  # proofs may go on
        tables.boundaries(problem, turn, seconds)
    return program, whole


def _next(bound: ColumnBound, kinds: list[Paths | Counts], at: Step, vain: bool = False) -> Step | None:
    """The step of least loss that is likely to fit the time that is left, and the memory; where the last one was in
    ``vain``, the coarsest of the next kind, if it is likely to fit at all."""
    finest, last = next((ratio for ratio in RATIOS if ratio < LESS * at.ratio), RATIOS[-1]), len(kinds) - 1
    if bound.run.options.deterministic:
        if at.kind < last:
            return Step(last, COARSE)
        finer = Step(last, finest)
        return finer if at.ratio == COARSE and _entries(bound, kinds, at, finer) <= MOST_ENTRIES else None
    other = Step(at.kind + 1, WIDTHS[0])
    seconds = bound.turn.deadline.seconds
    fits = at.kind < last and _entries(bound, kinds, at, other) <= MOST_ENTRIES
    if vain and fits and _seconds(bound, kinds, at, other, misjudged=False) <= seconds:
        return other
    steps = [Step(k, ratio) for k in range(at.kind, last + 1) for ratio in WIDTHS if ratio >= finest]
    for share in (MOST_TIME, 1.0):
        fitting = [
            step
            for step in steps
            if loss(kinds, step) <= LESS * loss(kinds, at)
            and _entries(bound, kinds, at, step) <= MOST_ENTRIES
            and _seconds(bound, kinds, at, step) <= share * seconds
        ]
        if fitting:
            return min(fitting, key=lambda step: loss(kinds, step))
    return None


def loss(kinds: list[Paths | Counts], step: Step) -> float:
    """What a bound by these tables is likely to lose, as a share."""
    joined = kind.joined if isinstance(kind := kinds[step.kind], Counts) else 0
    return CELLS * step.ratio + KIND * (len(kinds) - 1 - step.kind) + JOINED * joined


def _entries(bound: ColumnBound, kinds: list[Paths | Counts], at: Step, step: Step) -> float:
    """How many entries a step's tables are likely to have, by those of the last one."""
    return bound.entries * kinds[step.kind].signatures / kinds[at.kind].signatures * at.ratio / step.ratio


def _seconds(bound: ColumnBound, kinds: list[Paths | Counts], at: Step, step: Step, misjudged: bool = True) -> float:
    """How long a step is likely to take, with the columns or as many seconds for columns as for tables: if these are
    cut short, they still prove something. Infinite where it would be too long if it were ``misjudged``."""
    nodes = (kinds[step.kind].signatures + BESIDE) / (kinds[at.kind].signatures + BESIDE)
    tables = bound.spent[0] * nodes * at.ratio / step.ratio
    if misjudged and tables > GROWTH * max(bound.spent[0], SURE * bound.turn.deadline.seconds):
        return inf
    return tables + min(tables, AGAIN * bound.spent[1])
