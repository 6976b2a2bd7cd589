"""Lower bounds on the step time of family ``placement``, from the cheapest to the dearest."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

from chipmap.deadline import Deadline
from chipmap.formulations.placement.choices import horizon
from chipmap.formulations.placement.narrowing import Narrowing
from chipmap.heuristics.placement.bounds import ancestors, price_bound, same_device_bound
from chipmap.heuristics.placement.bounds import simple as lower
from chipmap.heuristics.placement.bounds.packing import packing
from chipmap.heuristics.placement.bounds.simple import HeadsAndTails
from chipmap.instances.placement.problem import PlacementProblem
from chipmap.methods.chain import Turn
from chipmap.methods.placement.chain_state import ChainState

#: Operations up to which sides are probed, the share of the time that is left for it, and the nearest ancestors that
#: are looked at, pass by pass.
PROBED, SHARE, NEAREST = 4_000, 0.1, (64, 128, 256)
#: A pass is followed by a wider one if it raises the bound by one part in so many.
WORTH = 200


def bound_by_windows(state: ChainState, turn: Turn) -> None:
    """Heads and tails with communication, raised step by step, then what can't be cut at a target."""
    if not state.problem.timed:
        return
    problem, deadline = state.problem, turn.deadline
    windows = state.heads_and_tails(deadline)
    turn.bound(lower.path(windows), "path")
    turn.bound(lower.group(problem, windows), "groups")
    turn.bound(price_bound.interval(problem, windows), "interval")
    for name, raised in _steps(problem, deadline):
        if gap_closed(turn):
            return
        windows = state.raise_heads_and_tails(raised(windows))
        before, value = turn.run.lower, max(lower.path(windows), price_bound.interval(problem, windows))
        turn.bound(value, name)
        if name == "probing" and before is not None and WORTH * (value - before.value) < before.value:
            break
    low = turn.run.lower.value if turn.run.lower is not None else 0
    high = turn.run.upper if turn.run.upper is not None else problem.horizon
    if low < high:
        low = lower.target(problem, windows, low, high, deadline)
        turn.bound(low, "target")
        turn.bound(packing(problem, windows, low, high, deadline), "memory")


def _steps(
    problem: PlacementProblem, deadline: Deadline
) -> Iterator[tuple[str, Callable[[HeadsAndTails], HeadsAndTails]]]:
    """(name, what raises heads and tails), from the cheapest to the dearest; wide probing only within a time limit."""
    yield "sides", lambda w: same_device_bound.raised(problem, w, False, deadline)
    yield "ancestors", lambda w: ancestors.raised(problem, w, deadline)
    if problem.operations > PROBED:
        return
    until = deadline.share(SHARE)
    for nearest in NEAREST:
        if until.keep_going():
            yield "probing", partial(_probed, problem, until, nearest)
        if problem.operations <= nearest or until.seconds == math.inf:
            break


def _probed(problem: PlacementProblem, until: Deadline, nearest: int, w: HeadsAndTails) -> HeadsAndTails:
    """``w`` raised by probing so many ancestors."""
    return same_device_bound.raised(problem, w, True, until, nearest)


def narrowing(state: ChainState, turn: Turn) -> Narrowing:
    """What holds in every schedule that is as good as the best so far: windows, and operations that share a device."""
    problem, run = state.problem, turn.run
    upper = horizon(problem, run.upper)
    windows = state.heads_and_tails(turn.deadline)
    part = lower.parts(problem, windows, upper)
    low = run.lower.value if run.lower is not None else 0
    return Narrowing(upper, tuple(windows.head.tolist()), tuple(windows.tail.tolist()), tuple(part.tolist()), low)


def gap_closed(turn: Turn) -> bool:
    """Whether the best placement is known to be optimal."""
    run = turn.run
    return run.lower is not None and run.upper is not None and run.lower.value >= run.upper
