"""Links of ``wafer/auto`` that make slicing floorplans: rows to and fro, cuts, rings, the annealing of fixed boxes."""

from __future__ import annotations

from math import inf

from chipmap.instances.wafer.instance import WaferSolution
from chipmap.methods.chain import Turn
from chipmap.methods.wafer.state import COUNTED, FIXED, RINGS, WIRED, WaferChainState

#: Seconds' worth of counted cuts, or of wired ones, where there is no time limit.
UNLIMITED_CUTS = 20.0
#: Moves of fixed boxes times kernels, where it isn't the clock that ends them.
UNLIMITED_MOVES = 3e8


def to_and_fro(state: WaferChainState, turn: Turn) -> None:
    """Rows to and fro of least wire, at once."""
    from chipmap.heuristics.wafer.rows.snakes import snakes

    snakes(state.problem, turn.deadline, lambda found: state.in_rows(turn, found.placements, "snakes"))


def by_counting(state: WaferChainState, turn: Turn) -> None:
    """Guillotine cuts by how many kernels of each type a rectangle holds."""
    from chipmap.heuristics.wafer.slicing.counted import counted_cuts
    from chipmap.heuristics.wafer.slicing.sizing import Sizing

    def found(solution: WaferSolution) -> None:
        state.in_rows(turn, solution.placements, COUNTED)

    if state.problem.n > 1 and (low := Sizing(state.problem).area_time()):
        counted_cuts(state.problem, state.seed, turn.deadline, found, low, _seconds(turn), state.kept.extend)


def by_wiring(state: WaferChainState, turn: Turn) -> None:
    """The slicing program that knows wires, along the order of the kernels."""
    from chipmap.heuristics.wafer.slicing.wired import wired_cuts

    problem, seconds = state.problem, _seconds(turn)
    wired_cuts(problem, state.seed, turn.deadline, lambda one: state.in_rows(turn, one.placements, WIRED), seconds)


def by_rings(state: WaferChainState, turn: Turn) -> None:
    """Rings round a hub, where the graph has one."""
    from chipmap.heuristics.wafer.slicing.rings import rings

    def found(solution: WaferSolution) -> None:
        state.in_rows(turn, solution.placements, RINGS)

    rings(state.problem, turn.deadline, found, _seconds(turn), state.kept.extend)


def fixed(state: WaferChainState, turn: Turn) -> None:
    """Annealing of the slicing floorplans so far, each kernel with a box of its own.

    It ends after a round that leaves the best of them no better than all the floorplans of the links before.
    """
    from chipmap.heuristics.wafer.slicing.fixed import fixed_boxes

    def found(solution: WaferSolution) -> None:
        state.in_rows(turn, solution.placements, FIXED)

    starts, known = [*state.kept, *state.rows.values()], min(map(state.score, state.rows.values()), default=inf)
    work = inf if turn.run.clocked else UNLIMITED_MOVES
    fixed_boxes(state.problem, starts, state.seed, turn.deadline, found, work, known)


def _seconds(turn: Turn) -> float | None:
    """How many seconds' worth of cuts, where it isn't the clock that says so: what it has left doesn't count then."""
    limit = turn.run.options.time_limit
    if turn.run.clocked:
        return None
    return UNLIMITED_CUTS if limit is None else turn.deadline.part * limit
