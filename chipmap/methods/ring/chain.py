"""The chain ``ring/auto``: greedy, slicing, programs over ideals, station and local search, neighbourhoods, models."""

from __future__ import annotations

from collections.abc import Callable

from chipmap.deadline import Deadline, Stop
from chipmap.heuristics.engines.ideals import TooManyIdealsError
from chipmap.instances.ring.instance import RingInstance
from chipmap.methods.chain import Link, Turn, follow
from chipmap.methods.ring.at_once import at_once
from chipmap.methods.ring.fewer_chips import search_on_fewer_chips
from chipmap.methods.ring.local_search import improve
from chipmap.methods.ring.programs import (
    CUT_NODES,
    CUTS,
    greedy,
    prefix_cuts,
    simple_bounds,
    slice_some,
    solve_exactly,
    solve_rule,
    window_bound,
)
from chipmap.methods.ring.state import RingChainState
from chipmap.methods.ring.station_search import ROUNDS, search
from chipmap.records import InputError
from chipmap.result import Termination
from chipmap.run import Run

#: With more ideals than that, the station search's first round comes before they are all listed.
FEW_IDEALS = 20_000
#: The share of the time left that this round and the first cuts of prefixes may take each, and seconds that they may
#: take in any case.
FIRST_SHARE, FIRST_SECONDS = 0.1, 5.0
#: States that the exact program may have before the station search gets its turn.
FEW_STATES = 50_000
#: Nodes of the cuts of prefixes at first; the share of the time left later, most seconds.
FEW_NODES = 200
CUT_SHARE, CUT_SECONDS = 0.8, 60.0
#: The share of the time left that programs of one block get before the station search (afterwards CUT_SHARE).
BLOCK_SHARE = 0.5
#: Where links decide, the shares of the time left: of cuts of prefixes before the station search, and of this one.
LINKS_CUTS, LINKS_STATIONS = 0.5, 0.3
#: The share of the time left for packages of fewer chips.
FEWER_SHARE = 0.2
#: Rounds of the station search that come after the neighbourhoods.
WIDE_ROUNDS = 2


def auto(instance: RingInstance, run: Run) -> Termination:
    """The best chain (:data:`CHAIN`). Stops as soon as the gap is closed."""

    def work() -> None:
        at_once(instance, run)
        run.checkpoint()
        if run.best is None:
            greedy(instance, run)
        follow(CHAIN, RingChainState(instance, run), Turn(run, run.deadline))

    return run.attempt(work)


def _slice(state: RingChainState, turn: Turn) -> None:
    """Slicing of some orders: the programs' first incumbent."""
    try:
        slice_some(state, state.run.options.seed, turn.deadline)
    except (TooManyIdealsError, InputError) as error:
        _left_out(state, error)


def _list_ideals(state: RingChainState, turn: Turn) -> None:
    """All ideals; where they are many, after cuts of prefixes, the station search's first round and local search."""
    if not state.sliced:
        return
    try:
        state.list_ideals(FEW_IDEALS)
    except TooManyIdealsError:
        _shortly(state, turn, lambda limit: prefix_cuts(state, FEW_NODES, limit))
        if not _links_decide(state):
            _shortly(state, turn, lambda limit: search(state, 1, limit))
        improve(state, turn)
        try:
            state.list_ideals()
        except TooManyIdealsError as error:
            _left_out(state, error)


def _shortly(state: RingChainState, turn: Turn, work: Callable[[Deadline], object]) -> None:
    """What comes before the ideals are listed, for a while."""
    seconds = max(FIRST_SECONDS, FIRST_SHARE * turn.deadline.seconds)
    try:
        work(turn.deadline if state.run.options.deterministic else turn.deadline.within(seconds))
    except Stop:
        turn.deadline.check()


def _left_out(state: RingChainState, error: Exception) -> None:
    state.run.note("left out", f"no program over all ideals: {getattr(error, 'what', error)}")


def _over_ideals(name: str, work: Callable[[RingChainState], object]) -> Link:
    """A link that needs all ideals."""
    return Link(name, 1.0, lambda state, _: state.ideals is not None and work(state))


def _n1(state: RingChainState) -> None:
    """The program with the necessary part of C3: a bound."""
    upper = state.run.upper
    state.proved(solve_rule(state, "n1", upper), upper, "program n1")


