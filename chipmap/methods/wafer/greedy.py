"""The methods of family ``wafer``: what ``--method`` names.

Every method is a function (instance, run) -> Termination that reports to ``run``; what it found stays there when the
deadline passes.
"""

from __future__ import annotations

from collections.abc import Sequence

from chipmap.heuristics.wafer.bounds.single_kernel import SingleKernel, least_score, single_kernels
from chipmap.instances.wafer.instance import Placement, WaferInstance, WaferSolution, special
from chipmap.instances.wafer.problem import WaferProblem, evaluate, formulas_only, wafer_problem
from chipmap.methods.chain import Turn
from chipmap.methods.wafer.reasons import no_floorplan
from chipmap.records import InputError
from chipmap.result import Termination
from chipmap.run import Run


def report(problem: WaferProblem, run: Run, placements: Sequence[Placement], source: str) -> None:
    """Hand a floorplan to the run if it would improve on the incumbent (``evaluate`` is much faster than a check)."""
    value = evaluate(problem, placements).score
    if run.upper is None or value < run.upper:
        solution = WaferSolution(instance=problem.instance.name, placements=tuple(placements))
        run.solution(solution, source, claimed=value)


def sized(problem: WaferProblem, run: Run) -> list[SingleKernel]:
    """Each type by itself on the fabric, with the bound or the proof of infeasibility that this gives."""
    found, reasons = single_kernels(problem, run.deadline)
    if reasons:
        run.infeasible(*reasons)
        run.checkpoint()
    run.bound(least_score(problem, found), "slowest single kernel")
    return found


def greedy(instance: WaferInstance, run: Run) -> Termination:
    """The greedy row packer (:mod:`chipmap.heuristics.wafer.rows.greedy`): a floorplan wherever rows leave room enough.

    With pins or obstacles (C4, C5) kernels are placed one by one (:mod:`chipmap.heuristics.wafer.obstructed`)."""
    problem = wafer_problem(instance)
    if special(instance):
        return run.attempt(
            lambda: cornered(problem, max(one.time for one in sized(problem, run)), Turn(run, run.deadline))
        )
    return run.attempt(lambda: packed(problem, sized(problem, run), run))


def cornered(problem: WaferProblem, least: int, turn: Turn) -> None:
    """Report floorplans that obey C4 and C5, kernel by kernel."""
    from chipmap.heuristics.wafer.obstructed import floorplans

    turn.run.checkpoint()
    for placements in floorplans(problem, least, turn.deadline):
        report(problem, turn.run, placements, "one by one")
        turn.deadline.check()


def packed(problem: WaferProblem, found: Sequence[SingleKernel], run: Run) -> None:
    """Report every row packing that improves on the incumbent."""
    from chipmap.heuristics.wafer.rows.greedy import greedy as pack

    for placements in pack(problem, found, run.upper):
        if placements is not None:
            report(problem, run, placements, "greedy rows")
        run.checkpoint()


def exact(instance: WaferInstance, run: Run) -> Termination:
    """Branch and bound over all placements: the optimum of a tiny instance, with its proof."""

    def work() -> None:
        problem = formulas_only(instance)
        sized(problem, run)
        run.checkpoint()
        if not exhausted(problem, run):
            remedy = "Methods for every instance: wafer/auto, wafer/greedy."
            raise InputError("has too many placements to try them all", instance.name, remedy)

    return run.attempt(work)


def exhausted(problem: WaferProblem, run: Run) -> bool:
    """Solve a tiny instance by branch and bound; False for one that is not tiny."""
    from chipmap.heuristics.wafer.exhaustive import TooLargeError, solve

    try:
        score, placements = solve(
            problem, run.upper, run.deadline, lambda found: report(problem, run, found, "branch and bound")
        )
    except TooLargeError:
        return False
    if placements is not None and score is not None:
        report(problem, run, placements, "branch and bound")
        run.bound(score, "branch and bound")
    elif run.upper is not None:
        run.bound(run.upper, "branch and bound")
    else:
        run.infeasible(no_floorplan(problem, run))
    return True
