"""Annealing from the best start, with a time limit and several threads on two of them, beside partitions and bounds."""

from __future__ import annotations

import os
import time

from chipmap.heuristics.placement.annealing import State, anneal, seed_with, state
from chipmap.heuristics.placement.tables import Work, workspace
from chipmap.heuristics.placement.units import units
from chipmap.methods.chain import Link, Turn, follow
from chipmap.methods.lanes import Lane, side_by_side
from chipmap.methods.placement.stages import Stages
from chipmap.run import Run

#: Operations · devices up to which CP-SAT gets the time that is left.
SMALL = 240
#: Moves of the annealing on a small instance, and of all rounds together where no time limit is given; moves times
#: operations at most there.
FEW_MOVES, MOVES, MOST = 2_000, 200_000, 10**9
#: Rounds, and the first and last temperature as shares of the step time.
ROUNDS, HOT, COLD = 6, 1e-3, 6e-5
#: Operations that a call of compiled code simulates at most, after which the clock is looked at (some 0.1 s), and the
#: fewest moves of a call.
CHUNK, FEWEST = 1_500_000, 4
#: Moments of a simulation that the search keeps.
MOMENTS = 24
#: A search goes on for so many times what a check took before the next one.
PATIENCE = 5.0
#: The second lane's seed is that of the first plus this.
OTHER_SEED = 2**30


def improve(stages: Stages, turn: Turn, spread: Link, windows: Link) -> None:
    """Partitions, bounds and annealing: one after the other, or side by side in two lanes that both end in annealing.

    The lanes exchange their best placement whenever one begins a round.
    """
    if not stages.problem.timed:
        return
    if stages.size <= SMALL or not several(turn.run):
        follow((spread, windows, Link("search", 1.0, search)), stages, turn)
        return
    stages.windows(turn.deadline)  # both lanes use them
    lanes = (spread, Link("search", 1.0, search)), (windows, Link("search", 1.0, second))
    try:
        side_by_side(turn.run, stages, lanes)
    finally:
        _note(stages, turn.run)


def several(run: Run) -> bool:
    """Whether a run may use several threads at no loss: its results depend on the clock anyway."""
    return run.clocked and (run.options.threads or os.cpu_count()) != 1


def search(stages: Stages, turn: Turn) -> None:
    """Rounds of annealing over devices and keys."""
    rounds(stages, turn, turn.run.options.seed, (False, True))
    if not isinstance(turn, Lane):
        _note(stages, turn.run)
    turn.deadline.check()


def second(stages: Stages, turn: Turn) -> None:
    """The same with another seed, and the two ways to begin the other way round."""
    rounds(stages, turn, turn.run.options.seed + OTHER_SEED, (True, False))
    turn.deadline.check()


def _note(stages: Stages, run: Run) -> None:
    run.note("search", f"annealing: {stages.simulated} simulations", simulated=stages.simulated)


def rounds(stages: Stages, turn: Turn, seed: int, ways: tuple[bool, bool]) -> None:
    """Rounds of annealing until the turn is over or enough moves were made.

    A round runs its schedules backwards from time to time, or leaves that. The first two are one of each (``ways``),
    as either may end far better, and begin from the best start by keys of that kind. The later ones go on from the best
    so far, the way that it was found.
    """
    problem, run, few = stages.problem, turn.run, stages.size <= SMALL
    if not problem.timed or stages.best is None or not problem.operations:
        return
    limited = run.clocked and not few
    both = workspace(problem, MOMENTS), workspace(problem, MOMENTS)
    made, chunk = units(problem), max(FEWEST, CHUNK // problem.operations)
    budget = FEW_MOVES if few else min(MOVES, max(ROUNDS, MOST // problem.operations))
    chunk = min(chunk, budget // ROUNDS)
    seed_with(seed)
    total = turn.deadline.seconds
    for number in range(ROUNDS):
        early = number < len(ways)
        turning = ways[number] if early else stages.turning
        start = (stages.turned if turning else stages.ranked) if early else stages.best
        over, step, devices, key = start or stages.best
        now, done, share = state(devices, key, step, over), 0, 0.0
        warm, until = HOT / 2 ** max(0, number - 1) * max(1, step), total * (ROUNDS - 1 - number) / ROUNDS
        tail = stages.windows(turn.deadline).tail
        # a checked placement costs time, twice in a child process: the last one must be told before the deadline
        while turn.deadline.keep_going() and share < 1.0 and turn.deadline.seconds > 3 * stages.cost:
            left = turn.deadline.seconds
            heat = warm * (COLD / HOT) ** share
            heats = heat, max(heat / 2, 1e-3)
            if turning:
                _hasten(stages, now, both[0])
            simulated = anneal(stages.tables, stages.bytes, made, problem.allowed, tail, now, both, heats, chunk)
            with stages.turns:
                stages.simulated += simulated
            done += chunk
            share = done / (budget / ROUNDS)
            if limited:
                share = 1.0 if left <= until else 1 - (left - until) / (total / ROUNDS)
            if time.monotonic() >= stages.wait:
                _tell(stages, turn, now, turning)
        _tell(stages, turn, now, turning)


def _hasten(stages: Stages, now: State, work: Work) -> None:
    """Take the keys of the schedule run backwards, where it is no worse with them."""
    found = stages.urgent(now.device, now.key, work)
    if found is None or found[:2] > (int(now.value[1]), int(now.value[0])):
        return
    over, step, _, now.key[:] = found
    now.value[:2] = step, over
    if (over, step) < (int(now.value[3]), int(now.value[2])):
        now.value[2:] = step, over
        now.best_device[:], now.best_key[:] = now.device, now.key


def _tell(stages: Stages, turn: Turn, now: State, turning: bool) -> None:
    """Hand over what the annealing found, if it is better; for a while afterwards better ones wait."""
    if stages.best is None or (now.value[3], now.value[2]) < stages.best[:2]:
        begun, stages.turning = time.monotonic(), turning
        stages.tell(turn, now.best_device.copy(), "annealing", now.best_key.copy())
        stages.wait = begun + PATIENCE * stages.cost
