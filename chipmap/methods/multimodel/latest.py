"""Boundaries between windows, moved by the last tables of the columns or by cautious ones of the same cells.

The columns' tables are lower limits. A limit is nearer to what windows cost on some ranges than on others, so that the
ranges that look best by them are often not the best ones. Cautious tables count M as the most that its cell allows,
which real segmentations keep. They take as long to build as those of the columns. Searches use both in turns.
"""

from __future__ import annotations

import time
from math import prod
from typing import NamedTuple

from chipmap.deadline import Stop, Unready
from chipmap.heuristics.multimodel.columns.pricing import Pricing
from chipmap.heuristics.multimodel.tables.counts import Counts
from chipmap.heuristics.multimodel.tables.paths import Paths
from chipmap.heuristics.multimodel.windows.boundaries import Boundaries, improve
from chipmap.heuristics.multimodel.windows.counted import over
from chipmap.instances.multimodel.instance import MultiSolution
from chipmap.instances.multimodel.problem import MultiProblem, placed, schedule
from chipmap.methods.chain import Turn
from chipmap.methods.multimodel.column_bound import Cells, priced

#: Sums above which boundaries don't move by numbers of chiplets: about a second for each model's turn.
MOST_SUMS = 5e8
#: Descents where they aren't limited by time.
DESCENTS = 40
#: The widths that cells of cautious tables have at most and at least, as shares of the windows' time. Finer tables of
#: the columns need none beside them.
WIDEST, FINEST = 0.05, 0.02
#: Cautious tables are to take at most this share of the time that is left.
MOST_TIME = 0.2
#: Seeds of two searches lie so far apart.
APART = 1_000


class Made(NamedTuple):
    """Tables of paths or of numbers, their cells, and the seconds that they took."""

    paths: Paths | Counts
    pricing: Pricing
    cells: Cells
    seconds: float


class Latest:
    """The last tables of the columns, and the search over boundaries; ``beside``: that is in another lane."""

    #: One value, so that no other thread reads the paths of some tables with the pricing of others.
    made: Made | None = None

    def __init__(self, beside: bool = True) -> None:
        self.beside = beside
        #: Seconds for searches so far that cautious tables may take, how many searches there were, and whether the last
        #: one was over cautious tables.
        self.saved, self.searches, self.careful = 0.0, 0, False
        self.cautious: Made | None = None
        self.programs: dict[Pricing, Boundaries] = {}

    def boundaries(self, problem: MultiProblem, turn: Turn, seconds: float, last: bool = False) -> None:
        """Better schedules from the tables: boundaries of windows move. For so many seconds where there is a time
        limit; else numbers of chiplets lead to schedules in the ``last`` search alone."""
        task, run, best, made = problem.instance.task, turn.run, turn.run.best, self.made
        limits = (
            task.latency_limit_ns,
            task.energy_limit_pj,
            *(model.deadline_ns for model in problem.instance.models),
        )
        if made is None or best is None or problem.windows == 1 or task.objective == "energy":
            return
        if any(limit is not None for limit in limits):
            return
        if isinstance(made.paths, Counts) and not run.clocked and not last:
            return
        if isinstance(made.paths, Counts) and _sums(problem, made.paths, made.pricing) > MOST_SUMS:
            return
        assert isinstance(best.solution, MultiSolution)
        deadline = turn.deadline.within(seconds) if run.clocked else turn.deadline
        windows, most = placed(problem, best.solution), None if run.clocked else DESCENTS
        try:
            program = self._over(problem, turn, made, seconds)
            program.deadline = deadline
            for found in improve(program, windows, run.options.seed + APART * (self.searches - 1), most):
                turn.solution(schedule(problem, found), "boundaries of windows")
        except Stop:
            turn.deadline.check()
        except Unready as missing:  # the proofs go on; the next tables' search may find it compiled
            if missing.awaited is None:
                raise
            if "boundaries" not in run.delayed:
                run.delayed.append("boundaries")

    def _over(self, problem: MultiProblem, turn: Turn, made: Made, seconds: float) -> Boundaries:
        """The search over the tables that are ``made``; once there was time for cautious ones, over both in turns."""
        known, width = self.cautious, made.cells.width
        if known is None or known.paths is not made.paths:
            known = None
        self.saved += seconds
        finer = width <= WIDEST if known is None else FINEST <= width < known.cells.width
        pipelined = any(model.q > 1 for model in problem.models)  # else both are the same
        due = not turn.run.clocked or made.seconds <= min(self.saved, MOST_TIME * turn.deadline.seconds)
        if finer and pipelined and due:
            started = time.monotonic()
            pricing = priced(problem, made.paths, made.cells, turn.deadline, cautious=True)
            known = self.cautious = Made(made.paths, pricing, made.cells, time.monotonic() - started)
            self.saved -= known.seconds
        self.searches += 1
        self.careful = known is not None and not self.careful
        one = known if known is not None and self.careful else made
        if one.pricing not in self.programs:
            kept = () if known is None else (known.pricing,)
            self.programs = {key: program for key, program in self.programs.items() if key in kept}
            self.programs[one.pricing] = over(problem, one.paths, one.pricing, turn.deadline)
        return self.programs[one.pricing]


def _sums(problem: MultiProblem, counts: Counts, pricing: Pricing) -> float:
    """Sums of two numbers when each model in turn finds its nodes beside the others, side by side by numbers."""
    merged = problem.windows * len(problem.models) * max(0, len(problem.models) - 2)
    return merged * pricing.cells * prod((len(group) + 1) * (len(group) + 2) / 2 for group in counts.groups)
