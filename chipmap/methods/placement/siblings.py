"""Plans from smaller graphs: the steps in the middle of a large graph's repeated structure are left out, the sibling
is placed, and its plan carried over by each rule. The best one counts, by the decoder on the large graph. Of a very
large graph a second sibling goes on from the first one's plan."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import numpy as np

from chipmap.deadline import Stop
from chipmap.heuristics.placement.search.units import units
from chipmap.heuristics.placement.shared import common_devices
from chipmap.heuristics.placement.siblings.roles import Roles
from chipmap.heuristics.placement.siblings.smaller import RULES, Sibling, carried, smaller
from chipmap.heuristics.placement.starts.apart import set_apart
from chipmap.heuristics.placement.starts.etf import etf
from chipmap.heuristics.placement.starts.heft_units import heft_units
from chipmap.instances.placement.problem import IntArray, PlacementProblem
from chipmap.methods.chain import Turn
from chipmap.methods.placement.chain_state import ChainState, Placed, better
from chipmap.methods.placement.rounds import CARRIED, MOST, NEAR, TWO, rounds
from chipmap.methods.placement.styles import Effort, Styles

#: Operations from which on the chain makes siblings; how many a first one shall have, and a second one, which is at
#: least so many times as large; the fewest steps of a part.
LARGE, WANTED, LARGER, STEPS = 30_000, (6_500, 17_500), 2, 6
#: Share of the edges that must fit the steps.
FITTING = 0.4
#: The first sibling is placed anew every so many seconds, so often at most: plans differ a lot by their partitions.
SECONDS, TIMES = 1.0, 6
#: Share of the time for that. The last sibling goes on from the best plan for so many seconds, so often at most, with a
#: plan carried over each time.
FIRST, LATER, MORE = 0.3, 4.0, 3
#: Partitions each time, their share of the time, and the moves of each: they differ a lot, so many short ones are best.
PARTITIONS, PART, SHORT = 32, 0.5, 200_000
#: Of the plans that rules give, so many are also run backwards.
TURNED = 3
#: Share of the time that is left for choosing rules by role, and operations that this may simulate.
CHOICE, CHOSEN = 0.2, 5_000_000
#: Share of the time that is left which ETF may take.
SOON = 0.15
#: The annealing of a sibling may simulate so many operations where no time limit is given.
SIMULATED = MOST // 8
#: Seeds of the times a sibling is placed are so far apart.
SEEDS = 1_000


class SiblingState(ChainState):
    """The state of a sibling's search, whose plans aren't handed over."""

    def tell_best(self, turn: Turn, name: str) -> None:
        """Nothing: a sibling's schedule is none of the run's instance."""


def large_and_without_start(state: ChainState, turn: Turn) -> bool:
    """Whether the chain makes siblings: the graph is large, and the user gives no start."""
    problem = state.problem
    return problem.timed and problem.operations >= LARGE and turn.run.options.warm_start in (None, "none")


def siblings_if_large(state: ChainState, turn: Turn) -> None:
    """Plans of siblings, where the graph is large and the user gives no start; then ETF, if it ends soon."""
    if not large_and_without_start(state, turn):
        return
    siblings(state, turn)
    if state.carried:
        with suppress(Stop):
            if state.evaluate_and_keep(etf(state.problem, state.tables, turn.deadline.share(SOON))):
                state.tell_best(turn, "etf")
        turn.deadline.check()


def siblings(state: ChainState, turn: Turn) -> None:
    """Plans of a small sibling, placed anew from other partitions; then of a larger one that goes on from the best."""
    problem = state.problem
    if not problem.timed or problem.devices == 1:
        return
    made = state.repeated
    if made is None or made.near < FITTING:
        return
    few = siblings_of(problem, made)
    if not few:
        return
    turn.deadline.check()
    told, carrier = state.best[:2] if state.best is not None else None, _Carrier(state, made)
    try:
        state.evaluate_and_keep(heft_units(problem, state.tables))
        _from_partitions(carrier, turn, few[0])
        if turn.run.clocked or len(few) > 1:
            _from_best(carrier, turn, few[-1])
        turn.deadline.check()
        if carrier.best is not None:
            by_roles(state, turn, made, carrier.plans, carrier.best)
    finally:
        if state.best is not None and state.best[:2] != told:
            state.carried = state.best[0] == 0
            state.tell_best(turn, "sibling")


def siblings_of(problem: PlacementProblem, made: Roles) -> list[Sibling]:
    """Siblings of about the wanted numbers of operations, but a third of them at most, the smallest one first."""
    count = problem.operations
    repeated, found = int((made.part >= 0).sum()), list[Sibling]()
    for wanted in WANTED:
        share = (min(wanted, count // 3) - (count - repeated)) / max(1, repeated)
        one = smaller(problem, made, share, STEPS)
        if one is not None and (not found or one.problem.operations >= LARGER * found[-1].problem.operations):
            found.append(one)
    return found


class _Carrier:
    """Carries siblings' plans over: ``best`` of them on the large graph, and the ``plans`` of the rules beside it."""

    def __init__(self, state: ChainState, made: Roles) -> None:
        self.state, self.made = state, made
        self.best: Placed | None = None
        self.plans: list[IntArray] = []
        self._last: Placed | None = None

    def __call__(self, sibling: Sibling, own: SiblingState) -> None:
        """Carry the sibling's best plan over by each rule, if it is new; the best one counts if it is better than all
        before."""
        if own.best is None or own.best is self._last:
            return
        self._last = own.best
        plans = plans_of(self.state, self.made, sibling, own.best[2])
        found = best_of_plans(self.state, plans)
        if found is not None and better(self.best, found) is found:
            self.best, self.plans = found, plans
            self.state.evaluate_and_keep(found[2])


