"""The chain of wafer instances with pins (C4): corners, bounds that hold whatever C4 says, and the CP-SAT models.

Rows, slicing trees and exchanges don't know C4 and pass. On a small fabric the model ends with a proof. On a large one
it is asked for floorplans at target times, and neighbourhoods improve them.
"""

from __future__ import annotations

from chipmap.instances.wafer.instance import WaferSolution
from chipmap.instances.wafer.problem import WaferProblem
from chipmap.methods.chain import Link, Turn, follow
from chipmap.methods.wafer.greedy import cornered, sized
from chipmap.methods.wafer.models import solve_floorplans
from chipmap.methods.wafer.neighbourhoods import SOURCE, search_neighbourhoods
from chipmap.methods.wafer.reasons import SMALL_SIDE, impossible_pins, no_floorplan
from chipmap.run import Run


def chain(problem: WaferProblem, run: Run) -> None:
    """The links, one after the other."""
    least = max(one.time for one in sized(problem, run))

    small = max(problem.width, problem.height) <= SMALL_SIDE
    proofs = () if small else (Link("boxes of pins", 0.2, _boxes), Link("bounds", 0.2, _bounds))
    last = () if small else (Link("neighbourhoods", 1.0, _neighbourhoods),)
    links = (
        *proofs[:1],
        Link("corners", 0.2, lambda problem, turn: cornered(problem, least, turn.run)),
        *proofs[1:],
        Link("cpsat", 1.0 if small else 0.6, _model),
        *last,
    )
    follow(links, problem, Turn(run, run.deadline))


def _boxes(problem: WaferProblem, turn: Turn) -> None:
    """A proof where a kernel can't fill the box that its pin gives."""
    if reasons := impossible_pins(problem, turn.deadline):
        turn.infeasible(*reasons)
        turn.deadline.check()


def _bounds(problem: WaferProblem, turn: Turn) -> None:
    """Lower bounds: they hold for more floorplans than C4 allows."""
    from chipmap.heuristics.wafer.bounds.score import NoFloorplanError, bounds

    try:
        bounds(problem, turn.run.upper, turn.deadline, turn.bound)
    except NoFloorplanError:
        turn.infeasible(no_floorplan(problem, turn.run))
        turn.deadline.check()


def _model(problem: WaferProblem, turn: Turn) -> None:
    """The CP-SAT model: as a whole, or at target times."""
    solve_floorplans(problem, turn.run, "cpsat")


def _neighbourhoods(problem: WaferProblem, turn: Turn) -> None:
    """CP-SAT neighbourhoods of the best floorplan, which state C4."""
    run = turn.run
    if run.best is not None:
        assert isinstance(run.best.solution, WaferSolution)
        solution = run.best.solution
        search_neighbourhoods(run, problem, solution, turn.deadline, lambda better: turn.solution(better, SOURCE))
