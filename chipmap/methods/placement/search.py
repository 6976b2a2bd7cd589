"""Annealing from the best start, with a time limit and several threads on two of them, beside partitions and bounds."""

from __future__ import annotations

from chipmap.methods.chain import Link, Turn, follow
from chipmap.methods.lanes import Lane, side_by_side
from chipmap.methods.placement.chain_state import ChainState
from chipmap.methods.placement.rounds import CARRIED, SEVERAL, SMALL, TWO, rounds
from chipmap.options import cores
from chipmap.run import Run

#: Seconds from which on a search begins with several rounds.
LONG = 25.0
#: The second lane's seed is that of the first plus this.
OTHER_SEED = 2**30


def improve(state: ChainState, turn: Turn, partitions: Link, windows: Link) -> None:
    """Partitions, bounds and annealing: one after the other, or side by side in two lanes that both end in annealing.

    The lanes exchange their best placement whenever one begins a round.
    """
    if not several(turn.run):
        follow((partitions, windows, Link("search", 1.0, search)), state, turn)
        return
    state.heads_and_tails(turn.deadline)  # both lanes use them
    lanes = (partitions, Link("search", 1.0, search)), (windows, Link("search", 1.0, second))
    try:
        side_by_side(turn.run, state, lanes)
    finally:
        _note(state, turn.run)


def several(run: Run) -> bool:
    """Whether a run may use several threads at no loss: its results depend on the clock anyway."""
    return run.clocked and (run.options.threads or cores()) != 1


def search(state: ChainState, turn: Turn) -> None:
    """Rounds of annealing over devices and keys."""
    _rounds(state, turn, turn.run.options.seed, False)
    if not isinstance(turn, Lane):
        _note(state, turn.run)
    turn.deadline.check()


def second(state: ChainState, turn: Turn) -> None:
    """The same with another seed, and the two ways to begin the other way round."""
    _rounds(state, turn, turn.run.options.seed + OTHER_SEED, True)
    turn.deadline.check()


def _rounds(state: ChainState, turn: Turn, seed: int, turning: bool) -> None:
    """Rounds by the plan for this start and this time."""
    many = not turn.run.clocked or turn.deadline.seconds >= LONG
    plan = SEVERAL if many and state.size > SMALL else TWO
    rounds(state, turn, seed, CARRIED if state.carried or state.phased else plan, turning)


def _note(state: ChainState, run: Run) -> None:
    run.note("search", f"annealing: {state.simulated} simulations", simulated=state.simulated)