def _links_decide(state: RingChainState) -> bool:
    """Whether cuts of prefixes are the best bound, and not all ideals are listed: there the station search takes long
    and finds little.
    """
    return state.ideals is None and state.run.lower is not None and state.run.lower.source == CUTS


def _stations(state: RingChainState, turn: Turn) -> None:
    """The station search; where links decide, cuts of prefixes first, and some of its time."""
    if not _links_decide(state) or state.run.options.deterministic:
        search(state, len(ROUNDS) - WIDE_ROUNDS)
        return
    for share, work in (
        (LINKS_CUTS, lambda limit: prefix_cuts(state, CUT_NODES, limit)),
        (LINKS_STATIONS, lambda limit: search(state, len(ROUNDS) - WIDE_ROUNDS, limit)),
    ):
        try:
            work(turn.deadline.share(share))
        except Stop:
            turn.deadline.check()


def _eigenvalues(state: RingChainState, turn: Turn) -> None:
    """The bound from eigenvalues, unless the programs over all ideals have said as much and more."""
    from chipmap.heuristics.ring.bounds.spectral import spectral_bound

    if state.ideals is None:
        spectral_bound(state.problem, turn.deadline, lambda bound: state.run.bound(bound, "eigenvalues"))


def _longer_cuts(state: RingChainState, turn: Turn) -> None:
    """Cuts of prefixes for longer, unless the programs over all ideals have said as much and more."""
    if state.ideals is None:
        seconds = min(CUT_SECONDS, CUT_SHARE * turn.deadline.seconds)
        limit = turn.deadline if state.run.options.deterministic else turn.deadline.within(seconds)
        prefix_cuts(state, CUT_NODES, limit)


# what solves models is imported when its turn comes: most instances are proved before
def _block_programs(state: RingChainState, turn: Turn, share: float) -> None:
    """Programs of one block each, unless the programs over all ideals have said as much and more."""
    from chipmap.methods.ring.block_steps import block_steps

    if state.ideals is None:
        patient = state.run.options.deterministic
        limit = turn.deadline if patient else turn.deadline.share(share)
        block_steps(state, limit, patient)


def _neighbourhoods(state: RingChainState, turn: Turn) -> None:
    """Neighbourhoods of the incumbent, by CP-SAT."""
    from chipmap.methods.ring.neighbourhoods import refine

    refine(state, turn)


def _model(state: RingChainState, _: Turn) -> None:
    """CP-SAT, or the MIP by the solver that the user names."""
    from chipmap.methods.ring.models import cpsat, mip

    by_model = mip if state.run.options.solver in ("highs", "gurobi") else cpsat
    by_model(state.instance, state.run)


#: Each link stops when it has nothing more to say; a share below 1 would end it before.
CHAIN: tuple[Link, ...] = (
    Link("simple bounds", 1.0, lambda state, _: simple_bounds(state)),
    Link("slicing", 1.0, _slice),
    Link("ideals", 1.0, _list_ideals),
    Link("fewer chips", FEWER_SHARE, search_on_fewer_chips),
    Link("eigenvalues", 1.0, _eigenvalues),
    _over_ideals("program n1", _n1),
    _over_ideals("program path", lambda state: solve_rule(state, "path", state.below)),  # C3's sufficient part
    _over_ideals("exact program, few states", lambda state: solve_exactly(state, FEW_STATES)),
    Link("local search", 1.0, lambda state, turn: improve(state, turn) if state.ideals is not None else None),
    Link("block programs", 1.0, lambda state, turn: _block_programs(state, turn, BLOCK_SHARE)),
    Link("station search", 1.0, _stations),
    Link("station windows", 1.0, lambda state, _: window_bound(state) if state.sliced else None),
    Link("neighbourhoods", 1.0, _neighbourhoods),
    Link("cuts of prefixes", 1.0, _longer_cuts),
    Link("block programs, longer", 1.0, lambda state, turn: _block_programs(state, turn, CUT_SHARE)),
    Link("station search, wide", 1.0, lambda state, _: search(state, len(ROUNDS))),
    _over_ideals("exact program", solve_exactly),
    Link("model", 1.0, _model),
)
