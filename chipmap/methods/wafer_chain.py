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
            work_together(run, [crew.one_lane()])
        else:
            work_together(run, crew.two_lanes())

    return run.attempt(work)


class Crew:
    """The tasks on one problem."""

    def __init__(self, problem: WaferProblem) -> None:
        self.problem = problem

    def one_lane(self) -> list[Task]:
        """All tasks for one thread."""
        return [self.rows]

    def two_lanes(self) -> list[list[Task]]:
        """Finds in one lane; bounds, then more finds, in the other."""
        return [[self.rows], []]

    def rows(self, member: Member) -> None:
        """The best single row."""
        from chipmap.heuristics.wafer.rows import rows

        rows(self.problem, member.keep_going, lambda _, placements: self.hand_over(member, placements, "row program"))

    def hand_over(self, member: Member, placements: Sequence[Placement], source: str) -> None:
        """Hand a floorplan to the run."""
        member.solution(source)(WaferSolution(instance=self.problem.instance.name, placements=tuple(placements)))
