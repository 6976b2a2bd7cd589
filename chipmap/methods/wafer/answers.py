"""Links of ``wafer/auto`` that answer for certain: the model of a small fabric, and any floorplan of a large one."""

from __future__ import annotations

from chipmap.instances.wafer.instance import WaferSolution
from chipmap.instances.wafer.problem import WaferProblem
from chipmap.instances.wafer.shapes import shapes
from chipmap.methods.chain import Turn
from chipmap.methods.model_solve import Limits
from chipmap.methods.wafer.models import at_longest, exactly
from chipmap.methods.wafer.reasons import no_floorplan
from chipmap.methods.wafer.sequences import Sequences, anneal

#: CP-SAT's work where there is no time limit, on the model of the whole fabric and on any floorplan.
WORK, ANY_WORK = 60.0, 20.0
#: Boxes placed while sequences are annealed.
BOXES = 40_000


def whole(problem: WaferProblem, turn: Turn, share: float) -> None:
    """CP-SAT on the model of every sizing; in deterministic runs with the work of ``share`` of the time limit."""
    exactly(problem, turn.run, "cpsat", _limits(turn, share, WORK), "cpsat")


def answer(problem: WaferProblem, turn: Turn, seed: int) -> None:
    """Where no floorplan is known: sequences at the longest time, then CP-SAT, which may prove that there is none."""
    run = turn.run
    if run.best is not None:
        return
    fronts = shapes(problem, problem.longest)
    found = anneal(Sequences(problem, fronts, problem.longest), seed, BOXES // problem.n, turn.share(0.5).deadline)
    if found is not None:
        turn.solution(WaferSolution(instance=problem.instance.name, placements=tuple(found)), "sequences")
        return
    solved = at_longest(problem, run, _limits(turn, 0.1, ANY_WORK))
    if isinstance(solved, WaferSolution):
        turn.solution(solved, "cpsat")
    elif not solved:
        turn.infeasible(no_floorplan(problem, run))
        turn.deadline.check()


def _limits(turn: Turn, share: float, work: float) -> Limits:
    """All of the turn's time; in deterministic runs work for ``share`` of the time limit; without a limit ``work``."""
    options = turn.run.options
    if options.time_limit is None:
        return Limits(work=work, deadline=turn.deadline)
    if options.deterministic:
        return Limits(seconds=share * options.time_limit, deadline=turn.run.deadline)
    return Limits(deadline=turn.deadline)
