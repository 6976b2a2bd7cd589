"""The station search as a method (``ring/stations``) and as a link of the chain ``ring/auto``.

:mod:`chipmap.heuristics.ring.windowed` decides single targets; here they are chosen: the lower bound first (a mapping
there ends the run), then by bisection below the incumbent, in rounds of growing width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chipmap.instances.ring.instance import RingInstance, RingSolution
from chipmap.result import Termination
from chipmap.run import Run

if TYPE_CHECKING:
    from chipmap.heuristics.ring.windowed import StationSearch
    from chipmap.methods.ring import Work

SOURCE = "station search"
#: States kept per level, ideals tried per state and orders (0 depth first, 1 by number, 2 breadth first, then random)
#: of each round.
ROUNDS = ((100, 300, (2, 0, 3)), (100, 2000, (1, 2, 3)), (1000, 2000, (3, 4, 0)))
#: The next target lies at this share of the way from the last one missed to the incumbent.
SHARE = 0.3
#: Orders from this number on are random.
RANDOM = 3
#: Bisection ends when the targets left span less than this share of the incumbent.
PRECISION = 0.002


def stations(instance: RingInstance, run: Run) -> Termination:
    """The station search alone, after slicing: mappings, and bounds where nothing was left out."""
    from chipmap.methods.ring import Work, _simple_bounds, _slice

    def work() -> None:
        state = Work(instance, run)
        _simple_bounds(state)
        run.checkpoint()
        _slice(state, run.options.seed)
        run.checkpoint()
        search(state)

    return run.attempt(work)


def search(state: Work, rounds: tuple[tuple[int, int, tuple[int, ...]], ...] = ROUNDS) -> None:
    """All rounds on the problem of ``state``; a note where the search doesn't apply. Stops the run when it is done."""
    from chipmap.heuristics.ring.windowed import StationSearch

    run = state.run
    if state.problem.n == 0 or not state.problem.total_ticks:
        return
    try:
        stations = StationSearch(state.problem)
    except ValueError as error:
        run.notes.append(f"no station search: {error}")
        return
    for width, nodes, orders in rounds:
        seeds = [order if order < RANDOM else order + run.options.seed for order in orders]
        _round(state, stations, width, nodes, seeds)
        run.checkpoint()


def _round(state: Work, stations: StationSearch, width: int, nodes: int, seeds: list[int]) -> None:
    """The bound itself, then bisection between it and the incumbent; without one, doubled targets first."""
    run = state.run
    low = run.lower.value if run.lower else 1
    if _decide(state, stations, low, width, nodes, seeds) or run.closed:
        return
    high = run.upper
    target = max(low, 1)
    while high is None and target < state.problem.total_ticks:
        target *= 2
        if _decide(state, stations, target, width, nodes, seeds):
            high = run.upper
    while high is not None and high - low > max(1, PRECISION * high):
        run.checkpoint()
        middle = low + max(1, int(SHARE * (high - low)))
        if _decide(state, stations, middle, width, nodes, seeds):
            high = min(run.upper or middle, middle)
        else:
            low = middle


def _decide(state: Work, stations: StationSearch, target: int, width: int, nodes: int, seeds: list[int]) -> bool:
    """Whether some order of ``seeds`` finds a mapping with value <= ``target``; a proof that none exists is a bound."""
    run = state.run
    for seed in seeds:
        run.checkpoint()
        result = stations.decide(target, width, nodes, run.checkpoint, seed)
        if result.chips is not None:
            solution = RingSolution(instance=state.contraction.instance.name, chips=result.chips)
            certificate = run.solution(state.contraction.lift(solution), SOURCE)
            run.checkpoint()
            return certificate.feasible
        if result.complete:
            run.bound(target + 1, SOURCE)
            return False
    return False
