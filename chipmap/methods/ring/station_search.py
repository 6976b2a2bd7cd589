"""The station search as a method (``ring/stations``) and as a link of the chain ``ring/auto``.

:mod:`chipmap.heuristics.ring.station_search.search` decides single targets; here they are chosen: the lower bound
first (a mapping there ends the run), then by bisection below the incumbent, in rounds of growing width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from chipmap.deadline import Deadline
from chipmap.instances.ring.instance import RingInstance
from chipmap.methods.ring.programs import simple_bounds, slice_some
from chipmap.methods.ring.state import RingChainState
from chipmap.result import Termination
from chipmap.run import Run

if TYPE_CHECKING:
    from chipmap.heuristics.ring.station_search.search import StationSearch

SOURCE = "station search"


class Effort(NamedTuple):
    """What a round may spend: states kept per level, ideals tried per state and order, orders of the operations.

    Orders: 0 by number, 1 depth first, 2 breadth first, then random. Bisection ends when the targets left span less
    than ``precision`` of the incumbent.
    """

    width: int
    nodes: int
    orders: tuple[int, ...]
    precision: float


ROUNDS: tuple[Effort, ...] = (
    Effort(20, 200, (1, 0, 2), 0.02),
    Effort(50, 200, (1, 0, 2), 0.01),
    Effort(50, 500, (1, 0, 2, 3), 0.005),
    Effort(200, 1000, (1, 0, 3, 4), 0.002),
    Effort(1000, 2000, (1, 0, 3, 4), 0.0005),
)
#: The next target lies at this share of the way from the last one missed to the incumbent.
SHARE = 0.3


def stations(instance: RingInstance, run: Run) -> Termination:
    """The station search alone, after slicing: mappings, and bounds where nothing was left out."""

    def work() -> None:
        state = RingChainState(instance, run)
        simple_bounds(state)
        run.checkpoint()
        slice_some(state, run.options.seed, run.deadline)
        run.checkpoint()
        search(state, len(ROUNDS))

    return run.attempt(work)


def search(state: RingChainState, rounds: int, deadline: Deadline | None = None) -> None:
    """The first so many rounds, as far as they aren't done, until ``deadline`` (None: the run's).

    A note where the search doesn't apply; raises :class:`Stop` where a round is cut short.
    """
    from chipmap.heuristics.ring.station_search.search import StationSearch

    run = state.run
    if state.problem.n == 0 or not state.problem.total_ticks:
        return
    try:
        stations = StationSearch(state.problem)
    except ValueError as error:
        run.note("left out", f"no station search: {error}")
        return
    for effort in ROUNDS[state.rounds : rounds]:
        state.rounds += 1
        _round(state, stations, effort, deadline or run.deadline)
        run.checkpoint()


def _round(state: RingChainState, stations: StationSearch, effort: Effort, deadline: Deadline) -> None:
    """The bound itself, then bisection between it and the incumbent; without one, doubled targets first."""
    run = state.run
    low = run.lower.value if run.lower else 1
    if _decide(state, stations, low, effort, deadline) or run.closed:
        return
    high = run.upper
    target = max(low, 1)
    while high is None and target < state.problem.total_ticks:
        target *= 2
        if _decide(state, stations, target, effort, deadline):
            high = run.upper
    while high is not None and high - low > max(1, effort.precision * high):
        run.checkpoint()
        middle = low + max(1, int(SHARE * (high - low)))
        if _decide(state, stations, middle, effort, deadline):
            high = min(run.upper or middle, middle)
        else:
            low = middle


def _decide(state: RingChainState, stations: StationSearch, target: int, effort: Effort, deadline: Deadline) -> bool:
    """Whether a mapping with value <= ``target`` is found; a proof that none exists is a bound."""
    run = state.run
    run.checkpoint()
    result = stations.decide(target, effort.width, effort.nodes, deadline, effort.orders, run.options.seed)
    if result.chips is not None:
        accepted = state.report(result.chips, SOURCE)
        run.checkpoint()
        return accepted
    if result.complete:
        run.bound(target + 1, SOURCE)
    return False
