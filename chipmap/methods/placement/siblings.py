"""Plans from a smaller graph: the steps in the middle of a large graph's repeated structure are left out, the sibling
is placed, and its plan carried over by each rule. The best one counts, by the decoder on the large graph."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import numpy as np

from chipmap.deadline import Stop
from chipmap.heuristics.placement.search.units import units
from chipmap.heuristics.placement.shared import common_devices
from chipmap.heuristics.placement.siblings.roles import Roles, roles
from chipmap.heuristics.placement.siblings.smaller import RULES, Sibling, carried, smaller
from chipmap.heuristics.placement.starts import human
from chipmap.heuristics.placement.starts.apart import set_apart
from chipmap.heuristics.placement.starts.etf import etf
from chipmap.heuristics.placement.starts.heft_units import heft_units
from chipmap.heuristics.placement.starts.partition import partition
from chipmap.instances.placement.problem import IntArray
from chipmap.methods.chain import Turn
from chipmap.methods.placement.chain_state import ChainState, Placed, better
from chipmap.methods.placement.search import MOST, rounds

#: Operations from which on the chain makes siblings; how many a sibling shall have; the fewest steps of a part.
LARGE, WANTED, STEPS = 30_000, 6_500, 6
#: Share of the edges that must fit the steps.
FITTING = 0.4
#: A sibling is placed anew every so many seconds, so often at most.
SECONDS, TIMES = 5.0, 2
#: Partitions each time, their share of the time, and the moves of each: they differ a lot, so many short ones are best.
PARTITIONS, PART, SHORT = 32, 0.5, 200_000
#: Share of the time that choosing rules by role may take, and operations that it may simulate.
CHOICE, CHOSEN = 0.1, 5_000_000
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


def siblings_if_large(state: ChainState, turn: Turn) -> None:
    """Human splits and plans of siblings, where the graph is large and the user gives no start; then ETF, if it ends
    soon."""
    if state.problem.operations < LARGE or turn.run.options.warm_start not in (None, "none"):
        return
    if state.problem.timed:
        made = human.layers(state.problem)
        for kind in human.SPLITS:
            state.evaluate_and_keep(human.split(state.problem, kind, made))
            turn.deadline.check()
        state.tell_best(turn, "human")
    siblings(state, turn)
    if state.carried:
        with suppress(Stop):
            if state.evaluate_and_keep(etf(state.problem, state.tables, turn.deadline.share(SOON))):
                state.tell_best(turn, "etf")
        turn.deadline.check()


def siblings(state: ChainState, turn: Turn) -> None:
    """Plans of a sibling, placed anew from other partitions as often as there is time for."""
    problem, run = state.problem, turn.run
    if not problem.timed or problem.devices == 1:
        return
    made = roles(problem)
    if made is None or made.near < FITTING:
        return
    sibling = sibling_of(state, made)
    if sibling is None:
        return
    turn.deadline.check()
    told = state.best[:2] if state.best is not None else None
    times = min(TIMES, max(1, int(turn.deadline.seconds / SECONDS))) if run.clocked else 1
    try:
        state.evaluate_and_keep(heft_units(problem, state.tables))
        for number in range(times):
            part = turn.share(min(1.0, SECONDS / max(SECONDS, turn.deadline.seconds)))
            # what is best for the sibling alone needn't be best for the larger graph: its first plan counts too
            own, seed = SiblingState(sibling.problem), run.options.seed + SEEDS * number
            carry = partial(_carry, state, turn, made, sibling, own)
            with suppress(Stop):
                place(own, part, seed, carry)
            carry()
            turn.deadline.check()
    finally:
        if state.best is not None and state.best[:2] != told:
            state.carried = state.best[0] == 0
            state.tell_best(turn, "sibling")


def sibling_of(state: ChainState, made: Roles) -> Sibling | None:
    """The sibling of about the wanted number of operations, or of a third of them."""
    count = state.problem.operations
    repeated = int((made.part >= 0).sum())
    share = (min(WANTED, count // 3) - (count - repeated)) / max(1, repeated)
    return smaller(state.problem, made, share, STEPS)


def place(own: SiblingState, turn: Turn, seed: int, partitions_made: Callable[[], None] = lambda: None) -> None:
    """Place the sibling by partitions, then by annealing; in between tell that the partitions are made."""
    problem = own.problem
    unit, until = units(problem), turn.deadline.share(PART)
    own.evaluate_and_keep(heft_units(problem, own.tables))
    begins = own.initial_partitions()
    for number in range(PARTITIONS):
        if number and not until.keep_going():
            break
        begin, draw = begins[number % len(begins)], seed * PARTITIONS + number
        own.evaluate_and_keep(partition(problem, unit, begin, draw, turn.deadline, SHORT))
    partitions_made()
    rounds(own, turn, seed, (False, True), SIMULATED)


def _carry(state: ChainState, turn: Turn, made: Roles, sibling: Sibling, own: SiblingState) -> None:
    """Carry the sibling's best plan over by each rule, then by the best rule of each role."""
    if own.best is None:
        return
    by_roles(state, turn, made, plans_of(state, made, sibling, own.best[2]))


def plans_of(state: ChainState, made: Roles, sibling: Sibling, devices: IntArray) -> list[IntArray]:
    """The sibling's plan, carried over by each rule to devices that are allowed."""
    problem, fine = state.problem, common_devices(state.problem)
    instead, each = fine.argmax(axis=1), np.arange(problem.operations)
    plans = [carried(problem, made, sibling, devices, rule) for rule in RULES]
    return [set_apart(problem, np.where(fine[each, plan], plan, instead)) for plan in plans]


def by_roles(state: ChainState, turn: Turn, made: Roles, plans: list[IntArray]) -> None:
    """The roles with the most work, one after the other: the rule that the decoder likes best, others as they are.

    Keys stay those of the best plan's schedule run backwards.
    """
    problem, until = state.problem, turn.deadline.share(CHOICE)
    placed = [state.turned(plan) for plan in plans]
    best = min((one for one in placed if one is not None), key=lambda one: one[:2], default=None)
    if best is None:
        return
    state.evaluate_and_keep(best[2])
    turn.deadline.check()
    time = np.where(problem.allowed, problem.time, 0).max(axis=1)
    led = made.role[problem.group]  # a group moves with its first operation
    work, left = np.bincount(led, time, int(led.max()) + 1), CHOSEN // problem.operations
    for role in np.argsort(-work, kind="stable").tolist():
        mine = np.flatnonzero(led == role)
        tried = {best[2][mine].tobytes()}
        for plan in plans:
            if not left or not until.keep_going():
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
