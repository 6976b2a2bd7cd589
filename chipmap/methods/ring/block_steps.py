"""Bounds in the mode ``sum``: how far each chip gets at most, one program after the other
(:mod:`chipmap.heuristics.ring.bounds.block_program`), by HiGHS.

Suppose a mapping with an objective of at most T. Let f_0 = 0, and f_k+1 at least the work of every ideal J that a chip
paying at most T reaches from an ideal I with work(I) <= f_k. By induction the first k chips have done f_k at most. So T
is refuted if f_C is less than all work.
"""

from __future__ import annotations

from chipmap.deadline import Deadline
from chipmap.heuristics.ring.bounds.block_program import MARGIN, BlockPrograms
from chipmap.heuristics.ring.programs.flow_graph import flow_graph
from chipmap.methods.ring.state import RingChainState
from chipmap.solvers.repeated import Repeated

#: Where between bound and incumbent the next target lies.
SHARE = 0.75
#: It ends when a target would be nearer to the bound than that share of it.
PRECISION = 1e-3
#: A chip is said to get at least that share of the mean that the chips from it on need: programs are smaller so.
SHORTEST = 0.8
#: Below that share of the mean work the steps still needed are given up.
HOPELESS = 0.6
#: To what share of the mean work a chip's furthest step is looked for.
GAP = 0.01


def block_steps(state: RingChainState, deadline: Deadline, patient: bool) -> None:
    """Raise the bound until ``deadline``; ``patient``: no program has less time than what is left."""
    try:
        programs = BlockPrograms(state.problem, flow_graph(state.problem))
    except ValueError:
        return
    run = state.run
    high = run.upper if run.upper is not None else 2 * state.lower
    while deadline.keep_going():
        low = state.lower
        target = low + int(SHARE * (high - low))  # below the last one that wasn't refuted
        if target - low <= PRECISION * low:
            return
        if refuted(programs, target - 1, deadline, patient):
            run.bound(target, "block programs")
        else:
            high = target


def refuted(programs: BlockPrograms, most: int, deadline: Deadline, patient: bool = True) -> bool:
    """Whether no mapping has an objective of at most ``most`` ticks; False also where it can't be told in time."""
    chips, done, total = programs.problem.chips, 0, programs.total
    for left in range(chips, 0, -1):
        need = (total - done) / left
        if need < HOPELESS * programs.unit or not deadline.keep_going():
            return False
        beyond = total if left == 1 else done + max(1, int(SHORTEST * need))
        seconds = deadline.seconds if patient else 2 * deadline.seconds / left
        done = furthest(programs, done, beyond, most, seconds)
        if done >= total:
            return False
    return True


def furthest(programs: BlockPrograms, after: int, beyond: int, most: int, seconds: float) -> int:
    """The most work that is done after a chip which pays at most ``most`` and begins when at most ``after`` is done, or
    more; ``beyond`` - 1 where that isn't reached.
    """
    rows, cost, offset = programs.program(after, beyond, most)
    count, limit = len(cost), min(after + most, programs.total)
    if not count:  # every place is certain, and rows are only kept where they can be broken
        return beyond - 1 if rows else limit
    answer = Repeated([1.0] * count, [True] * count, rows).minimise(cost, seconds, GAP)
    if answer.bound is None:
        return beyond - 1
    reached = (offset - answer.bound + MARGIN) * programs.unit
    return max(beyond - 1, int(min(reached, limit)))
