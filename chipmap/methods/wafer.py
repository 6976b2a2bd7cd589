"""The methods of family ``wafer``: what ``--method`` names.

Every method is a function (instance, run) -> Termination that reports to ``run``; what it found stays there when the
deadline passes.
"""

from __future__ import annotations

from collections.abc import Sequence

from chipmap.heuristics.wafer.alone import Alone, alone, score_of_time
from chipmap.instances.wafer.costs import WaferProblem, evaluate, wafer_problem
from chipmap.instances.wafer.instance import Placement, WaferInstance, WaferSolution
from chipmap.result import Termination
from chipmap.run import Run


def report(problem: WaferProblem, run: Run, placements: Sequence[Placement], source: str) -> None:
    """Hand a floorplan to the run if it would improve on the incumbent (``evaluate`` is much faster than a check)."""
    value = evaluate(problem, placements).score
    if run.upper is None or value < run.upper:
        solution = WaferSolution(instance=problem.instance.name, placements=tuple(placements))
        run.solution(solution, source, claimed=value)


def sized(problem: WaferProblem, run: Run) -> list[Alone]:
    """Each type alone on the fabric, with the bound or the proof of infeasibility that this gives."""
    found, reasons = alone(problem, run.checkpoint)
    if reasons:
        run.infeasible(*reasons)
        run.checkpoint()
    run.bound(score_of_time(problem, found), "slowest kernel alone")
    return found


def greedy(instance: WaferInstance, run: Run) -> Termination:
    """The greedy row packer (:mod:`chipmap.heuristics.wafer.greedy`): a floorplan wherever rows leave room enough."""

    def work() -> None:
        from chipmap.heuristics.wafer.greedy import greedy as pack

        problem = wafer_problem(instance)
        for placements in pack(problem, sized(problem, run)):
            report(problem, run, placements, "greedy rows")
            run.checkpoint()

    return run.attempt(work)


def bounds(instance: WaferInstance, run: Run) -> Termination:
    """Every lower bound that applies, each under its own name; no floorplan is looked for."""
    return run.attempt(lambda: _ignore(sized(wafer_problem(instance), run)))


def auto(instance: WaferInstance, run: Run) -> Termination:
    """The best chain."""
    return greedy(instance, run)


def _ignore(_: object) -> None:
    """For lambdas that return nothing."""
