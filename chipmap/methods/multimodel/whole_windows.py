"""What whole sequences of windows prove and find (:mod:`chipmap.heuristics.multimodel.columns.sequences`).

Prices and lines come from column generation. A better schedule of EDP than the best one, p, has a T1 between two
limits: a line rate · T1 + T2 >= v leaves out each T1 where rate · T1 + p / T1 < v. So it bounds rate · T1 + T2, too.
"""

from __future__ import annotations

from math import inf, prod, sqrt

from chipmap.deadline import Stop
from chipmap.heuristics.multimodel.columns.column_generation import WindowColumns
from chipmap.heuristics.multimodel.columns.sequences import Found, Program, Sequences
from chipmap.heuristics.multimodel.windows.any_windows import SAFE, Line
from chipmap.heuristics.multimodel.windows.boundaries import MOVES, annealed
from chipmap.heuristics.multimodel.windows.counted import over
from chipmap.instances.multimodel.problem import MultiProblem, schedule, watts
from chipmap.methods.multimodel.column_bound import ColumnBound
from chipmap.methods.multimodel.refutation import limited

#: Shares of the excess that better schedules may have: the first one whose windows can be listed counts.
SHARES = (1.0, 0.5, 0.25, 0.12, 0.06)
#: Entries of the tables above which no windows are listed: they would be too many.
MOST_ENTRIES = 1_000_000
#: Sequences that real schedules are made of.
TRIED = 6
SOURCE = "sequences of windows"


def sequences(bound: ColumnBound, program: WindowColumns, search: bool) -> None:
    """Report what whole sequences of windows prove; ``search``: and the schedules that the best of them lead to."""
    problem, best = bound.problem, bound.run.upper
    sizes = prod(model.layers + 1 for model in problem.models)
    if best is None or not bound.prices or problem.windows == 1 or bound.told >= best:
        return
    if sizes > 2**60 or bound.entries > MOST_ENTRIES:
        return
    rate = min(bound.prices, key=lambda one: most(bound, one, best) / max(1.0, _line(bound, one)))
    if most(bound, rate, best) <= 0:
        return
    listed = Sequences(program.pricing, problem.windows, bound.prices[rate], rate)
    whole = most(bound, rate, best) - listed.base
    for share in SHARES if whole > 0 else ():
        windows = listed.windows(share * whole, bound.turn.deadline)
        if windows is None:
            continue
        nodes = Program(windows, problem.windows, listed.end, -listed.least)
        above = listed.base + min(share * whole, nodes.least)
        bound.lines.append(Line(rate, above * (1 - SAFE)))
        found = nodes.sequences(share * whole + listed.loose, bound.turn.deadline)
        if found is not None:
            beyond = bound.value([*bound.lines, Line(rate, (listed.base + share * whole) * (1 - SAFE))])
            bound.floor = max(bound.floor, int(min([beyond, *(worth(bound, rate, one) for one in found)])))
        bound.tell(best, last=True, source=SOURCE)
        many = f"{len(found):,} sequences" if found is not None else "too many sequences"
        bound.run.note("search", f"{SOURCE}: {share:.0%} of the excess, {len(windows.time):,} windows, {many}")
        if found and search:
            better = sorted((worth(bound, rate, one), one) for one in found)[:TRIED]
            real(bound, program, listed, [one for value, one in better if value < best])
        return


def _line(bound: ColumnBound, rate: float) -> float:
    return max(line.value for line in bound.lines if line.rate == rate)


def most(bound: ColumnBound, rate: float, best: int) -> float:
    """What rate · T1 + T2 of every better schedule than ``best`` is at most; without energies for latency alone."""
    objective = bound.problem.instance.task.objective
    if objective == "weighted":
        return float(best)
    if objective == "latency":
        return rate * best
    if objective == "energy":
        return rate * (bound.limit or 0) + best
    product, (low, high) = float(best) * bound.problem.edp_tick, (float(bound.least[0]), float(bound.longest()))
    for _ in range(2):
        for line in bound.lines:
            if (root := line.value**2 - 4 * line.rate * product) > 0 and line.rate > 0:
                left, right = ((line.value + sign * sqrt(root)) / (2 * line.rate) for sign in (-1, 1))
                low = right if left <= low < right else low
                high = left if left < high <= right else high
    low, high = max(1.0, low * (1 - SAFE)), max(1.0, high * (1 + SAFE))
    return max(rate * time + product / time for time in (low, high)) if low <= high else 0.0


def worth(bound: ColumnBound, rate: float, found: Found) -> float:
    """The objective of a sequence in ticks, by its windows' least times and energies."""
    objective = bound.problem.instance.task.objective
    if objective == "latency":
        return found.time
    if objective == "energy":
        return found.energy * (1 - SAFE) if found.time <= (bound.limit or 0) else inf
    if objective == "weighted":
        return (watts(bound.problem.instance) / 1000 * found.time + found.energy) * (1 - SAFE)
    return found.time * found.energy / bound.problem.edp_tick * (1 - SAFE)


def real(bound: ColumnBound, program: WindowColumns, listed: Sequences, found: list[Found]) -> None:
    """Report real schedules whose windows stand between the same nodes; none where limits (C4) are in force."""
    problem, run = bound.problem, bound.run
    if limited(problem.instance):
        return
    search = over(problem, bound.paths, program.pricing, bound.turn.deadline)
    for one in found:
        try:
            windows = search.windows(nodes_of(problem, listed, one), listed.rate)
        except Stop:
            bound.turn.deadline.check()
            return
        if windows is not None:
            windows = annealed(problem, windows, run.options.seed, MOVES, bound.turn.deadline)
            bound.turn.solution(schedule(problem, windows), SOURCE)


def nodes_of(problem: MultiProblem, listed: Sequences, found: Found) -> list[list[int]]:
    """The nodes of each model behind 0 … W windows."""
    ends = [0, *found.codes, *[listed.end] * (problem.windows - len(found.codes))]
    sizes = [model.layers + 1 for model in problem.models]
    return [[code // step % size for code in ends] for step, size in zip(listed.steps, sizes, strict=True)]
