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
from chipmap.methods.placement.chain_state import PATIENCE, ChainState, Placed
from chipmap.methods.placement.relinking import relinked

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
#: The share of the time that is left which a relinking may take.
RELINKING = 0.06
#: A beginning whose rounds end with a step longer by this share than another's isn't tried again.
FAR = 0.01
#: A start of another kind is a beginning if its step is at most so many times that of the best start.
NEAR = 1.05


class Plan(NamedTuple):
    """Rounds of a search: so many ``first`` ones, each with a ``share`` of the time, at the first temperature.

    ``later`` ones go on from the best at ``later`` times that temperature, and share the time that is left. Before each
    of them the best takes over pieces of other rounds' ends if ``relinked``.
    """

    first: int
    share: float
    later: tuple[float, ...]
    relinked: bool = False


#: Rounds from one start end up to a tenth apart, so several are made; two where time is short.
SEVERAL = Plan(5, 1 / 12, (1.0, 1 / 2, 1 / 4, 1 / 16), relinked=True)
TWO = Plan(2, 1 / 6, (1 / 2, 1 / 4, 1 / 8, 1 / 16))
#: From a plan of a smaller graph, which is far better than other starts, at a tenth of the usual temperature. Of 52,213
#: operations 15 CPU s ended with 432.6 ms instead of 435.9, and 440.1 with the first two rounds as they are elsewhere.
CARRIED = Plan(0, 0.0, (1 / 10, 1 / 10, 1 / 20, 1 / 40, 1 / 80, 1 / 160))


def rounds(state: ChainState, turn: Turn, seed: int, plan: Plan, turning: bool = False, most: int = MOST) -> None:
    """Rounds of annealing until the turn is over or enough moves were made.

    A round runs its schedules backwards from time to time, or leaves that, as either may end far better. The first ones
    begin from starts (:func:`_beginnings`), each of which has a round; the others go on with the one that ended best,
    or in turn where several end alike. The later rounds go on from the best so far, the way that it was found. Before
    each of these the best one may take over what other rounds' ends do better. ``most``: moves times operations, where
    no time limit is given.
    """
    if not state.problem.timed or state.best is None or not state.problem.operations:
        return
    search, ends = _Search(state, turn, seed, plan, most), list[Placed]()
    begins = _beginnings(state, state.best, turning)[: plan.first]
    ended: list[list[tuple[int, int]]] = [[] for _ in begins]
    for _ in range(plan.first):
        chosen = _next(ended)
        ends.append(search(*begins[chosen], 1.0, plan.share))
        ended[chosen].append(ends[-1][:2])
    for number, heat in enumerate(plan.later):
        if plan.relinked:
            _relink(state, turn, ends)
        ends.append(search(state.best, state.turning, heat, (1 - search.planned) / (len(plan.later) - number)))


def _beginnings(state: ChainState, best: Placed, turning: bool) -> list[tuple[Placed, bool]]:
    """What first rounds begin from, and whether they run schedules backwards: the best start by the upward rank, and
    the best one by keys of schedules run backwards (this one first if ``turning``). Then the best one of each other
    kind, where it is near."""
    turned = sorted(state.turned_starts.values(), key=lambda one: one[:2]) or [best]
    over, step = turned[0][:2]
    first = [(state.ranked or best, False), (turned[0], True)]
    return first[:: -1 if turning else 1] + [(one, True) for one in turned[1:] if one[:2] <= (over, int(step * NEAR))]


def _next(ended: list[list[tuple[int, int]]]) -> int:
    """The beginning of the next first round: one without a round, or the one with the fewest of those that end alike.

    ``ended``: (bytes too many, step time) of the rounds from each beginning.
    """
    best = [min(ends, default=(-1, 0)) for ends in ended]
    over, step = min(best)
    alike = [k for k, end in enumerate(best) if end <= (over, int(step * (1 + FAR)))]
    return min(alike, key=lambda k: len(ended[k]))


def _relink(state: ChainState, turn: Turn, ends: list[Placed]) -> None:
    """The best placement takes over what the ends of rounds do better, the best of them first."""
    assert state.best is not None
    ends.sort(key=lambda end: end[:2])
    found = relinked(state, state.best, ends, turn.deadline.share(RELINKING))
    if found[:2] < state.best[:2]:
        state.tell(turn, found[2], "annealing", found[3])


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

    def __call__(self, begin: Placed, turning: bool, heat: float, part: float) -> Placed:
        """A round with ``part`` of the time; the best placement of it.

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
        return int(now.value[3]), int(now.value[2]), now.best_device, now.best_key


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
