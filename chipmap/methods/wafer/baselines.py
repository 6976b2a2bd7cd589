"""The placers of the published comparison as methods of family ``wafer``: CU.POKer and the two it was measured against.

Every method is a function (instance, run) -> Termination that reports to ``run``; what it found stays there when the
deadline passes.
"""

from __future__ import annotations

from chipmap.instances.wafer.instance import WaferInstance
from chipmap.instances.wafer.problem import wafer_problem
from chipmap.methods.wafer.greedy import report, sized
from chipmap.result import Termination
from chipmap.run import Run


def poker(instance: WaferInstance, run: Run) -> Termination:
    """CU.POKer (:mod:`chipmap.heuristics.wafer.baselines.cu_poker`)."""
    return run.attempt(lambda: _poker(instance, run, each=False))


def poker_each(instance: WaferInstance, run: Run) -> Termination:
    """CU.POKer refined and annealed at every target time instead of once at the end, with c of any size."""
    return run.attempt(lambda: _poker(instance, run, each=True))


def _poker(instance: WaferInstance, run: Run, each: bool) -> None:
    from chipmap.heuristics.wafer.baselines.cu_poker import Placer, TimeSearch

    problem = wafer_problem(instance)
    sized(problem, run)
    source = "CU.POKer, refined at each target" if each else "CU.POKer"
    search = TimeSearch(
        Placer(problem, within=not each),
        run.options.seed,
        run.deadline,
        lambda found: report(problem, run, found.placements, source),
        each,
        anneal=each,
    )
    if search.run() is None:
        run.note("left out", "no target time lets the rows fit the fabric")


def annealing(instance: WaferInstance, run: Run) -> Termination:
    """Annealing on twin binary sequences (:mod:`chipmap.heuristics.wafer.baselines.twin_binary`)."""

    def work() -> None:
        """Size every kernel by itself, then anneal until the run ends."""
        from chipmap.heuristics.wafer.baselines.twin_binary import twin_binary

        problem = wafer_problem(instance)
        sized(problem, run)
        twin_binary(
            problem,
            run.options.seed,
            run.deadline,
            lambda found: report(problem, run, found.placements, "annealing on twin binary sequences"),
        )

    return run.attempt(work)


def divide(instance: WaferInstance, run: Run) -> Termination:
    """The divide-and-conquer slicing placer (:mod:`chipmap.heuristics.wafer.baselines.divide`)."""

    def work() -> None:
        from chipmap.heuristics.wafer.baselines.divide import divide as part

        problem = wafer_problem(instance)
        sized(problem, run)
        part(problem, run.deadline, lambda found: report(problem, run, found.placements, "divide and conquer"))

    return run.attempt(work)
