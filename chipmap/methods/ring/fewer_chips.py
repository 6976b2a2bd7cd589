"""Work on a package of fewer chips: its mappings are mappings of the whole package, at the same cost.

On a package with many more chips than a good mapping needs, cuts of prefixes are the best bound, and the station search
looks for targets that no mapping reaches. With just as many chips as the incumbent uses, the average load is a good
bound, and the same search finds better mappings. Seen on a random graph of 400 operations: 142.138 µs on 8 chips, but
144.0 µs on 36.
"""

from __future__ import annotations

from chipmap.deadline import Stop
from chipmap.instances.ring.instance import RingSolution
from chipmap.instances.ring.variants import packaged
from chipmap.methods.chain import Turn
from chipmap.methods.ring.local_search import improve
from chipmap.methods.ring.programs import simple_bounds
from chipmap.methods.ring.state import RingChainState
from chipmap.methods.ring.station_search import search
from chipmap.records import InputError
from chipmap.run import Run

#: Rounds of the station search on each smaller package.
STATION_ROUNDS = 2


def search_on_fewer_chips(state: RingChainState, turn: Turn) -> None:
    """Search on as many chips as the incumbent uses, again as long as that leads to a mapping on even fewer.

    Left out where the incumbent uses all chips, where all ideals are listed (programs prove the optimum), and where
    the user's own function judges mappings.
    """
    run = state.run
    if state.ideals is not None or run.oracle is not None or run.evaluator is not None:
        return
    chips = state.problem.chips
    while run.best is not None:
        used = _packed(run.best.solution)  # type: ignore[arg-type]
        count = max((chip for chip in used.chips if chip >= 0), default=-1) + 1
        if not 0 < count < chips or not _search(state, turn, used, count):
            return
        chips = count


def _packed(solution: RingSolution) -> RingSolution:
    """The mapping with its chips numbered without holes (an idle chip between two others is passed through)."""
    order = {chip: i for i, chip in enumerate(sorted({chip for chip in solution.chips if chip >= 0}))}
    return solution.replace(chips=tuple(order.get(chip, chip) for chip in solution.chips))


def _search(state: RingChainState, turn: Turn, start: RingSolution, chips: int) -> bool:
    """Search on the first ``chips`` chips from ``start``; whether the incumbent got better."""
    run, before = state.run, state.run.upper
    try:
        instance = packaged(state.instance, chips=chips)
    except InputError:  # a pin names a chip that would be no more
        return False
    inner = run.inner(instance, turn.deadline)
    inner.solution(start, "start")
    if inner.best is None:  # it needs the holes, for pins or forbidden chips
        return False
    inner.listener = lambda event, _: _hand_over(inner, turn) if event.event == "solution" else None
    smaller = RingChainState(instance, inner)
    try:
        simple_bounds(smaller)
        search(smaller, STATION_ROUNDS)
        improve(smaller, Turn(inner, inner.deadline))
    except Stop:  # the smaller package's optimum, or the time is up
        turn.deadline.check()
    return run.upper != before


def _hand_over(inner: Run, turn: Turn) -> None:
    assert inner.best is not None
    turn.solution(inner.best.solution, f"{inner.best.source}, fewer chips")