def _from_partitions(carrier: _Carrier, turn: Turn, sibling: Sibling) -> None:
    """Place the sibling anew from other partitions as often as there is time for."""
    run, part = turn.run, turn.share(FIRST) if turn.run.clocked else turn
    for number in range(TIMES if run.clocked else 1):
        if number and not part.deadline.keep_going():
            break
        now = turn.share(min(FIRST, SECONDS / max(SECONDS, turn.deadline.seconds))) if run.clocked else turn
        # what is best for the sibling alone needn't be best for the larger graph: its first plan counts too
        own, seed = SiblingState(sibling.problem), run.options.seed + SEEDS * number
        carry = partial(carrier, sibling, own)
        with suppress(Stop):
            place(own, now, seed, carry)
        carry()
        turn.deadline.check()


def _from_best(carrier: _Carrier, turn: Turn, sibling: Sibling) -> None:
    """Go on with the sibling's annealing from the best plan so far, as long as the time lasts but for the choice by
    role. A plan that is far from the best partition isn't worth it."""
    start = carrier.state.best if carrier.state.phased else carrier.best
    if carrier.best is None or start is None or carrier.best[:2] > (start[0], int(start[1] * NEAR)):
        return
    run, until = turn.run, turn.share(1 - CHOICE) if turn.run.clocked else turn
    own = SiblingState(sibling.problem)
    own.evaluate_and_keep(carrier.best[2][sibling.kept])
    for number in range(MORE if run.clocked else 1):
        if number and not until.deadline.keep_going():
            break
        now = until.share(min(1.0, LATER / max(LATER, until.deadline.seconds))) if run.clocked else until
        with suppress(Stop):
            rounds(own, now, run.options.seed + SEEDS * (TIMES + number), CARRIED, most=SIMULATED)
        carrier(sibling, own)
        turn.deadline.check()


def place(own: SiblingState, turn: Turn, seed: int, partitions_made: Callable[[], None] = lambda: None) -> None:
    """Place the sibling by partitions, then by annealing; in between tell that the partitions are made."""
    problem = own.problem
    unit, until = units(problem), turn.deadline.share(PART)
    own.evaluate_and_keep(heft_units(problem, own.tables))
    begins, styles = own.initial_partitions(), Styles(own, turn.deadline)
    for number in range(PARTITIONS):
        if number and not until.keep_going():
            break
        begin, draw = begins[number % len(begins)], seed * PARTITIONS + number
        styles.keep(problem, unit, Effort(begin, draw, turn.deadline, SHORT))
    partitions_made()
    rounds(own, turn, seed, TWO, most=SIMULATED)


def plans_of(state: ChainState, made: Roles, sibling: Sibling, devices: IntArray) -> list[IntArray]:
    """The sibling's plan, carried over by each rule to devices that are allowed."""
    problem, fine = state.problem, common_devices(state.problem)
    instead, each = fine.argmax(axis=1), np.arange(problem.operations)
    plans = [carried(problem, made, sibling, devices, rule) for rule in RULES]
    return [set_apart(problem, np.where(fine[each, plan], plan, instead)) for plan in plans]


def best_of_plans(state: ChainState, plans: list[IntArray]) -> Placed | None:
    """The best plan by the decoder, with keys of its schedule run backwards; None if none has all routes."""
    with state.turns:
        placed = [state.placed(plan, state.key, state.work) for plan in plans]
    able = sorted((one[:2], k) for k, one in enumerate(placed) if one is not None)[:TURNED]
    turned = [state.turned(plans[k]) for _, k in able]
    return min((one for one in turned if one is not None), key=lambda one: one[:2], default=None)


def by_roles(state: ChainState, turn: Turn, made: Roles, plans: list[IntArray], best: Placed) -> None:
    """The roles with the most work, one after the other: the rule that the decoder likes best, others as in the
    ``best`` plan.

    Keys stay those of that plan's schedule run backwards.
    """
    problem = state.problem
    time = np.where(problem.allowed, problem.time, 0).max(axis=1)
    led = made.role[problem.group]  # a group moves with its first operation
    work, left = np.bincount(led, time, int(led.max()) + 1), CHOSEN // problem.operations
    for role in np.argsort(-work, kind="stable").tolist():
        mine = np.flatnonzero(led == role)
        tried = {best[2][mine].tobytes()}
        for plan in plans:
            if not left or not turn.deadline.keep_going():
                break
            if plan[mine].tobytes() not in tried:
                tried.add(plan[mine].tobytes())
                best, left = better(best, _with(state, best, mine, plan)) or best, left - 1
    state.evaluate_and_keep(best[2], best[3])
    state.evaluate_and_keep(best[2])


def _with(state: ChainState, best: Placed, mine: IntArray, plan: IntArray) -> Placed | None:
    """The placement where operations ``mine`` are as in the plan, with the same keys."""
    devices = best[2].copy()
    devices[mine] = plan[mine]
    with state.turns:
        return state.placed(devices, best[3], state.work)
