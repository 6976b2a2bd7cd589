"""Rounds of annealing: short ones from the starts first, then later ones that go on from the best."""

from __future__ import annotations

import time
from typing import NamedTuple

from chipmap.heuristics.placement.search.annealing import AnnealingState, anneal, annealing_state, seed_with
from chipmap.heuristics.placement.search.slack import slack_for
from chipmap.heuristics.placement.search.units import units
from chipmap.heuristics.placement.simulation.tables import Work, workspaces
from chipmap.heuristics.placement.starts.apart import held
from chipmap.methods.chain import Turn
from chipmap.methods.placement.chain_state import ChainState, Placed

#: Operations · devices up to which CP-SAT gets the time that is left.
SMALL = 240
#: Moves of the annealing on a small instance, and of all rounds together where no time limit is given; moves times
#: operations at most there.
FEW_MOVES, MOVES, MOST = 2_000, 200_000, 10**9
#: The first and last temperature as shares of the step time.
HOT, COLD = 1e-3, 6e-5
#: Operations that a call of compiled code simulates at most, after which the clock is looked at (some 0.1 s), and the
#: fewest moves of a call.
CHUNK, FEWEST = 1_500_000, 4
#: Moments of a simulation that the search keeps.
MOMENTS = 24
#: A search goes on for so many times what a check took before the next one.
PATIENCE = 5.0


#: A way to anneal that ends with a step longer by this share than the other one isn't tried again.
FAR = 0.01


class Plan(NamedTuple):
    """Rounds of a search: so many ``first`` ones, each with a ``share`` of the time, at the first temperature.

    ``later`` ones go on from the best at ``later`` times that temperature, and share the time that is left.
    """

    first: int
    share: float
    later: tuple[float, ...]


#: Rounds from one start end up to a tenth apart, so the best of several goes on; of two where time is short.
SEVERAL, TWO = (Plan(first, share, (1 / 2, 1 / 4, 1 / 8, 1 / 16)) for first, share in ((5, 1 / 12), (2, 1 / 6)))
#: From a plan of a smaller graph, which is far better than other starts, at a tenth of the usual temperature. Of 52,213
#: operations 15 CPU s ended with 432.6 ms instead of 435.9, and 440.1 with the first two rounds as they are elsewhere.
CARRIED = Plan(0, 0.0, (1 / 10, 1 / 10, 1 / 20, 1 / 40, 1 / 80, 1 / 160))


def rounds(state: ChainState, turn: Turn, seed: int, plan: Plan, turning: bool = False, most: int = MOST) -> None:
    """Rounds of annealing until the turn is over or enough moves were made.

    A round runs its schedules backwards from time to time, or leaves that. The first two are one of each (the first one
    runs them backwards if ``turning``), as either may end far better. The other first ones go the better way, or in
    turn where both end alike. All of these begin from the best start by keys of that kind. The later ones go on from
    the best so far, the way that it was found. ``most``: moves times operations, where no time limit is given.
    """
    if not state.problem.timed or state.best is None or not state.problem.operations:
        return
    search, ended = _Search(state, turn, seed, plan, most), dict[bool, tuple[int, int]]()
    for number in range(plan.first):
        way = _way(ended, turning ^ bool(number % 2))
        start = (state.by_backward_keys if way else state.ranked) or state.best
        found = search(start, way, 1.0, plan.share)
        ended[way] = min(ended.get(way, found), found)
    for number, heat in enumerate(plan.later):
        search(state.best, state.turning, heat, (1 - search.planned) / (len(plan.later) - number))


def _way(ended: dict[bool, tuple[int, int]], next_one: bool) -> bool:
    """Whether the next of the first rounds runs schedules backwards; ``next_one``: what it does in turn.

    ``ended``: (bytes too many, step time) that rounds of each kind ended with at best.
    """
    if len(ended) < 2:
        return next_one
    (over, step), other = ended[not next_one], ended[next_one]
    return next_one if other <= (over, int(step * (1 + FAR))) else not next_one


class _Search:
    """What the rounds share. ``planned``: the share of the time that is theirs so far."""

    def __init__(self, state: ChainState, turn: Turn, seed: int, plan: Plan, most: int) -> None:
        problem, few = state.problem, state.size <= SMALL
        self.state, self.turn, self.limited = state, turn, turn.run.clocked and not few
        self.both, self.slack = workspaces(problem, MOMENTS), slack_for(problem)
        self.units = units(problem, None if few else state.repeated)
        least = min(plan.share or 1.0, (1 - plan.first * plan.share) / len(plan.later))
        self.budget = FEW_MOVES if few else min(MOVES, max(int(1 / least), most // problem.operations))
        self.chunk = min(max(FEWEST, CHUNK // problem.operations), int(least * self.budget))
        self.total, self.planned = turn.deadline.seconds, 0.0
        seed_with(seed)

    def __call__(self, begin: Placed, turning: bool, heat: float, part: float) -> tuple[int, int]:
        """A round with ``part`` of the time; (bytes too many, step time) that it ends with at best.

        What it finds is handed over where that is better than all before.
        """
        state, turn, (over, step, devices, key) = self.state, self.turn, begin
        now, done, share = annealing_state(devices, key, step, over), 0, 0.0
        self.planned += part
        highest, until = HOT * heat * max(1, step), self.total * max(0.0, 1 - self.planned)
        tail, allowed = state.heads_and_tails(turn.deadline).tail, held(state.problem, devices)
        # a checked placement costs time, twice in a child process: the last one must be told before the deadline
        while turn.deadline.keep_going() and share < 1.0 and turn.deadline.seconds > 3 * state.cost:
            left = turn.deadline.seconds
            temperature = highest * (COLD / HOT) ** share
            temperatures = temperature, max(temperature / 2, 1e-3)
            if turning:
                _apply_backward_pass(state, now, self.both[0])
            # fmt: off
            _, simulated = anneal(state.tables, state.bytes, self.units, allowed, tail, now, self.both, self.slack,
                                  temperatures, self.chunk)
            # fmt: on
            with state.turns:
                state.simulated += simulated
            done += self.chunk
            share = done / (self.budget * part)
            if self.limited:
                share = 1.0 if left <= until else 1 - (left - until) / (self.total * part)
            if time.monotonic() >= state.wait:
                _tell(state, turn, now, turning)
        _tell(state, turn, now, turning)
        return int(now.value[3]), int(now.value[2])


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
