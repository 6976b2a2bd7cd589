"""Annealing from the best start, with a time limit and several threads on two of them, beside partitions and bounds."""

from __future__ import annotations

import time

from chipmap.heuristics.placement.search.annealing import AnnealingState, anneal, annealing_state, seed_with
from chipmap.heuristics.placement.search.slack import slack_for
from chipmap.heuristics.placement.search.units import units
from chipmap.heuristics.placement.simulation.tables import Work, workspaces
from chipmap.heuristics.placement.starts.apart import held
from chipmap.methods.chain import Link, Turn, follow
from chipmap.methods.lanes import Lane, side_by_side
from chipmap.methods.placement.chain_state import ChainState
from chipmap.options import cores
from chipmap.run import Run

#: Operations · devices up to which CP-SAT gets the time that is left.
SMALL = 240
#: Moves of the annealing on a small instance, and of all rounds together where no time limit is given; moves times
#: operations at most there.
FEW_MOVES, MOVES, MOST = 2_000, 200_000, 10**9
#: Rounds, and the first and last temperature as shares of the step time.
ROUNDS, HOT, COLD = 6, 1e-3, 6e-5
#: The first temperature of a search from a carried plan: of 52,213 operations 15 CPU s ended with 432.6 ms instead of
#: 435.9, and 440.1 with the first two rounds as they are elsewhere.
COOL = 1e-4
#: Operations that a call of compiled code simulates at most, after which the clock is looked at (some 0.1 s), and the
#: fewest moves of a call.
CHUNK, FEWEST = 1_500_000, 4
#: Moments of a simulation that the search keeps.
MOMENTS = 24
#: A search goes on for so many times what a check took before the next one.
PATIENCE = 5.0
#: The second lane's seed is that of the first plus this.
OTHER_SEED = 2**30


def improve(state: ChainState, turn: Turn, partitions: Link, windows: Link) -> None:
    """Partitions, bounds and annealing: one after the other, or side by side in two lanes that both end in annealing.

    The lanes exchange their best placement whenever one begins a round.
    """
    if not state.problem.timed:
        return
    if state.size <= SMALL or not several(turn.run):
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
    rounds(state, turn, turn.run.options.seed, () if state.carried else (False, True))
    if not isinstance(turn, Lane):
        _note(state, turn.run)
    turn.deadline.check()


def second(state: ChainState, turn: Turn) -> None:
    """The same with another seed, and the two ways to begin the other way round."""
    rounds(state, turn, turn.run.options.seed + OTHER_SEED, () if state.carried else (True, False))
    turn.deadline.check()


def _note(state: ChainState, run: Run) -> None:
    run.note("search", f"annealing: {state.simulated} simulations", simulated=state.simulated)


def rounds(state: ChainState, turn: Turn, seed: int, ways: tuple[bool, ...], most: int = MOST) -> None:
    """Rounds of annealing until the turn is over or enough moves were made.

    A round runs its schedules backwards from time to time, or leaves that. The first two are one of each (``ways``),
    as either may end far better, and begin from the best start by keys of that kind. The later ones go on from the best
    so far, the way that it was found. A plan of a smaller graph is far better than other starts: there all rounds are
    later ones (``ways`` is empty), and cooler. ``most``: moves times operations, where no time limit is given.
    """
    problem, run, few = state.problem, turn.run, state.size <= SMALL
    if not problem.timed or state.best is None or not problem.operations:
        return
    limited = run.clocked and not few
    both = workspaces(problem, MOMENTS)
    made, slack = units(problem, None if few else state.repeated), slack_for(problem)
    chunk = max(FEWEST, CHUNK // problem.operations)
    budget = FEW_MOVES if few else min(MOVES, max(ROUNDS, most // problem.operations))
    chunk = min(chunk, budget // ROUNDS)
    seed_with(seed)
    total, hot = turn.deadline.seconds, HOT if ways else COOL
    for number in range(ROUNDS):
        early = number < len(ways)
        turning = ways[number] if early else state.turning
        start = (state.by_backward_keys if turning else state.ranked) if early else state.best
        over, step, devices, key = start or state.best
        now, done, share = annealing_state(devices, key, step, over), 0, 0.0
        highest, until = hot / 2 ** max(0, number - 1) * max(1, step), total * (ROUNDS - 1 - number) / ROUNDS
        tail, allowed = state.heads_and_tails(turn.deadline).tail, held(problem, devices)
        # a checked placement costs time, twice in a child process: the last one must be told before the deadline
        while turn.deadline.keep_going() and share < 1.0 and turn.deadline.seconds > 3 * state.cost:
            left = turn.deadline.seconds
            temperature = highest * (COLD / HOT) ** share
            temperatures = temperature, max(temperature / 2, 1e-3)
            if turning:
                _apply_backward_pass(state, now, both[0])
            _, simulated = anneal(state.tables, state.bytes, made, allowed, tail, now, both, slack, temperatures, chunk)
            with state.turns:
                state.simulated += simulated
            done += chunk
            share = done / (budget / ROUNDS)
            if limited:
                share = 1.0 if left <= until else 1 - (left - until) / (total / ROUNDS)
            if time.monotonic() >= state.wait:
                _tell(state, turn, now, turning)
        _tell(state, turn, now, turning)


def _apply_backward_pass(state: ChainState, now: AnnealingState, work: Work) -> None:
    """Take the keys of the schedule run backwards, where it is no worse with them."""
    found = state.best_by_backward_keys(now.device, now.key, work)
    if found is None or found[:2] > (int(now.value[1]), int(now.value[0])):
        return
    over, step, _, now.key[:] = found
    now.value[:2] = step, over
    if (over, step) < (int(now.value[3]), int(now.value[2])):
        now.value[2:] = step, over
        now.best_device[:], now.best_key[:] = now.device, now.key


def _tell(state: ChainState, turn: Turn, now: AnnealingState, turning: bool) -> None:
    """Hand over what the annealing found, if it is better; for a while afterwards better ones wait."""
    if state.best is None or (now.value[3], now.value[2]) < state.best[:2]:
        begun, state.turning = time.monotonic(), turning
        state.tell(turn, now.best_device.copy(), "annealing", now.best_key.copy())
        state.wait = begun + PATIENCE * state.cost
