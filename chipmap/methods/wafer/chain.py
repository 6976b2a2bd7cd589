"""The chain ``wafer/auto``: rows, search and solver neighbourhoods beside bounds, on one incumbent.

Two lanes of tasks work side by side (:mod:`chipmap.methods.lanes`) where two threads are allowed; with one thread the
same tasks follow one another, each with a share of the time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress

from chipmap.deadline import Deadline, Stop
from chipmap.instances.wafer.instance import Placement, WaferInstance, WaferSolution
from chipmap.instances.wafer.problem import WaferProblem, evaluate, in_order, wafer_problem
from chipmap.methods.crew import Member, Task, work_together
from chipmap.methods.wafer.greedy import exhausted, packed, sized
from chipmap.result import Termination
from chipmap.run import Run

#: Annealing runs, each 1.8 times as long as the one before, where there is no time limit.
UNLIMITED_RUNS = 3
#: From so many kernels on, exchanges of equal kernels take the place of the annealing of slicing trees.
LARGE = 200
#: Kernels from which on a search is worth repeating with other seeds.
AGAIN = 40
#: Seconds before the end at which no solver runs any more (a process must not end while one does).
MARGIN = 0.5
#: Seconds of solver neighbourhoods between two looks at the clock.
WINDOW_SECONDS = 4.0


def auto(instance: WaferInstance, run: Run) -> Termination:
    """The best chain, until the time is used, the gap is closed, or every task has ended.

    Every kernel alone (or why it can't be placed) and greedy rows first; tiny instances by branch and bound; then rows,
    search, neighbourhoods and bounds.
    """

    def work() -> None:
        """One task after the other, in one lane or two."""
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


def rows(instance: WaferInstance, run: Run) -> Termination:
    """The best single row, then folded rows (:mod:`chipmap.heuristics.wafer.rows.single_row`)."""
    return _one(instance, run, lambda crew, member: crew.rows(member))


def search(instance: WaferInstance, run: Run) -> Termination:
    """Annealing of slicing trees with the target time (:mod:`chipmap.heuristics.wafer.slicing.annealing`)."""
    return _one(instance, run, lambda crew, member: crew.search(member, run.options.seed))


def bounds(instance: WaferInstance, run: Run) -> Termination:
    """Every lower bound that applies, each under its own name; no floorplan is looked for."""
    return _one(instance, run, lambda crew, member: crew.bounds(member))


def _one(instance: WaferInstance, run: Run, task: Callable[[Crew, Member], None]) -> Termination:
    def work() -> None:
        problem = wafer_problem(instance)
        sized(problem, run)
        work_together(run, [[lambda member: task(Crew(problem), member)]])

    return run.attempt(work)


def _deadline(member: Member) -> Deadline:
    return Deadline(member.until, lambda: "interrupted" if member.stopping.is_set() else None)


class Crew:
    """The tasks on one problem. ``one_lane`` and ``two_lanes`` say in which order and with which shares they run."""

    #: Shares of the time that is left when it is their turn: the row-by-row placer, rows (more where adapters cost: no
    #: search finds as good ones), bounds, a search before its floorplan is polished.
    POKER, ROWS, ROWS_ADAPTERS, BOUNDS, SEARCH = 0.15, 0.2, 0.5, 0.3, 0.7

    def __init__(self, problem: WaferProblem) -> None:
        self.problem = problem
        self.large = problem.n >= LARGE
        self.known: dict[str, WaferSolution] = {}

    def one_lane(self, seed: int) -> list[Task]:
        """All tasks for one thread; a first look at the bounds comes early."""
        return [
            lambda member: self.bounds(member.share(0.02)),
            lambda member: self.snakes(member.share(self.POKER)),
            lambda member: self.poker(member.share(self.POKER), seed),
            lambda member: self.rows(member.share(self.row_share)),
            lambda member: self.search(member.share(self.SEARCH), seed, self.start()),
            lambda member: self.polish(member.share(0.4), seed),
            lambda member: self.bounds(member),
            lambda member: self.again(member, seed),
        ]

    def two_lanes(self, seed: int) -> list[list[Task]]:
        """Rows, a search from the best of them and what polishes its floorplan in one lane.

        Bounds and a search from the slicing program's floorplan in the other.
        """
        return [
            [
                lambda member: self.snakes(member.share(self.POKER)),
                lambda member: self.poker(member.share(self.POKER), seed),
                lambda member: self.rows(member.share(self.row_share)),
                lambda member: self.search(member.share(self._share()), seed, self.start()),
                lambda member: self.polish(member, seed),
                lambda member: self.again(member, seed),
            ],
            [
                lambda member: self.bounds(member.share(self.BOUNDS)),
                lambda member: self.search(member, seed + 1),
                lambda member: self.again(member, seed + 1),
            ],
        ]

    @property
    def row_share(self) -> float:
        """The row programs' share."""
        return self.ROWS_ADAPTERS if self.problem.instance.weights.adapter else self.ROWS

    def _share(self) -> float:
        return 0.97 if self.large else self.SEARCH

    def rows(self, member: Member) -> None:
        """The best single row, then folded rows."""
        from chipmap.heuristics.wafer.rows.single_row import rows

        rows(self.problem, _deadline(member), lambda _, placements: self._hand_over(member, placements, "row program"))

    def snakes(self, member: Member) -> None:
        """Rows to and fro of least wire, at once."""
        from chipmap.heuristics.wafer.rows.snakes import snakes

        snakes(self.problem, _deadline(member), lambda found: self._hand_over(member, found.placements, "snakes"))

    def poker(self, member: Member, seed: int) -> None:
        """The row-by-row placer (:mod:`chipmap.heuristics.wafer.baselines.cu_poker`); its best is kept for the
        search."""
        from chipmap.heuristics.wafer.baselines.cu_poker import Found, Placer, TimeSearch

        def found(layout: Found) -> None:
            self._hand_over(member, layout.placements, "CU.POKer")

        with suppress(Stop):
            TimeSearch(Placer(self.problem), seed, _deadline(member), found).run()

    def start(self) -> WaferSolution | None:
        """The better of the row placer's and the row program's floorplans that is slicing; None for none.

        Not the run's incumbent: which one that is depends on the moment. None as well where adapters cost, as a
        slicing tree keeps no execution arguments.
        """
        if self.problem.instance.weights.adapter:
            return None
        from chipmap.heuristics.wafer.adapters import boxes_of
        from chipmap.heuristics.wafer.slicing.guillotine import guillotine

        slicing = []
        for solution in self.known.values():
            placements = in_order(self.problem, solution)
            if guillotine(boxes_of(placements)) is not None:
                slicing.append((evaluate(self.problem, placements).score, solution))
        return min(slicing, key=lambda pair: pair[0])[1] if slicing else None

    def search(self, member: Member, seed: int, start: WaferSolution | None = None) -> None:
        """Annealing of slicing trees with the target time, from ``start`` or else the slicing program's floorplan.

        Of large instances: annealing of who takes which box.
        """
        from chipmap.heuristics.wafer.slicing.annealing import search
        from chipmap.heuristics.wafer.slicing.exchange import exchange

        limited = member.run.options.time_limit is not None and not member.run.options.deterministic
        runs = None if limited else UNLIMITED_RUNS
        if self.large:
            exchange(self.problem, seed, _deadline(member), member.solution("exchanges"), runs)
        else:
            search(self.problem, seed, _deadline(member), member.solution("slicing search"), runs, start)

    def again(self, member: Member, seed: int) -> None:
        """Searches from other seeds, every second one, for the rest of the time (not where kernels are few)."""
        options = member.run.options
        if options.time_limit is None or options.deterministic or self.problem.n < AGAIN:
            return
        while member.keep_going():
            seed += 2
            self.search(member, seed, self.start())

    def polish(self, member: Member, seed: int) -> None:
        """The fewest adapters within the best floorplan's boxes, then CP-SAT neighbourhoods (not if large)."""
        from chipmap.heuristics.wafer.adapters import fewest_adapters
        from chipmap.methods.wafer.neighbourhoods import improve

        best = member.run.best
        if best is None or not isinstance(best.solution, WaferSolution):
            return
        solution = best.solution
        if self.problem.instance.weights.adapter:
            tau = evaluate(self.problem, in_order(self.problem, solution)).time
            solution = fewest_adapters(self.problem, solution, tau)
            member.solution("adapters")(solution)
        found = member.solution("CP-SAT windows")
        while not self.large and member.seconds > 2 * MARGIN and member.keep_going():
            seconds = min(member.seconds - MARGIN, WINDOW_SECONDS)
            better = improve(self.problem, solution, seconds, seed, 1, found)
            if better is None:
                return
            solution, seed = better, seed + 1

    def bounds(self, member: Member) -> None:
        """Lower bounds, with the incumbent of the moment as the score to beat; of a path first by its row program."""
        from chipmap.heuristics.wafer.bounds.score import bounds
        from chipmap.heuristics.wafer.rows.single_row import RowProgram, path_bound
        from chipmap.heuristics.wafer.slicing.sizing import Sizing

        program = RowProgram(self.problem)
        if program.exact:
            value = path_bound(program, _deadline(member), max(1, Sizing(self.problem).area_time()))
            member.bound(value, "path program")
        bounds(self.problem, member.run.upper, _deadline(member), member.bound)

    def _hand_over(self, member: Member, placements: Sequence[Placement], source: str) -> None:
        solution = WaferSolution(instance=self.problem.instance.name, placements=tuple(placements))
        self.known[source] = solution
        member.solution(source)(solution)
