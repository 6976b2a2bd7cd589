"""The chain ``wafer/auto``: rows, search and solver neighbourhoods beside bounds, on one incumbent.

Two lanes of tasks work side by side (:mod:`chipmap.methods.crew`) where two threads are allowed; with one thread the
same tasks follow one another, each with a share of the time.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from chipmap.instances.wafer.costs import WaferProblem, wafer_problem
from chipmap.instances.wafer.instance import Placement, WaferInstance, WaferSolution
from chipmap.methods.crew import Member, Task, work_together
from chipmap.methods.wafer import exhausted, packed, sized
from chipmap.result import Termination
from chipmap.run import Run

#: Annealing runs, each 1.4 times as long as the one before, where there is no time limit.
UNLIMITED_RUNS = 12


def auto(instance: WaferInstance, run: Run) -> Termination:
    """The best chain, until the time is used, the gap is closed, or every task has ended.

    Every kernel alone (or why it can't be placed) and greedy rows first; tiny instances by branch and bound; then rows,
    search, neighbourhoods and bounds.
    """

    def work() -> None:
        problem = wafer_problem(instance)
        found = sized(problem, run)
        run.checkpoint()
        packed(problem, found, run)
        run.checkpoint()
        if exhausted(problem, run):
            return
        crew = Crew(problem)
        threads = run.options.threads or os.cpu_count() or 1
        if run.options.deterministic or threads == 1:
            work_together(run, [crew.one_lane(run.options.seed)])
        else:
            work_together(run, crew.two_lanes(run.options.seed))

    return run.attempt(work)


class Crew:
    """The tasks on one problem. ``one_lane`` and ``two_lanes`` say in which order and with which shares they run."""

    #: Shares of the time left: rows, bounds.
    ROWS, BOUNDS = 0.15, 0.3

    def __init__(self, problem: WaferProblem) -> None:
        self.problem = problem

    def one_lane(self, seed: int) -> list[Task]:
        """All tasks for one thread."""
        return [
            lambda member: self.bounds(member.share(0.02)),
            lambda member: self.rows(member.share(self.ROWS)),
            lambda member: self.bounds(member.share(self.BOUNDS)),
            lambda member: self.search(member, seed),
        ]

    def two_lanes(self, seed: int) -> list[list[Task]]:
        """Rows and a search in one lane; bounds and another search in the other."""
        return [
            [lambda member: self.rows(member.share(self.ROWS)), lambda member: self.search(member, seed)],
            [lambda member: self.bounds(member.share(self.BOUNDS)), lambda member: self.search(member, seed + 1)],
        ]

    def rows(self, member: Member) -> None:
        """The best single row."""
        from chipmap.heuristics.wafer.rows import rows

        rows(self.problem, member.keep_going, lambda _, placements: self.hand_over(member, placements, "row program"))

    def search(self, member: Member, seed: int) -> None:
        """Annealing of slicing trees with the target time."""
        from chipmap.heuristics.wafer.search import search

        search(self.problem, seed, member.keep_going, member.solution("slicing search"), self._runs(member))

    def _runs(self, member: Member) -> int | None:
        """How many annealing runs make an end where no time limit does."""
        limited = member.run.options.time_limit is not None and not member.run.options.deterministic
        return None if limited else UNLIMITED_RUNS

    def bounds(self, member: Member) -> None:
        """Lower bounds, with the incumbent of the moment as the score to beat."""
        from chipmap.heuristics.wafer.bounds import bounds

        bounds(self.problem, member.run.upper, member.keep_going, member.bound)

    def hand_over(self, member: Member, placements: Sequence[Placement], source: str) -> None:
        """Hand a floorplan to the run."""
        member.solution(source)(WaferSolution(instance=self.problem.instance.name, placements=tuple(placements)))
