"""The chain of wafer instances with pins, obstacles, tables or wires of their own: what knows of them, and what works
without.

Rows, slicing trees and exchanges know none of them. Without C4 and tables they look for floorplans in the largest
free rectangle. Bounds are those of the instance without C4 to C7, sides and tables. On a small fabric the model ends
with a proof; on a large one neighbourhoods and reinsertion improve floorplans.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from chipmap.deadline import Stop
from chipmap.formulations.wafer.options import least_time
from chipmap.heuristics.wafer.board import FEW
from chipmap.heuristics.wafer.images import best_image
from chipmap.heuristics.wafer.reinsertion import improve
from chipmap.instances.wafer.holes import obstacles
from chipmap.instances.wafer.instance import Placement, WaferSolution
from chipmap.instances.wafer.problem import WaferProblem, evaluate, in_order, wafer_problem
from chipmap.instances.wafer.special import easier, in_the_open
from chipmap.methods.chain import Link, Turn, follow
from chipmap.methods.wafer.around import shorter
from chipmap.methods.wafer.greedy import cornered, sized
from chipmap.methods.wafer.models import solve_floorplans
from chipmap.methods.wafer.neighbourhoods import SOURCE, search_neighbourhoods
from chipmap.methods.wafer.reasons import SMALL_SIDE, impossible_pins, no_floorplan
from chipmap.records import Record
from chipmap.run import Run

REINSERTED = "reinsertion"
#: Steps of reinsertion where the clock decides nothing; obstacles up to which CP-SAT is asked for neighbourhoods.
STEPS, MOST_OBSTACLES = 400, 5 * FEW
#: Rounds of reinsertion and neighbourhoods without a time limit.
ROUNDS = 2


def chain(problem: WaferProblem, run: Run, others: Callable[[WaferProblem, Turn], None]) -> None:
    """The links, one after the other; ``others`` look for floorplans of a problem that all engines know."""
    least = max(one.time for one in sized(problem, run))
    run.checkpoint()
    start = Link("one by one", 0.2, lambda problem, turn: cornered(problem, least, turn))
    if max(problem.width, problem.height) <= SMALL_SIDE:
        follow((start, Link("cpsat", 1.0, _model)), problem, Turn(run, replace(run.deadline, patient=True)))
        return
    links = (
        Link("boxes of pins", 0.2, _boxes),
        start,
        Link("largest free rectangle", 0.35, lambda problem, turn: _in_the_open(problem, turn, others)),
        Link("sequences", 0.3, _sequences),
        Link("bounds", 0.2, bounds),
        Link("cpsat", 0.4, _model),
        Link("rounds", 1.0, _rounds),
    )
    follow(links, problem, Turn(run, replace(run.deadline, patient=True)))


@dataclass(frozen=True)
class Moved(Turn):
    """A turn on a free ``part`` (x, y, width, height) of the ``whole`` fabric: its floorplans are moved there, as the
    mirror image that suits sides and lines best. Its bounds aren't heard."""

    whole: WaferProblem
    part: tuple[int, int, int, int]

    def solution(self, solution: Record, source: str) -> None:
        """Hand over a floorplan of the part, unless every image of it breaks C6 or C7."""
        assert isinstance(solution, WaferSolution)
        image = best_image(self.whole, in_order(self.whole, solution), self.part)
        if image is not None:
            super().solution(solution.replace(placements=tuple(image)), source)

    def bound(self, value: int, source: str) -> None:
        """Say nothing: other floorplans may be better."""


def _in_the_open(problem: WaferProblem, turn: Turn, others: Callable[[WaferProblem, Turn], None]) -> None:
    """The links that know nothing special, on the largest free rectangle."""
    part = in_the_open(problem)
    if part is None:
        return
    inner = wafer_problem(part[0])
    least, upper = least_time(inner), turn.run.upper
    if least is not None and (upper is None or problem.instance.weights.time * least < upper):
        others(inner, Moved(turn.run, turn.deadline, problem, (*part[1:], inner.width, inner.height)))


def _sequences(problem: WaferProblem, turn: Turn) -> None:
    """Sequences around obstacles at shorter times than the best floorplan's."""
    best = turn.run.best
    if best is None or problem.n == 1 or not problem.instance.weights.time:
        return
    assert isinstance(best.solution, WaferSolution)
    for placements in shorter(problem, in_order(problem, best.solution), turn.run.options.seed, turn.deadline):
        turn.solution(WaferSolution(instance=problem.instance.name, placements=tuple(placements)), "sequences")


def _boxes(problem: WaferProblem, turn: Turn) -> None:
    """A proof where a kernel can't fill the box that its pin gives."""
    if reasons := impossible_pins(problem, turn.deadline):
        turn.infeasible(*reasons)
        turn.deadline.check()


def bounds(problem: WaferProblem, turn: Turn) -> None:
    """Lower bounds of the instance without C4 to C7, sides and tables."""
    from chipmap.heuristics.wafer.bounds.score import NoFloorplanError
    from chipmap.heuristics.wafer.bounds.score import bounds as prove

    plain = easier(problem.instance)
    if plain is None:
        return
    try:
        prove(wafer_problem(plain), turn.run.upper, turn.deadline, turn.bound)
    except NoFloorplanError:
        turn.infeasible(no_floorplan(problem, turn.run))
        turn.deadline.check()


def _model(problem: WaferProblem, turn: Turn) -> None:
    """The CP-SAT model: as a whole, or, where no floorplan is known, at target times."""
    small = max(problem.width, problem.height) <= SMALL_SIDE
    if small or turn.run.best is None:
        solve_floorplans(problem, turn.run, "cpsat")


def _rounds(problem: WaferProblem, turn: Turn) -> None:
    """Reinsertion and CP-SAT neighbourhoods in turn, of the best floorplan, until the time is used."""
    run, seed, last = turn.run, 0, -1
    solver = not problem.instance.fabric.has_holes or len(obstacles(problem.instance.fabric)) <= MOST_OBSTACLES
    while run.best is not None and turn.deadline.keep_going() and (run.clocked or seed < ROUNDS):
        try:
            _reinsert(problem, turn.share(0.3), run.options.seed + seed)
        except Stop:
            turn.deadline.check()  # only its share is used up
        best = run.best.solution
        assert isinstance(best, WaferSolution)
        score = evaluate(problem, in_order(problem, best)).score
        if solver and problem.n > 1 and (score != last or seed % 4 == 0):
            end = replace(turn.deadline, until=turn.deadline.until - 0.5)
            search_neighbourhoods(run, problem, best, end, lambda better: turn.solution(better, SOURCE), seed)
        last, seed = score, seed + 1


def _reinsert(problem: WaferProblem, turn: Turn, seed: int) -> None:
    best = turn.run.best
    assert best is not None and isinstance(best.solution, WaferSolution)

    def found(placements: list[Placement]) -> None:
        made = WaferSolution(instance=problem.instance.name, placements=tuple(placements))
        turn.solution(made, REINSERTED)

    steps = None if turn.run.clocked else STEPS
    improve(problem, in_order(problem, best.solution), seed, steps, turn.deadline, found)
